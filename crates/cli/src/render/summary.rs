//! A machine and its plan in a few lines.

use plan::Graph;
use planner::{HostPlan, Planned};
use topology::NodeType;

use super::matrix::path_types;
use super::table::Columns;
use super::{Look, count, gbps, settings, words};

/// The head of a plan's page.
pub fn head(planned: &Planned, machine: usize, look: Look) -> String {
    let plan = planned.node(machine);
    let system = plan.view.system();
    let routing = plan.view.routing();
    let mut text = format!("{}\n", look.heading(&planned.machines()[machine].name));
    let mut line = |name: &str, value: &str| text.push_str(&look.field(name, value));
    line("machine", &planned.machines()[machine].summary);
    line("job", &describe(planned, machine));
    let left_out = planned.machines()[machine]
        .gpus
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

/// `2 hosts like this one, 16 ranks, joined by the network`.
fn describe(planned: &Planned, machine: usize) -> String {
    let ranks = planned.job.layout().ranks() as usize;
    let request = planned.request();
    let own = &planned.machines()[machine];
    let hosts = match (own.is_domain(), planned.machines().len(), request.hosts) {
        (_, 2.., hosts) => {
            let runs = planned.job.hosts.runs.iter();
            let runs = runs.filter(|(at, _)| *at == machine);
            let own: u32 = runs.map(|(_, count)| count).sum();
            format!("{own} of {}", count(hosts as usize, "host"))
        }
        (true, _, hosts) => format!("{} in one NVLink domain", count(hosts as usize, "host")),
        (false, _, 1) => "1 host".to_owned(),
        (false, _, hosts) => format!("{hosts} hosts like this one"),
    };
    let network = match (planned.node(machine).view.inter, ranks == own.gpus) {
        (false, _) => "",
        // Parts of one machine that only the network joins.
        (true, true) => ", not all joined inside it",
        (true, false) => ", joined by the network",
    };
    let reduces = if request.collnet {
        ", which reduces (CollNet)"
    } else {
        ""
    };
    format!("{hosts}, {}{network}{reduces}", count(ranks, "rank"))
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
pub fn quiet(planned: &Planned) -> String {
    let plan = planned.node(0);
    let ranks = planned.job.layout().ranks();
    let mut line = format!(
        "{} hosts={} ranks={ranks}",
        planned.name(),
        planned.request().hosts
    );
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
