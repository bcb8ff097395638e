//! Multicast objects.

use crate::Case;
use crate::api::{
    GRANULARITY as SIZE, MulticastProperties, begin, call, create, give_access, multicast, reserve,
    right,
};

const VIRTUAL: &str = "Virtual Memory Management";
const MULTICAST: &str = "Multicast Object Management";

fn map_at(address: u64, bytes: usize, offset: usize, handle: u64) -> u32 {
    call!(cuMemMap(address, bytes, offset, handle, 0_u64))
}

fn bind(object: u64, memory: u64, bytes: usize) -> u32 {
    call!(cuMulticastBindMem(
        object, 0_usize, memory, 0_usize, bytes, 0_u64
    ))
}

fn make_multicast(devices: u32, size: usize, flags: u64) -> u32 {
    let mut handle = 0_u64;
    let properties = MulticastProperties {
        devices,
        size,
        handles: 0,
        flags,
    };
    call!(cuMulticastCreate(&raw mut handle, &raw const properties))
}

/// A multicast object for two devices that were both added.
fn team() -> u64 {
    begin(0);
    let object = multicast(2, SIZE);
    right!(cuMulticastAddDevice(object, 0_i32));
    right!(cuMulticastAddDevice(object, 1_i32));
    object
}

pub const CASES: &[Case] = &[
    Case(
        "a multicast of an odd size",
        "",
        "cuMulticastCreate",
        1,
        MULTICAST,
        || {
            begin(0);
            make_multicast(2, SIZE + 4096, 0)
        },
    ),
    Case(
        "a multicast of no devices",
        "",
        "cuMulticastCreate",
        1,
        MULTICAST,
        || {
            begin(0);
            make_multicast(0, SIZE, 0)
        },
    ),
    Case(
        "a multicast without switches",
        "machine pcie-8gpu-nonet",
        "cuMulticastCreate",
        801,
        MULTICAST,
        || {
            begin(0);
            make_multicast(2, SIZE, 0)
        },
    ),
    Case(
        "a device added twice",
        "",
        "cuMulticastAddDevice",
        1,
        MULTICAST,
        || {
            begin(0);
            let object = multicast(2, SIZE);
            right!(cuMulticastAddDevice(object, 0_i32));
            call!(cuMulticastAddDevice(object, 0_i32))
        },
    ),
    Case(
        "more devices than the object is for",
        "",
        "cuMulticastAddDevice",
        1,
        MULTICAST,
        || {
            let object = team();
            call!(cuMulticastAddDevice(object, 2_i32))
        },
    ),
    Case(
        "a bind before its device was added",
        "",
        "cuMulticastBindMem",
        101,
        MULTICAST,
        || {
            begin(0);
            let object = multicast(2, SIZE);
            right!(cuMulticastAddDevice(object, 1_i32));
            bind(object, create(0, SIZE, 0), SIZE)
        },
    ),
    Case(
        "a bind before all were added",
        "patience-ms 20",
        "cuMulticastBindMem",
        909,
        MULTICAST,
        || {
            begin(0);
            let object = multicast(2, SIZE);
            right!(cuMulticastAddDevice(object, 0_i32));
            bind(object, create(0, SIZE, 0), SIZE)
        },
    ),
    Case(
        "a mapping before all were added",
        "patience-ms 20",
        "cuMemMap",
        909,
        MULTICAST,
        || {
            begin(0);
            map_at(reserve(SIZE), SIZE, 0, multicast(2, SIZE))
        },
    ),
    Case(
        "a bind twice",
        "",
        "cuMulticastBindMem",
        1,
        MULTICAST,
        || {
            let (object, memory) = (team(), create(0, SIZE, 0));
            assert_eq!(bind(object, memory, SIZE), 0);
            bind(object, memory, SIZE)
        },
    ),
    Case(
        "a bind of an odd size",
        "",
        "cuMulticastBindMem",
        1,
        MULTICAST,
        || bind(team(), create(0, SIZE, 0), 4096),
    ),
    Case(
        "a bind of too much",
        "",
        "cuMulticastBindMem",
        1,
        MULTICAST,
        || bind(team(), create(0, 2 * SIZE, 0), 2 * SIZE),
    ),
    Case(
        "a bind to plain memory",
        "",
        "cuMulticastBindMem",
        1,
        MULTICAST,
        || {
            begin(0);
            bind(create(0, SIZE, 0), create(0, SIZE, 0), SIZE)
        },
    ),
    Case(
        "an unbind of what is not bound",
        "",
        "cuMulticastUnbind",
        1,
        MULTICAST,
        || call!(cuMulticastUnbind(team(), 0_i32, 0_usize, SIZE)),
    ),
    Case(
        "a copy to a multicast address",
        "",
        "cuMemsetD8_v2",
        1,
        "Memory Management",
        || {
            let (object, address) = (team(), reserve(SIZE));
            assert_eq!(map_at(address, SIZE, 0, object), 0);
            assert_eq!(give_access(address, SIZE, 0), 0);
            call!(cuMemsetD8_v2(address, 0_u8, 64_usize))
        },
    ),
    Case(
        "multicast access for a GPU outside",
        "",
        "cuMemSetAccess",
        101,
        VIRTUAL,
        || {
            let (object, address) = (team(), reserve(SIZE));
            assert_eq!(map_at(address, SIZE, 0, object), 0);
            give_access(address, SIZE, 5)
        },
    ),
];
