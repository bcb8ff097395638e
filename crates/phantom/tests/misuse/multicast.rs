//! Multicast objects.

use crate::api::{
    GRANULARITY as SIZE, MulticastProperties, begin, call, create, create_on_host, give_access,
    map_at, multicast, out, reserve, right,
};

const VIRTUAL: &str = "Virtual Memory Management";
const MEMORY: &str = "Memory Management";
const MULTICAST: &str = "Multicast Object Management";

fn bind(object: u64, memory: u64, bytes: usize) -> u32 {
    call!(cuMulticastBindMem(
        object, 0_usize, memory, 0_usize, bytes, 0_u64
    ))
}

fn bind_at(object: u64, address: u64, bytes: usize) -> u32 {
    call!(cuMulticastBindAddr(object, 0_usize, address, bytes, 0_u64))
}

/// The address at which memory of the first device is mapped.
fn mapped_memory(bytes: usize) -> u64 {
    let address = reserve(bytes);
    assert_eq!(map_at(address, bytes, 0, create(0, bytes, 0)), 0);
    address
}

fn make_multicast(devices: u32, size: usize) -> u32 {
    let properties = MulticastProperties {
        devices,
        size,
        handles: 0,
        flags: 0,
    };
    call!(cuMulticastCreate(out::<u64>(), &raw const properties))
}

/// A multicast object for two devices, of which one was added.
fn with(device: i32) -> u64 {
    let object = multicast(2, SIZE);
    right!(cuMulticastAddDevice(object, device));
    object
}

/// A multicast object for two devices that were both added.
fn team() -> u64 {
    begin(0);
    let object = with(0);
    right!(cuMulticastAddDevice(object, 1_i32));
    object
}

/// Addresses at which such an object is mapped.
fn mapped() -> u64 {
    let (object, address) = (team(), reserve(SIZE));
    assert_eq!(map_at(address, SIZE, 0, object), 0);
    address
}

crate::table! {
    "a multicast of an odd size" => cuMulticastCreate { make_multicast(2, SIZE + 4096) } = 1 MULTICAST;
    "a multicast of no devices" => cuMulticastCreate { make_multicast(0, SIZE) } = 1 MULTICAST;
    "a multicast without switches" ["machine pcie-8gpu-nonet"]
        => cuMulticastCreate { make_multicast(2, SIZE) } = 801 MULTICAST;
    "a device added twice" => cuMulticastAddDevice(with(0), 0_i32) = 1 MULTICAST;
    "more devices than the object is for" => cuMulticastAddDevice(team(), 2_i32) = 1 MULTICAST;
    "a bind before its device was added"
        => cuMulticastBindMem { bind(with(1), create(0, SIZE, 0), SIZE) } = 101 MULTICAST;
    "a bind before all were added" ["patience-ms 20"]
        => cuMulticastBindMem { bind(with(0), create(0, SIZE, 0), SIZE) } = 909 MULTICAST;
    "a mapping before all were added" ["patience-ms 20"]
        => cuMemMap { map_at(reserve(SIZE), SIZE, 0, multicast(2, SIZE)) } = 909 MULTICAST;
    "a bind twice" {
        let (object, memory) = (team(), create(0, SIZE, 0));
        assert_eq!(bind(object, memory, SIZE), 0);
    } => cuMulticastBindMem { bind(object, memory, SIZE) } = 1 MULTICAST;
    "a bind of an odd size" => cuMulticastBindMem { bind(team(), create(0, SIZE, 0), 4096) } = 1 MULTICAST;
    "a bind of too much"
        => cuMulticastBindMem { bind(team(), create(0, 2 * SIZE, 0), 2 * SIZE) } = 1 MULTICAST;
    "a bind of host memory"
        => cuMulticastBindMem { bind(team(), create_on_host(SIZE), SIZE) } = 1 MULTICAST;
    "a bind to plain memory"
        => cuMulticastBindMem { bind(create(0, SIZE, 0), create(0, SIZE, 0), SIZE) } = 1 MULTICAST;
    "a bind of memory by its address, twice" {
        let (object, address) = (team(), mapped_memory(2 * SIZE));
        assert_eq!(bind_at(object, address + SIZE as u64, SIZE), 0);
    } => cuMulticastBindAddr { bind_at(object, address, SIZE) } = 1 MULTICAST;
    "a bind of plain memory by its address"
        => cuMulticastBindAddr { bind_at(team(), crate::api::allocate(SIZE), SIZE) } = 1 MULTICAST;
    "a bind of an address within a granule"
        => cuMulticastBindAddr { bind_at(team(), mapped_memory(2 * SIZE) + 4096, SIZE) } = 1 MULTICAST;
    "a bind of more than is mapped"
        => cuMulticastBindAddr { bind_at(team(), mapped_memory(2 * SIZE) + SIZE as u64, 2 * SIZE) } = 1 MULTICAST;
    "an unbind of what is not bound" => cuMulticastUnbind(team(), 0_i32, 0_usize, SIZE) = 1 MULTICAST;
    "a copy to a multicast address" { let address = mapped(); assert_eq!(give_access(address, SIZE, 0), 0); }
        => cuMemsetD8_v2(address, 0_u8, 64_usize) = 1 MEMORY;
    "multicast access for a GPU outside" => cuMemSetAccess { give_access(mapped(), SIZE, 5) } = 101 VIRTUAL;
}
