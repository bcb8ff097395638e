//! The members of a multicast object. They are in a file, because processes share objects.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::memory_file::{Content, Label, MemoryFile, PAGE};

/// Most devices of an object.
pub const MOST_DEVICES: usize = 32;

/// Time after which the process that holds the lock of an object must have died.
const LOCK_TIME: Duration = Duration::from_secs(5);

/// Memory bound by one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Member {
    /// The device's UUID; zeros: the place is free.
    pub device: [u8; 16],
    /// Bound bytes; 0: none.
    pub bytes: u64,
    /// Offset in the object.
    pub offset: u64,
    /// Offset in the memory.
    pub memory_offset: u64,
    /// The handle of the memory's file.
    pub handle: [u8; 64],
}

/// The file's content.
#[repr(C)]
struct Shared {
    lock: AtomicU32,
    devices: AtomicU32,
    size: AtomicU64,
    /// Increases with every bind and unbind.
    version: AtomicU64,
    members: [Member; MOST_DEVICES],
}

/// A multicast object.
#[derive(Debug)]
pub struct Team {
    /// The file, mapped at `shared`.
    pub file: Arc<MemoryFile>,
    shared: *mut Shared,
    /// Whether this process has bound memory by its address.
    pub by_address: AtomicBool,
    /// Memories of the members, mapped here, and the version at which they were.
    opened: Mutex<(u64, Vec<Opened>)>,
}

/// A member's memory, mapped in this process.
#[derive(Debug, Clone)]
struct Opened {
    member: Member,
    base: u64,
}

// SAFETY: the pointer leads to a mapping that lives as long as this; its fields are atomic or used
// under the lock in it.
unsafe impl Send for Team {}
// SAFETY: as above.
unsafe impl Sync for Team {}

/// Holds the lock of an object until it is dropped.
struct Locked<'a>(&'a Team);

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.0.shared().lock.store(0, Ordering::Release);
    }
}

impl Team {
    /// Makes an object.
    ///
    /// # Errors
    /// The host has no memory left.
    pub fn new(devices: u32, size: u64, handle_types: u32) -> io::Result<Self> {
        let label = Label {
            content: Content::Multicast,
            device: [0; 16],
            handle_types,
            bytes: (size_of::<Shared>() as u64).next_multiple_of(PAGE),
        };
        let team = Self::of(Arc::new(MemoryFile::new(label)?))?;
        team.shared().devices.store(devices, Ordering::Relaxed);
        team.shared().size.store(size, Ordering::Release);
        Ok(team)
    }

    /// Opens an object that another process made.
    ///
    /// # Errors
    /// The process has no addresses left.
    pub fn of(file: Arc<MemoryFile>) -> io::Result<Self> {
        let base = file.map(None, 0, file.label.bytes)?;
        Ok(Self {
            file,
            shared: std::ptr::with_exposed_provenance_mut(base as usize),
            by_address: AtomicBool::new(false),
            opened: Mutex::default(),
        })
    }

    fn shared(&self) -> &Shared {
        // SAFETY: the mapping has the size of `Shared`, is zeroed at first, lives as long as this,
        // and all bit patterns of the fields are valid; members are accessed only by raw pointers.
        unsafe { &*self.shared }
    }

    fn lock(&self) -> Locked<'_> {
        let began = Instant::now();
        let word = &self.shared().lock;
        while word
            .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            if began.elapsed() > LOCK_TIME {
                break;
            }
            std::thread::yield_now();
        }
        Locked(self)
    }

    fn read(&self, _held: &Locked<'_>) -> Vec<Member> {
        // SAFETY: the members are in the mapping, and the lock is held.
        let members = unsafe { (&raw const (*self.shared).members).read_volatile() };
        members
            .into_iter()
            .filter(|it| it.device != [0; 16])
            .collect()
    }

    fn write(&self, _held: &Locked<'_>, members: &[Member]) {
        let mut all = [NOBODY; MOST_DEVICES];
        all[..members.len()].copy_from_slice(members);
        // SAFETY: as in `read`.
        unsafe { (&raw mut (*self.shared).members).write_volatile(all) };
        self.shared().version.fetch_add(1, Ordering::Release);
    }

    /// The number of devices that it is for.
    pub fn devices(&self) -> usize {
        self.shared().devices.load(Ordering::Relaxed) as usize
    }

    /// Its bytes.
    pub fn size(&self) -> u64 {
        self.shared().size.load(Ordering::Acquire)
    }

    /// Adds a device.
    ///
    /// # Errors
    /// It is a member already, or the object has all its devices.
    pub fn add(&self, device: [u8; 16]) -> Result<(), &'static str> {
        let held = self.lock();
        let mut members = self.read(&held);
        if members.iter().any(|it| it.device == device) {
            return Err("the device was added before");
        }
        if members.len() >= self.devices().min(MOST_DEVICES) {
            return Err("all devices of the object were added");
        }
        members.push(Member { device, ..NOBODY });
        self.write(&held, &members);
        Ok(())
    }

    /// Whether a device is a member.
    pub fn has(&self, device: [u8; 16]) -> bool {
        let held = self.lock();
        self.read(&held).iter().any(|it| it.device == device)
    }

    /// The number of devices that were added.
    pub fn added(&self) -> usize {
        let held = self.lock();
        self.read(&held).len()
    }

    /// Binds memory of a member.
    ///
    /// # Errors
    /// The device is no member, or has bound memory before.
    pub fn bind(&self, bound: Member) -> Result<(), &'static str> {
        let held = self.lock();
        let mut members = self.read(&held);
        let own = members.iter_mut().find(|it| it.device == bound.device);
        match own {
            None => return Err("the memory's device was not added to the object"),
            Some(own) if own.bytes > 0 => return Err("the device has bound memory there before"),
            Some(own) => *own = bound,
        }
        self.write(&held, &members);
        Ok(())
    }

    /// Unbinds memory of a member. Returns `false` if it has not bound this range.
    pub fn unbind(&self, device: [u8; 16], offset: u64, bytes: u64) -> bool {
        let held = self.lock();
        let mut members = self.read(&held);
        let bound = |it: &&mut Member| (it.device, it.offset, it.bytes) == (device, offset, bytes);
        let Some(own) = members.iter_mut().find(bound) else {
            return false;
        };
        *own = Member { device, ..NOBODY };
        self.write(&held, &members);
        true
    }

    /// The addresses, in this process, of all members' memory at an offset; empty unless all have
    /// bound memory there.
    pub fn places(&self, offset: u64) -> Vec<u64> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let version = self.shared().version.load(Ordering::Acquire);
        if opened.0 != version {
            let held = self.lock();
            let members = self.read(&held);
            let known = std::mem::take(&mut opened.1);
            let reopened = members.iter().map(|member| open(member, &known));
            let reopened: Option<Vec<Opened>> = reopened.collect();
            *opened = (version, reopened.unwrap_or_default());
        }
        if opened.1.len() != self.devices() {
            return Vec::new();
        }
        let place = |it: &Opened| {
            let inside = offset.checked_sub(it.member.offset)?;
            (inside < it.member.bytes).then_some(it.base + inside)
        };
        let places: Option<Vec<u64>> = opened.1.iter().map(place).collect();
        places.unwrap_or_default()
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        let base = self.shared.expose_provenance() as u64;
        crate::memory_file::release(base, self.file.label.bytes);
    }
}

/// A place without a member.
const NOBODY: Member = Member {
    device: [0; 16],
    bytes: 0,
    offset: 0,
    memory_offset: 0,
    handle: [0; 64],
};

/// Maps a member's memory unless it is mapped already. It stays mapped.
fn open(member: &Member, known: &[Opened]) -> Option<Opened> {
    if member.bytes == 0 {
        return None;
    }
    if let Some(known) = known.iter().find(|it| it.member == *member) {
        return Some(known.clone());
    }
    let file = MemoryFile::open(&member.handle).ok()?;
    let base = file.map(None, member.memory_offset, member.bytes).ok()?;
    Some(Opened {
        member: *member,
        base,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_members_bind_before_it_has_places() {
        let team = Team::new(2, 2 * PAGE, 1).unwrap();
        let memory = |device: u8| {
            let label = Label {
                content: Content::Physical,
                device: [device; 16],
                handle_types: 1,
                bytes: 2 * PAGE,
            };
            MemoryFile::new(label).unwrap()
        };
        let memories = [memory(1), memory(2)];
        let bound = |at: usize| Member {
            device: [at as u8 + 1; 16],
            bytes: 2 * PAGE,
            offset: 0,
            memory_offset: 0,
            handle: memories[at].handle().unwrap(),
        };
        assert!(team.bind(bound(0)).is_err());
        team.add([1; 16]).unwrap();
        assert!(team.add([1; 16]).is_err());
        team.add([2; 16]).unwrap();
        assert!(team.add([3; 16]).is_err());
        team.bind(bound(0)).unwrap();
        assert!(team.bind(bound(0)).is_err());
        assert!(team.places(0).is_empty());
        // Another process sees the same.
        let other = Team::of(Arc::new(
            MemoryFile::open(&team.file.handle().unwrap()).unwrap(),
        ));
        let other = other.unwrap();
        other.bind(bound(1)).unwrap();
        assert_eq!(
            (other.devices(), other.size(), other.added()),
            (2, 2 * PAGE, 2)
        );
        assert_eq!(team.places(8).len(), 2);
        assert!(team.places(2 * PAGE).is_empty());
        assert!(!other.unbind([1; 16], 0, PAGE));
        assert!(other.unbind([1; 16], 0, 2 * PAGE));
        assert!(team.places(0).is_empty());
    }
}
