//! How a rank joins: unique ids and options.

use std::collections::HashMap;
use std::ffi::{CStr, c_char};
use std::net::TcpListener;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use bootstrap::interface::{self, Wanted};
use bootstrap::member::Meeting;
use bootstrap::{Key, Timing, UniqueId};
use net::Host;

use crate::error::{Code, Fault};

/// Bytes of [`topo_id`].
pub const ID_BYTES: usize = 256;

/// Compare the collectives of all ranks before each runs.
pub const DEBUG: u32 = 1;

/// A unique id: a text with its terminating zero. Each process that knows it can join, so
/// it is a secret.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[allow(non_camel_case_types)]
pub struct topo_id {
    /// The text.
    pub text: [c_char; ID_BYTES],
}

/// Options of a communicator; zeros are the defaults.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[allow(non_camel_case_types)]
pub struct topo_options {
    /// `sizeof(topo_options)`.
    pub bytes: u32,
    /// A sum of `TOPO_DEBUG` and others.
    pub flags: u32,
    /// How long all ranks may take to join, ms. 0 is one minute.
    pub join_timeout_ms: u32,
    /// Longest wait of a call for another rank, ms. 0 is ten minutes.
    pub timeout_ms: u32,
    /// Network interfaces, as `NCCL_SOCKET_IFNAME` names them; may be null.
    pub interfaces: *const c_char,
    /// Replaces the identity of this host, as `NCCL_HOSTID` does; may be null.
    pub host_id: *const c_char,
}

/// Options that were read.
#[derive(Debug, Clone)]
pub struct Chosen {
    /// Whether collectives are compared before they run.
    pub debug: bool,
    /// How long joining may take.
    pub join: Duration,
    /// Longest wait for another rank.
    pub longest_wait: Duration,
    interfaces: Wanted,
    host_id: Option<String>,
}

impl Chosen {
    /// Reads options.
    ///
    /// # Safety
    /// `options` is null or points to options whose texts are null or end with a zero.
    pub unsafe fn read(options: *const topo_options) -> Result<Self, Fault> {
        let mut chosen = Self {
            debug: false,
            join: Duration::from_secs(60),
            longest_wait: Duration::from_secs(600),
            interfaces: Wanted::default(),
            host_id: None,
        };
        // SAFETY: the caller says so.
        let Some(options) = (unsafe { options.as_ref() }) else {
            return Ok(chosen);
        };
        let expected = size_of::<topo_options>();
        if options.bytes as usize != expected {
            let found = options.bytes;
            return Err(Fault::invalid(format!(
                "options.bytes is {found}, expected {expected}: set it to sizeof(topo_options), and take the topo.h \
                 of this library"
            )));
        }
        if options.flags & !DEBUG != 0 {
            let unknown = options.flags & !DEBUG;
            return Err(Fault::invalid(format!(
                "options.flags has unknown bits {unknown:#x}; expected 0 or TOPO_DEBUG"
            )));
        }
        chosen.debug = options.flags & DEBUG != 0;
        if options.join_timeout_ms != 0 {
            chosen.join = Duration::from_millis(options.join_timeout_ms.into());
        }
        if options.timeout_ms != 0 {
            chosen.longest_wait = Duration::from_millis(options.timeout_ms.into());
        }
        // SAFETY: the caller says that they end with a zero.
        chosen.interfaces.names = unsafe { text(options.interfaces) };
        // SAFETY: as above.
        chosen.host_id = unsafe { text(options.host_id) };
        Ok(chosen)
    }

    /// How a rank joins with these options.
    pub fn join(&self, id: &UniqueId, rank: u32, ranks: u32) -> net::Options {
        let meeting = Meeting::Roots(id.roots.clone());
        let root = served().remove(&id.to_string());
        net::Options {
            roots: root.into_iter().map(|root| (0, root)).collect(),
            interfaces: self.interfaces.clone(),
            host: Host::this(self.host_id.as_deref()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            alike: vec![
                ("TOPO_DEBUG".to_owned(), self.debug.to_string()),
                (
                    "timeout_ms".to_owned(),
                    self.longest_wait.as_millis().to_string(),
                ),
            ],
            timing: Timing {
                join: self.join,
                ..Timing::default()
            },
            ..net::Options::new(rank, ranks, id.key.clone(), meeting)
        }
    }

    /// Makes an id. This process serves its root as soon as it joins.
    pub fn new_id(&self) -> Result<UniqueId, Fault> {
        let system = |error: std::io::Error| Fault::new(Code::System, format!("id: {error}"));
        let all = interface::list().map_err(system)?;
        let chosen = interface::choose(&all, &self.interfaces).map_err(Fault::invalid)?;
        let first = chosen
            .first()
            .ok_or_else(|| Fault::invalid("no network interface is up"))?;
        let root = bootstrap::socket::listen(first.address).map_err(system)?;
        let id = UniqueId {
            key: Key::random().map_err(system)?,
            roots: vec![root.local_addr().map_err(system)?],
        };
        served().insert(id.to_string(), root);
        Ok(id)
    }
}

/// The listeners of ids that were made here and not joined yet.
fn served() -> std::sync::MutexGuard<'static, HashMap<String, TcpListener>> {
    static SERVED: LazyLock<Mutex<HashMap<String, TcpListener>>> = LazyLock::new(Mutex::default);
    SERVED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads an id.
pub fn parse(id: &topo_id) -> Result<UniqueId, Fault> {
    let bytes: Vec<u8> = id.text.iter().map(|it| it.cast_unsigned()).collect();
    let text = CStr::from_bytes_until_nul(&bytes).map_err(|_| {
        Fault::invalid("the id does not end: broadcast all bytes of topo_id to the other ranks")
    })?;
    let parsed = text.to_string_lossy().parse::<UniqueId>();
    parsed.map_err(|error| Fault::invalid(error.to_string()))
}

/// The id as bytes.
pub fn write(id: &UniqueId) -> Result<topo_id, Fault> {
    let shown = id.to_string();
    if shown.len() >= ID_BYTES {
        return Err(Fault::new(Code::Internal, "the id is too long"));
    }
    let mut text = [0; ID_BYTES];
    for (to, from) in text.iter_mut().zip(shown.bytes()) {
        *to = from.cast_signed() as c_char;
    }
    Ok(topo_id { text })
}

/// A text of C.
///
/// # Safety
/// It is null or ends with a zero.
unsafe fn text(of: *const c_char) -> Option<String> {
    // SAFETY: the caller says so.
    (!of.is_null()).then(|| unsafe { CStr::from_ptr(of).to_string_lossy().into_owned() })
}
