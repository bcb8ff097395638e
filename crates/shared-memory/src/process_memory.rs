//! Access to the memory of another process, without sharing it.
//!
//! The kernel copies from one process to the other (`process_vm_readv`, `process_vm_writev`). Both
//! must belong to the same user, and a security module or a container may still refuse. So call
//! [`ProcessMemory::probe`] first, and use FIFOs if it fails.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use thiserror::Error;

/// Why the memory of another process was not read or written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ProcessMemoryError {
    /// The kernel does not allow it.
    #[error(
        "process {process}: the kernel does not allow access to its memory ({source}); see /proc/sys/kernel/yama/ptrace_scope, or the container's capability SYS_PTRACE"
    )]
    Refused {
        /// The other process.
        process: u32,
        /// The kernel's error.
        source: io::Error,
    },
    /// The process has ended.
    #[error("process {process} has ended")]
    Gone {
        /// The other process.
        process: u32,
    },
    /// There is no such memory, or it is too short.
    #[error("process {process}: no memory at {address:#x} ({done} of {bytes} bytes were copied)")]
    NoMemory {
        /// The other process.
        process: u32,
        /// The requested address.
        address: u64,
        /// Bytes requested.
        bytes: usize,
        /// Bytes copied.
        done: usize,
    },
    /// A probe found another value than the process reported.
    #[error(
        "process {process}: its memory at {address:#x} does not have the value that it reported; is it in another namespace?"
    )]
    Other {
        /// The other process.
        process: u32,
        /// The requested address.
        address: u64,
    },
    /// The kernel has no such call, or it failed otherwise.
    #[error("process {process}: cannot access its memory: {source}")]
    System {
        /// The other process.
        process: u32,
        /// The kernel's error.
        source: io::Error,
    },
}

/// The handles that are in use, by process id.
static HANDLES: LazyLock<Mutex<HashMap<u32, Weak<ProcessHandle>>>> = LazyLock::new(Mutex::default);

/// Another process, to tell it from a later one with the same id.
#[derive(Debug)]
pub struct ProcessHandle(Option<OwnedFd>);

impl ProcessHandle {
    /// The process that has this id now. Its handles of this process share one descriptor.
    pub fn of(process: u32) -> Arc<Self> {
        // A thread that panics between two statements leaves a consistent map.
        let mut handles = HANDLES.lock().unwrap_or_else(PoisonError::into_inner);
        let known = handles.get(&process).and_then(Weak::upgrade);
        if let Some(known) = known.filter(|it| !it.has_ended()) {
            return known;
        }
        let id = i32::try_from(process).ok().and_then(Pid::from_raw);
        let descriptor = id.and_then(|id| pidfd_open(id, PidfdFlags::empty()).ok());
        let made = Arc::new(Self(descriptor));
        handles.retain(|_, it| it.strong_count() > 0);
        handles.insert(process, Arc::downgrade(&made));
        made
    }

    /// Whether the process has ended. Not known, and `false`, if the kernel has no descriptors of
    /// processes (before Linux 5.3) or this process may open no more.
    pub fn has_ended(&self) -> bool {
        let Some(descriptor) = &self.0 else {
            return false;
        };
        let mut ready = [PollFd::new(descriptor, PollFlags::IN)];
        poll(&mut ready, Some(&Timespec::default())).is_ok_and(|count| count > 0)
    }
}

/// The memory of another process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessMemory {
    process: u32,
}

/// The direction of a copy.
#[derive(Debug, Clone, Copy)]
enum Direction {
    Read,
    Write,
}

impl ProcessMemory {
    /// The memory of the process with this id.
    pub const fn new(process: u32) -> Self {
        Self { process }
    }

    /// Checks that this process may read the other one, by a value that it reported.
    ///
    /// # Errors
    /// It may not, or the memory has another value.
    pub fn probe(&self, address: u64, expected: u64) -> Result<(), ProcessMemoryError> {
        let mut found = [0; 8];
        self.read_into(address, &mut found)?;
        if u64::from_ne_bytes(found) != expected {
            let process = self.process;
            return Err(ProcessMemoryError::Other { process, address });
        }
        Ok(())
    }

    /// Reads bytes of the other process.
    ///
    /// # Errors
    /// It may not be read, has ended, or has no such memory.
    pub fn read_into(&self, address: u64, bytes: &mut [u8]) -> Result<(), ProcessMemoryError> {
        // SAFETY: the bytes are borrowed.
        unsafe { self.read(address, bytes.as_mut_ptr(), bytes.len()) }
    }

    /// Reads bytes of the other process.
    ///
    /// # Errors
    /// As [`Self::read_into`]; some bytes may have been read then.
    ///
    /// # Safety
    /// `bytes` bytes can be written at `destination`.
    pub unsafe fn read(
        &self,
        address: u64,
        destination: *mut u8,
        bytes: usize,
    ) -> Result<(), ProcessMemoryError> {
        // SAFETY: the caller's promise.
        unsafe { self.transfer(Direction::Read, address, destination, bytes) }
    }

    /// Writes bytes of the other process.
    ///
    /// # Errors
    /// As [`Self::read_into`]; some bytes may have been written then.
    ///
    /// # Safety
    /// `bytes` bytes can be read at `source`, and the other process expects them at `address`.
    pub unsafe fn write(
        &self,
        address: u64,
        source: *const u8,
        bytes: usize,
    ) -> Result<(), ProcessMemoryError> {
        // SAFETY: the caller's promise; the kernel only reads what is written elsewhere.
        unsafe { self.transfer(Direction::Write, address, source.cast_mut(), bytes) }
    }

    /// # Safety
    /// The local bytes can be read, and for [`Direction::Read`] written.
    unsafe fn transfer(
        &self,
        direction: Direction,
        address: u64,
        local: *mut u8,
        bytes: usize,
    ) -> Result<(), ProcessMemoryError> {
        let mut done = 0;
        // The kernel moves less than 2 GiB at a time.
        while done < bytes {
            let length = (bytes - done).min(1 << 30);
            let here = libc::iovec {
                iov_base: local.wrapping_add(done).cast(),
                iov_len: length,
            };
            let there = libc::iovec {
                iov_base: (address as usize).wrapping_add(done) as *mut libc::c_void,
                iov_len: length,
            };
            let process = self.process as libc::pid_t;
            // SAFETY: the local range is the caller's; the kernel checks the other one.
            let moved = unsafe {
                match direction {
                    Direction::Read => libc::process_vm_readv(process, &here, 1, &there, 1, 0),
                    Direction::Write => libc::process_vm_writev(process, &here, 1, &there, 1, 0),
                }
            };
            match usize::try_from(moved) {
                Ok(0) => return Err(self.no_memory(address, bytes, done)),
                Ok(moved) => done += moved,
                Err(_) => return Err(self.error(address, bytes, done)),
            }
        }
        Ok(())
    }

    fn no_memory(&self, address: u64, bytes: usize, done: usize) -> ProcessMemoryError {
        let process = self.process;
        ProcessMemoryError::NoMemory {
            process,
            address,
            bytes,
            done,
        }
    }

    /// The kernel's last error.
    fn error(&self, address: u64, bytes: usize, done: usize) -> ProcessMemoryError {
        let source = io::Error::last_os_error();
        let process = self.process;
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => ProcessMemoryError::Refused { process, source },
            Some(libc::ESRCH) => ProcessMemoryError::Gone { process },
            Some(libc::EFAULT) => self.no_memory(address, bytes, done),
            _ => ProcessMemoryError::System { process, source },
        }
    }
}

/// Lets all processes of this user access this one's memory, where the security module Yama would
/// allow only its parents. Does nothing without Yama.
pub fn allow_peers() {
    // SAFETY: sets an attribute of this process and touches no memory. Without Yama it fails, which
    // is fine.
    unsafe {
        libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0);
    }
}
