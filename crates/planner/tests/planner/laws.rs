//! Properties of every machine: rings visit each GPU once, no link is oversubscribed, planning is a
//! pure function, and NCCL's graph files and plans are read as they were written.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use plan::nccl_graph::{self, GraphFile};
use plan::{EndPoint, Graph, GraphKind, Pattern, Plan, neighbors};
use planner::{Error, HostPlan, Job, Planned, Settings, View};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use testkit::{Machine, random};
use topology::join::by_ranks;
use topology::xml::Document;
use topology::{LinkId, NcclId, NodeType, PathType, System};

/// Each time a channel takes its share, the search rounds what a link has left to this, GB/s.
const ROUNDING: f32 = 0.001;

static MACHINES: LazyLock<Vec<(String, Document)>> = LazyLock::new(|| {
    let machines = Machine::all().unwrap().into_iter();
    machines
        .map(|machine| (machine.name.clone(), machine.document().unwrap()))
        .collect()
});

/// A job of equal hosts, and its settings.
struct Request {
    job: Job,
    settings: Settings,
}

impl Request {
    fn new(document: &Document, hosts: u32, variables: &[(&str, &str)]) -> Self {
        let variables = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Self {
            job: Job::hosts(document.clone(), hosts),
            settings: Settings::from_variables(variables),
        }
    }

    fn plan(&self) -> Result<Planned, Error> {
        planner::plan(&self.job, &self.settings)
    }

    /// The decisions of the first rank by itself.
    fn plan_first(&self, settings: &Settings) -> Result<HostPlan, Error> {
        let document = &self.job.hosts[0].document;
        // Which ranks are a node depends on the order in which they join the machine.
        let joined = by_ranks(document, None);
        let system = System::from_document(joined.as_ref().unwrap_or(document))?;
        let ranks = system.count(NodeType::Gpu) * self.job.host_count() as usize;
        let settings = Arc::new(settings.clone());
        let views = View::all(system, &settings, self.job.collnet, ranks)?;
        HostPlan::search(views.into_iter().next().ok_or(Error::NoGpu)?)
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

/// Whether the graph is NCCL's fallback when it finds nothing: one channel of 0.1 GB/s, whatever
/// the links have.
fn is_fallback(graph: &Graph) -> bool {
    graph.bw_intra <= 0.1 && graph.channels.len() == 1
}

/// The channels of a ring together do not exceed the bandwidth of any link.
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
            // With a limit on ports NCCL applies the other limit between GPUs.
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

/// NCCL's graph file gives back the graphs that were written, and so does planning with it.
fn check_graph_file(request: &Request, planned: &HostPlan) -> Result<(), TestCaseError> {
    let gpus = planned.view.gpu_addresses();
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
    let settings = Settings {
        graphs: Some(file),
        ..request.settings.clone()
    };
    let taken = request
        .plan_first(&settings)
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

/// Equal plans have equal bytes, and a plan is read as it was written.
fn check_plan_file(planned: &Planned, again: &Planned) -> Result<(), TestCaseError> {
    let plan = planned.plan();
    let text = plan.to_json().expect("a plan that can be written");
    prop_assert_eq!(Plan::from_json(&text), Ok(plan.clone()));
    let again = again.plan().to_json();
    prop_assert_eq!(again, Ok(text));
    Ok(())
}

fn check(request: &Request) -> Result<bool, TestCaseError> {
    let again = request.plan();
    let planned = match request.plan() {
        Ok(planned) => planned,
        Err(error) => {
            prop_assert!(!error.to_string().is_empty());
            prop_assert_eq!(again.err(), Some(error));
            return Ok(false);
        }
    };
    let again = again.map_err(|error| TestCaseError::fail(error.to_string()))?;
    for (node, again) in planned.job.hosts.distinct().zip(again.job.hosts.distinct()) {
        prop_assert_eq!(&again.graphs, &node.graphs);
        prop_assert_eq!(&again.trails, &node.trails);
        check_orders(node)?;
        check_bandwidth(node)?;
    }
    check_graph_file(request, planned.node(0))?;
    check_plan_file(&planned, &again)?;
    prop_assert!(planned.explain().contains("ring: "));
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
        check(&Request::new(&document, hosts, &variables))?;
    }
}

/// A ring of GPUs that reach their neighbors only: read in the order of the file, one of them would
/// be a node of its own.
#[test]
fn on_neighbors_in_another_order() {
    let gpu = |dev: u32| {
        let neighbors = [(dev + 1) % 4, (dev + 3) % 4];
        let link =
            |to: &u32| format!(r#"<nvlink target="0000:0{to}:00.0" count="1" tclass="0x030200"/>"#);
        let links: String = neighbors.iter().map(link).collect();
        format!(
            r#"<cpu numaid="{dev}" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="79"><pci busid="0000:0{dev}:00.0" class="0x030200" link_speed="2.5 GT/s PCIe" link_width="16"><gpu dev="{dev}" sm="60" rank="{dev}" gdr="0">{links}</gpu></pci></cpu>"#
        )
    };
    let gpus: String = [2, 0, 1, 3].map(gpu).concat();
    let text = format!(r#"<system version="1">{gpus}</system>"#);
    let document = topology::xml::parse("ring.xml", text.as_bytes()).unwrap();
    let variables = [("NCCL_SHM_DISABLE", "1"), ("NCCL_NVB_DISABLE", "1")];
    let checked = check(&Request::new(&document, 1, &variables));
    assert!(checked.unwrap_or_else(|error| panic!("{error}")));
}

#[test]
fn on_the_projects_machines() {
    let mut planned = 0;
    for (name, document) in MACHINES.iter() {
        for hosts in [1, 2] {
            let checked = check(&Request::new(document, hosts, &[]));
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
        planned += usize::from(Request::new(&document, 1, &[]).plan().is_ok());
    }
    assert!(planned > 48, "only {planned} of 64");
}
