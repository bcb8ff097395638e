//! Paths that NCCL takes and that carry nothing, by its log.

use findings::causes::Certainty::{Likely, Possible};
use findings::causes::table::{network, pcie};
use records::nccl_log::Log;
use records::nccl_log::log::{Communicator, RankFacts};

use crate::verdict::{Line, MOST_LINES, Verdict};

/// Hosts of which some reach each other and others do not: the rings connect, a tree does not.
/// `failed` has the lines about queue pairs that do not connect.
pub(crate) fn trees(log: &Log, failed: &Verdict) -> Option<Verdict> {
    // Two hosts are neighbors in each tree, too.
    const HOSTS: u32 = 3;
    let is_connected = |it: &RankFacts, of: &str| it.connected.iter().any(|it| it == of);
    let has_rings_only = |it: &&Communicator| {
        let members = || it.members.iter();
        it.nodes >= HOSTS
            && members().any(|it| is_connected(it, "rings"))
            && !members().any(|it| is_connected(it, "trees"))
    };
    let communicator = log.communicators.iter().find(has_rings_only)?;
    let what = format!(
        "The rings of {} hosts connect, and a connection of the trees fails: some hosts have no path between them.",
        communicator.nodes
    );
    Some(Verdict {
        lines: failed.lines.clone(),
        ..Verdict::new(&network::SWITCHLESS, Possible, what)
    })
}

/// A host whose first collective hangs, where GPUs write to each other through the CPU. `pair`: two
/// GPUs that a listing joins so. `found`: what else is known.
pub(crate) fn through_host(
    log: &Log,
    pair: Option<(String, String)>,
    found: &[Verdict],
) -> Option<Verdict> {
    let is_off = |it: &records::nccl_log::log::HostFacts| {
        it.settings.contains_key("NCCL_P2P_DISABLE") || it.settings.contains_key("NCCL_P2P_LEVEL")
    };
    let [(host, facts)] = log.hosts.iter().collect::<Vec<_>>()[..] else {
        return None;
    };
    let members = log.communicators.iter().flat_map(|it| &it.members);
    let kinds = members.flat_map(|it| it.transports.keys());
    let has_direct = kinds.clone().any(|it| it.starts_with("P2P/"));
    let graphs = log.communicators.iter().flat_map(|it| &it.decisions.graphs);
    let through = ["PHB", "SYS"];
    let is_through = |types: &str| through.iter().any(|it| types.starts_with(it));
    let graph = graphs.clone().find(|it| is_through(&it.types));
    if is_off(facts) || !has_direct || (graph.is_none() && pair.is_none()) {
        return None;
    }
    // Who blames a rank knows better.
    if found.iter().any(|it| !it.ranks.is_empty()) {
        return None;
    }
    let obstacles = found
        .iter()
        .filter(|it| *it.cause == pcie::ACS_REDIRECT || *it.cause == pcie::IOMMU_TRANSLATES);
    let lines: Vec<Line> = obstacles.flat_map(|it| it.lines.iter().cloned()).collect();
    let certainty = if lines.is_empty() { Possible } else { Likely };
    let joined = match (&pair, graph) {
        (Some((one, other)), _) => format!("{one} and {other}"),
        (None, Some(graph)) => format!("GPUs (the graph has type {})", graph.types),
        (None, None) => return None,
    };
    let what = format!(
        "The first collective of {host} hangs, and {joined} write to each other through the CPU."
    );
    Some(Verdict {
        hosts: vec![host.clone()],
        devices: pair.map_or_else(Vec::new, |(one, other)| vec![one, other]),
        lines: lines.into_iter().take(MOST_LINES).collect(),
        ..Verdict::new(&pcie::P2P_HANGS, certainty, what)
    })
}
