//! What holds on every machine: rings visit each GPU once, no link is oversubscribed, planning is a function, and what is
//! written as NCCL's graph file or as a plan reads back.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use machines::{Machine, random};
use plan::nccl_graph::{self, GpuAddress, GraphFile};
use plan::{
    EndPoint, Fingerprint, Graph, GraphKind, Pattern, Plan, Producer, RequestSummary, neighbors,
};
use planner::artifact::{self, Description};
use planner::cost::{self, Profile};
use planner::{Cluster, Error, HostPlan, JobPlan, Request, Settings, plan_host};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use topology::xml::Document;
use topology::{LinkId, NcclId, NodeType, PathType, System};

/// The search rounds what is left on a link to thousandths of a GB/s, each time a channel takes its share.
const ROUNDING: f32 = 0.001;

static MACHINES: LazyLock<Vec<(String, Document)>> = LazyLock::new(|| {
    let machines = Machine::all().unwrap().into_iter();
    machines
        .map(|machine| (machine.name.clone(), machine.document().unwrap()))
        .collect()
});

fn system(document: &Document) -> System {
    System::from_document(document).unwrap_or_else(|error| panic!("{error}"))
}

fn request(hosts: u32, variables: &[(&str, &str)]) -> Request {
    let variables = variables
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Request {
        hosts,
        settings: Settings::from_variables(variables),
        ..Request::default()
    }
}

/// Each ring and tree holds every rank of the view once.
fn check_orders(planned: &HostPlan) -> Result<(), TestCaseError> {
    let mut ranks: Vec<i32> = planned
        .view
        .system()
        .gpus()
        .map(|(_, gpu)| gpu.rank)
        .collect();
    ranks.sort_unstable();
    for graph in planned
        .graphs
        .iter()
        .filter(|graph| graph.kind != GraphKind::Nvls)
    {
        for channel in &graph.channels {
            let mut visited = channel.ranks.clone();
            visited.sort_unstable();
            prop_assert_eq!(&visited, &ranks, "{}", graph.kind);
        }
    }
    Ok(())
}

/// Whether the graph is what NCCL takes when it has found nothing: one channel of 0.1 GB/s, whatever the links have.
fn is_fallback(graph: &Graph) -> bool {
    graph.bw_intra <= 0.1 && graph.channels.len() == 1
}

/// The channels of a ring together take no more of any link than it has.
fn check_bandwidth(planned: &HostPlan) -> Result<(), TestCaseError> {
    let (system, table) = (planned.view.system(), planned.view.routing().table());
    let Some(ring) = planned
        .graph(GraphKind::Ring)
        .filter(|ring| !is_fallback(ring))
    else {
        return Ok(());
    };
    let node = |end: EndPoint| match end {
        EndPoint::Rank(rank) => system.gpu_of_rank(rank),
        EndPoint::Net(id) => system.find(NodeType::Net, NcclId(id as u64)),
    };
    let mut taken: BTreeMap<LinkId, (f32, usize)> = BTreeMap::new();
    for channel in &ring.channels {
        for (from, to) in neighbors(Pattern::Ring, channel) {
            let inside = matches!((from, to), (EndPoint::Rank(_), EndPoint::Rank(_)));
            let (Some(from), Some(to)) = (node(from), node(to)) else {
                return Err(TestCaseError::fail("a channel names what is not there"));
            };
            let path = table.path(from, to);
            let worst = if inside {
                ring.type_intra
            } else {
                ring.type_inter
            };
            prop_assert!(path.kind < PathType::Dis);
            // With a limit on ports NCCL looks at the other limit between GPUs.
            prop_assert!(
                path.kind <= worst.max(ring.type_inter),
                "{} is worse than {worst}",
                path.kind
            );
            for hop in path.hops {
                let entry = taken.entry(*hop).or_default();
                entry.0 += if inside { ring.bw_intra } else { ring.bw_inter };
                entry.1 += 1;
            }
        }
    }
    for (link, (bw, times)) in taken {
        let has = system.link(link).bw + ROUNDING * times as f32;
        prop_assert!(
            bw <= has * 1.0001,
            "{:?}: {bw} of {has} GB/s\n{ring:?}",
            system.ends(link)
        );
    }
    Ok(())
}

/// NCCL's graph file, written and read back: the same graphs, and the same once more when planned from it.
fn check_graph_file(
    document: &Document,
    request: &Request,
    planned: &HostPlan,
) -> Result<(), TestCaseError> {
    let system = planned.view.system();
    let gpus: Vec<GpuAddress> = system
        .gpus()
        .map(|(node, gpu)| GpuAddress {
            rank: gpu.rank,
            host: system.node(node).id.system(),
            dev: gpu.dev,
        })
        .collect();
    let text = match nccl_graph::write(&planned.graphs, &gpus) {
        Ok(text) => text,
        Err(error) => {
            // NCCL's file has no words for these types of path.
            let unnamed = |graph: &Graph| {
                [graph.type_intra, graph.type_inter]
                    .iter()
                    .any(|kind| matches!(kind, PathType::C2c | PathType::Net | PathType::Dis))
            };
            prop_assert!(planned.graphs.iter().any(unnamed), "{error}");
            return Ok(());
        }
    };
    let file = GraphFile::parse("graphs.xml", &text)
        .map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
    let mut again = request.clone();
    again.settings.graphs = Some(file);
    let taken = plan_host(self::system(document), &again)
        .map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
    for graph in planned
        .graphs
        .iter()
        .filter(|graph| !graph.channels.is_empty())
    {
        let taken = taken.graph(graph.kind);
        prop_assert_eq!(taken, Some(graph), "{}", text);
    }
    Ok(())
}

/// The plan file: the same bytes each time, and the same plan when read.
fn check_plan_file(document: &Document, request: &Request) -> Result<(), TestCaseError> {
    let write = || -> Result<String, Error> {
        let cluster = Cluster::equal(system(document), request.hosts);
        let joined = JobPlan::new(
            cluster.plan(request.collnet, &request.settings)?,
            &request.settings,
        )?;
        let description = Description {
            name: "machine".to_owned(),
            summary: String::new(),
        };
        let summary = RequestSummary {
            hosts: request.hosts,
            nvlink_domain: false,
            collnet: request.collnet,
        };
        let producer = Producer {
            name: "test".to_owned(),
            version: "0".to_owned(),
        };
        let mut plan = Plan::new(
            producer,
            "nccl-2.30",
            Fingerprint::new("nccl-2.30").finish(),
            summary,
        );
        let costs = cost::table(
            &joined.cost_inputs(),
            &request.settings.tuning,
            &Profile::nccl_2_30(),
        );
        artifact::fill(
            &mut plan,
            &joined,
            costs.expect("no setting restricts the choice"),
            &[description],
        );
        let text = plan.to_json().expect("a plan that can be written");
        assert_eq!(Plan::from_json(&text), Ok(plan));
        Ok(text)
    };
    prop_assert_eq!(write(), write());
    Ok(())
}

fn check(document: &Document, request: &Request) -> Result<bool, TestCaseError> {
    let planned = match plan_host(system(document), request) {
        Ok(planned) => planned,
        Err(error) => {
            prop_assert!(!error.to_string().is_empty());
            prop_assert_eq!(plan_host(system(document), request).err(), Some(error));
            return Ok(false);
        }
    };
    let again = plan_host(system(document), request);
    let again = again.map_err(|error| TestCaseError::fail(error.to_string()))?;
    prop_assert_eq!(&again.graphs, &planned.graphs);
    prop_assert_eq!(&again.trails, &planned.trails);
    check_orders(&planned)?;
    check_bandwidth(&planned)?;
    check_graph_file(document, request, &planned)?;
    check_plan_file(document, request)?;
    Ok(true)
}

const VARIABLES: [(&str, &str); 10] = [
    ("NCCL_CROSS_NIC", "0"),
    ("NCCL_CROSS_NIC", "1"),
    ("NCCL_P2P_LEVEL", "SYS"),
    ("NCCL_P2P_DISABLE", "1"),
    ("NCCL_SHM_DISABLE", "1"),
    ("NCCL_NET_GDR_LEVEL", "SYS"),
    ("NCCL_PXN_DISABLE", "1"),
    ("NCCL_NVB_DISABLE", "1"),
    ("NCCL_NETDEVS_POLICY", "MAX:1"),
    ("NCCL_NET_DISABLE_INTRA", "1"),
];

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn on_random_machines(
        document in random::machine(),
        hosts in 1u32..4,
        variables in prop::sample::subsequence(VARIABLES.to_vec(), 0..3),
    ) {
        check(&document, &request(hosts, &variables))?;
    }
}

#[test]
fn on_the_projects_machines() {
    let mut planned = 0;
    for (name, document) in MACHINES.iter() {
        for hosts in [1, 2] {
            let checked = check(document, &request(hosts, &[]));
            planned +=
                usize::from(checked.unwrap_or_else(|error| panic!("{name} x {hosts}: {error}")));
        }
    }
    assert!(planned > MACHINES.len(), "only {planned} jobs were planned");
}

#[test]
fn most_random_machines_can_be_planned() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let strategy = random::machine();
    let mut planned = 0;
    for _ in 0..64 {
        let document = strategy.new_tree(&mut runner).unwrap().current();
        planned += usize::from(plan_host(system(&document), &request(1, &[])).is_ok());
    }
    assert!(planned > 48, "only {planned} of 64");
}
