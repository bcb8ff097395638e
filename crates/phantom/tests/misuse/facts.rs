//! Answers of legal calls about memory, as the documentation gives them. (`silicon` of
//! `topo gpu-test` asks a GPU the same.)

use crate::api::{
    GRANULARITY as SIZE, MulticastProperties, allocate, attribute, call, create, give_access,
    map_at, multicast_with, out, range_of, reserve, right,
};

/// `CU_POINTER_ATTRIBUTE_BUFFER_ID`, `_RANGE_START_ADDR`, `_RANGE_SIZE`, `_MAPPED`.
const BUFFER_ID: u32 = 7;
const RANGE_BEGIN: u32 = 11;
const RANGE_SIZE: u32 = 12;
const MAPPED: u32 = 13;

/// `CU_POINTER_ATTRIBUTE_MEMORY_TYPE`
const MEMORY_TYPE: u32 = 2;

/// Two mappings in eight reserved granules: of one and of two, with their handles.
fn mappings() -> (u64, [u64; 2]) {
    let (base, handles) = (
        reserve(8 * SIZE),
        [create(0, SIZE, 1), create(0, 2 * SIZE, 1)],
    );
    assert_eq!(map_at(base, SIZE, 0, handles[0]), 0);
    assert_eq!(map_at(base + SIZE as u64, 2 * SIZE, 0, handles[1]), 0);
    (base, handles)
}

fn handle_at(address: u64) -> u64 {
    let mut handle = 0_u64;
    right!(cuMemRetainAllocationHandle(&raw mut handle, address));
    handle
}

fn multicast_granularity(option: u32) -> usize {
    let properties = MulticastProperties {
        devices: 2,
        size: SIZE,
        handles: 0,
        flags: 0,
    };
    let mut found = 0_usize;
    right!(cuMulticastGetGranularity(
        &raw mut found,
        &raw const properties,
        option
    ));
    found
}

crate::table! {
    "the range attributes are those of the reservation" {
        let (base, _) = mappings();
        let inside = base + SIZE as u64 + 4096;
        assert_eq!(attribute(inside, RANGE_BEGIN), base);
        assert_eq!(attribute(inside, RANGE_SIZE), 8 * SIZE as u64);
        assert_eq!(attribute(inside, MAPPED) as u32, 1);
    } => cuMemGetAddressRange_v2 {
        assert_eq!(range_of(inside), (base + SIZE as u64, 2 * SIZE));
        0
    } = 0 "";
    "the range attributes are those of an allocation" { let address = allocate(4096); }
        => cuPointerGetAttribute {
        assert_eq!(attribute(address + 64, RANGE_BEGIN), address);
        assert_eq!(attribute(address + 64, RANGE_SIZE), 4096);
        assert_eq!(range_of(address + 64), (address, 4096));
        0
    } = 0 "";
    "reserved addresses have a range and no memory" { let (base, _) = mappings(); }
        => cuPointerGetAttribute {
        let reserved = base + 4 * SIZE as u64;
        assert_eq!(attribute(reserved, RANGE_BEGIN), base);
        assert_eq!(attribute(reserved, MAPPED) as u32, 0);
        call!(cuPointerGetAttribute(out::<u32>(), MEMORY_TYPE, reserved))
    } = 1 "Unified Addressing";
    "reserved addresses are no allocation" { let (base, _) = mappings(); }
        => cuMemGetAddressRange_v2(out::<u64>(), out::<usize>(), base + 4 * SIZE as u64)
        = 500 "Memory Management";
    "the handle at an address is that of its own mapping" { let (base, handles) = mappings(); }
        => cuMemRetainAllocationHandle {
        assert_eq!(handle_at(base), handles[0]);
        assert_eq!(handle_at(base + 2 * SIZE as u64 + 4096), handles[1]);
        0
    } = 0 "";
    "a buffer's id does not tell mappings apart" { let (base, _) = mappings(); }
        => cuPointerGetAttribute {
        assert_eq!(attribute(base, BUFFER_ID), attribute(base + SIZE as u64, BUFFER_ID));
        0
    } = 0 "";
    "a fill of two mappings" {
        let (base, _) = mappings();
        assert_eq!(give_access(base, 3 * SIZE, 0), 0);
    } => cuMemsetD8_v2(base + 4096, 1_u8, 2 * SIZE) = 0 "";
    "a fill past the last mapping" {
        let (base, _) = mappings();
        assert_eq!(give_access(base, 3 * SIZE, 0), 0);
    } => cuMemsetD8_v2(base + 4096, 1_u8, 3 * SIZE) = 1 "Memory Management";
    "a fill of two mappings of which one has no access" {
        let (base, _) = mappings();
        assert_eq!(give_access(base, SIZE, 0), 0);
    } => cuMemsetD8_v2(base + 4096, 1_u8, 2 * SIZE) = 1 "Memory Management";
    "the granularities of a multicast differ" => cuMulticastGetGranularity {
        assert_eq!(multicast_granularity(0), SIZE);
        assert!(multicast_granularity(1) > SIZE);
        0
    } = 0 "";
    "a bind of memory without handles to an object with handles" {
        let object = multicast_with(1, SIZE, 1);
        right!(cuMulticastAddDevice(object, 0_i32));
    } => cuMulticastBindMem(object, 0_usize, create(0, SIZE, 0), 0_usize, SIZE, 0_u64)
        = 1 "Multicast Object Management";
}
