//! The options of a rank that joins.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;

use bootstrap::interface::{self, Wanted};
use bootstrap::member::Meeting;
use bootstrap::socket::service::loopback_listener;
use bootstrap::{Key, Timing, UniqueId};
use net_plugin::PluginChoice;

use crate::host::Host;
use crate::ports::Ports;

/// How a rank joins.
#[derive(Debug)]
pub struct Options {
    /// The own rank; the first of this process, if it has several.
    pub rank: u32,
    /// Ranks.
    pub ranks: u32,
    /// Ranks of each process, which are threads of it.
    pub width: u32,
    /// The secret of the job.
    pub key: Key,
    /// How the ranks find each other.
    pub meeting: Meeting,
    /// Roots in this process, by number.
    pub roots: Vec<(u32, TcpListener)>,
    /// Which interfaces to use.
    pub interfaces: Wanted,
    /// This host.
    pub host: Host,
    /// Version of the program.
    pub version: String,
    /// Fingerprint of all inputs that must be equal on all ranks.
    pub fingerprint: [u8; 32],
    /// Options that must be equal on all ranks, by name: an error names the rank that differs.
    pub alike: Vec<(String, String)>,
    /// The device of this rank; may be empty.
    pub device: String,
    /// Timeouts.
    pub timing: Timing,
    /// Whether ranks of one host may share memory (not with `NCCL_SHM_DISABLE`).
    pub share_memory: bool,
    /// Sockets of each connection between hosts.
    pub sockets: u16,
    /// Whether data between hosts has checksums.
    pub checks: bool,
    /// The NICs and proxies that the plan names. Without, channels use the NICs in turn, and each
    /// rank its own proxies.
    pub ports: Option<Arc<dyn Ports>>,
    /// Whether proxies forward for other ranks where the plan says so (not with
    /// `NCCL_PXN_DISABLE`).
    pub pxn: bool,
    /// The net plug-in to use between hosts instead of TCP.
    pub net_plugin: PluginChoice,
}

impl Options {
    /// The defaults: no device, no plan, one socket, all interfaces of this host.
    pub fn new(rank: u32, ranks: u32, key: Key, meeting: Meeting) -> Self {
        Self {
            rank,
            ranks,
            width: 1,
            key,
            meeting,
            roots: Vec::new(),
            interfaces: Wanted::default(),
            host: Host::this(None),
            version: String::new(),
            fingerprint: [0; 32],
            alike: Vec::new(),
            device: String::new(),
            timing: Timing::default(),
            share_memory: true,
            sockets: 1,
            checks: false,
            ports: None,
            pxn: true,
            net_plugin: PluginChoice::Nothing,
        }
    }

    /// A rank of a job on one host, whose ranks use the loopback interface and share memory.
    pub fn loopback(rank: u32, ranks: u32, id: &UniqueId) -> Self {
        let meeting = Meeting::Roots(id.roots.clone());
        Self {
            interfaces: Wanted {
                names: Some("=lo".to_owned()),
                family: Some("AF_INET".to_owned()),
            },
            ..Self::new(rank, ranks, id.key.clone(), meeting)
        }
    }
}

/// A new id of a job on one host, and the listener of its root.
///
/// # Errors
/// The loopback interface is not up, or the system has no descriptor or random bytes left.
pub fn loopback_id() -> io::Result<(UniqueId, TcpListener)> {
    if !interface::list()?
        .iter()
        .any(|it| it.address.ip().is_loopback())
    {
        let why = "the loopback interface is not up (ip link set lo up)";
        return Err(io::Error::new(io::ErrorKind::NetworkDown, why));
    }
    let root = loopback_listener()?;
    let id = UniqueId {
        key: Key::random()?,
        roots: vec![root.local_addr()?],
    };
    Ok((id, root))
}
