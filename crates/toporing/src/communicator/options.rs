//! The options of a rank that joins: unique ids and others.

use std::collections::HashMap;
use std::net::TcpListener;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bootstrap::interface::{self, Wanted};
use bootstrap::member::Meeting;
use bootstrap::{Key, Timing, UniqueId};
use device_runtime::LaunchOptions;
use net::Host;
use net::run::RunChannels;
use net::run::channels_of_plan::{Setting, setting};

use crate::communicator::error::{Code, Fault};

/// Options of a communicator.
#[derive(Debug, Clone)]
pub struct Options {
    /// Whether collectives are compared before they run.
    pub debug: bool,
    /// How long joining may take.
    pub join: Duration,
    /// Longest wait for another rank.
    pub longest_wait: Duration,
    /// Whether most buffers are from [`Comm::allocate`](super::Comm::allocate), not of the caller.
    pub allocated_buffers: bool,
    /// Network interfaces, as `NCCL_SOCKET_IFNAME` names them.
    pub interfaces: Option<String>,
    /// Replaces the identity of this host, as `NCCL_HOSTID` does.
    pub host_id: Option<String>,
    /// The plan whose channels, NICs and proxies are used. All ranks give the same.
    pub plan: Option<Arc<RunChannels>>,
    /// The driver's number of this rank's GPU, for collectives on its memory
    /// ([`Comm::run_on`](crate::communicator::Comm::run_on)). All ranks give one, or none does.
    pub gpu: Option<u32>,
    /// Most thread blocks of a collective on this rank's GPU; `None`: 32. A quarter of those that
    /// fit is the most, but for 0: all that fit, only if no other communicator of this process runs
    /// at the same time. All ranks give the same.
    pub blocks: Option<u32>,
    /// NCCL's settings of a plan of which these ranks are a part. Variables of the environment
    /// override them.
    pub settings: Vec<Setting>,
    /// Whether buffers on GPUs are copied where ranks of other processes would have them open:
    /// callers free them while communicators are left.
    pub copies: bool,
}

impl Default for Options {
    /// A minute to join, ten minutes to wait.
    fn default() -> Self {
        Self {
            debug: false,
            join: Duration::from_secs(60),
            longest_wait: Duration::from_secs(600),
            allocated_buffers: false,
            interfaces: None,
            host_id: None,
            plan: None,
            gpu: None,
            blocks: None,
            settings: Vec::new(),
            copies: false,
        }
    }
}

impl Options {
    /// The network interfaces that ranks may use.
    pub fn interfaces(&self) -> Wanted {
        Wanted {
            names: self.interfaces.clone(),
            ..Wanted::default()
        }
    }

    /// The settings of the plan, of these ranks or of which they are a part.
    pub(crate) fn all_settings(&self) -> Vec<Setting> {
        let of_plan = self.plan.iter().flat_map(|plan| &plan.settings);
        self.settings.iter().chain(of_plan).cloned().collect()
    }

    /// How kernels are launched. NVLS is taken from where this plan says.
    pub(crate) fn launches(&self, plan: Option<&RunChannels>) -> LaunchOptions {
        let settings = self.all_settings();
        let environment = |name: &str| std::env::var(name).ok();
        let planned = |name: &str| setting(&settings, name);
        let nvls_from = plan.map_or_else(Vec::new, |plan| plan.nvls_from.clone());
        let usual = LaunchOptions::of(&environment, &planned, nvls_from);
        LaunchOptions {
            opens_regions: !self.copies,
            most_blocks: self.blocks.unwrap_or(usual.most_blocks),
            ..usual
        }
    }

    /// How a rank joins with these options.
    pub fn join(&self, id: &UniqueId, rank: u32, ranks: u32) -> net::Options {
        let meeting = Meeting::Roots(id.roots.clone());
        let roots = served().remove(&id.to_string());
        let usual = LaunchOptions::nccl().most_blocks;
        let most_blocks = self.blocks.unwrap_or(usual);
        net::Options {
            roots: roots.unwrap_or_default(),
            interfaces: self.interfaces(),
            host: Host::this(self.host_id.as_deref()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ports: self.plan.as_ref().map(|plan| Arc::clone(&plan.ports) as _),
            alike: vec![
                ("TOPO_DEBUG".to_owned(), self.debug.to_string()),
                ("TOPO_CUDA".to_owned(), self.gpu.is_some().to_string()),
                ("blocks".to_owned(), most_blocks.to_string()),
                (
                    "TOPO_ALLOCATED".to_owned(),
                    self.allocated_buffers.to_string(),
                ),
                (
                    "timeout_ms".to_owned(),
                    self.longest_wait.as_millis().to_string(),
                ),
                (
                    "plan".to_owned(),
                    self.plan
                        .as_ref()
                        .map_or("none", |plan| &plan.fingerprint)
                        .to_owned(),
                ),
            ],
            timing: Timing {
                join: self.join,
                ..Timing::default()
            },
            ..net::Options::new(rank, ranks, id.key.clone(), meeting)
        }
    }

    /// Makes an id. This process listens for its ranks, and serves them as soon as it joins; an id
    /// with which it never joins is freed with [`free_id`].
    pub fn new_id(&self) -> Result<UniqueId, Fault> {
        let system = |error: std::io::Error| Fault::new(Code::System, format!("id: {error}"));
        let all = interface::list().map_err(system)?;
        let chosen = interface::choose(&all, &self.interfaces()).map_err(Fault::invalid)?;
        let first = chosen
            .first()
            .ok_or_else(|| Fault::invalid("no network interface is up"))?;
        let root = bootstrap::socket::listen(first.address).map_err(system)?;
        let id = UniqueId {
            key: Key::random().map_err(system)?,
            roots: vec![root.local_addr().map_err(system)?],
        };
        hold_root(&id, 0, root);
        Ok(id)
    }
}

/// Serves a root of an id, by its place in it, as soon as this process joins.
pub fn hold_root(id: &UniqueId, place: u32, root: TcpListener) {
    served()
        .entry(id.to_string())
        .or_default()
        .push((place, root));
}

/// Frees an id that [`Options::new_id`] made and with which this process does not join: nobody can
/// join with it any more.
///
/// # Errors
/// It was not made here, was freed, or a rank of this process has joined with it.
pub fn free_id(id: &UniqueId) -> Result<Code, Fault> {
    match served().remove(&id.to_string()) {
        Some(_) => Ok(Code::Ok),
        None => Err(Fault::invalid(
            "the id was not made by this process, was freed before, or a rank of this process joined with it",
        )),
    }
}

/// By id: places of roots, and what listens for them.
type Served = HashMap<String, Vec<(u32, TcpListener)>>;

/// The roots of ids that this process serves and has not joined yet.
fn served() -> MutexGuard<'static, Served> {
    static SERVED: LazyLock<Mutex<Served>> = LazyLock::new(Mutex::default);
    SERVED.lock().unwrap_or_else(PoisonError::into_inner)
}
