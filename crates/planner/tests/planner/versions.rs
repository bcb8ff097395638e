//! Small machines on which versions of NCCL decide differently. The published binaries answered the
//! same (`crates/cli/tests/nccl_check/answers.rs` asks them).

use std::path::Path;
use std::sync::Arc;

use planner::{Error, HostEdit, Job, NcclVersion, Note, Planned, Settings};
use topology::edit::Edit;

use NcclVersion::{V2_27, V2_28, V2_29, V2_30, V2_31, V2_32};
use plan::{Connection, GraphKind};

/// Equal hosts like a machine of `machines/`, each port a device of its own.
fn job(machine: &str, hosts: u32) -> Job {
    let file = format!("{machine}.xml");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machines");
    let text = std::fs::read(folder.join(&file)).unwrap();
    let document = Arc::new(topology::xml::parse(&file, &text).unwrap());
    Job {
        physical_ports: true,
        ..Job::hosts(document, hosts)
    }
}

fn plan_job(job: &Job, version: NcclVersion, variables: &[(&str, &str)]) -> Planned {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let variables: Vec<_> = variables.iter().map(owned).collect();
    planner::plan(job, &Settings::with_variables(version, variables)).unwrap()
}

fn plan(machine: &str, hosts: u32, version: NcclVersion) -> Planned {
    plan_job(&job(machine, hosts), version, &[])
}

/// For each channel of the first host's ring its ports: where it enters and where it leaves.
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

/// Elements with the name of an earlier one are no ports of their own.
#[test]
fn ports_of_one_name() {
    for version in [V2_27, V2_28, V2_29, V2_30, V2_31, V2_32] {
        let planned = plan("one-name", 2, version);
        let system = planned.node(0).view.system();
        assert_eq!(system.count(topology::NodeType::Net), 2, "{version}");
        assert_eq!(ring_ports(&planned)[..2], [[0, 0], [1, 1]], "{version}");
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

/// Before 2.29 the ranks of unequal hosts count different channels to a peer.
#[test]
fn peers_of_unequal_hosts() {
    let (wide, narrow) = (job("two-ports", 1).hosts, job("plain-guids", 2).hosts);
    // Six ranks crowd two channels, so a peer gets as many as a GPU's own link has ports.
    let variables = [("NCCL_MAX_NCHANNELS", "2")];
    let counted = |hosts: Vec<planner::EqualHosts>, version| {
        let job = Job {
            physical_ports: true,
            ..Job::of(hosts)
        };
        let planned = plan_job(&job, version, &variables);
        let expansion = &planned.job.expansion;
        let nodes = (0..3).map(|node| expansion.layout().node(node).unwrap());
        let own: Vec<u32> = nodes.map(|node| expansion.per_peer(node)).collect();
        let said = planned
            .notes
            .iter()
            .any(|note| matches!(note, Note::PeerChannels { .. }));
        (expansion.common().p2p.per_peer, own, said)
    };
    let wide_first = [wide.clone(), narrow.clone()].concat();
    let narrow_first = [narrow, wide].concat();
    for version in [V2_27, V2_28] {
        assert_eq!(
            counted(wide_first.clone(), version),
            (2, vec![2, 1, 1], true)
        );
        assert_eq!(
            counted(narrow_first.clone(), version),
            (1, vec![1, 1, 2], true)
        );
    }
    let (common, own, said) = counted(wide_first, V2_29);
    assert_eq!((own, said), (vec![common; 3], false));
}

/// NCCL hangs its socket below the first CPU of a file without ports, so that CPU comes first,
/// although the first GPU is below another.
#[test]
fn files_without_ports() {
    let numa = |planned: &Planned| {
        let cpus = &planned.machines()[0].document.root.children;
        cpus.iter()
            .map(|cpu| cpu.get("numaid").unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    for version in [V2_27, V2_32] {
        let planned = plan("no-ports", 1, version);
        assert_eq!(numa(&planned), ["0", "1"]);
        assert!(planned.notes.is_empty());
        let planned = plan("no-ports", 2, version);
        assert!(planned.job.common().channels.count() > 0);
        assert!(matches!(&planned.notes[..], [Note::Sockets { .. }]));
    }
    // As it is, and after the failure of a device that may have had ports, there are none.
    let as_is = Job {
        as_is: true,
        ..job("no-ports", 2)
    };
    let mut failed = job("no-ports", 2);
    failed.hosts[0].edits = vec![HostEdit::Failure(Edit::without("mlx5_0").unwrap())];
    for job in [as_is, failed] {
        let planned = planner::plan(&job, &Settings::default());
        assert!(matches!(planned.err(), Some(Error::NoNet { .. })));
    }
}
