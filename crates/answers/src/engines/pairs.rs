//! Pairs of GPUs with NCCL's transport and the methods of engines, alike ones together.

use plan::{GpuTransport, Plan};
use serde::Serialize;

use super::answer::Asks;
use super::evaluate;
use super::facts::{EngineFacts, Mode};
use super::host::{self, Host, Pair, Peer};
use crate::JsonSchema;

/// Pairs of GPUs that are alike.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Pairs {
    /// Their device numbers.
    pub pairs: Vec<[i32; 2]>,
    /// The widest path, as NCCL names it.
    pub path: &'static str,
    /// NVLink joins them.
    pub nvlink: bool,
    /// What peer access does; null if it is not known.
    pub peer_access: Option<Peer>,
    /// NCCL's transport: `P2P`, `SHM`, `NET`.
    pub nccl: &'static str,
    /// Why NCCL does not use P2P.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nccl_why: Option<String>,
    /// What each engine takes for a job of two such GPUs.
    pub engines: Vec<PairEngine>,
}

/// What an engine takes for two GPUs.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PairEngine {
    /// Its name for commands.
    pub engine: &'static str,
    /// The methods for one row, in order of the possible kinds of peer access.
    pub decode: Vec<String>,
    /// The same for 8192 rows.
    pub prefill: Vec<String>,
}

/// Rows of a message in decoding and in prefill.
const ROWS: [(u64, Mode); 2] = [(1, Mode::Graph), (8192, Mode::Eager)];

/// All pairs of a job.
pub(super) fn all(asks: &Asks<'_>, engines: &[&'static EngineFacts]) -> Vec<Pairs> {
    let nodes = asks.planned.machines().iter().flat_map(|it| &it.nodes);
    let all: Vec<Pair> = nodes.flat_map(|it| host::pairs(it.view.system())).collect();
    let mut groups: Vec<Pairs> = Vec::new();
    for pair in all {
        let (nccl, nccl_why) = transport(asks.planned.plan(), pair.devices);
        let mut peers: Vec<Peer> = asks.peers.to_vec();
        if asks.question.peer_access.is_none() && !pair.nvlink {
            // What holds for all pairs may not for this one.
            match (pair.refused, &peers[..]) {
                (true, _) => peers = vec![Peer::None],
                (false, [Peer::None]) => peers = vec![Peer::Granted],
                _ => {}
            }
        }
        let path = pair.path.name();
        let peer = (peers.len() == 1).then(|| peers[0]);
        let known = groups.iter_mut().find(|it| {
            (it.path, it.nvlink, it.peer_access, it.nccl) == (path, pair.nvlink, peer, nccl)
                && it.nccl_why == nccl_why
        });
        match known {
            Some(known) => known.pairs.push(pair.devices),
            None => groups.push(Pairs {
                pairs: vec![pair.devices],
                path,
                nvlink: pair.nvlink,
                peer_access: peer,
                nccl,
                nccl_why,
                engines: {
                    let hosts: Vec<Host> = peers
                        .iter()
                        .map(|it| asks.host.pair(pair.nvlink, *it))
                        .collect();
                    engines.iter().map(|it| of_pair(asks, it, &hosts)).collect()
                },
            }),
        }
    }
    groups
}

fn of_pair(asks: &Asks<'_>, engine: &'static EngineFacts, hosts: &[Host]) -> PairEngine {
    let [decode, prefill] = ROWS.map(|(rows, mode)| {
        let mut methods: Vec<String> = Vec::new();
        for host in hosts {
            let setup = asks.setup(engine, host);
            let message = evaluate::Message {
                bytes: rows * setup.row(),
                mode: asks.question.mode.unwrap_or(mode),
            };
            let method = setup.taken(message).map(|it| it.method);
            methods.extend(method.filter(|it| !methods.contains(it)));
        }
        methods
    });
    PairEngine {
        engine: &engine.id,
        decode,
        prefill,
    }
}

/// NCCL's transport between two devices, and why it is not P2P.
fn transport(plan: &Plan, devices: [i32; 2]) -> (&'static str, Option<String>) {
    let found = plan.machines.iter().find_map(|machine| {
        machine.groups.iter().find_map(|group| {
            let members = machine.members(group);
            let place = |dev: i32| members.iter().position(|it| it.1 == dev);
            let (from, to) = (place(devices[0])?, place(devices[1])?);
            let transports = group.transports.as_ref()?;
            let at = transports.between.get(from)?.get(to)?;
            transports.distinct.get(usize::from(*at))
        })
    });
    match found {
        Some(GpuTransport::Direct { .. }) => ("P2P", None),
        Some(GpuTransport::SharedMemory { not_direct, .. }) => {
            ("SHM", Some(not_direct.to_string()))
        }
        Some(GpuTransport::Network {
            not_direct,
            not_shared,
        }) => ("NET", Some(format!("{not_direct}; {not_shared}"))),
        None => ("–", None),
    }
}
