//! Every variable that is documented to change a decision changes one.

use plan::GraphKind;
use planner::settings::{SettingEffect, effect, is_known_to, variables};
use planner::{NcclVersion, Settings, nvlink_domain};
use testkit::Machine;
use topology::edit::Edit;
use topology::xml::{Document, Element, Tag};

/// A job on which a variable is tried.
#[derive(Debug, Clone, Copy)]
enum Job {
    /// This many equal hosts.
    Hosts(&'static str, u32),
    /// Two hosts with a network that reduces.
    Reducing(&'static str),
    /// Two different hosts with a network that reduces.
    ReducingMixed(&'static str, &'static str),
    /// Two different machines.
    Mixed(&'static str, &'static str),
    /// This many NVLink domains of two hosts each.
    Domains(&'static str, u32),
    /// A host without peer access between GPUs.
    NoAccess(&'static str),
    /// A machine whose GPUs are partitions, two on each device; two hosts.
    Partitions(&'static str),
}

use Job::{Domains, Hosts, Mixed, NoAccess, Partitions, Reducing, ReducingMixed};

/// For each variable a value, and a job in which it changes a decision.
const EXAMPLES: [(&str, &str, Job); 75] = [
    ("NCCL_ALGO", "Ring", Hosts("dgx-h100", 1)),
    ("NCCL_ALLOC_P2P_NET_LL_BUFFERS", "1", Hosts("dgx-h100", 2)),
    ("NCCL_BUFFSIZE", "65536", Hosts("dgx-h100", 1)),
    ("NCCL_CHUNK_SIZE", "65536", Hosts("dgx-h100", 2)),
    ("NCCL_COLLNET_ENABLE", "0", Reducing("dgx-h100-sharp")),
    (
        "NCCL_COLLNET_NODE_THRESHOLD",
        "3",
        Reducing("dgx-h100-sharp"),
    ),
    ("NCCL_CROSS_NIC", "0", Hosts("dgx-h100", 2)),
    (
        "NCCL_IGNORE_COLLNET_MISMATCH",
        "1",
        ReducingMixed("dgx-h100-sharp", "gb200-nvl72-tray"),
    ),
    (
        "NCCL_IGNORE_DISABLED_P2P",
        "2",
        NoAccess("pcie-8gpu-switch-per-socket"),
    ),
    (
        "NCCL_IGNORE_NET_MISMATCH",
        "0",
        Mixed("dgx-h100", "gb200-nvl72-tray"),
    ),
    ("NCCL_LL128_BUFFSIZE", "1048576", Hosts("dgx-h100", 1)),
    ("NCCL_LL128_C2C", "0", Hosts("gh200", 2)),
    ("TOPO_DRIVER_VERSION", "13.2", Hosts("vr200-nvl72-tray", 2)),
    ("NCCL_LL128_NTHREADS", "160", Hosts("dgx-h100", 1)),
    ("NCCL_LL_BUFFSIZE", "65536", Hosts("dgx-h100", 1)),
    ("NCCL_LOCAL_REGISTER", "0", Hosts("dgx-h100", 1)),
    ("NCCL_MAX_CTAS", "3", Hosts("dgx-h100", 1)),
    ("NCCL_MAX_NCHANNELS", "3", Hosts("dgx-h100", 1)),
    ("NCCL_MAX_NRINGS", "3", Hosts("dgx-h100", 1)),
    ("NCCL_MAX_P2P_NCHANNELS", "2", Hosts("dgx-h100", 1)),
    ("NCCL_MIN_CTAS", "40", Hosts("dgx-h100", 1)),
    ("NCCL_MIN_NCHANNELS", "32", Hosts("dgx-h100", 1)),
    ("NCCL_MIN_NRINGS", "32", Hosts("dgx-h100", 1)),
    ("NCCL_MIN_P2P_NCHANNELS", "64", Hosts("dgx-h100", 1)),
    ("NCCL_MNNVL_ENABLE", "0", Domains("gb200-nvl72-tray", 1)),
    ("NCCL_MNNVL_RAIL_PER_HOST", "1", Domains("random-00169", 2)),
    ("NCCL_MNNVL_SCATTER_NETS_ENABLE", "0", Domains("aws-p5", 2)),
    ("NCCL_NCHANNELS_PER_NET_PEER", "1", Hosts("dgx-h100", 2)),
    ("NCCL_IB_HCA", "mlx5_0", Hosts("dgx-h100", 2)),
    ("NCCL_IB_MERGE_NICS", "0", Hosts("random-00045", 2)),
    (
        "NCCL_NET_FORCE_MERGE",
        "mlx5_0,mlx5_1",
        Hosts("dgx-h100", 2),
    ),
    ("NCCL_NET_MERGE_LEVEL", "PHB", Hosts("dgx-h100", 2)),
    ("NCCL_NET_MERGE_POLICY", "RAIL", Hosts("random-00045", 2)),
    ("NCCL_NETDEVS_POLICY", "MAX:1", Hosts("aws-p5", 2)),
    ("NCCL_NET_DISABLE_INTRA", "1", Hosts("random-00021", 1)),
    ("NCCL_NET_GDR_C2C", "0", Hosts("gh200", 2)),
    ("NCCL_NET_GDR_LEVEL", "LOC", Hosts("dgx-h100", 2)),
    ("NCCL_NET_GDR_MLOPART", "1", Partitions("dgx-h100")),
    ("NCCL_NET_GDR_READ", "0", Hosts("dgx-h100", 2)),
    ("NCCL_NET_OVERHEAD", "5000", Hosts("dgx-h100", 2)),
    ("NCCL_NTHREADS", "64", Hosts("dgx-h100", 1)),
    ("NCCL_NVB_DISABLE", "1", Hosts("dgx-1v", 1)),
    ("NCCL_NVLSTREE_MAX_CHUNKSIZE", "4096", Hosts("dgx-h100", 2)),
    ("NCCL_NVLS_CHUNKSIZE", "4096", Hosts("dgx-h100", 1)),
    ("NCCL_NVLS_ENABLE", "0", Hosts("dgx-h100", 1)),
    ("NCCL_NVLS_NCHANNELS", "7", Hosts("dgx-h100", 1)),
    ("NCCL_P2P_DISABLE", "1", Hosts("dgx-h100", 1)),
    ("NCCL_P2P_LEVEL", "SYS", Hosts("pcie-8gpu-niccpu", 1)),
    ("NCCL_P2P_LL_THRESHOLD", "0", Hosts("dgx-h100", 1)),
    ("NCCL_P2P_MAX_PEERS", "1", Hosts("dgx-h100", 16)),
    ("NCCL_P2P_NET_CHUNKSIZE", "65536", Hosts("dgx-h100", 2)),
    ("NCCL_P2P_NVL_CHUNKSIZE", "65536", Hosts("dgx-h100", 1)),
    (
        "NCCL_P2P_PCI_CHUNKSIZE",
        "65536",
        Hosts("pcie-8gpu-nicsw", 1),
    ),
    ("NCCL_P2P_PER_CHANNEL_NET_BW", "100", Hosts("dgx-h100", 2)),
    ("NCCL_P2P_PXN_LEVEL", "0", Hosts("dgx-h100", 2)),
    ("NCCL_P2P_READ_ENABLE", "1", Hosts("dgx-h100", 1)),
    ("NCCL_P2P_SCHEDULE_GROUP_SIZE", "2", Hosts("dgx-h100", 2)),
    ("NCCL_P2P_USE_CUDA_MEMCPY", "1", Hosts("dgx-1v", 1)),
    ("NCCL_PAT_ENABLE", "0", Hosts("gh200", 4)),
    ("NCCL_PROTO", "LL", Hosts("dgx-h100", 1)),
    ("NCCL_CTA_POLICY", "ZERO", Hosts("dgx-h100", 1)),
    ("NCCL_SYM_CE_THRESHOLD", "4096", Hosts("dgx-b200", 1)),
    ("NCCL_SYM_CTAS", "3", Hosts("dgx-h100", 1)),
    (
        "NCCL_SYM_KERNEL",
        "allgather:AllGather_ST",
        Hosts("dgx-h100", 1),
    ),
    ("NCCL_SYM_TMA_ENABLE", "0", Hosts("dgx-b200", 1)),
    ("NCCL_WIN_ENABLE", "0", Hosts("dgx-h100", 1)),
    ("NCCL_PXN_C2C", "0", Hosts("gb200-nvl72-tray", 2)),
    ("NCCL_PXN_DISABLE", "1", Hosts("dgx-h100", 2)),
    ("NCCL_SHM_DISABLE", "1", Hosts("pcie-8gpu-niccpu", 1)),
    (
        "NCCL_THREAD_THRESHOLDS",
        "1 1 1 1 1 1",
        Hosts("dgx-h100", 1),
    ),
    ("NCCL_SOCKET_IFNAME", "other", Hosts("workstation-2gpu", 1)),
    ("NCCL_TOPO_SCATTER_START_NET", "1", Hosts("aws-p5", 2)),
    ("NCCL_TOPO_SPLIT_MLOPART", "0", Partitions("dgx-h100")),
    ("NCCL_WORK_ARGS_BYTES", "96", Hosts("dgx-h100", 1)),
    // The content of the file is tested by the command line's tests.
    ("NCCL_GRAPH_FILE", "graphs.xml", Hosts("dgx-h100", 1)),
];

fn document(machine: &str) -> Document {
    Machine::named(machine).unwrap().document().unwrap()
}

/// Two partitions on every device, with ranks of their own.
fn partitioned(mut document: Document) -> Document {
    fn split(element: &mut Element, ranks: &mut u32) {
        if let Some(at) = element
            .children
            .iter()
            .position(|child| child.tag == Tag::Gpu)
        {
            let whole = element.children.remove(at);
            for partition in 0..2 {
                let mut gpu = whole.clone();
                gpu.set("rank", ranks.to_string());
                gpu.set("mlopart", partition.to_string());
                element.children.insert(at + partition, gpu);
                *ranks += 1;
            }
        }
        for child in &mut element.children {
            split(child, ranks);
        }
    }
    split(&mut document.root, &mut 0);
    document
}

/// The same host with other NICs, whose guids all differ.
fn with_other_guids(mut document: Document) -> Document {
    fn change(element: &mut Element) {
        if let Some(guid) = element.get("guid") {
            let guid = u64::from_str_radix(guid.trim_start_matches("0x"), 16).unwrap();
            element.set("guid", format!("{:#x}", guid ^ 1 << 40));
        }
        element.children.iter_mut().for_each(change);
    }
    change(&mut document.root);
    document
}

fn planner_job(job: Job, settings: &Settings) -> planner::Job {
    let equal = |machine: &str, hosts| planner::Job::hosts(document(machine), hosts);
    let mixed = |machines: [&str; 2]| {
        let hosts = machines.map(|machine| equal(machine, 1).hosts);
        planner::Job::of(hosts.concat())
    };
    let planned = match job {
        Hosts(machine, hosts) => equal(machine, hosts),
        Reducing(machine) => equal(machine, 2),
        Mixed(one, other) | ReducingMixed(one, other) => mixed([one, other]),
        Domains(machine, domains) => {
            let host = document(machine);
            if settings.allow_nvlink_domains() {
                let other = with_other_guids(host.clone());
                planner::Job::hosts(nvlink_domain([&host, &other]).unwrap(), domains)
            } else {
                equal(machine, 2 * domains)
            }
        }
        NoAccess(machine) => {
            let edit = Edit::without("P2P").unwrap();
            planner::Job::hosts(edit.apply(&document(machine)).unwrap(), 1)
        }
        Partitions(machine) => planner::Job::hosts(partitioned(document(machine)), 2),
    };
    planner::Job {
        collnet: matches!(job, Reducing(_) | ReducingMixed(..)),
        ..planned
    }
}

/// The newest version of NCCL in which a variable changes a decision.
fn newest(name: &str) -> NcclVersion {
    match name {
        // From 2.32 on every NIC has a rail, which counts first.
        "NCCL_MNNVL_RAIL_PER_HOST" => NcclVersion::V2_31,
        // Later it is gone.
        "NCCL_NET_GDR_MLOPART" | "NCCL_TOPO_SCATTER_START_NET" => NcclVersion::V2_31,
        _ => NcclVersion::NEWEST,
    }
}

/// All decisions, as text.
fn decided(
    version: NcclVersion,
    job: Job,
    variables: &[(&str, &str)],
) -> Result<String, Box<dyn std::error::Error>> {
    let variables = variables
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let settings = Settings::with_variables(version, variables);
    let planned = planner::plan(&planner_job(job, &settings), &settings)?;
    let joined = &planned.job;
    let expansion = &joined.expansion;
    let mut text = format!("{:?} {:?}", joined.facts, joined.common());
    for node in joined.hosts.distinct() {
        text += &format!("\n{:?} {:?}", node.graphs, node.trails);
    }
    let ranks = joined.layout().ranks();
    for rank in 0..ranks {
        for kind in [GraphKind::Ring, GraphKind::Tree] {
            text += &format!("\n{rank} {kind}: {:?}", expansion.sends(rank, kind)?);
        }
        let transfer = expansion.p2p_connection(0, rank, 0);
        text += &format!("\n0 to {rank}: {transfer:?}");
    }
    text += &format!("\n{:?}", expansion.schedule(0).collect::<Vec<_>>());
    text += &format!("\n{:?}", planned.costs);
    Ok(text)
}

#[test]
fn every_variable_changes_a_decision() {
    let mut idle = Vec::new();
    for (name, value, job) in EXAMPLES {
        if name == "NCCL_GRAPH_FILE" {
            continue;
        }
        let [plain, changed] = [&[][..], &[(name, value)]]
            .map(|variables| decided(newest(name), job, variables))
            .map(|decided| decided.map_err(|error| error.to_string()));
        assert!(plain.is_ok() || changed.is_ok(), "{name}: {plain:?}");
        if plain == changed {
            idle.push(format!("{name}={value} changes nothing on {job:?}"));
        }
    }
    assert!(
        idle.is_empty(),
        "{}",
        idle.join(
            "
"
        )
    );
}

#[test]
fn every_variable_that_decides_has_an_example() {
    for (name, effect) in variables() {
        let has_example = EXAMPLES.iter().any(|(example, ..)| *example == name);
        let decides = matches!(
            effect,
            SettingEffect::Search | SettingEffect::Joining | SettingEffect::Cost
        );
        assert_eq!(has_example, decides, "{name}: {effect:?}");
    }
    for (name, ..) in EXAMPLES {
        assert!(effect(name).is_some(), "{name}");
    }
}

#[test]
fn other_variables_change_nothing() {
    for (name, effect) in variables() {
        if matches!(
            effect,
            SettingEffect::Memory | SettingEffect::Nothing | SettingEffect::NotModelled(_)
        ) {
            let settings = Settings::from_variables([(name.to_owned(), "1".to_owned())]);
            let gone = !is_known_to(name, NcclVersion::NEWEST);
            let noted = usize::from(gone || matches!(effect, SettingEffect::NotModelled(_)));
            assert_eq!(settings.notes.len(), noted, "{name}: {:?}", settings.notes);
            assert_eq!(settings.deciding().count(), 0, "{name}");
            let bare = Settings {
                in_force: Vec::new(),
                notes: Vec::new(),
                ..settings
            };
            assert_eq!(bare, Settings::default(), "{name}");
        }
    }
}
