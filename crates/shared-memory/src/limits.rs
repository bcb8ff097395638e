//! Limits on the memory of this process: the machine's, its container's and its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::process::{Resource, getrlimit};

use crate::error::Error;

/// Bytes of memory and swap that this machine has, or that the control group of this process may
/// use.
pub fn machine_bytes() -> u64 {
    static OF_GROUP: OnceLock<u64> = OnceLock::new();
    let info = rustix::system::sysinfo();
    let machine = (info.totalram + info.totalswap) * u64::from(info.mem_unit);
    machine.min(*OF_GROUP.get_or_init(group_bytes))
}

/// The lowest limit of the control groups of this process; `u64::MAX` without a limit.
fn group_bytes() -> u64 {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let files = groups.lines().filter_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        // Version 2 has one hierarchy for all controllers, version 1 one for each.
        let (tree, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            "memory" => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            _ => return None,
        };
        let path = Path::new(tree).join(path.trim_start_matches('/'));
        Some((tree, path, file))
    });
    let limits = files.flat_map(|(tree, path, file)| {
        let holders: Vec<PathBuf> = path.ancestors().map(|it| it.join(file)).collect();
        holders.into_iter().filter(move |it| it.starts_with(tree))
    });
    // Without a limit the file is missing or contains a word.
    let limits = limits.filter_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok());
    limits.min().unwrap_or(u64::MAX)
}

/// Bytes of address space that this process may still map; `None` without a limit.
pub fn address_space_left() -> Option<u64> {
    let limit = getrlimit(Resource::As).current?;
    Some(limit.saturating_sub(mapped_bytes()))
}

/// Most bytes of a file of this process; `None` without a limit.
pub fn file_bytes() -> Option<u64> {
    getrlimit(Resource::Fsize).current
}

/// Bytes of address space that this process has mapped.
fn mapped_bytes() -> u64 {
    let pages = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = pages.split_whitespace().next();
    let pages: u64 = pages.and_then(|it| it.parse().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}

/// Refuses what cannot fit, before the kernel kills a process to make room.
pub(crate) fn check_size(name: &str, bytes: usize) -> Result<(), Error> {
    let machine_bytes = machine_bytes();
    if bytes as u64 > machine_bytes {
        return Err(Error::TooLarge {
            name: name.to_owned(),
            bytes: bytes as u64,
            machine_bytes,
        });
    }
    Ok(())
}

/// Refuses a file beyond the limit, for which the kernel would kill this process (SIGXFSZ).
pub(crate) fn check_file(name: &str, bytes: usize) -> Result<(), Error> {
    match file_bytes() {
        Some(limit) if bytes as u64 > limit => Err(Error::FileLimit {
            name: name.to_owned(),
            bytes: bytes as u64,
            limit,
        }),
        _ => Ok(()),
    }
}

/// The error of a mapping that the kernel refused, if the address space is used up.
pub(crate) fn address_error(name: &str, bytes: usize) -> Option<Error> {
    let limit = getrlimit(Resource::As).current?;
    let mapped = mapped_bytes();
    (mapped.saturating_add(bytes as u64) > limit).then(|| Error::AddressLimit {
        name: name.to_owned(),
        bytes: bytes as u64,
        mapped,
        limit,
    })
}
