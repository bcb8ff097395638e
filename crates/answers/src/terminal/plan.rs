//! The page of a plan.

use plan::certificate::UNITS;
use plan::{Expansion, Plan};
use planner::Planned;
use planner::explain::NodeNames;

use super::{
    Look, channels, connections, group, job_plan, matrix, names, paths, settings, slow_hosts,
    summary, trail, trim_lines, version,
};
use crate::matrix::Wiring;
use bounds::optimum;

/// Most ranks whose GPUs are listed.
const MOST_RANKS: u32 = 16;

/// A plan to show.
#[derive(Debug, Clone, Copy)]
pub struct PlanPage<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// The neighbors of its ranks.
    pub expansion: &'a Expansion,
    /// The machines with their paths, unless the plan was read from a file.
    pub live: Option<&'a Planned>,
    /// Facts about its rings beside NCCL's.
    pub rings: Option<&'a str>,
    /// Every attempt of the search is shown.
    pub explain: bool,
    /// The connections between neighbors are shown.
    pub connections: bool,
    /// How it looks.
    pub look: Look,
}

impl PlanPage<'_> {
    /// The page: of equal machines, one is shown.
    pub fn text(self) -> String {
        let machines = &self.plan.machines;
        if let [machine] = &machines[..] {
            let head = format!("{}\n", self.look.heading(&machine.name));
            let head = head
                + &summary::machine(self.plan, 0, self.routing(0), self.look)
                + &slow_hosts::lines(self.plan, self.look);
            let head = head + &self.optimum() + &self.ranks() + &self.settings();
            return trim_lines(&(head + &self.body(0, true)));
        }
        let mut text = format!("{}\n", self.look.heading(&crate::names::job(self.plan)));
        text.push_str(&self.look.field("job", &crate::head::job(self.plan)));
        text.push_str(&slow_hosts::lines(self.plan, self.look));
        text.push_str(&self.optimum());
        text.push_str(&self.ranks());
        text.push_str(&self.settings());
        let remark =
            "the channels that each found, and GB/s of each channel; the job uses the least";
        let hosts = slow_hosts::table(self.plan, self.look);
        text.push_str(&self.look.section("Hosts", remark, &hosts));
        text.push_str(&self.job());
        let bodies = (0..machines.len()).map(|machine| {
            let head = summary::machine(self.plan, machine, self.routing(machine), self.look);
            (head + &self.body(machine, false), machine)
        });
        for (body, members) in group(bodies) {
            let (hosts, name) = names::machines(self.plan, &members);
            let title = self.look.title(&name, &names::hosts_in_words(&hosts));
            text.push_str(&format!("\n{title}{body}"));
        }
        trim_lines(&text)
    }

    fn routing(&self, machine: usize) -> Option<&planner::Routing> {
        let planned = self.live?;
        Some(planned.node(machine).view.routing())
    }

    /// The most that any schedule reaches, and NCCL's share; then the plan's rings and trees where
    /// they are not NCCL's.
    fn optimum(&self) -> String {
        let line = self.live.and_then(optimum::line);
        let mut text = line.map_or_else(String::new, |line| self.look.field("bound", &line));
        if let Some(rings) = self.rings {
            text.push_str(&self.look.field("rings", rings));
        }
        let Some(forests) = &self.plan.forests else {
            return text;
        };
        let unit = f64::from(UNITS);
        let parts = forests.iter().map(|forest| {
            let (reached, bound) = (forest.bandwidth.per(unit), forest.bound.per(unit));
            let name = forest.collective.command_name();
            format!(
                "{name} {reached:.1} GB/s ({:.0} %)",
                100.0 * reached / bound
            )
        });
        let parts = parts.collect::<Vec<_>>().join(", ");
        text.push_str(&self.look.field("trees", &parts));
        text
    }

    /// Which rank runs on which GPU, if ranks do not count host after host.
    fn ranks(&self) -> String {
        if self.plan.rank_order.is_none() {
            return String::new();
        }
        let all = self.expansion.layout().ranks();
        let several = self.expansion.layout().hosts() > 1;
        let place = |rank| {
            let place = self.expansion.place(rank).ok()?;
            let machine = self.plan.machines.get(place.node.machine as usize)?;
            let gpu = machine.gpus.get(place.local as usize)?;
            Some(match several {
                true => format!("host{}/GPU{}", place.host, gpu.dev),
                false => format!("GPU{}", gpu.dev),
            })
        };
        let shown: Vec<String> = (0..all.min(MOST_RANKS)).filter_map(place).collect();
        let more = if all > MOST_RANKS {
            " …; topo show --rank shows any"
        } else {
            ""
        };
        let line = format!("from rank 0 on {}{more}", shown.join(", "));
        self.look.field("ranks", &line)
    }

    fn settings(&self) -> String {
        match self.live {
            Some(planned) => {
                version::line(planned.version(), self.look)
                    + &settings::lines(&planned.settings, self.look)
            }
            None => {
                let missing = "a saved plan holds no wiring, paths and limits: topo plan shows them \
                               for a topology file";
                version::of_profile(&self.plan.profile, self.look)
                    + &settings::of_plan(&self.plan.settings, self.look)
                    + &self.measured()
                    + &self.look.field("missing", missing)
            }
        }
    }

    /// The measured links on which a saved plan was made.
    fn measured(&self) -> String {
        self.plan.measured.as_ref().map_or_else(String::new, |it| {
            let slower = it.links.iter().filter(|it| it.used_gbps < it.nccl_gbps);
            let line = format!(
                "{} links from {}, of which {} carry less than NCCL takes them for",
                it.links.len(),
                it.source,
                slower.count()
            );
            self.look.field("measured", &line)
        })
    }

    fn job(&self) -> String {
        let facts = job_plan::facts(self.expansion, self.look);
        self.look
            .section("Job", "what all ranks together use", &facts)
    }

    /// The sections of a machine. `job`: with that of the job.
    fn body(&self, machine: usize, job: bool) -> String {
        let look = self.look;
        let mut text = String::new();
        let mut section = |title: &str, remark: &str, body: &str| {
            text.push_str(&look.section(title, remark, body));
        };
        if let Some(planned) = self.live {
            let wired = Wiring::new(&planned.machines()[machine].document);
            section(
                "Wiring",
                "as nvidia-smi topo -m draws it, from the file",
                &matrix::wiring(&wired, look),
            );
            let routing = planned.node(machine).view.routing();
            let names = NodeNames::new(routing.system());
            section(
                "Paths",
                "those NCCL takes, in GB/s",
                &paths::bandwidths(routing, &names, look),
            );
        }
        let own = &self.plan.machines[machine];
        let Some(group) = own.groups.first() else {
            return text;
        };
        section(
            "Channels",
            "GB/s of each and of all; the worst paths they use",
            &(summary::graphs(group, look) + &channels::all(own, group, look)),
        );
        if self.connections {
            section(
                "Connections",
                "how the bytes travel, by what is equal",
                &connections::page(self.plan, machine, look),
            );
        }
        if job {
            text.push_str(&self.job());
        }
        let (remark, search) = match self.explain {
            true => (
                "attempt by attempt",
                trail::long(&group.trails, group.inter, look),
            ),
            false => ("--explain tells it all", trail::short(&group.trails, look)),
        };
        text.push_str(&look.section("Search", remark, &search));
        text
    }
}
