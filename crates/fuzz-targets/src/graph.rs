//! NCCL's graph files. An accepted file can be written, and the planner takes it in place of a
//! search.

use plan::nccl_graph::{self, GpuAddress, GraphFile};
use plan::{Graph, GraphKind};
use planner::Settings;
use topology::System;
use topology::xml::Document;

use crate::input::{Depth, below, checked, flag, join, split};
use crate::jobs;

const KINDS: [GraphKind; 5] = [
    GraphKind::Ring,
    GraphKind::Tree,
    GraphKind::CollnetDirect,
    GraphKind::CollnetChain,
    GraphKind::Nvls,
];

thread_local! {
    /// Machines that the file may belong to.
    static MACHINES: Vec<Document> = ["workstation-2gpu-nvlink", "gh200", "random-00181"]
        .map(jobs::document)
        .to_vec();
}

/// NCCL's dumps of small machines.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    MACHINES.with(|machines| {
        for (number, document) in machines.iter().enumerate() {
            let planned = jobs::planned(document, 1, false, &Settings::default());
            let text = planned.expect("it can be planned").graph_file();
            let text = text.expect("it can be written");
            seeds.push(text.clone().into_bytes());
            seeds.push(join(text.as_bytes(), &[number as u8, 1, 1]));
        }
    });
    seeds
}

fn addresses(system: &System) -> Vec<GpuAddress> {
    let address = |(node, gpu): (topology::NodeId, &topology::Gpu)| GpuAddress {
        rank: gpu.rank,
        host: system.node(node).id.system(),
        dev: gpu.dev,
    };
    system.gpus().map(address).collect()
}

/// Reads a graph file and plans with it.
///
/// # Panics
/// An accepted graph reads back differently after it was written.
pub fn run(bytes: &[u8]) -> Depth {
    let (document, mut choices) = split(bytes);
    let text = String::from_utf8_lossy(document);
    let Some(file) = checked(GraphFile::parse("fuzz.xml", &text)) else {
        return Depth::Outside;
    };
    for warning in file.warnings() {
        let _ = warning.to_string();
    }
    MACHINES.with(|machines| {
        let machine = &machines[below(&mut choices, machines.len())];
        let (hosts, cross_nic) = (1 + u32::from(flag(&mut choices)), flag(&mut choices));
        let system = System::from_document(machine).expect("a machine of the repository");
        let gpus = addresses(&system);
        let mut found = Vec::new();
        for kind in KINDS {
            let Some(read) = checked(file.graph(kind, &gpus, cross_nic)) else {
                return Depth::Inside;
            };
            for warning in &read.warnings {
                let _ = warning.to_string();
            }
            found.extend(read.graph);
        }
        rewrite(&found, &gpus);
        let settings = Settings {
            graphs: Some(file),
            ..Settings::default()
        };
        Depth::accepted_if(
            checked(jobs::planned(machine, hosts, false, &settings)).is_some(),
            Depth::Inside,
        )
    })
}

/// Checks that written graphs read back the same.
fn rewrite(graphs: &[Graph], gpus: &[GpuAddress]) {
    let Some(text) = checked(nccl_graph::write(graphs, gpus)) else {
        return;
    };
    let file = GraphFile::parse("again.xml", &text).expect("what was written can be read");
    for graph in graphs {
        let again = file.graph(graph.kind, gpus, true);
        let again = again.unwrap_or_else(|error| panic!("{error}\n{text}"));
        let again = again.graph.expect("a graph of this kind was written");
        assert_eq!(again.channels, graph.channels, "{text}");
    }
}
