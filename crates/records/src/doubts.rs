//! Faults of a machine that listings show and its topology does not.

use findings::{AttributeChange, Effect, Finding, Rule, Selector};

use crate::from_pci::Functions;
use crate::pci::Function;
use crate::pci_link::Link;
use crate::read::Listings;

/// Findings of listings. Those of the topology that they give come from [`findings::of_document`].
pub(crate) fn of(facts: &Listings) -> Vec<Finding> {
    let functions = Functions::new(&facts.pci);
    let all = 0..facts.pci.len();
    let used = all.filter(|at| facts.pci[*at].is_gpu() || facts.pci[*at].is_adapter());
    let used: Vec<Used> = used.map(|at| Used::new(&functions, at)).collect();
    let mut found: Vec<Finding> = redirections(&functions, &used).into_iter().collect();
    found.extend(narrow_links(&functions, &used));
    found.extend(translation(facts, &used));
    let down = facts
        .adapters
        .iter()
        .filter(|it| it.is_active == Some(false));
    found.extend(down.map(|it| Finding::new(Rule::PortDown, &*it.name, "down", "active")));
    Finding::joined(found)
}

/// A GPU or an adapter with the bridges above it, from the host bridge on.
struct Used {
    at: usize,
    bridges: Vec<usize>,
    label: String,
    is_gpu: bool,
}

impl Used {
    fn new(functions: &Functions<'_>, at: usize) -> Self {
        let function = &functions.all[at];
        let kind = if function.is_gpu() { "GPU" } else { "NIC" };
        Self {
            at,
            bridges: functions.bridges(at),
            label: format!("{kind} {}", function.bus_id()),
            is_gpu: function.is_gpu(),
        }
    }
}

/// Ports whose ACS sends traffic between a GPU and another device of one host bridge up to it.
fn redirections(functions: &Functions<'_>, used: &[Used]) -> Option<Finding> {
    let root = |at: usize| functions.all[at].bus;
    let redirects = |port: &usize| {
        let (below, beside): (Vec<&Used>, Vec<&Used>) =
            used.iter().partition(|it| it.bridges.contains(port));
        let top = |it: &Used| it.bridges.first().map(|top| root(*top));
        below.iter().find_map(|one| {
            let other = beside
                .iter()
                .find(|other| top(one) == top(other) && (one.is_gpu || other.is_gpu))?;
            Some(format!(
                "redirection between {} and {}",
                one.label, other.label
            ))
        })
    };
    let ports = (0..functions.all.len()).filter(|at| functions.all[*at].redirects);
    let found: Vec<(usize, String)> = ports.filter_map(|at| Some((at, redirects(&at)?))).collect();
    let (_, seen) = found.first()?;
    let bridges: Vec<String> = found
        .iter()
        .map(|(at, _)| functions.all[*at].bus_id())
        .collect();
    Some(Finding::of_all(
        Rule::AccessControl,
        &bridges,
        &**seen,
        "no redirection",
    ))
}

/// Links on the way to devices that have fewer lanes, or run slower, than both their ends could.
fn narrow_links(functions: &Functions<'_>, used: &[Used]) -> Vec<Finding> {
    let mut ends: Vec<usize> = Vec::new();
    for it in used {
        // A link joins a port and the function on the bus behind it.
        let upper = it.bridges.iter().copied().skip(1).step_by(2);
        ends.extend(upper.chain([it.at]));
    }
    ends.sort_unstable();
    ends.dedup();
    let found = ends.iter().flat_map(|at| {
        let function = &functions.all[*at];
        let link = function.status.zip(functions.link(*at));
        link.map_or_else(Vec::new, |(now, best)| link_findings(function, now, best))
    });
    found.collect()
}

fn link_findings(function: &Function, now: Link, best: Link) -> Vec<Finding> {
    let change = |attribute, value: String| AttributeChange {
        at: Selector::Pci(function.bus_id()),
        attribute,
        value,
    };
    let mut found = Vec::new();
    if now.width < best.width {
        let effect = Effect {
            now: vec![change("link_width", now.width.to_string())],
            mended: vec![change("link_width", best.width.to_string())],
            ..Effect::default()
        };
        let (now, best) = (format!("x{}", now.width), format!("x{}", best.width));
        found.push(Finding::new(Rule::Width, function.bus_id(), now, best).with_effect(effect));
    }
    // An idle GPU slows its link down.
    if now.speed < best.speed && !function.is_gpu() {
        let effect = Effect {
            now: vec![change("link_speed", now.speed_text())],
            mended: vec![change("link_speed", best.speed_text())],
            ..Effect::default()
        };
        let (now, best) = (now.speed_text(), best.speed_text());
        found.push(Finding::new(Rule::Speed, function.bus_id(), now, best).with_effect(effect));
    }
    found
}

/// An IOMMU that translates what GPUs access.
fn translation(facts: &Listings, used: &[Used]) -> Option<Finding> {
    let gpus: Vec<&str> = used
        .iter()
        .filter(|it| it.is_gpu)
        .map(|it| &*it.label)
        .collect();
    let translates = facts.kernel.iommu_translates == Some(true) && !gpus.is_empty();
    translates.then(|| {
        let seen = "the kernel's default domain translates";
        Finding::of_all(Rule::Iommu, &gpus, seen, "identity (pass-through)")
    })
}
