//! The constants of NCCL 2.32.6's pipeline model, which holds on Rubin. Source: NCCL's public
//! source after 2.32.3, which may have been refined before 2.32.6; no binary has judged it.

use plan::Algorithm;
use plan::cost::{PipelineCosts, PipelineEntry};
use program::Protocol;
use topology::PathType;

use super::inputs::Inputs;
use super::profile::{CostProfile, Hardware};
use crate::rules::Rules;

/// What remains of the links' bandwidth with NVLS.
pub(super) const NVLS_EFFICIENCY: f64 = 0.87;

/// Algorithms with the round trips of a step over NVLink and over the network, µs (LL, LL128,
/// Simple).
const ROUNDS_US: [(Algorithm, [f64; 3], [f64; 3]); 4] = [
    (Algorithm::Tree, [3.49, 4.88, 10.99], [19.56, 27.64, 36.32]),
    (Algorithm::Ring, [4.03, 5.46, 14.26], [8.19, 11.29, 15.59]),
    (Algorithm::Nvls, [0.0, 0.0, 41.35], [0.0, 0.0, 18.0]),
    (Algorithm::NvlsTree, [0.0, 0.0, 40.48], [0.0, 0.0, 34.37]),
];

/// Whether a communicator's times follow the model.
pub(super) const fn holds(inputs: &Inputs, rules: Rules) -> bool {
    rules.prices_pipelines && rules.is_rubin(inputs.min_cc)
}

/// The model of a communicator. Assumes that one thread block works on each channel of rings and
/// trees, because it is not known where NCCL sets their number.
pub(super) fn of(inputs: &Inputs, profile: &CostProfile, rules: Rules) -> Option<PipelineCosts> {
    let entry = |algorithm: Algorithm, protocol: Protocol, rounds: [&[f64; 3]; 2]| {
        let graph = inputs.graph(algorithm);
        let nvlink = graph.type_intra == PathType::Nvl;
        let pci = profile.hardware_latency_us.of(Hardware::Pci);
        let inside = match nvlink {
            true => rounds[0][protocol as usize],
            false => pci.of(algorithm, protocol),
        };
        let outside = match inputs.nodes {
            1 => inside,
            _ => rounds[1][protocol as usize],
        };
        let share = if algorithm.is_nvls() {
            NVLS_EFFICIENCY
        } else {
            1.0
        };
        PipelineEntry {
            algorithm,
            protocol,
            base_us: profile.base_latency_us.of(algorithm, protocol),
            round_us: [inside, outside],
            bandwidth: [f64::from(graph.bw_intra) * share, graph.bw_inter.into()],
            channels: graph.channels,
            blocks: 1,
        }
    };
    let entries = ROUNDS_US.iter().flat_map(|(algorithm, nvlink, net)| {
        let simple_only = algorithm.is_nvls();
        let protocols = Protocol::ALL.into_iter();
        let protocols = protocols.filter(move |it| !simple_only || *it == Protocol::Simple);
        protocols.map(move |protocol| entry(*algorithm, protocol, [nvlink, net]))
    });
    holds(inputs, rules).then(|| PipelineCosts {
        entries: entries.collect(),
        min_local_ranks: inputs.min_local_ranks,
    })
}
