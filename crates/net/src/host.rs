//! The identity of this host.

use std::fs;
use std::os::unix::fs::MetadataExt;

use rustix::thread::CpuSet;

/// A host, as a rank on it sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Equal for ranks that can share memory.
    pub identity: u64,
    /// Its name, for reports.
    pub name: String,
    /// Equal for ranks on one machine, in any namespaces.
    pub machine: u64,
    /// The cores that this process may use, one bit each; empty if unknown.
    pub cores: Vec<u8>,
}

impl Host {
    /// This host. `named` (`NCCL_HOSTID`) replaces the identity that is found.
    ///
    /// Hosts differ in the kernel's boot id or in the namespaces of processes and network: ranks in
    /// different ones cannot open each other's memory, or act as different hosts.
    pub fn this(named: Option<&str>) -> Self {
        let node = rustix::system::uname();
        let name = node.nodename().to_string_lossy().into_owned();
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let machine = hash(boot.trim().as_bytes());
        let cores = cores();
        if let Some(named) = named.filter(|it| !it.is_empty()) {
            return Self {
                identity: hash(named.as_bytes()),
                name: format!("{name} ({named})"),
                machine,
                cores,
            };
        }
        let namespace =
            |kind: &str| fs::metadata(format!("/proc/self/ns/{kind}")).map_or(0, |it| it.ino());
        let text = format!(
            "{name} {} {} {}",
            boot.trim(),
            namespace("pid"),
            namespace("net")
        );
        Self {
            identity: hash(text.as_bytes()),
            name,
            machine,
            cores,
        }
    }
}

fn cores() -> Vec<u8> {
    let Ok(set) = rustix::thread::sched_getaffinity(None) else {
        return Vec::new();
    };
    let mut bits = Vec::new();
    for core in (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)) {
        bits.resize(core / 8 + 1, 0);
        bits[core / 8] |= 1_u8 << (core % 8);
    }
    bits
}

/// FNV-1a: equal in all versions of this program.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_itself_and_can_be_named() {
        assert_eq!(Host::this(None), Host::this(Some("")));
        assert_ne!(
            Host::this(Some("a")).identity,
            Host::this(Some("b")).identity
        );
        assert!(Host::this(Some("a")).name.ends_with("(a)"));
        assert_eq!(Host::this(Some("a")).machine, Host::this(None).machine);
        let here = Host::this(None)
            .cores
            .iter()
            .map(|it| it.count_ones())
            .sum();
        let allowed = std::thread::available_parallelism().unwrap().get() as u32;
        assert!(
            (allowed..=1024).contains(&here),
            "{here} cores, {allowed} allowed"
        );
    }
}
