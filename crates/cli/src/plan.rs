//! `topo plan`: what NCCL would do on a machine.

use anyhow::Result;
use planner::{HostPlan, Request, plan_host};
use topology::{NodeType, System};

use crate::arguments::PlanArguments;
use crate::device::Names;
use crate::environment::Environment;
use crate::input::Machine;
use crate::output::{Format, Output, graph_file_remark};
use crate::render::{Look, channels, count, matrix, settings, summary, trail};
use crate::wiring::Wiring;

/// What was asked, in the words of the page.
#[derive(Debug)]
pub struct Job {
    /// The machine's name.
    pub machine: String,
    /// What the machine is, before anything is trimmed.
    pub summary: String,
    /// GPUs of the machine.
    pub gpus: usize,
    /// Hosts of the job.
    pub hosts: usize,
    /// Ranks of the job.
    pub ranks: usize,
    nvlink_domain: bool,
    collnet: bool,
}

impl Job {
    fn new(machine: &Machine, system: &System, request: &Request) -> Self {
        let gpus = system.count(NodeType::Gpu);
        let (hosts, ranks) = match request.nvlink_domain {
            true => (system.hosts().len(), gpus),
            false => (request.hosts as usize, gpus * request.hosts as usize),
        };
        Self {
            machine: machine.name.clone(),
            summary: summary::machine(system),
            gpus,
            hosts,
            ranks,
            nvlink_domain: request.nvlink_domain,
            collnet: request.collnet,
        }
    }

    /// `2 hosts like this one, 16 ranks, joined by the network`.
    pub fn describe(&self, inter: bool) -> String {
        let hosts = match (self.nvlink_domain, self.hosts) {
            (true, hosts) => format!("{} in one NVLink domain", count(hosts, "host")),
            (false, 1) => "1 host".to_owned(),
            (false, hosts) => format!("{hosts} hosts like this one"),
        };
        let network = match (inter, self.ranks == self.gpus) {
            (false, _) => "",
            // Parts of one machine that only the network joins.
            (true, true) => ", not all joined inside it",
            (true, false) => ", joined by the network",
        };
        let reduces = if self.collnet {
            ", which reduces (CollNet)"
        } else {
            ""
        };
        format!("{hosts}, {}{network}{reduces}", count(self.ranks, "rank"))
    }
}

/// Plans a file and says what came of it.
pub fn run(
    arguments: &PlanArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    let machine = Machine::read(&arguments.file, output)?;
    let request = Request {
        hosts: arguments.hosts,
        nvlink_domain: arguments.nvlink_domain,
        collnet: arguments.collnet,
        settings: environment.settings(&arguments.variables, &mut output.warnings),
    };
    output.warnings.extend(graph_file_remark(&request.settings));
    let system = machine.system(&request.settings)?;
    let job = Job::new(&machine, &system, &request);
    let plan = plan_host(system, &request)?;
    match arguments.format {
        Format::Quiet => {
            output
                .warnings
                .extend(settings::warnings(&request.settings));
            output.text = summary::quiet(&job, &plan);
        }
        // The seam: Json and NcclGraph get their own arms here.
        Format::Text | Format::Json | Format::NcclGraph => {
            let look = Look {
                width: environment.width,
                colour: environment.colour,
            };
            output.text = page(&machine, &job, &plan, arguments.explain, look);
        }
    }
    Ok(())
}

fn page(machine: &Machine, job: &Job, plan: &HostPlan, explain: bool, look: Look) -> String {
    let routing = plan.view.routing();
    let names = Names::new(plan.view.system());
    let mut text = summary::head(job, plan, look);
    let mut section = |title: &str, remark: &str, body: &str| {
        text.push('\n');
        text.push_str(&look.title(title, remark));
        text.push_str(body);
    };
    section(
        "Wiring",
        "as nvidia-smi topo -m draws it, from the file",
        &matrix::wiring(&Wiring::new(&machine.document), look),
    );
    section(
        "Paths",
        "those NCCL takes, in GB/s",
        &matrix::bandwidths(routing, &names, look),
    );
    let graphs = summary::graphs(plan, look) + &channels::all(plan, look);
    section(
        "Channels",
        "GB/s of each and of all; the worst paths they use",
        &graphs,
    );
    if explain {
        let attempts = trail::long(&plan.trails, plan.view.inter, look);
        section("Search", "attempt by attempt", &attempts);
    } else {
        let searches = trail::short(&plan.trails, look);
        section("Search", "--explain tells it all", &searches);
    }
    text.lines()
        .map(|line| format!("{}\n", line.trim_end()))
        .collect()
}
