//! `topo simulate`: a collective on a virtual clock.

mod choice;
pub mod json;
mod page;
mod trace;

use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use plan::expand::Expansion;
use plan::{CheckedPlan, GraphKind};
use program::lower::{Lowering, ProgramRequest};
use program::{Channels, Collective, MessageSize, Protocol, Schedule, Transfer};
use simulator::build::build;
use simulator::fabric::{Leaf, SwitchTree};
use simulator::{Fabric, Fifos, PlainHosts, PlannedWiring, Simulated, Wiring};

use choice::Chosen;
use json::SimulateReport;

use crate::arguments::compare::TextOrJson;
use crate::arguments::simulate::{SimulateArguments, SimulatedRun};
use crate::environment::Environment;
use crate::job;
use crate::output::{self, Output};
use crate::progress::Progress;
use crate::render;
use crate::sources;
use answers::report;

/// Largest fabric file that is read, bytes.
const FABRIC_LIMIT: u64 = 16 << 20;

/// Most steps and transfers in a trace, about 30 MB.
const TRACE_SPANS: usize = 200_000;

/// A job that was simulated.
pub struct SimulatedJob {
    pub collective: Collective,
    pub schedule: Schedule,
    pub transfer: Transfer,
    pub protocol: Protocol,
    pub element: program::ElementType,
    pub root: u32,
    /// The message as it was run: a multiple of elements and blocks, bytes.
    pub bytes: u64,
    pub ranks: u32,
    pub hosts: u32,
    pub channels: u16,
    pub slot_bytes: u32,
    /// What the network is, in words.
    pub network: String,
    /// The profile of the plan, if there is one.
    pub profile: Option<String>,
    /// What NCCL's cost model predicts for the algorithm and protocol, µs.
    pub predicted_us: Option<f64>,
    pub links: Vec<LinkLoad>,
    pub simulated: Simulated,
}

/// The load of a link.
pub struct LinkLoad {
    pub name: String,
    /// Links with the same load for the same reasons, with this one.
    pub count: u32,
    /// GB/s; infinite if unlimited.
    pub gbps: f64,
    pub bytes: u64,
    /// The share of its capacity that was used over the whole time.
    pub used: f64,
}

impl SimulatedJob {
    /// The time of the collective, µs.
    pub fn time_us(&self) -> f64 {
        self.simulated.outcome.time.us()
    }

    /// Message bytes per time, GB/s; `None` if it took no time.
    pub fn algorithm_bandwidth(&self) -> Option<f64> {
        let time = self.time_us();
        (time > 0.0).then(|| self.bytes as f64 / time / 1000.0)
    }

    /// The bus bandwidth, GB/s, as nccl-tests reports it; `None` if it took no time.
    pub fn bus_bandwidth(&self) -> Option<f64> {
        let factor = self.collective.bus_factor(self.ranks);
        Some(self.algorithm_bandwidth()? * factor)
    }
}

pub fn run(
    arguments: &SimulateArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    if let Some(path) = &arguments.run.trace {
        output::refuse_overwriting(path, &arguments.job.files)?;
    }
    if arguments.run.collective == Collective::SendRecv {
        bail!("send-recv is one transfer, which is not simulated; expected another collective");
    }
    let fabric = match &arguments.fabric {
        Some(file) => read_fabric(file)?,
        None => Fabric::default(),
    };
    let done = match arguments.ranks {
        Some(ranks) => plain(ranks, &arguments.run, &fabric, environment)?,
        None => {
            let plan = sources::read(&arguments.job, output)?.planned(|machines| {
                job::plan_machines(machines, &arguments.job, environment, output)
            })?;
            planned(&plan, &arguments.run, &fabric, environment, output)?
        }
    };
    if let Some(path) = &arguments.run.trace {
        output::write(path, &(trace::perfetto(&done)? + "\n"))?;
        let left_out = done.simulated.outcome.spans_left_out;
        if left_out > 0 {
            output.warnings.push(format!(
                "{} holds the first {TRACE_SPANS} steps and transfers; {left_out} more were left out",
                path.display()
            ));
        }
    }
    output.text = match arguments.form.format() {
        TextOrJson::Text => page::page(&done, arguments.links.max(1), environment.look()),
        TextOrJson::Json => report::json(&SimulateReport::of(&done))?,
    };
    Ok(())
}

fn read_fabric(file: &Path) -> Result<Fabric> {
    let cannot = || format!("cannot read the fabric file {}", file.display());
    let text = files::read_text(file, FABRIC_LIMIT).with_context(cannot)?;
    let name = file.display().to_string();
    if !SwitchTree::is_one(&text) {
        return Ok(Fabric::from_toml(&name, &text)?);
    }
    // Hosts join the job in the order of the file; nothing limits the uplinks.
    let tree = SwitchTree::from_topology_conf(&name, &text)?;
    let hosts = tree.hosts();
    let leaves: Vec<usize> = hosts.iter().filter_map(|it| tree.leaf_of(it)).collect();
    Ok(Fabric {
        leaf: Some(Leaf {
            of: SwitchTree::leaf_numbers(&leaves),
            ..Leaf::default()
        }),
        ..Fabric::default()
    })
}

/// A job of hosts with one port each, as `topo run` has it without a plan.
fn plain(
    ranks: u32,
    run: &SimulatedRun,
    fabric: &Fabric,
    environment: &Environment,
) -> Result<SimulatedJob> {
    let Some(gbps) = fabric.network.port_gbps else {
        bail!(
            "--ranks without a plan needs the ports' rate: `[network]` with `port-gbps` in the fabric file"
        );
    };
    let channels = Channels::plain(ranks, run.channels.unwrap_or(1).into())?;
    let wiring = PlainHosts::new(ranks, gbps, fabric);
    fabric.check(ranks, wiring.hosts(), 1)?;
    let chosen = Chosen::without_plan(run, fabric, &channels)?;
    let hosts = wiring.hosts();
    simulated(
        run,
        &chosen,
        &channels,
        &wiring,
        (hosts, fabric),
        environment,
    )
}

/// A planned job.
pub fn planned(
    plan: &CheckedPlan,
    run: &SimulatedRun,
    fabric: &Fabric,
    environment: &Environment,
    output: &mut Output,
) -> Result<SimulatedJob> {
    let expansion = plan.expansion()?;
    let chosen = Chosen::of_plan(plan, expansion, run, fabric, output)?;
    let channels = channels(expansion, &chosen)?;
    let graph = match chosen.schedule {
        Schedule::Ring => Some(GraphKind::Ring),
        Schedule::Tree => Some(GraphKind::Tree),
        _ => None,
    };
    let fifos = Fifos {
        graph,
        latencies: chosen.latencies,
        expansion: chosen.expansion,
    };
    let wiring = PlannedWiring::new(plan, expansion, fifos, fabric)?;
    let hosts = expansion.layout().hosts();
    let job = simulated(
        run,
        &chosen,
        &channels,
        &wiring,
        (hosts, fabric),
        environment,
    )?;
    Ok(SimulatedJob {
        profile: Some(plan.profile.clone()),
        ..job
    })
}

fn channels(expansion: &Expansion, chosen: &Chosen) -> Result<Channels> {
    let all = expansion.program_channels()?;
    Ok(all.take(usize::from(chosen.channels)))
}

fn simulated(
    run: &SimulatedRun,
    chosen: &Chosen,
    channels: &Channels,
    wiring: &dyn Wiring,
    (hosts, fabric): (u32, &Fabric),
    environment: &Environment,
) -> Result<SimulatedJob> {
    let ranks = channels.ranks();
    let collective = run.collective;
    let request = ProgramRequest {
        collective,
        schedule: chosen.schedule,
        transfer: chosen.transfer,
        root: run.root,
        in_place: false,
        channels,
    };
    let lowering = Lowering::new(&request)?;
    let element_bytes = run.element.bytes();
    let blocks = collective.blocks(ranks);
    let count = (run.size / u64::from(element_bytes) / blocks).max(1);
    let message = MessageSize {
        count,
        element_bytes,
        slot_bytes: chosen.slot_bytes,
        piece_bytes: 0,
    };
    let _progress = Progress::new(environment, "simulating");
    let model = build(&lowering, &message, wiring).map_err(|error| anyhow!(error))?;
    let spans = if run.trace.is_some() { TRACE_SPANS } else { 0 };
    let simulated = simulator::simulate(model, spans, !run.every_rank)?;
    Ok(SimulatedJob {
        collective,
        schedule: chosen.schedule,
        transfer: chosen.transfer,
        protocol: chosen.protocol,
        element: run.element,
        root: run.root,
        bytes: count * u64::from(element_bytes) * blocks,
        ranks,
        hosts,
        channels: channels.count(),
        slot_bytes: chosen.slot_bytes,
        network: network(hosts, fabric),
        profile: None,
        predicted_us: chosen.predicted_us,
        links: loads(&simulated, wiring),
        simulated,
    })
}

/// The network in words.
fn network(hosts: u32, fabric: &Fabric) -> String {
    let Some(leaf) = &fabric.leaf else {
        return match hosts {
            1 => "none, one host".to_owned(),
            _ => "one switch without contention".to_owned(),
        };
    };
    let leaves = match leaf.count(hosts) {
        1 => "1 leaf switch".to_owned(),
        leaves => format!("{leaves} leaf switches"),
    };
    let rails = if leaf.rails { " on each rail" } else { "" };
    let most = leaf.sizes(hosts).into_iter().max().unwrap_or(leaf.hosts);
    format!(
        "{leaves}{rails} with up to {}, {}:1 oversubscribed",
        render::count(most as usize, "host"),
        leaf.oversubscription
    )
}

/// The loads of all links that carried anything, the busiest first.
fn loads(simulated: &Simulated, wiring: &dyn Wiring) -> Vec<LinkLoad> {
    let outcome = &simulated.outcome;
    let links = simulated.model.links.iter().zip(&outcome.link_bytes);
    let links = links
        .zip(&simulated.links)
        .filter(|((_, bytes), _)| **bytes > 0);
    let mut loads: Vec<LinkLoad> = links
        .map(|((link, bytes), (number, count))| {
            // Rates are rounded to 15 bytes per second.
            let gbps = (link.capacity.gbps() * 1e7).round() / 1e7;
            let most = gbps * outcome.time.us() * 1000.0;
            LinkLoad {
                name: wiring.name(*number),
                count: *count,
                gbps,
                bytes: *bytes,
                used: if most > 0.0 {
                    *bytes as f64 / most
                } else {
                    0.0
                },
            }
        })
        .collect();
    loads.sort_by(|one, other| other.used.total_cmp(&one.used));
    loads
}
