//! The faults that can be planted in a job, the more usual ones first.

use findings::causes::Cause;
use findings::causes::table::{network, nvlink, pcie, settings};
use plan::{CostTable, GraphKind};
use planner::cost::{self, CostProfile, Inputs};
use planner::{Job, Planned, Settings};
use topology::edit::{Device, DeviceKind, Devices, Edit};
use topology::xml::{Document, Element, Tag};

use super::detours::{self, Detour};

/// Most devices of a kind that are planned one by one. Others like them give the same.
const MOST_DEVICES: usize = 16;

/// A fault.
#[derive(Debug, Clone)]
pub(super) struct Fault {
    /// Its cause.
    pub cause: &'static Cause,
    /// The links, ports or hosts that have it.
    pub place: String,
    plant: Plant,
}

/// The change of the job that plants a fault.
#[derive(Debug, Clone)]
enum Plant {
    Edits(Vec<Edit>),
    Setting(&'static str, &'static str),
    /// Ports keep at most this share of their rate. NCCL does not see it, and decides as on a
    /// healthy machine.
    Slowed(f64),
}

impl Fault {
    /// NCCL decides as on a healthy machine, and what is left is at most what the costs say.
    pub(super) const fn is_unseen(&self) -> bool {
        matches!(self.plant, Plant::Slowed(_))
    }

    /// The costs of a job with this fault; `None` if NCCL cannot start it.
    pub(super) fn costs(&self, job: &Job, planned: &Planned) -> Option<CostTable> {
        let settings = &planned.settings;
        match &self.plant {
            Plant::Edits(edits) => {
                let mut job = job.clone();
                edits.iter().try_for_each(|edit| job.edit(edit)).ok()?;
                Some(planner::plan(&job, settings).ok()?.costs)
            }
            Plant::Setting(name, value) => {
                let more = [((*name).to_owned(), (*value).to_owned())];
                let given = settings.in_force.iter().cloned();
                let version = settings.rules.version();
                let settings = Settings::with_variables(version, given.chain(more));
                Some(planner::plan(job, &settings).ok()?.costs)
            }
            Plant::Slowed(share) => {
                let inputs = slowed(planned.job.cost_inputs(), *share as f32);
                let profile = CostProfile::of(planned.version());
                cost::table(&inputs, &settings.tuning, &profile, settings.rules).ok()
            }
        }
    }
}

/// Channels whose ports keep a share of their rate.
fn slowed(mut inputs: Inputs, share: f32) -> Inputs {
    inputs.nvls_graph.bw_inter *= share;
    for graph in [
        &mut inputs.ring,
        &mut inputs.tree,
        &mut inputs.collnet_direct,
        &mut inputs.collnet_chain,
    ] {
        graph.bw_inter *= share;
        // A channel is as fast as its slowest part; for two nodes NCCL counts the part inside.
        graph.bw_intra = graph.bw_intra.min(graph.bw_inter);
    }
    inputs
}

/// The faults that a job can have, in the order in which they count where several explain a miss
/// alike: first those that no topology file shows.
pub(super) fn all(job: &Job, planned: &Planned) -> Vec<Fault> {
    let Some(host) = job.hosts.first() else {
        return Vec::new();
    };
    let document = &host.document;
    let list = List {
        document,
        devices: Devices::of(document),
        several: planned.job.layout().hosts() > 1,
    };
    let mut found = Vec::new();
    if planned.job.layout().nodes() > 1 {
        list.network(&mut found);
    }
    list.inside(planned, &mut found);
    found
}

struct List<'a> {
    document: &'a Document,
    devices: Devices,
    several: bool,
}

impl List<'_> {
    /// The names of the first host's devices of a kind.
    fn names(&self, kind: DeviceKind) -> Vec<String> {
        let is_kind = |it: &&Device| it.kind == kind && it.host == 0;
        let all = self.devices.all.iter().filter(is_kind);
        all.filter_map(|it| self.devices.own_name(it)).collect()
    }

    /// An edit of one host.
    fn of_one_host(&self, edit: Edit) -> Edit {
        edit.on_host(self.several.then_some(0))
    }

    fn one_host(&self) -> &'static str {
        if self.several { " of one host" } else { "" }
    }

    fn each_host(&self) -> &'static str {
        if self.several { " of each host" } else { "" }
    }

    fn network(&self, found: &mut Vec<Fault>) {
        let ports = self.names(DeviceKind::Port);
        let redirected = detours::through_host_bridge(self.document);
        found.extend(redirected.map(|it| detour(&pcie::ACS_REDIRECT, it)));
        // Every other one, then all but the first.
        let half: Vec<&String> = ports.iter().skip(1).step_by(2).collect();
        let others: Vec<&String> = ports.iter().skip(1).collect();
        let fewer = [half, others];
        for gone in &fewer[..ports.len().saturating_sub(1).min(2)] {
            let used = ports.len() - gone.len();
            let place = format!("{used} of the {} ports{}", ports.len(), self.each_host());
            let edits = gone.iter().map(|name| Edit::without(name));
            found.extend(edited(&network::ONE_PORT, place, edits));
        }
        let copied = detours::through_memory(self.document);
        found.extend(copied.map(|it| detour(&network::GDR_NO_MODULE, it)));
        let place = format!("all ports{} at half of their rate", self.each_host());
        let half = |name: &String| Edit::degrade(&format!("{name}=50%"));
        found.extend(edited(&network::PORT_SLOW, place, ports.iter().map(half)));
        for name in ports.iter().take(MOST_DEVICES) {
            let slow = half(name).map(|it| self.of_one_host(it));
            let place = format!("{name}{} at half of its rate", self.one_host());
            found.extend(edited(&network::PORT_SLOW, place, [slow].into_iter()));
        }
        for name in ports.iter().take(MOST_DEVICES) {
            let down = Edit::without(name).map(|it| self.of_one_host(it));
            let place = format!("{name}{}", self.one_host());
            found.extend(edited(&network::PORT_DOWN, place, [down].into_iter()));
        }
        self.narrow(DeviceKind::Adapter, found);
    }

    fn inside(&self, planned: &Planned, found: &mut Vec<Fault>) {
        found.push(setting(&settings::P2P_DISABLED, "NCCL_P2P_DISABLE", "1"));
        if planned.job.common().graph(GraphKind::Nvls).is_some() {
            found.push(setting(&nvlink::NVLS_OFF, "NCCL_NVLS_ENABLE", "0"));
        }
        if !has_nvlinks(&self.document.root) {
            self.narrow(DeviceKind::Gpu, found);
            return;
        }
        for name in self.names(DeviceKind::Gpu).iter().take(MOST_DEVICES) {
            let half = Edit::degrade(&format!("{name}:NVLinks=50%"));
            let place = format!("half of the NVLinks of {name}{}", self.one_host());
            let half = half.map(|it| self.of_one_host(it));
            found.extend(edited(&nvlink::LINKS_MISSING, place, [half].into_iter()));
        }
    }

    /// PCIe links of single devices with half of their lanes.
    fn narrow(&self, kind: DeviceKind, found: &mut Vec<Fault>) {
        for name in self.names(kind).iter().take(MOST_DEVICES) {
            let half = Edit::degrade(&format!("{name}=50%"));
            let half = half.map(|it| self.of_one_host(it));
            let place = format!("{name}{}, half of its lanes", self.one_host());
            found.extend(edited(&pcie::LINK_NARROW, place, [half].into_iter()));
        }
    }
}

fn has_nvlinks(element: &Element) -> bool {
    element.tag == Tag::Nvlink || element.children.iter().any(has_nvlinks)
}

fn detour(cause: &'static Cause, detour: Detour) -> Fault {
    Fault {
        cause,
        place: detour.limit,
        plant: Plant::Slowed(detour.share),
    }
}

fn edited<E>(
    cause: &'static Cause,
    place: String,
    edits: impl Iterator<Item = Result<Edit, E>>,
) -> Option<Fault> {
    let edits: Vec<Edit> = edits.collect::<Result<_, _>>().ok()?;
    (!edits.is_empty()).then_some(Fault {
        cause,
        place,
        plant: Plant::Edits(edits),
    })
}

fn setting(cause: &'static Cause, name: &'static str, value: &'static str) -> Fault {
    Fault {
        cause,
        place: format!("{name}={value}"),
        plant: Plant::Setting(name, value),
    }
}
