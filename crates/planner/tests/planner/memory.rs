//! Memory of communicators, as NCCL's libraries allocated it on phantom GPUs.

use std::collections::BTreeMap;
use std::path::Path;

use plan::Algorithm;
use planner::memory::{Bytes, MemorySettings, MemoryUse, NodeMemory, Purpose, Stage, of_node};
use planner::{Job, NcclVersion, Planned, Settings, with_gpus};

const MIB: u64 = 1 << 20;

/// Every algorithm connects at the start.
const AT_ONCE: (&str, &str) = ("NCCL_RUNTIME_CONNECT", "0");

struct Case<'a> {
    machine: &'a str,
    gpus: &'a [i32],
    hosts: u32,
    version: NcclVersion,
    variables: &'a [(&'a str, &'a str)],
}

impl Case<'_> {
    const H100: Self = Case {
        machine: "dgx-h100",
        gpus: &[],
        hosts: 1,
        version: NcclVersion::V2_30,
        variables: &[],
    };

    fn plan(&self) -> Planned {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../topologies");
        let bytes = std::fs::read(folder.join(self.machine).join("topology.xml")).unwrap();
        let document = topology::xml::parse(self.machine, &bytes).unwrap();
        let document = match self.gpus {
            [] => document,
            gpus => with_gpus(&document, gpus),
        };
        let variables = self.variables.iter();
        let variables = variables.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let settings = Settings::with_variables(self.version, variables);
        planner::plan(&Job::hosts(document, self.hosts), &settings).unwrap()
    }

    fn memory(&self, usage: &MemoryUse) -> NodeMemory {
        let planned = self.plan();
        let settings = MemorySettings::of(&planned.settings);
        let expansion = planned.plan().expansion().unwrap();
        let node = expansion.layout().node(0).unwrap();
        of_node(expansion, node, usage, &settings, planned.settings.rules).unwrap()
    }

    /// MiB on the GPU of each rank: without and with transfers between all.
    fn mebibytes(&self) -> Vec<[u64; 2]> {
        let usage = MemoryUse {
            peers: true,
            ..MemoryUse::default()
        };
        let ranks = self.memory(&usage).ranks;
        let of = |late: bool| move |stage: Stage| (stage == Stage::Peers) == late;
        let rows = ranks
            .values()
            .map(|ledger| [false, true].map(|late| ledger.total(of(late)).device / MIB));
        rows.collect()
    }
}

/// What the libraries allocated on eight H100 when all connects at the start.
#[test]
fn everything_that_nccl_allocates_is_counted() {
    use NcclVersion::{V2_27, V2_28, V2_30, V2_31, V2_32};
    for (machine, version, hosts, first, second) in [
        ("dgx-h100", V2_27, 1, [1286, 2688], [1334, 2688]),
        ("dgx-h100", V2_28, 1, [1270, 2688], [1318, 2688]),
        ("dgx-h100", V2_30, 1, [1270, 2688], [1318, 2688]),
        ("dgx-h100", V2_31, 1, [1272, 2688], [1320, 2688]),
        ("dgx-h100", V2_32, 1, [1272, 2688], [1320, 2688]),
        ("dgx-h100", V2_27, 2, [1306, 200], [1322, 200]),
        ("dgx-h100", V2_30, 2, [1306, 368], [1322, 368]),
        ("dgx-h100", V2_32, 2, [1308, 368], [1324, 368]),
        ("aws-p5", V2_27, 2, [4518, 296], [4518, 296]),
        ("aws-p5", V2_31, 2, [4424, 296], [4424, 296]),
        ("aws-p5", V2_32, 2, [3624, 296], [3584, 296]),
        ("dgx-a100", V2_28, 2, [796, 200], [796, 200]),
        // GPUs relay; what they connect at the start is not used later.
        ("dgx-1v", V2_30, 1, [612, 216], [616, 216]),
    ] {
        let case = Case {
            machine,
            hosts,
            version,
            variables: &[AT_ONCE],
            ..Case::H100
        };
        let found = case.mebibytes();
        assert_eq!(
            found[..2],
            [first, second],
            "{machine} × {hosts}, {version}"
        );
    }
}

/// Channels to other ranks, as NCCL's library of 2.27 connected them.
#[test]
fn peers_of_2_27_meet_at_triangular_distances() {
    let case = Case {
        machine: "aws-p5",
        hosts: 2,
        version: NcclVersion::V2_27,
        ..Case::H100
    };
    let planned = case.plan();
    let expansion = planned.plan().expansion().unwrap();
    let rounds = expansion.schedule(0).map(|round| round.send);
    assert!(rounds.take(8).eq([0, 1, 3, 6, 2, 7, 5, 4]));
    let channels: BTreeMap<_, _> = expansion.peer_channels(0).unwrap().into_iter().collect();
    for peer in 1..8 {
        assert!(channels[&peer].iter().eq(&[0, 32]), "{channels:?}");
    }
    assert!(channels[&8].iter().eq(&[1, 33]), "{channels:?}");
}

/// NCCL 2.32 binds the memory of a communicator to one multicast object, others make two.
#[test]
fn multicast_objects_are_counted() {
    for (version, start, all) in [(NcclVersion::V2_30, 1, 2), (NcclVersion::V2_32, 1, 1)] {
        let case = Case {
            version,
            ..Case::H100
        };
        let objects = |algorithms: &[Algorithm]| {
            let memory = case.memory(&MemoryUse {
                algorithms: algorithms.to_vec(),
                peers: false,
            });
            memory.multicast_objects.values().sum::<u32>()
        };
        assert_eq!(objects(&[]), start);
        assert_eq!(objects(&[Algorithm::Nvls]), all);
    }
}

/// Without algorithms a communicator of NCCL 2.30 took 230 MiB on each GPU.
#[test]
fn algorithms_connect_when_they_are_taken() {
    let memory = Case::H100.memory(&MemoryUse::default());
    let totals = memory
        .ranks
        .values()
        .map(|ledger| ledger.total(|_| true).device);
    assert!(totals.into_iter().all(|bytes| bytes == 230 * MIB));
    let ring = MemoryUse {
        algorithms: vec![Algorithm::Ring],
        peers: false,
    };
    let ring = Case::H100.memory(&ring);
    // 24 channels: a buffer of 10 MiB for receiving, and a page of 2 MiB for sending.
    let bytes = ring.ranks[&0].total(|stage| stage == Stage::Ring).device;
    assert_eq!(bytes, 24 * 12 * MIB);
    assert_eq!(ring.ranks[&0].connections[&Stage::Ring], 48);
}

/// PAT of several ranks of a node: forced before 2.31 it connects ranks at distances 1, 2, 4 and 8;
/// from 2.31 on heads of NVLink SHARP of the same number, and takes NVLink SHARP's buffers.
#[test]
fn pat_of_several_ranks_of_a_node() {
    let usage = MemoryUse {
        algorithms: vec![Algorithm::Pat],
        peers: false,
    };
    for (version, peers, has_buffers) in [
        (NcclVersion::V2_30, 7, false),
        (NcclVersion::V2_31, 1, true),
    ] {
        let case = Case {
            hosts: 2,
            version,
            variables: &[("NCCL_PAT_ENABLE", "1")],
            ..Case::H100
        };
        let planned = case.plan();
        let channels = planned.job.common().channels.count();
        let memory = case.memory(&usage);
        let ledger = &memory.ranks[&0];
        assert_eq!(ledger.connections[&Stage::Pat], peers * channels * 2);
        let buffers = ledger.bytes.get(&(Stage::Pat, Purpose::Switches));
        assert_eq!(buffers.is_some(), has_buffers, "{version}");
    }
}

/// A communicator of one rank failed on a B300 for want of 512 MiB: without virtual memory, NCCL
/// makes the buffers for transfers over the network at the start.
#[test]
fn one_rank_makes_the_shared_buffers_of_the_network() {
    let case = Case {
        machine: "dgx-b200",
        gpus: &[0],
        version: NcclVersion::V2_28,
        variables: &[("NCCL_CUMEM_ENABLE", "0")],
        ..Case::H100
    };
    let memory = case.memory(&MemoryUse::default());
    let pool = memory.ranks[&0].bytes[&(Stage::Start, Purpose::NetworkPool)];
    assert_eq!(
        pool,
        Bytes {
            device: 512 * MIB,
            host: 0
        }
    );
}

/// Two ranks have each other as neighbors in rings and trees; of four, trees have others.
#[test]
fn trees_of_four_ranks_take_more_connections() {
    let of = |gpus| {
        let case = Case {
            machine: "dgx-a100",
            gpus,
            version: NcclVersion::V2_27,
            ..Case::H100
        };
        let usage = MemoryUse {
            algorithms: vec![Algorithm::Ring, Algorithm::Tree],
            peers: false,
        };
        let memory = case.memory(&usage);
        let ledgers = memory.ranks.values();
        let connections = |stage| matches!(stage, Stage::Ring | Stage::Tree);
        let bytes = ledgers.map(|ledger| ledger.total(connections).device / MIB);
        bytes.max().unwrap()
    };
    assert_eq!(of(&[0, 1]), 288);
    assert_eq!(of(&[0, 1, 2, 3]), 2 * 288);
}

/// Buffers follow the settings.
#[test]
fn settings_change_buffers() {
    let simple = |variables| {
        let case = Case {
            variables,
            ..Case::H100
        };
        let usage = MemoryUse {
            algorithms: vec![Algorithm::Ring],
            peers: false,
        };
        let memory = case.memory(&usage);
        memory.ranks[&0].bytes[&(Stage::Ring, Purpose::Direct(planner::memory::Part::Simple))]
            .device
    };
    assert_eq!(simple(&[]), 24 * 4 * MIB);
    assert_eq!(simple(&[("NCCL_BUFFSIZE", "8388608")]), 24 * 8 * MIB);
    assert_eq!(simple(&[("NCCL_MAX_NCHANNELS", "8")]), 8 * 4 * MIB);
}

/// `NCCL_PXN_DISABLE=2`: paths lead through other GPUs, as they do unless it is 1, but shared
/// buffers on the rails of others are made only if it is 0. NCCL 2.30.7 allocated so much.
#[test]
fn paths_and_buffers_read_one_variable_differently() {
    let first = |value: &str| {
        let case = Case {
            hosts: 2,
            variables: &[AT_ONCE, ("NCCL_PXN_DISABLE", value)],
            ..Case::H100
        };
        case.mebibytes()[0][0]
    };
    assert_eq!([first("0"), first("2"), first("-1")], [1306, 1082, 1082]);
}

/// `NCCL_P2P_USE_CUDA_MEMCPY`: the driver copies from a whole buffer of the sender.
#[test]
fn copies_by_the_driver_take_a_buffer_of_the_sender() {
    let case = Case {
        variables: &[("NCCL_P2P_USE_CUDA_MEMCPY", "1")],
        ..Case::H100
    };
    let memory = case.memory(&MemoryUse {
        algorithms: vec![Algorithm::Ring],
        peers: false,
    });
    let bytes = memory.ranks[&0].total(|stage| stage == Stage::Ring).device;
    assert_eq!(bytes, 24 * (10 + 4) * MIB);
}

/// An empty value is the default of memory's variables, too.
#[test]
fn empty_values_change_no_memory() {
    let case = |variables| Case {
        variables,
        ..Case::H100
    };
    let (plain, empty) = (case(&[]), case(&[("NCCL_CUMEM_ENABLE", "")]));
    assert_eq!(plain.mebibytes(), empty.mebibytes());
}
