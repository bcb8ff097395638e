//! The page of a plan.

use pages::numbers::group;
use pages::{Look, Page};
use plan::certificate::UNITS;
use plan::{Expansion, Plan};
use planner::Planned;
use planner::explain::NodeNames;

use super::{channels, connections, job_plan, matrix, paths, summary, trail};
use crate::assumptions;
use crate::head::{self, slow_hosts};
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
    pub fn page(self) -> Page {
        let machines = &self.plan.machines;
        if let [machine] = &machines[..] {
            let mut page = Page::new(&machine.name);
            summary::machine(&mut page, self.plan, 0, self.routing(0));
            self.head(&mut page);
            self.body(&mut page, 0, true);
            assumptions::add(&mut page, &self.plan.assumptions);
            return page;
        }
        let mut page = Page::new(crate::names::job(self.plan));
        page.field("job", head::job(self.plan));
        self.head(&mut page);
        let remark =
            "the channels that each found, and GB/s of each channel; the job uses the least";
        let hosts = slow_hosts::table(self.plan);
        page.section("Hosts", remark).table(hosts);
        self.job(&mut page);
        let bodies = (0..machines.len()).map(|machine| {
            let mut own = Page::default();
            summary::machine(&mut own, self.plan, machine, self.routing(machine));
            self.body(&mut own, machine, false);
            (own, machine)
        });
        for (mut own, members) in group(bodies) {
            let (hosts, name) = head::machines(self.plan, &members);
            own.title = name;
            own.remark = head::hosts_in_words(&hosts);
            page.append(own);
        }
        assumptions::add(&mut page, &self.plan.assumptions);
        page
    }

    /// The lines about the job.
    fn head(&self, page: &mut Page) {
        page.fields.extend(slow_hosts::fields(self.plan));
        self.optimum(page);
        self.ranks(page);
        self.settings(page);
    }

    fn routing(&self, machine: usize) -> Option<&planner::Routing> {
        let planned = self.live?;
        Some(planned.node(machine).view.routing())
    }

    /// The most that any schedule reaches, and NCCL's share; then the plan's rings and trees where
    /// they are not NCCL's.
    fn optimum(&self, page: &mut Page) {
        if let Some(line) = self.live.and_then(optimum::line) {
            page.field("bound", line);
        }
        if let Some(rings) = self.rings {
            page.field("rings", rings);
        }
        let Some(forests) = &self.plan.forests else {
            return;
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
        page.field("trees", parts.collect::<Vec<_>>().join(", "));
    }

    /// Which rank runs on which GPU, if ranks do not count host after host.
    fn ranks(&self, page: &mut Page) {
        if self.plan.rank_order.is_none() {
            return;
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
        page.field("ranks", format!("from rank 0 on {}", shown.join(", ")));
        if all > MOST_RANKS {
            page.hint("…; topo show --rank shows any");
        }
    }

    fn settings(&self, page: &mut Page) {
        page.field("nccl", head::version(&self.plan.profile));
        if let Some(planned) = self.live {
            page.fields.extend(head::settings(&planned.settings));
            return;
        }
        page.fields
            .push(head::settings_of_plan(&self.plan.settings));
        if let Some(it) = &self.plan.measured {
            let slower = it.links.iter().filter(|it| it.used_gbps < it.nccl_gbps);
            let line = format!(
                "{} links from {}, of which {} carry less than NCCL takes them for",
                it.links.len(),
                it.source,
                slower.count()
            );
            page.field("measured", line);
        }
        let missing = "a saved plan holds no wiring, paths and limits";
        page.field("missing", missing)
            .hint(": topo plan shows them for a topology file");
    }

    fn job(&self, page: &mut Page) {
        let section = page.section("Job", "what all ranks together use");
        job_plan::facts(section, self.expansion);
    }

    /// Adds the sections of a machine. `job`: with that of the job.
    fn body(&self, page: &mut Page, machine: usize, job: bool) {
        let look = self.look;
        if let Some(planned) = self.live {
            let wired = Wiring::new(&planned.machines()[machine].document);
            page.section("Wiring", "as nvidia-smi topo -m draws it, from the file")
                .lines(matrix::wiring(&wired, look));
            let routing = planned.node(machine).view.routing();
            let names = NodeNames::new(routing.system());
            page.section("Paths", "those NCCL takes, in GB/s")
                .lines(paths::bandwidths(routing, &names, look));
        }
        let own = &self.plan.machines[machine];
        let Some(group) = own.groups.first() else {
            return;
        };
        let remark = "GB/s of each and of all; the worst paths they use";
        page.section("Channels", remark)
            .table(summary::graphs(group));
        channels::all(page, own, group);
        if self.connections {
            let section = page.section("Connections", "how the bytes travel, by what is equal");
            connections::add(section, self.plan, own, look);
        }
        if job {
            self.job(page);
        }
        let search = page.section("Search", "");
        if self.explain {
            search.remark = "attempt by attempt".to_owned();
            search.lines(trail::long(&group.trails, group.inter, look));
        } else {
            search.hint("--explain tells it all");
            search.lines(trail::short(&group.trails, look));
        }
    }
}
