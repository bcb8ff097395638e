//! Physical memory, mappings, handles.

use crate::Case;
use crate::api::{
    GRANULARITY as SIZE, begin, call, create, give_access, map, properties, reserve, right,
};

const VIRTUAL: &str = "Virtual Memory Management";
const MACHINE: &str = "the machine file";

fn create_with(bytes: usize, handles: u32, flags: u64) -> u32 {
    let (mut handle, properties) = (0_u64, properties(0, handles));
    call!(cuMemCreate(
        &raw mut handle,
        bytes,
        &raw const properties,
        flags
    ))
}

fn map_at(address: u64, bytes: usize, offset: usize, handle: u64) -> u32 {
    call!(cuMemMap(address, bytes, offset, handle, 0_u64))
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

fn import(place: *mut u8, kind: u32) -> u32 {
    let mut handle = 0_u64;
    call!(cuMemImportFromShareableHandle(&raw mut handle, place, kind))
}

pub const CASES: &[Case] = &[
    Case(
        "physical memory of an odd size",
        "",
        "cuMemCreate",
        1,
        VIRTUAL,
        || {
            begin(0);
            create_with(SIZE + 4096, 0, 0)
        },
    ),
    Case(
        "flags for physical memory",
        "",
        "cuMemCreate",
        1,
        VIRTUAL,
        || {
            begin(0);
            create_with(SIZE, 0, 1)
        },
    ),
    Case("handles of Windows", "", "cuMemCreate", 1, VIRTUAL, || {
        begin(0);
        create_with(SIZE, 2, 0)
    }),
    Case(
        "fabric handles that are not reported",
        "",
        "cuMemCreate",
        801,
        VIRTUAL,
        || {
            begin(0);
            create_with(SIZE, 8, 0)
        },
    ),
    Case(
        "fabric handles without IMEX",
        "fabric refused",
        "cuMemCreate",
        800,
        MACHINE,
        || {
            begin(0);
            create_with(SIZE, 8, 0)
        },
    ),
    Case(
        "an export with a half-configured IMEX",
        "fabric half",
        "cuMemExportToShareableHandle",
        800,
        MACHINE,
        || {
            begin(0);
            export(create(0, SIZE, 8), 8)
        },
    ),
    Case(
        "addresses of an odd size",
        "",
        "cuMemAddressReserve",
        1,
        VIRTUAL,
        || {
            begin(0);
            let mut address = 0_u64;
            call!(cuMemAddressReserve(
                &raw mut address,
                100_usize,
                0_usize,
                0_u64,
                0_u64
            ))
        },
    ),
    Case(
        "an odd alignment",
        "",
        "cuMemAddressReserve",
        1,
        VIRTUAL,
        || {
            begin(0);
            let mut address = 0_u64;
            call!(cuMemAddressReserve(
                &raw mut address,
                SIZE,
                3_usize,
                0_u64,
                0_u64
            ))
        },
    ),
    Case(
        "a mapping outside a reservation",
        "",
        "cuMemMap",
        1,
        VIRTUAL,
        || {
            begin(0);
            let (address, memory) = (reserve(SIZE), create(0, SIZE, 0));
            right!(cuMemAddressFree(address, SIZE));
            map_at(address, SIZE, 0, memory)
        },
    ),
    Case(
        "a mapping past its reservation",
        "",
        "cuMemMap",
        1,
        VIRTUAL,
        || {
            begin(0);
            let (address, memory) = (reserve(SIZE), create(0, 2 * SIZE, 0));
            map_at(address, 2 * SIZE, 0, memory)
        },
    ),
    Case(
        "a mapping over a mapping",
        "",
        "cuMemMap",
        1,
        VIRTUAL,
        || {
            begin(0);
            let (address, memory) = map(0, SIZE);
            map_at(address, SIZE, 0, memory)
        },
    ),
    Case("a mapping at an offset", "", "cuMemMap", 1, VIRTUAL, || {
        begin(0);
        let (address, memory) = (reserve(SIZE), create(0, 2 * SIZE, 0));
        map_at(address, SIZE, SIZE, memory)
    }),
    Case(
        "a mapping longer than its memory",
        "",
        "cuMemMap",
        1,
        VIRTUAL,
        || {
            begin(0);
            let (address, memory) = (reserve(2 * SIZE), create(0, SIZE, 0));
            map_at(address, 2 * SIZE, 0, memory)
        },
    ),
    Case(
        "a mapping of released memory",
        "",
        "cuMemMap",
        1,
        VIRTUAL,
        || {
            begin(0);
            let (address, memory) = (reserve(SIZE), create(0, SIZE, 0));
            right!(cuMemRelease(memory));
            map_at(address, SIZE, 0, memory)
        },
    ),
    Case(
        "an unmapping of a half",
        "",
        "cuMemUnmap",
        1,
        VIRTUAL,
        || {
            begin(0);
            let (address, _) = map(0, 2 * SIZE);
            call!(cuMemUnmap(address, SIZE))
        },
    ),
    Case("an unmapping twice", "", "cuMemUnmap", 1, VIRTUAL, || {
        begin(0);
        let (address, _) = map(0, SIZE);
        right!(cuMemUnmap(address, SIZE));
        call!(cuMemUnmap(address, SIZE))
    }),
    Case(
        "addresses freed while mapped",
        "",
        "cuMemAddressFree",
        1,
        VIRTUAL,
        || {
            begin(0);
            let (address, _) = map(0, SIZE);
            call!(cuMemAddressFree(address, SIZE))
        },
    ),
    Case(
        "a half of the addresses freed",
        "",
        "cuMemAddressFree",
        1,
        VIRTUAL,
        || {
            begin(0);
            call!(cuMemAddressFree(reserve(2 * SIZE), SIZE))
        },
    ),
    Case(
        "access to what is not mapped",
        "",
        "cuMemSetAccess",
        1,
        VIRTUAL,
        || {
            begin(0);
            give_access(reserve(SIZE), SIZE, 0)
        },
    ),
    Case(
        "access for a GPU without P2P",
        "peers none",
        "cuMemSetAccess",
        101,
        VIRTUAL,
        || {
            begin(0);
            let (address, _) = map(0, SIZE);
            give_access(address, SIZE, 1)
        },
    ),
    Case(
        "a use without access",
        "",
        "cuMemsetD8_v2",
        1,
        "Memory Management",
        || {
            begin(0);
            let (address, _) = map(0, SIZE);
            call!(cuMemsetD8_v2(address, 0_u8, 64_usize))
        },
    ),
    Case(
        "a use by a GPU without access",
        "",
        "cuMemsetD8_v2",
        1,
        "Memory Management",
        || {
            begin(0);
            let (address, _) = map(0, SIZE);
            assert_eq!(give_access(address, SIZE, 0), 0);
            right!(cuMemsetD8_v2(address, 0_u8, 64_usize));
            begin(1);
            call!(cuMemsetD8_v2(address, 0_u8, 64_usize))
        },
    ),
    Case(
        "memory released twice",
        "",
        "cuMemRelease",
        1,
        VIRTUAL,
        || {
            begin(0);
            let memory = create(0, SIZE, 0);
            right!(cuMemRelease(memory));
            call!(cuMemRelease(memory))
        },
    ),
    Case(
        "an export that was not requested",
        "",
        "cuMemExportToShareableHandle",
        1,
        VIRTUAL,
        || {
            begin(0);
            export(create(0, SIZE, 0), 1)
        },
    ),
    Case(
        "a closed descriptor",
        "",
        "cuMemImportFromShareableHandle",
        1,
        VIRTUAL,
        || {
            begin(0);
            import(std::ptr::without_provenance_mut(1000), 1)
        },
    ),
    Case(
        "a descriptor of something else",
        "",
        "cuMemImportFromShareableHandle",
        1,
        VIRTUAL,
        || {
            begin(0);
            import(std::ptr::without_provenance_mut(1), 1)
        },
    ),
];
