//! Memory of one process or of several.
//!
//! Shared memory has no name in a file system: it is a memory file (`memfd_create`), which other
//! processes of the same user open through `/proc/PROCESS/fd/DESCRIPTOR`. It disappears with the
//! last process that maps it, even if that is killed.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::limits::{address_error, check_file, check_size};

/// The memory of [`Mapping::open_once`] that is in use.
static OPENED: LazyLock<Mutex<HashMap<Handle, Weak<Mapping>>>> = LazyLock::new(Mutex::default);

/// Zeroed memory, unmapped when dropped.
#[derive(Debug)]
pub struct Mapping {
    name: String,
    base: NonNull<u8>,
    bytes: usize,
    /// The memory file, if this process made it and others can open it.
    file: Option<OwnedFd>,
}

// SAFETY: a mapping is only an address range; its users synchronize their accesses.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps memory for this process alone. `name` is for messages.
    ///
    /// # Errors
    /// The machine has fewer bytes, or the kernel refuses.
    pub fn private(name: &str, bytes: usize) -> Result<Self, Error> {
        check_size(name, bytes)?;
        let length = bytes.max(1);
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address that the kernel chooses touches no existing memory.
        let base =
            unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), length, protection, flags) }
                .map_err(|errno| memory_error(name, "map", bytes, errno))?;
        Ok(Self::new(name, base, bytes, None))
    }

    /// Maps memory that other processes can map too. `name` is for messages and shows in
    /// `/proc/PROCESS/maps`.
    ///
    /// The kernel allocates pages at their first use, or in [`Self::populate`].
    ///
    /// # Errors
    /// The machine has fewer bytes, or the kernel refuses.
    pub fn shared(name: &str, bytes: usize) -> Result<Self, Error> {
        check_size(name, bytes)?;
        let fail = |action| move |errno| memory_error(name, action, bytes, errno);
        // The kernel accepts at most 249 bytes of name, without NUL.
        let shown: String = name
            .chars()
            .filter(char::is_ascii_graphic)
            .take(200)
            .collect();
        check_file(name, bytes)?;
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create(shown, flags).map_err(fail("make a file of"))?;
        rustix::fs::ftruncate(&file, bytes as u64).map_err(fail("make a file of"))?;
        // Shrinking it would kill processes that access the missing pages (SIGBUS).
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&file, seals).map_err(fail("seal a file of"))?;
        let base = map_file(name, &file, bytes)?;
        Ok(Self::new(name, base, bytes, Some(file)))
    }

    /// Maps memory that another process made with [`Self::shared`]. It holds no descriptor.
    ///
    /// # Errors
    /// The process has ended or may not be accessed, its descriptor is not the memory of the
    /// handle, or the memory could still shrink.
    pub fn open(handle: &Handle) -> Result<Self, Error> {
        let path = handle.path();
        let fail = |cause: io::Error| Error::Open {
            process: handle.process,
            path: path.clone(),
            cause,
        };
        // The descriptor may be of anything: opening it must not block, nor set a controlling
        // terminal.
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = rustix::fs::open(path.as_str(), flags, Mode::empty());
        let file = file.map_err(|errno| fail(errno.into()))?;
        let (device, inode, bytes) = identity(&file).map_err(fail)?;
        if (device, inode, bytes) != (handle.device, handle.inode, handle.bytes) {
            return Err(Error::WrongFile {
                process: handle.process,
                path,
                found: format!("file {device}:{inode} of {bytes} bytes"),
                expected: format!(
                    "file {}:{} of {} bytes",
                    handle.device, handle.inode, handle.bytes
                ),
            });
        }
        // Accessing pages that the owner cut off would kill this process. Only memory files have
        // seals.
        let seals = rustix::fs::fcntl_get_seals(&file);
        if !seals.is_ok_and(|seals| seals.contains(SealFlags::SHRINK)) {
            return Err(Error::WrongFile {
                process: handle.process,
                path,
                found: "a file that may still shrink".to_owned(),
                expected: "a memory file sealed against it (F_SEAL_SHRINK)".to_owned(),
            });
        }
        let name = format!(
            "process {} descriptor {}",
            handle.process, handle.descriptor
        );
        check_size(&name, bytes as usize)?;
        let base = map_file(&name, &file, bytes as usize)?;
        Ok(Self::new(&name, base, bytes as usize, None))
    }

    /// As [`Self::open`], but returns the mapping that this process already has of the memory.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_once(handle: &Handle) -> Result<Arc<Self>, Error> {
        // A thread that panics between two statements leaves a consistent map.
        let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mapping) = opened.get(handle).and_then(Weak::upgrade) {
            return Ok(mapping);
        }
        let mapping = Arc::new(Self::open(handle)?);
        if opened.len() == opened.capacity() {
            opened.retain(|_, it| it.strong_count() > 0);
        }
        opened.insert(*handle, Arc::downgrade(&mapping));
        Ok(mapping)
    }

    fn new(name: &str, base: *mut std::ffi::c_void, bytes: usize, file: Option<OwnedFd>) -> Self {
        let base: NonNull<u8> =
            NonNull::new(base.cast()).expect("the kernel maps nothing at address zero");
        if bytes >= HUGE_PAGE_BYTES {
            // Huge pages save page faults; without them nothing is lost.
            // SAFETY: the advice changes no contents.
            let _ =
                unsafe { rustix::mm::madvise(base.as_ptr().cast(), bytes, Advice::LinuxHugepage) };
        }
        Self {
            name: name.to_owned(),
            base,
            bytes,
            file,
        }
    }

    /// Purpose of the memory.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The first byte; aligned to the page size.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Length.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The memory file, if this process made it and others can open it.
    pub fn file(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref().map(AsFd::as_fd)
    }

    /// Makes the kernel use only small pages, for memory that is sparsely used.
    pub fn use_small_pages(&self) {
        // SAFETY: the advice changes no contents. Without huge pages it fails, which is fine.
        let _ = unsafe {
            rustix::mm::madvise(
                self.base.as_ptr().cast(),
                self.bytes,
                Advice::LinuxNoHugepage,
            )
        };
    }

    /// Allocates all pages now, so that a lack of memory is an error here and no signal later.
    ///
    /// # Errors
    /// There is not enough memory, or a container's limit is reached.
    pub fn populate(&self) -> Result<(), Error> {
        // SAFETY: populating changes no contents.
        let done = unsafe {
            rustix::mm::madvise(
                self.base.as_ptr().cast(),
                self.bytes,
                Advice::LinuxPopulateWrite,
            )
        };
        match done {
            // Linux before 5.14 does not support it: pages are allocated at their first use.
            Ok(()) | Err(Errno::INVAL) => Ok(()),
            Err(errno) => Err(memory_error(&self.name, "take", self.bytes, errno)),
        }
    }

    /// A handle for other processes, valid while this process lives; `None` for private memory and
    /// for memory of another process.
    ///
    /// # Errors
    /// The kernel does not report the file's identity.
    pub fn handle(&self) -> Result<Option<Handle>, Error> {
        let Some(file) = &self.file else {
            return Ok(None);
        };
        let (device, inode, bytes) = identity(file).map_err(|cause| Error::Memory {
            name: self.name.clone(),
            action: "look at the file of",
            bytes: self.bytes as u64,
            cause,
        })?;
        Ok(Some(Handle {
            process: std::process::id(),
            descriptor: file.as_raw_fd() as u32,
            device,
            inode,
            bytes,
        }))
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is ours, and its users keep the mapping alive. A failure could only
        // leak it.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.bytes.max(1)) };
    }
}

/// Size of a huge page on x86 and most Arm machines, bytes.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// A handle of shared memory, for another process of the same user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Handle {
    /// The process that made it.
    pub process: u32,
    /// The descriptor in that process.
    pub descriptor: u32,
    /// Device of the file, to notice a descriptor that was reused.
    pub device: u64,
    /// Inode of the file.
    pub inode: u64,
    /// Length, bytes.
    pub bytes: u64,
}

impl Handle {
    fn path(&self) -> String {
        format!("/proc/{}/fd/{}", self.process, self.descriptor)
    }
}

/// Maps a memory file.
fn map_file(name: &str, file: &OwnedFd, bytes: usize) -> Result<*mut std::ffi::c_void, Error> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    let (length, flags) = (bytes.max(1), MapFlags::SHARED);
    // SAFETY: a new mapping at an address that the kernel chooses touches no existing memory.
    let base = unsafe { rustix::mm::mmap(ptr::null_mut(), length, protection, flags, file, 0) };
    base.map_err(|errno| memory_error(name, "map", bytes, errno))
}

/// Device, inode and bytes of a file.
fn identity(file: &OwnedFd) -> io::Result<(u64, u64, u64)> {
    let stat = rustix::fs::fstat(file)?;
    Ok((stat.st_dev, stat.st_ino, stat.st_size as u64))
}

fn memory_error(name: &str, action: &'static str, bytes: usize, errno: Errno) -> Error {
    let limit = match errno {
        Errno::NOMEM => address_error(name, bytes),
        _ => None,
    };
    limit.unwrap_or_else(|| Error::Memory {
        name: name.to_owned(),
        action,
        bytes: bytes as u64,
        cause: errno.into(),
    })
}
