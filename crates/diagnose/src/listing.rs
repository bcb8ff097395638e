//! Listings of a machine: `nvidia-smi topo -m`, `lspci -vv`, `ibstat` and others.

use causes::Cause;
use causes::table::network;
use findings::Rule;
use listings::matrix::{Matrix, Nearness};
use listings::{Listings, Machine};

/// The rules of `topo doctor` whose findings are in the listing itself. Those of others depend on
/// what is assumed where a listing says nothing.
const SHOWN: [Rule; 4] = [Rule::Width, Rule::Speed, Rule::AccessControl, Rule::Iommu];

/// Whether a text begins with a listing.
pub(crate) fn is_listing(first: &[u8]) -> bool {
    let has = |words: &str| first.windows(words.len()).any(|it| it == words.as_bytes());
    ["\tGPU0", "LnkCap:", "LnkSta:", "CA type:", "hca_id:"]
        .into_iter()
        .any(has)
        || (has("GPU0 ") && has("GPU1 ") && has("PHB"))
}

/// The causes that a listing shows, each with its devices. None is known to slow the job.
pub(crate) fn shown(name: &str, facts: &Listings) -> Vec<(&'static Cause, String)> {
    let machine = Machine::of(name, facts);
    let findings = machine.map_or_else(|_| Vec::new(), |it| it.findings());
    let findings = findings.iter().filter(|it| SHOWN.contains(&it.rule));
    let shown = findings.filter_map(|it| {
        let text = format!("{}: {}, expected {}", it.device(), it.seen, it.expected);
        Some((it.rule.cause()?, text))
    });
    // Ports are known also where no listing names the GPUs.
    let down = facts
        .adapters
        .iter()
        .filter(|it| it.is_active == Some(false));
    let down = down.map(|it| (&network::PORT_DOWN, format!("{}: down", it.name)));
    let apart = facts.matrix.as_ref().and_then(apart);
    shown.chain(down).chain(apart).collect()
}

/// GPUs whose path to each NIC crosses the link between sockets.
fn apart(matrix: &Matrix) -> Option<(&'static Cause, String)> {
    let is_apart = |row: &[Nearness]| {
        let mut nics = matrix
            .devices
            .iter()
            .zip(row)
            .filter(|it| it.0.gpu.is_none());
        nics.clone().next().is_some() && nics.all(|it| *it.1 == Nearness::Sys)
    };
    let gpus = matrix.devices.iter().zip(&matrix.nearness);
    let apart = gpus.filter(|(device, row)| device.gpu.is_some() && is_apart(row));
    let apart: Vec<&str> = apart.map(|it| it.0.name.as_str()).collect();
    let text = format!("{}: SYS to each NIC", apart.join(", "));
    (!apart.is_empty()).then_some((&network::NO_NEAR_NIC, text))
}
