//! Small machines on which versions of NCCL decide differently. The published binaries answered the
//! same (`crates/cli/tests/nccl_check/answers.rs` asks them).

mod common;

use std::path::Path;
use std::sync::Arc;

use planner::{Job, NcclVersion, Planned, Settings};

use NcclVersion::{V2_27, V2_28, V2_29, V2_30, V2_31, V2_32};
use plan::{Connection, GraphKind};

/// Plans equal hosts like a machine of `machines/`, each port a device of its own.
fn plan(machine: &str, hosts: u32, version: NcclVersion) -> Planned {
    let file = format!("{machine}.xml");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machines");
    let text = std::fs::read(folder.join(&file)).unwrap();
    let document = Arc::new(topology::xml::parse(&file, &text).unwrap());
    let job = Job {
        physical_ports: true,
        ..Job::hosts(document, hosts)
    };
    planner::plan(&job, &Settings::with_variables(version, Vec::new())).unwrap()
}

/// For each channel of the first host's ring the ports by which it enters and leaves.
fn ring_ports(planned: &Planned) -> Vec<[i64; 2]> {
    let ring = planned.node(0).graph(GraphKind::Ring).unwrap();
    ring.channels.iter().filter_map(|it| it.nets).collect()
}

/// A guid without `0x` is 0 in 2.27, so both ports are one, and the channels share its bandwidth.
#[test]
fn guids_without_prefix() {
    let both = vec![[0, 0], [1, 1]];
    for (version, ports) in [(V2_27, vec![[0, 1]]), (V2_28, both.clone()), (V2_32, both)] {
        let planned = plan("plain-guids", 2, version);
        assert_eq!(ring_ports(&planned), ports, "{version}");
    }
}

/// GPUs of one host that reach the network better than each other use it, but for 2.30.
#[test]
fn nodes_of_one_host() {
    for version in [V2_27, V2_28, V2_29, V2_30, V2_31, V2_32] {
        let planned = plan("far-gpus", 1, version);
        assert_eq!(planned.job.layout().nodes(), 2);
        let between = planned.job.expansion.connection(0, 1, GraphKind::Ring, 0);
        let shared = matches!(between, Ok(Connection::SharedMemory { .. }));
        assert_eq!(shared, version == V2_30, "{version}: {between:?}");
    }
}

/// Ports of a rail are taken by plane from 2.32 on, whether the file or the number of the port says
/// the plane.
#[test]
fn planes_of_a_rail() {
    for (version, ports) in [(V2_31, [0, 1, 2, 3]), (V2_32, [1, 0, 3, 2])] {
        let planned = plan("planes", 2, version);
        assert_eq!(
            ring_ports(&planned),
            ports.map(|port| [port; 2]),
            "{version}"
        );
    }
}
