//! Physical memory, mappings, handles.

use crate::api::{
    GRANULARITY as SIZE, begin, call, create, give_access, map, map_at, out, properties, reserve,
    right,
};

const VIRTUAL: &str = "Virtual Memory Management";
const MEMORY: &str = "Memory Management";
const MACHINE: &str = "the machine file";

fn create_with(bytes: usize, handles: u32, flags: u64) -> u32 {
    let properties = properties(0, handles);
    call!(cuMemCreate(
        out::<u64>(),
        bytes,
        &raw const properties,
        flags
    ))
}

fn export(handle: u64, kind: u32) -> u32 {
    let mut place = [0_u8; 64];
    call!(cuMemExportToShareableHandle(
        place.as_mut_ptr(),
        handle,
        kind,
        0_u64
    ))
}

/// A handle that was released.
fn released() -> u64 {
    let memory = create(0, SIZE, 0);
    right!(cuMemRelease(memory));
    memory
}

/// A pointer that is the number of a descriptor.
fn descriptor(number: usize) -> *mut u8 {
    std::ptr::without_provenance_mut(number)
}

crate::table! {
    "physical memory of an odd size" => cuMemCreate { create_with(SIZE + 4096, 0, 0) } = 1 VIRTUAL;
    "flags for physical memory" => cuMemCreate { create_with(SIZE, 0, 1) } = 1 VIRTUAL;
    "handles of Windows" => cuMemCreate { create_with(SIZE, 2, 0) } = 1 VIRTUAL;
    "fabric handles that are not reported" => cuMemCreate { create_with(SIZE, 8, 0) } = 801 VIRTUAL;
    "fabric handles without IMEX" ["fabric refused"] => cuMemCreate { create_with(SIZE, 8, 0) } = 800 MACHINE;
    "an export with a half-configured IMEX" ["fabric half"]
        => cuMemExportToShareableHandle { export(create(0, SIZE, 8), 8) } = 800 MACHINE;
    "addresses of an odd size"
        => cuMemAddressReserve(out::<u64>(), 100_usize, 0_usize, 0_u64, 0_u64) = 1 VIRTUAL;
    "an odd alignment" => cuMemAddressReserve(out::<u64>(), SIZE, 3_usize, 0_u64, 0_u64) = 1 VIRTUAL;
    "a mapping outside a reservation" {
        let (address, memory) = (reserve(SIZE), create(0, SIZE, 0));
        right!(cuMemAddressFree(address, SIZE));
    } => cuMemMap { map_at(address, SIZE, 0, memory) } = 1 VIRTUAL;
    "a mapping past its reservation"
        => cuMemMap { map_at(reserve(SIZE), 2 * SIZE, 0, create(0, 2 * SIZE, 0)) } = 1 VIRTUAL;
    "a mapping over a mapping" { let (address, memory) = map(0, SIZE); }
        => cuMemMap { map_at(address, SIZE, 0, memory) } = 1 VIRTUAL;
    "a mapping at an offset"
        => cuMemMap { map_at(reserve(SIZE), SIZE, SIZE, create(0, 2 * SIZE, 0)) } = 1 VIRTUAL;
    "a mapping longer than its memory"
        => cuMemMap { map_at(reserve(2 * SIZE), 2 * SIZE, 0, create(0, SIZE, 0)) } = 1 VIRTUAL;
    "a mapping of released memory" => cuMemMap { map_at(reserve(SIZE), SIZE, 0, released()) } = 1 VIRTUAL;
    "an unmapping of a half" => cuMemUnmap(map(0, 2 * SIZE).0, SIZE) = 1 VIRTUAL;
    "an unmapping twice" { let (address, _) = map(0, SIZE); right!(cuMemUnmap(address, SIZE)); }
        => cuMemUnmap(address, SIZE) = 1 VIRTUAL;
    "addresses freed while mapped" => cuMemAddressFree(map(0, SIZE).0, SIZE) = 1 VIRTUAL;
    "a half of the addresses freed" => cuMemAddressFree(reserve(2 * SIZE), SIZE) = 1 VIRTUAL;
    "access to what is not mapped" => cuMemSetAccess { give_access(reserve(SIZE), SIZE, 0) } = 1 VIRTUAL;
    "access for a GPU without P2P" ["peers none"]
        => cuMemSetAccess { give_access(map(0, SIZE).0, SIZE, 1) } = 101 VIRTUAL;
    "a use without access" => cuMemsetD8_v2(map(0, SIZE).0, 0_u8, 64_usize) = 1 MEMORY;
    "a use by a GPU without access" {
        let (address, _) = map(0, SIZE);
        assert_eq!(give_access(address, SIZE, 0), 0);
        right!(cuMemsetD8_v2(address, 0_u8, 64_usize));
        begin(1);
    } => cuMemsetD8_v2(address, 0_u8, 64_usize) = 1 MEMORY;
    "memory released twice" => cuMemRelease(released()) = 1 VIRTUAL;
    "a handle retained of what is not mapped"
        => cuMemRetainAllocationHandle(out::<u64>(), reserve(SIZE)) = 1 VIRTUAL;
    "a retained handle released too often" {
        let (address, memory) = map(0, SIZE);
        let again = out::<u64>();
        right!(cuMemRetainAllocationHandle(again, address));
        right!(cuMemRelease(memory));
        right!(cuMemRelease(memory));
        // A mapping leads to its memory when no handle is left.
        right!(cuMemRetainAllocationHandle(again, address));
        right!(cuMemRelease(memory));
    } => cuMemRelease(memory) = 1 VIRTUAL;
    "the properties of released memory"
        => cuMemGetAllocationPropertiesFromHandle(out::<[u64; 4]>(), released()) = 1 VIRTUAL;
    "an export that was not requested"
        => cuMemExportToShareableHandle { export(create(0, SIZE, 0), 1) } = 1 VIRTUAL;
    "a closed descriptor" => cuMemImportFromShareableHandle(out::<u64>(), descriptor(1000), 1_u32) = 1 VIRTUAL;
    "a descriptor of something else"
        => cuMemImportFromShareableHandle(out::<u64>(), descriptor(1), 1_u32) = 1 VIRTUAL;
}
