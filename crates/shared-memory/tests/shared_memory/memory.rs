//! Results of mappings and arenas, and what they refuse.

use proptest::prelude::*;
use shared_memory::{Arena, Error, Handle, Mapping};

#[test]
fn more_than_the_machine_has_is_refused() {
    for make in [Mapping::private, Mapping::shared] {
        let error = make("everything", usize::MAX / 4).unwrap_err();
        assert!(matches!(error, Error::TooLarge { .. }), "{error}");
        assert!(
            error
                .to_string()
                .starts_with("shared memory \"everything\": 4611686018427387903 bytes")
        );
    }
}

#[test]
fn memory_is_zeroed_and_can_be_taken_at_once() {
    for make in [Mapping::private, Mapping::shared] {
        let mapping = make("test", 3 << 20).unwrap();
        mapping.populate().unwrap();
        // SAFETY: nobody else uses it.
        let bytes = unsafe { std::slice::from_raw_parts(mapping.base().as_ptr(), mapping.bytes()) };
        assert!(bytes.iter().all(|&byte| byte == 0));
    }
    assert_eq!(Mapping::private("test", 0).unwrap().bytes(), 0);
}

#[test]
fn a_handle_names_one_memory() {
    let mapping = Mapping::shared("test", 5000).unwrap();
    let handle = mapping.handle().unwrap().unwrap();
    let again = Mapping::open(&handle).unwrap();
    assert!(again.file().is_none(), "it holds a descriptor");
    // SAFETY: both are the same memory, used by this thread alone.
    unsafe {
        mapping.base().as_ptr().write_volatile(77);
        assert_eq!(again.base().as_ptr().read_volatile(), 77);
    }
    let other = Handle {
        inode: handle.inode + 1,
        ..handle
    };
    let error = Mapping::open(&other).unwrap_err();
    assert!(matches!(error, Error::WrongFile { .. }), "{error}");
    let none = Handle {
        process: u32::MAX / 2,
        ..handle
    };
    assert!(matches!(
        Mapping::open(&none).unwrap_err(),
        Error::Open { .. }
    ));
    assert_eq!(Mapping::private("test", 1).unwrap().handle().unwrap(), None);
}

#[test]
fn a_full_arena_says_so() {
    let arena = Arena::new(Mapping::private("small", 1024).unwrap());
    let first = arena.allocate(600, 8).unwrap();
    let error = arena.allocate(600, 8).unwrap_err().to_string();
    assert_eq!(
        error,
        "arena \"small\": no 600 bytes in a row are left of 1024; make the arena larger or free buffers"
    );
    assert!(arena.allocate(usize::MAX, 8).is_err());
    drop(first);
    assert!(arena.allocate(1024, 8).is_ok());
}

proptest! {
    /// Buffers never overlap, are aligned and inside; when all are dropped, the arena is one free
    /// range again.
    #[test]
    fn buffers_are_apart(actions in prop::collection::vec((1..9000_usize, 0..13_u32, any::<bool>()), 1..80)) {
        const BYTES: usize = 1 << 16;
        let arena = Arena::new(Mapping::private("test", BYTES).unwrap());
        let mut buffers = Vec::new();
        for (bytes, alignment, frees) in actions {
            if frees && !buffers.is_empty() {
                buffers.swap_remove(bytes % buffers.len());
            } else if let Ok(buffer) = arena.allocate(bytes, 1 << alignment) {
                prop_assert_eq!(buffer.offset() % (1 << alignment), 0);
                prop_assert!(buffer.offset() + buffer.bytes() <= BYTES);
                buffers.push(buffer);
            }
            let mut ranges: Vec<_> =
                buffers.iter().map(|buffer| (buffer.offset(), buffer.offset() + buffer.bytes())).collect();
            ranges.sort_unstable();
            prop_assert!(ranges.windows(2).all(|pair| pair[0].1 <= pair[1].0));
        }
        buffers.clear();
        prop_assert!(arena.allocate(BYTES, 4096).is_ok());
    }
}

/// A file that its owner may still shrink could kill this process (SIGBUS).
#[test]
fn a_file_that_may_shrink_is_refused() {
    use rustix::fs::{MemfdFlags, SealFlags};
    let handle_of = |file: &std::os::fd::OwnedFd| {
        let stat = rustix::fs::fstat(file).unwrap();
        Handle {
            process: std::process::id(),
            descriptor: std::os::fd::AsRawFd::as_raw_fd(file) as u32,
            device: stat.st_dev,
            inode: stat.st_ino,
            bytes: stat.st_size as u64,
        }
    };
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = rustix::fs::memfd_create("unsealed", flags).unwrap();
    rustix::fs::ftruncate(&file, 8192).unwrap();
    let handle = handle_of(&file);
    let error = Mapping::open(&handle).unwrap_err().to_string();
    assert!(error.contains("may still shrink"), "{error}");
    rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK).unwrap();
    assert!(Mapping::open(&handle).is_ok());
    let other = std::fs::File::open("/proc/self/exe").unwrap();
    assert!(Mapping::open(&handle_of(&other.into())).is_err());
}

/// Another process may claim anything about its items.
#[test]
fn items_that_do_not_fit_are_refused() {
    use program::Protocol;
    use shared_memory::{Item, Segment};
    let mapping = Mapping::shared("test", 8192).unwrap();
    let handle = mapping.handle().unwrap().unwrap();
    let fifo = |protocol, slot_bytes| Item::Fifo {
        protocol,
        slot_bytes,
    };
    for item in [
        fifo(Protocol::Simple, usize::MAX),
        fifo(Protocol::Ll, usize::MAX / 2),
        fifo(Protocol::Ll128, usize::MAX - 64),
        fifo(Protocol::Simple, 1 << 57),
        Item::BufferTable {
            entries: usize::MAX,
        },
        Item::BufferTable { entries: 1 << 57 },
    ] {
        for items in [&[item][..], &[item; 3]] {
            let error = Segment::open(&handle, items).unwrap_err();
            assert!(matches!(error, Error::Layout { .. }), "{item:?}: {error}");
        }
    }
}
