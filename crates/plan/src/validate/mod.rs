//! Checks that the parts of a plan fit together, so that its readers need not.

mod joined;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::channel::{GraphPaths, neighbors};
use crate::common::MAX_CHANNELS;
use crate::connection::EndPoint;
use crate::content::PlanContent;
use crate::error::{Error, excerpt};
use crate::expand::Expansion;
use crate::graph::{Graph, GraphKind};
use crate::machine::{GpuGroup, PlannedMachine};
use crate::trail::{SearchEnd, Trail};

/// Checks a plan and returns its expansion, which is `made` if there is one. `None`: the plan does
/// not say how its hosts are joined.
pub(crate) fn check(
    plan: &PlanContent,
    made: Option<Arc<Expansion>>,
) -> Result<Option<Arc<Expansion>>, Error> {
    for (index, setting) in plan.settings.iter().enumerate() {
        // What decides beside NCCL's variables, such as the driver, has a name of ours.
        let mut prefixes = ["NCCL_", "TOPO_"].into_iter();
        let letters = prefixes.find_map(|it| setting.name.strip_prefix(it));
        let letters = letters.unwrap_or_default();
        let is_letter = |it: u8| it.is_ascii_uppercase() || it.is_ascii_digit() || it == b'_';
        if letters.is_empty() || !letters.bytes().all(is_letter) {
            let name = excerpt(&setting.name);
            return Err(Error::SettingName { index, name });
        }
    }
    crate::assumption::check(&plan.assumptions)?;
    if let Some(measured) = &plan.measured {
        measured.check()?;
    }
    for (index, machine) in plan.machines.iter().enumerate() {
        check_machine(&format!("machines[{index}]"), machine)?;
    }
    let (mut next, mut machines) = (0u64, 0u64);
    for (index, run) in plan.hosts.iter().enumerate() {
        let at = || format!("hosts[{index}]");
        let Some(machine) = plan.machines.get(run.machine as usize) else {
            return Err(Error::inconsistent(
                at(),
                format!("there is no machine {}", run.machine),
            ));
        };
        if u64::from(run.first_rank) != next {
            return Err(Error::inconsistent(
                at(),
                format!("the first rank is {}, but should be {next}", run.first_rank),
            ));
        }
        if machine.gpus.is_empty() {
            return Err(Error::inconsistent(
                at(),
                format!("machine {} has no GPU", run.machine),
            ));
        }
        next += machine.gpus.len() as u64 * u64::from(run.count);
        machines += u64::from(run.count);
        // Ranks are signed 32-bit numbers in NCCL.
        if next.max(machines) > i32::MAX as u64 {
            return Err(Error::inconsistent(
                at(),
                "there are more ranks than NCCL can number".to_owned(),
            ));
        }
    }
    joined::check(plan, made)
}

fn check_machine(at: &str, machine: &PlannedMachine) -> Result<(), Error> {
    for (index, gpu) in machine.gpus.iter().enumerate() {
        if gpu.rank as usize != index {
            return Err(Error::inconsistent(
                format!("{at}.gpus[{index}]"),
                format!("its rank is {}, but should be {index}", gpu.rank),
            ));
        }
    }
    let mut nets = BTreeSet::new();
    for (index, nic) in machine.nics.iter().enumerate() {
        let at = format!("{at}.nics[{index}]");
        finite(&at, "speed", nic.speed)?;
        if nic.id < 0 || !nets.insert(nic.id) {
            return Err(Error::inconsistent(
                at,
                format!("the id {} is negative or used twice", nic.id),
            ));
        }
    }
    let mut ranks = BTreeSet::new();
    for (index, group) in machine.groups.iter().enumerate() {
        let at = format!("{at}.groups[{index}]");
        if group.ranks.is_empty() {
            return Err(Error::inconsistent(at, "the group has no GPUs".to_owned()));
        }
        for &rank in &group.ranks {
            if usize::try_from(rank).is_ok_and(|rank| rank < machine.gpus.len())
                && ranks.insert(rank)
            {
                continue;
            }
            return Err(Error::inconsistent(
                at,
                format!("rank {rank} is not in the machine, or in two groups"),
            ));
        }
        check_group(&at, group, &nets)?;
    }
    Ok(())
}

fn check_group(at: &str, group: &GpuGroup, nets: &BTreeSet<i64>) -> Result<(), Error> {
    finite(at, "max_bw", group.max_bw)?;
    finite(at, "total_bw", group.total_bw)?;
    once(at, "graphs", group.graphs.iter().map(|graph| graph.kind))?;
    once(at, "paths", group.paths.iter().map(|paths| paths.kind))?;
    once(at, "trails", group.trails.iter().map(|trail| trail.kind))?;
    let ranks: BTreeSet<i32> = group.ranks.iter().copied().collect();
    for graph in &group.graphs {
        let mut trails = group.trails.iter().filter(|it| it.kind == graph.kind);
        // NCCL 2.27 and 2.28 fall back to port 0, whether there is one or not.
        let fallback = trails.any(|it| it.end == SearchEnd::Fallback).then_some(0);
        let is_known = |net: &i64| nets.contains(net) || Some(*net) == fallback;
        check_graph(
            &format!("{at}.graphs[{}]", graph.kind),
            graph,
            &ranks,
            is_known,
        )?;
    }
    for paths in &group.paths {
        let at = format!("{at}.paths[{}]", paths.kind);
        let Some(graph) = group.graph(paths.kind) else {
            return Err(Error::inconsistent(at, "there is no such graph".to_owned()));
        };
        check_paths(&at, paths, graph, nets)?;
    }
    for trail in &group.trails {
        check_trail(&format!("{at}.trails[{}]", trail.kind), trail)?;
    }
    Ok(())
}

fn check_graph(
    at: &str,
    graph: &Graph,
    ranks: &BTreeSet<i32>,
    is_known: impl Fn(&i64) -> bool,
) -> Result<(), Error> {
    finite(at, "bw_intra", graph.bw_intra)?;
    finite(at, "bw_inter", graph.bw_inter)?;
    finite(at, "latency_inter", graph.latency_inter)?;
    if graph.channels.len() > MAX_CHANNELS as usize {
        let found = graph.channels.len();
        return Err(Error::inconsistent(
            at.to_owned(),
            format!("it has {found} channels, but NCCL has {MAX_CHANNELS} at most"),
        ));
    }
    for (index, channel) in graph.channels.iter().enumerate() {
        let at = || format!("{at}.channels[{index}]");
        if channel.ranks.is_empty() {
            return Err(Error::inconsistent(
                at(),
                "the channel has no ranks".to_owned(),
            ));
        }
        if let Some(rank) = channel.ranks.iter().find(|rank| !ranks.contains(rank)) {
            return Err(Error::inconsistent(
                at(),
                format!("rank {rank} is not in the group"),
            ));
        }
        let named = channel
            .nets
            .iter()
            .flatten()
            .find(|net| **net >= 0 && !is_known(net));
        if let Some(net) = named {
            return Err(Error::inconsistent(
                at(),
                format!("the machine has no network port with id {net}"),
            ));
        }
    }
    Ok(())
}

fn check_paths(
    at: &str,
    paths: &GraphPaths,
    graph: &Graph,
    nets: &BTreeSet<i64>,
) -> Result<(), Error> {
    if paths.channels.len() != graph.channels.len() {
        return Err(Error::inconsistent(
            at.to_owned(),
            format!(
                "there are paths of {} channels, but {} channels",
                paths.channels.len(),
                graph.channels.len()
            ),
        ));
    }
    for (index, (hops, channel)) in paths.channels.iter().zip(&graph.channels).enumerate() {
        let at = format!("{at}.channels[{index}]");
        for hop in hops {
            finite(&at, "bw", hop.bw)?;
        }
        let stated: Vec<(EndPoint, EndPoint)> = hops.iter().map(|hop| (hop.from, hop.to)).collect();
        // No path leads to a port that is not there.
        let leads = |end: EndPoint| !matches!(end, EndPoint::Net(net) if !nets.contains(&net));
        let mut expected = neighbors(graph.pattern, channel);
        expected.retain(|(from, to)| leads(*from) && leads(*to));
        if stated != expected {
            return Err(Error::inconsistent(
                at,
                "the paths do not follow the channel".to_owned(),
            ));
        }
    }
    Ok(())
}

fn check_trail(at: &str, trail: &Trail) -> Result<(), Error> {
    for (index, attempt) in trail.attempts.iter().enumerate() {
        let at = format!("{at}.attempts[{index}]");
        let best = &attempt.best;
        for (name, number) in [
            ("bw_intra", attempt.bw_intra),
            ("bw_inter", attempt.bw_inter),
            ("best.bw_intra", best.bw_intra),
            ("best.bw_inter", best.bw_inter),
        ] {
            finite(&at, name, number)?;
        }
    }
    Ok(())
}

/// JSON has no infinities; a plan with one could not be read back.
fn finite(at: &str, name: &str, number: f32) -> Result<(), Error> {
    if number.is_finite() {
        Ok(())
    } else {
        Err(Error::inconsistent(
            format!("{at}.{name}"),
            format!("{number} is not a finite number"),
        ))
    }
}

fn once(at: &str, name: &str, kinds: impl Iterator<Item = GraphKind>) -> Result<(), Error> {
    let mut seen = BTreeSet::new();
    for kind in kinds {
        if !seen.insert(kind) {
            return Err(Error::inconsistent(
                format!("{at}.{name}"),
                format!("{kind} is listed twice"),
            ));
        }
    }
    Ok(())
}
