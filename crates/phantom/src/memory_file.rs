//! Memory that processes share: a file without a name, whose last page says what it is.
//!
//! Descriptors, IPC handles and fabric handles all lead to such a file, so that another process
//! learns device, size and kinds of handles from the file alone.

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a page of the host.
pub const PAGE: u64 = 4096;

/// How a file's last page begins.
const MAGIC: &[u8; 16] = b"topo phantom mem";

/// What a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Content {
    /// Memory of `cuMemAlloc`.
    Plain = 1,
    /// Memory of `cuMemCreate`.
    Physical = 2,
    /// The members of a multicast object.
    Multicast = 3,
    /// Host memory of `cuMemCreate`.
    Host = 4,
}

/// The last page of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Label {
    /// What the file holds.
    pub content: Content,
    /// The UUID of the memory's device; of host memory and multicast objects: unused.
    pub device: [u8; 16],
    /// The `CUmemAllocationHandleType`s with which it can be exported.
    pub handle_types: u32,
    /// Bytes before the last page.
    pub bytes: u64,
}

/// Memory that other processes can open.
#[derive(Debug)]
pub struct MemoryFile {
    file: File,
    /// What it is.
    pub label: Label,
    /// The count of bytes in use that has bytes of this file, and how many.
    used: Option<(&'static AtomicU64, u64)>,
}

impl Drop for MemoryFile {
    fn drop(&mut self) {
        if let Some((used, bytes)) = self.used {
            used.fetch_sub(bytes, Ordering::AcqRel);
        }
    }
}

impl MemoryFile {
    /// Makes memory.
    ///
    /// # Errors
    /// The host has no memory or no descriptor left.
    pub fn new(label: Label) -> io::Result<Self> {
        // SAFETY: the name ends with a 0, and the returned descriptor is checked.
        let raw = unsafe { libc::memfd_create(c"topo phantom".as_ptr(), libc::MFD_CLOEXEC) };
        let file = Self::owned(raw)?;
        file.set_len(label.bytes + PAGE)?;
        let mut page = Vec::with_capacity(64);
        page.extend(MAGIC);
        page.extend([label.content as u8; 8]);
        page.extend(label.device);
        page.extend(u64::from(label.handle_types).to_le_bytes());
        page.extend(label.bytes.to_le_bytes());
        file.write_all_at(&page, label.bytes)?;
        Ok(Self {
            file,
            label,
            used: None,
        })
    }

    /// Counts bytes of it as long as it is not dropped.
    pub fn count(&mut self, used: &'static AtomicU64, bytes: u64) {
        used.fetch_add(bytes, Ordering::AcqRel);
        self.used = Some((used, bytes));
    }

    /// Sets its first bytes.
    ///
    /// # Errors
    /// The host has no memory left.
    pub fn fill(&self, value: u8, bytes: u64) -> io::Result<()> {
        self.file.write_all_at(&vec![value; bytes as usize], 0)
    }

    fn owned(raw: RawFd) -> io::Result<File> {
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel returned the descriptor just now, and nobody else has it.
        Ok(File::from(unsafe { OwnedFd::from_raw_fd(raw) }))
    }

    /// Takes a file that another process made.
    ///
    /// # Errors
    /// It is no such file.
    pub fn from_file(file: File) -> io::Result<Self> {
        let other = || io::Error::other("the file is no memory of a phantom driver");
        let bytes = file.metadata()?.len().checked_sub(PAGE).ok_or_else(other)?;
        let mut page = [0; 56];
        file.read_exact_at(&mut page, bytes)?;
        let (magic, rest) = page.split_at(MAGIC.len());
        let (content, rest) = rest.split_at(8);
        let (device, rest) = rest.split_at(16);
        let number = |at: usize| {
            let bytes = rest.get(at..at + 8).and_then(|it| it.try_into().ok());
            bytes.map_or(0, u64::from_le_bytes)
        };
        let content = match content[0] {
            1 => Content::Plain,
            2 => Content::Physical,
            3 => Content::Multicast,
            4 => Content::Host,
            _ => return Err(other()),
        };
        if magic != MAGIC || number(8) != bytes {
            return Err(other());
        }
        let label = Label {
            content,
            device: device.try_into().unwrap_or_default(),
            handle_types: u32::try_from(number(0)).map_err(|_| other())?,
            bytes,
        };
        Ok(Self {
            file,
            label,
            used: None,
        })
    }

    /// Duplicates a descriptor of this process and takes its file.
    ///
    /// # Errors
    /// It is not open, or no such file.
    pub fn from_descriptor(number: RawFd) -> io::Result<Self> {
        // SAFETY: the kernel checks the number.
        let raw = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 0) };
        Self::from_file(Self::owned(raw)?)
    }

    /// Opens the file of a handle, which may be of another process.
    ///
    /// # Errors
    /// The process has ended or closed it.
    pub fn open(handle: &[u8; 64]) -> io::Result<Self> {
        let number = |at: usize| {
            let bytes = handle[at..at + 8].try_into();
            bytes.map_or(0, u64::from_le_bytes)
        };
        if &handle[..MAGIC.len()] != MAGIC {
            return Err(io::Error::other("it is no handle of a phantom driver"));
        }
        let (process, descriptor, inode) = (number(16), number(24), number(32));
        let path = format!("/proc/{process}/fd/{descriptor}");
        let file = File::options().read(true).write(true).open(path)?;
        if file.metadata()?.ino() != inode {
            return Err(io::Error::other("the memory of the handle was freed"));
        }
        Self::from_file(file)
    }

    /// A handle for [`Self::open`], valid as long as this is not dropped.
    ///
    /// # Errors
    /// The file cannot be asked.
    pub fn handle(&self) -> io::Result<[u8; 64]> {
        let mut handle = [0; 64];
        handle[..MAGIC.len()].copy_from_slice(MAGIC);
        let numbers = [
            u64::from(std::process::id()),
            u64::from(self.file.as_raw_fd().unsigned_abs()),
            self.file.metadata()?.ino(),
        ];
        for (number, place) in numbers.iter().zip(handle[16..].chunks_mut(8)) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        Ok(handle)
    }

    /// The process that made a handle.
    pub fn process_of(handle: &[u8; 64]) -> u32 {
        let bytes = handle[16..20].try_into();
        bytes.map_or(0, u32::from_le_bytes)
    }

    /// Whether two are one memory.
    pub fn is(&self, other: &Self) -> bool {
        let inode = |of: &Self| of.file.metadata().map(|it| it.ino()).ok();
        inode(self).is_some() && inode(self) == inode(other)
    }

    /// A descriptor for the caller to own.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn descriptor(&self) -> io::Result<RawFd> {
        use std::os::fd::IntoRawFd;
        Ok(self.file.try_clone()?.into_raw_fd())
    }

    /// Maps `bytes` bytes at an address that this driver reserved, or at a new one.
    ///
    /// # Errors
    /// The process has no addresses left.
    pub fn map(&self, at: Option<u64>, offset: u64, bytes: u64) -> io::Result<u64> {
        let (place, fixed) = match at {
            Some(at) => (at as usize, libc::MAP_FIXED),
            None => (0, 0),
        };
        let offset = libc::off_t::try_from(offset).map_err(io::Error::other)?;
        // SAFETY: a fixed address is inside a reservation of this driver, which nothing else uses;
        // otherwise the kernel chooses unused addresses.
        let mapped = unsafe {
            libc::mmap(
                std::ptr::with_exposed_provenance_mut(place),
                bytes as usize,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_NORESERVE | fixed,
                self.file.as_raw_fd(),
                offset,
            )
        };
        address_of(mapped)
    }
}

fn address_of(mapped: *mut c_void) -> io::Result<u64> {
    match mapped == libc::MAP_FAILED {
        true => Err(io::Error::last_os_error()),
        false => Ok(mapped.expose_provenance() as u64),
    }
}

/// Reserves addresses without memory. They are a multiple of `alignment`.
///
/// # Errors
/// The process has no addresses left.
pub fn reserve(bytes: u64, alignment: u64) -> io::Result<u64> {
    let more = bytes.checked_add(alignment);
    let more = more.ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
    // SAFETY: the kernel chooses unused addresses.
    let mapped = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            more as usize,
            libc::PROT_NONE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    let begin = address_of(mapped)?;
    let aligned = begin.next_multiple_of(alignment);
    release(begin, aligned - begin);
    release(aligned + bytes, begin + more - aligned - bytes);
    Ok(aligned)
}

/// Takes the memory from addresses and keeps them reserved, so that later accesses fail.
pub fn withdraw(address: u64, bytes: u64) {
    // SAFETY: the addresses are of this driver, which gives them to nobody any more.
    unsafe {
        libc::mmap(
            std::ptr::with_exposed_provenance_mut(address as usize),
            bytes as usize,
            libc::PROT_NONE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED,
            -1,
            0,
        );
    }
}

/// Gives addresses back.
pub fn release(address: u64, bytes: u64) {
    if bytes > 0 {
        // SAFETY: the addresses are of this driver, and nobody uses them any more.
        unsafe {
            libc::munmap(
                std::ptr::with_exposed_provenance_mut(address as usize),
                bytes as usize,
            );
        }
    }
}

/// Copies within this process. The ranges may overlap.
pub fn copy(to: u64, from: u64, bytes: u64) {
    // SAFETY: both ranges were looked up, or are host memory that the caller vouches for.
    unsafe {
        std::ptr::copy(
            std::ptr::with_exposed_provenance::<u8>(from as usize),
            std::ptr::with_exposed_provenance_mut::<u8>(to as usize),
            bytes as usize,
        );
    }
}

/// Sets bytes within this process.
pub fn fill(to: u64, value: u8, bytes: u64) {
    let to = std::ptr::with_exposed_provenance_mut::<u8>(to as usize);
    // SAFETY: the range was looked up.
    unsafe { to.write_bytes(value, bytes as usize) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_leads_to_the_memory() {
        let label = Label {
            content: Content::Physical,
            device: [7; 16],
            handle_types: 9,
            bytes: 2 * PAGE,
        };
        let own = MemoryFile::new(label).unwrap();
        let handle = own.handle().unwrap();
        let opened = MemoryFile::open(&handle).unwrap();
        assert_eq!(opened.label, label);
        assert!(own.is(&opened));
        assert_eq!(MemoryFile::process_of(&handle), std::process::id());
        let (one, other) = (
            own.map(None, 0, PAGE).unwrap(),
            opened.map(None, 0, PAGE).unwrap(),
        );
        fill(one, 5, 8);
        let mut seen = [0_u8; 8];
        copy(seen.as_mut_ptr().expose_provenance() as u64, other, 8);
        assert_eq!(seen, [5; 8]);
        release(one, PAGE);
        release(other, PAGE);
        drop((own, opened));
        assert!(MemoryFile::open(&handle).is_err());
        assert!(MemoryFile::open(&[0; 64]).is_err());
        assert!(MemoryFile::from_descriptor(0).is_err());
    }

    #[test]
    fn reservations_are_aligned() {
        let at = reserve(PAGE, 2 << 20).unwrap();
        assert!(at.is_multiple_of(2 << 20));
        release(at, PAGE);
    }
}
