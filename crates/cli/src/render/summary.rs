//! A machine and its plan in a few lines.

use plan::Graph;
use planner::HostPlan;
use topology::{NodeType, System};

use super::matrix::path_types;
use super::table::Columns;
use super::{Look, count, gbps, settings, words};
use crate::job::Job;

/// `8 GPUs (sm 90), 8 NICs (50 GB/s), 2 CPUs (Intel Sapphire Rapids), NVSwitch`.
pub fn machine(system: &System) -> String {
    let mut parts = Vec::new();
    let gpus = system.count(NodeType::Gpu);
    let sms = distinct(system.gpus().map(|(_, gpu)| gpu.sm.to_string()));
    parts.push(if gpus == 0 {
        "no GPU".to_owned()
    } else {
        format!("{} (sm {sms})", count(gpus, "GPU"))
    });
    let nets = system.count(NodeType::Net);
    let speeds = distinct(system.nets().map(|(_, net)| gbps(net.bw)));
    parts.push(if nets == 0 {
        "no NIC".to_owned()
    } else {
        format!("{} ({speeds} GB/s)", count(nets, "NIC"))
    });
    let processors = distinct(
        system
            .cpus()
            .map(|(_, cpu)| words::processor(cpu).to_owned()),
    );
    parts.push(format!(
        "{} ({processors})",
        count(system.count(NodeType::Cpu), "CPU")
    ));
    if system.count(NodeType::Nvs) > 0 {
        parts.push("NVSwitch".to_owned());
    }
    if system.hosts().len() > 1 {
        parts.push(count(system.hosts().len(), "host"));
    }
    parts.join(", ")
}

fn distinct(texts: impl Iterator<Item = String>) -> String {
    let mut seen: Vec<String> = Vec::new();
    for text in texts {
        if !seen.contains(&text) {
            seen.push(text);
        }
    }
    seen.join(", ")
}

/// The head of a plan's page.
pub fn head(job: &Job, machine: usize, look: Look) -> String {
    let plan = job.node(machine);
    let system = plan.view.system();
    let routing = plan.view.routing();
    let mut text = format!("{}\n", look.heading(&job.descriptions[machine].name));
    let mut line = |name: &str, value: &str| text.push_str(&look.field(name, value));
    line("machine", &job.descriptions[machine].summary);
    line("job", &job.describe(machine));
    let left_out = job
        .gpus(machine)
        .saturating_sub(system.count(NodeType::Gpu));
    if left_out > 0 {
        let verb = if left_out == 1 { "is" } else { "are" };
        line(
            "trimmed",
            &format!(
                "{} {verb} reached only over the network, and so left out of this search",
                count(left_out, "GPU")
            ),
        );
    }
    let paths: Vec<String> = [("GPU–GPU", NodeType::Gpu), ("GPU–NIC", NodeType::Net)]
        .into_iter()
        .filter_map(|(name, kind)| Some(format!("{name} {}", path_types(routing, kind)?)))
        .collect();
    if !paths.is_empty() {
        line("paths", &paths.join("; "));
    }
    line(
        "limits",
        &format!(
            "P2P up to {}, GPUDirect RDMA up to {}",
            routing.p2p_limit(),
            routing.gdr_limit()
        ),
    );
    let (max_bw, total_bw) = (gbps(plan.view.max_bw), gbps(plan.view.total_bw));
    line(
        "bounds",
        &format!("{max_bw} GB/s on the widest path, {total_bw} GB/s into the best-connected GPU"),
    );
    text.push_str(&settings::lines(routing.settings(), look));
    text
}

/// The graphs side by side.
pub fn graphs(plan: &HostPlan, look: Look) -> String {
    let mut headers = vec!["graph", "channels", "each", "all", "GPU–GPU"];
    if plan.view.inter {
        headers.extend(["to net", "GPU–NIC", "NIC in/out"]);
    }
    headers.push("pattern");
    let mut table = Columns::new(look, &headers).right(if plan.view.inter {
        &[1, 2, 3, 5]
    } else {
        &[1, 2, 3]
    });
    for graph in &plan.graphs {
        let mut row = vec![graph.kind.to_string(), graph.channels.len().to_string()];
        if graph.channels.is_empty() {
            row.resize(headers.len(), String::new());
            row[headers.len() - 1] = "not possible here".to_owned();
        } else {
            row.extend([
                gbps(graph.bw_intra),
                gbps(graph.total_bw_intra()),
                graph.type_intra.to_string(),
            ]);
            if plan.view.inter {
                row.extend([
                    gbps(graph.bw_inter),
                    graph.type_inter.to_string(),
                    words::cross_nic_short(graph.cross_nic).to_owned(),
                ]);
            }
            row.push(graph.pattern.to_string());
        }
        table.row(row);
    }
    table.finish()
}

/// One line for scripts: `dgx-h100 hosts=1 ranks=8 ring=12x30:NVL …`.
pub fn quiet(job: &Job) -> String {
    let plan = job.node(0);
    let ranks = job.joined.layout().ranks();
    let mut line = format!("{} hosts={} ranks={ranks}", job.name(), job.hosts());
    for graph in &plan.graphs {
        line.push_str(&format!(
            " {}={}",
            graph.kind,
            quiet_graph(graph, plan.view.inter)
        ));
    }
    line.push('\n');
    line
}

fn quiet_graph(graph: &Graph, inter: bool) -> String {
    if graph.channels.is_empty() {
        return "none".to_owned();
    }
    let inside = format!(
        "{}x{}:{}",
        graph.channels.len(),
        gbps(graph.bw_intra),
        graph.type_intra
    );
    if inter {
        format!("{inside}+{}:{}", gbps(graph.bw_inter), graph.type_inter)
    } else {
        inside
    }
}
