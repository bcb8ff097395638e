//! Checks of transports, the common part and the cost table.

use std::collections::BTreeSet;
use std::sync::Arc;

use program::Collective;

use super::{finite, once};
use crate::common::{Common, JobChannels, MAX_CHANNELS};
use crate::content::PlanContent;
use crate::cost::spread::MOST_CALLS;
use crate::cost::{CallTime, CostTable, KernelTime, WindowCosts};
use crate::error::Error;
use crate::expand::Expansion;
use crate::graph::GraphKind;
use crate::layout::JobLayout;
use crate::machine::{GpuGroup, PlannedMachine};
use crate::transport::{GpuTransport, Transports};

pub(super) fn check(
    plan: &PlanContent,
    made: Option<Arc<Expansion>>,
) -> Result<Option<Arc<Expansion>>, Error> {
    for (index, machine) in plan.machines.iter().enumerate() {
        let grouped: usize = machine.groups.iter().map(|group| group.ranks.len()).sum();
        require(
            grouped == machine.gpus.len(),
            &format!("machines[{index}].groups"),
            || format!("they hold {grouped} of {} GPUs", machine.gpus.len()),
        )?;
        for (group_index, group) in machine.groups.iter().enumerate() {
            let at = format!("machines[{index}].groups[{group_index}].transports");
            if let Some(transports) = &group.transports {
                check_transports(&at, machine, group, transports)?;
            }
        }
    }
    let layout = JobLayout::of(plan)?;
    let (ranks, nodes) = (layout.ranks(), layout.nodes());
    let mut expansion = None;
    if let Some(common) = &plan.common {
        for (index, machine) in plan.machines.iter().enumerate() {
            for (group_index, group) in machine.groups.iter().enumerate() {
                let at = format!("machines[{index}].groups[{group_index}]");
                check_common_to(&at, group, common, ranks)?;
            }
        }
        check_common(common)?;
        // The expansion checks that every channel holds every GPU of its node once.
        expansion = Some(match made {
            Some(made) if *made.layout() == layout && made.common() == common => made,
            _ => Arc::new(Expansion::of(plan, common, layout)?),
        });
    }
    let forests = plan.forests.iter().flatten();
    for (index, forest) in forests.clone().enumerate() {
        let refused = forest.program_forest(ranks).err();
        require(refused.is_none(), &format!("forests[{index}]"), || {
            refused.map_or_else(String::new, |error| error.to_string())
        })?;
    }
    let collectives: BTreeSet<Collective> = forests.clone().map(|it| it.collective).collect();
    require(collectives.len() == forests.count(), "forests", || {
        "a collective occurs twice".to_owned()
    })?;
    if let Some(costs) = &plan.costs {
        check_costs(costs, [ranks, nodes], plan.common.as_ref())?;
    }
    Ok(expansion)
}

fn require(holds: bool, at: &str, problem: impl FnOnce() -> String) -> Result<(), Error> {
    if holds {
        Ok(())
    } else {
        Err(Error::inconsistent(at.to_owned(), problem()))
    }
}

fn check_transports(
    at: &str,
    machine: &PlannedMachine,
    group: &GpuGroup,
    transports: &Transports,
) -> Result<(), Error> {
    let gpus = group.ranks.len();
    let in_machine = |gpu: u32| (gpu as usize) < machine.gpus.len();
    let in_group = |gpu: u32| i32::try_from(gpu).is_ok_and(|gpu| group.ranks.contains(&gpu));
    let is_net = |net: i64| machine.nics.iter().any(|nic| nic.id == net);
    for (index, transport) in transports.distinct.iter().enumerate() {
        let at = format!("{at}.ways[{index}]");
        match transport {
            GpuTransport::Direct { via, bw, .. } => {
                finite(&at, "bw", *bw)?;
                require(via.is_none_or(in_group), &at, || {
                    "the GPU in between is not in the group".to_owned()
                })?;
            }
            GpuTransport::SharedMemory { bw, .. } => finite(&at, "bw", *bw)?,
            GpuTransport::Network { .. } => {}
        }
    }
    let square =
        transports.between.len() == gpus && transports.between.iter().all(|row| row.len() == gpus);
    let at_between = format!("{at}.between");
    require(square, &at_between, || {
        format!("expected {gpus} rows of {gpus} GPUs each")
    })?;
    let mut indexes = transports.between.iter().flatten();
    let beyond = indexes.find(|transport| usize::from(**transport) >= transports.distinct.len());
    require(beyond.is_none(), &at_between, || {
        format!("there is no way {}", beyond.copied().unwrap_or_default())
    })?;
    for (index, port) in transports.ports.iter().enumerate() {
        let at = format!("{at}.ports[{index}]");
        finite(&at, "bw", port.bw)?;
        require(
            in_group(port.gpu) && port.proxy.is_none_or(in_machine) && is_net(port.net),
            &at,
            || "a GPU is not in the group, or the machine has no such port".to_owned(),
        )?;
    }
    for (index, inner) in transports.inner.iter().enumerate() {
        let is_first = transports.inner[..index]
            .iter()
            .all(|it| it.kind != inner.kind);
        require(
            is_first && inner.nets.into_iter().all(is_net),
            &format!("{at}.inner[{index}]"),
            || "the graph occurs twice, or the machine has no such port".to_owned(),
        )?;
    }
    require(
        transports.per_peer.is_none_or(u32::is_power_of_two),
        &format!("{at}.per_peer"),
        || {
            let found = transports.per_peer.unwrap_or_default();
            format!("it is {found}; expected a power of two")
        },
    )?;
    let sorted = transports
        .ports
        .is_sorted_by(|a, b| (a.gpu, a.net) < (b.gpu, b.net))
        && transports.p2p.is_sorted_by(|a, b| a.gpu < b.gpu);
    require(sorted, at, || {
        "ports are not in the order of GPUs and ports, or listed twice".to_owned()
    })?;
    for (index, ports) in transports.p2p.iter().enumerate() {
        let at = format!("{at}.p2p[{index}]");
        let rails = ports.rails.iter().flat_map(|rail| &rail.ports);
        let proxies = rails.clone().filter_map(|port| port.proxy);
        let nets = ports.own.iter().copied();
        let known = |net| transports.port(ports.gpu, net).is_some();
        require(
            !ports.own.is_empty()
                && ports.rails.iter().all(|rail| !rail.ports.is_empty())
                && nets.chain(rails.map(|port| port.net)).all(known)
                && proxies.into_iter().all(in_machine),
            &at,
            || "it names no port, or one that is not among the group's `ports`".to_owned(),
        )?;
    }
    Ok(())
}

/// Checks that every group fits the common part.
fn check_common_to(at: &str, group: &GpuGroup, common: &Common, ranks: u32) -> Result<(), Error> {
    require(group.transports.is_some(), at, || {
        "it has no transports".to_owned()
    })?;
    for merged in &common.graphs {
        let own = group.graph(merged.kind);
        let own = own.map_or(0, |graph| graph.channels.len());
        require(merged.channels as usize <= own, at, || {
            format!(
                "its {} graph has {own} channels, but all nodes have {}",
                merged.kind, merged.channels
            )
        })?;
    }
    if let Some(nvls) = common.nvls {
        let graph = group.graph(GraphKind::Nvls);
        let channels = graph.map_or(&[][..], |graph| graph.channels.as_slice());
        let heads: BTreeSet<i32> = channels
            .iter()
            .filter_map(|channel| channel.ranks.first().copied())
            .collect();
        require(nvls.heads as usize <= heads.len(), at, || {
            format!(
                "it has {} NVLS heads, but all nodes have {}",
                heads.len(),
                nvls.heads
            )
        })?;
    }
    let size = group.ranks.len() as u32;
    let whole = common.p2p.group == ranks || size.checked_rem(common.p2p.group) == Some(0);
    require(whole, at, || {
        format!(
            "its {size} GPUs do not fall into rounds of {} for point-to-point transfers",
            common.p2p.group
        )
    })
}

fn check_common(common: &Common) -> Result<(), Error> {
    let at = "common";
    once(at, "graphs", common.graphs.iter().map(|graph| graph.kind))?;
    for graph in &common.graphs {
        let at = format!("{at}.graphs[{}]", graph.kind);
        finite(&at, "bw_intra", graph.bw_intra)?;
        finite(&at, "bw_inter", graph.bw_inter)?;
        finite(&at, "latency_inter", graph.latency_inter)?;
    }
    let JobChannels { searched, base } = &common.channels;
    let rings = common.graph_channels(GraphKind::Ring);
    let trees = common.graph_channels(GraphKind::Tree);
    require(
        *searched == rings && *searched == trees,
        "common.channels.searched",
        || format!("it is {searched}, but there are {rings} rings and {trees} trees"),
    )?;
    let at_base = "common.channels.base";
    require(base.len() <= MAX_CHANNELS as usize, at_base, || {
        format!(
            "there are {} channels, but NCCL has {MAX_CHANNELS} at most",
            base.len()
        )
    })?;
    let beyond = base.iter().find(|base| u32::from(**base) / 2 >= *searched);
    require(beyond.is_none(), at_base, || {
        format!(
            "there is no channel {}, only twice {searched}",
            beyond.copied().unwrap_or_default()
        )
    })?;
    if let Some(nvls) = common.nvls {
        require(
            nvls.channels <= MAX_CHANNELS,
            "common.nvls.channels",
            || {
                format!(
                    "it is {}, but NCCL has {MAX_CHANNELS} at most",
                    nvls.channels
                )
            },
        )?;
    }
    let p2p = common.p2p;
    require(
        p2p.channels.is_power_of_two() && p2p.channels <= MAX_CHANNELS,
        "common.p2p.channels",
        || {
            format!(
                "it is {}; expected a power of two up to {MAX_CHANNELS}",
                p2p.channels
            )
        },
    )?;
    require(
        p2p.per_peer.is_power_of_two(),
        "common.p2p.per_peer",
        || format!("it is {}; expected a power of two", p2p.per_peer),
    )
}

/// Largest traffic of a channel below which fewer are used, bytes.
const MOST_TRAFFIC: u64 = 1 << 30;

/// Checks what calls are cut by.
fn check_calls(costs: &CostTable) -> Result<(), Error> {
    let job = &costs.job;
    let channels = 1..=MAX_CHANNELS;
    let [least, most] = job.calls.blocks;
    for (name, found) in [
        ("blocks", least),
        ("blocks", most),
        ("fewest_channels", job.calls.fewest_channels),
    ] {
        let at = format!("costs.job.calls.{name}");
        require(channels.contains(&found), &at, || {
            format!("it is {found}, but should be 1 to {MAX_CHANNELS}")
        })?;
    }
    require(least <= most, "costs.job.calls.blocks", || {
        format!("the fewest are {least}, the most {most}")
    })?;
    require(job.channels <= MAX_CHANNELS, "costs.job.channels", || {
        format!(
            "there are {}, but NCCL has {MAX_CHANNELS} at most",
            job.channels
        )
    })?;
    let traffic = job.calls.channel_traffic;
    require(
        (1..=MOST_TRAFFIC).contains(&traffic),
        "costs.job.calls.channel_traffic",
        || format!("it is {traffic}, but should be 1 to {MOST_TRAFFIC}"),
    )
}

/// Largest cell of kernels for windows, bytes.
const MOST_CELL: u64 = 1 << 20;

/// Checks the costs of kernels for symmetric windows.
fn check_windows(windows: &WindowCosts) -> Result<(), Error> {
    let least = |name: &str, found: u64, most: u64| {
        let at = format!("costs.windows.{name}");
        require((1..=most).contains(&found), &at, || {
            format!("it is {found}, but should be 1 to {most}")
        })
    };
    let channels = u64::from(MAX_CHANNELS);
    least("blocks", windows.blocks.unwrap_or(1).into(), channels)?;
    least("block_step", windows.block_step.into(), channels)?;
    least("cell_bytes", windows.cell_bytes.unwrap_or(1), MOST_CELL)?;
    let most_calls = windows.most_calls.unwrap_or(1);
    least("most_calls", most_calls.into(), MOST_CALLS.into())?;
    for copy in windows.engines.iter().flat_map(|it| &it.copies) {
        let at = "costs.windows.engines.copies";
        finite(at, "latency", copy.latency)?;
        for bandwidth in [copy.bandwidth, copy.own_bandwidth.unwrap_or(1.0)] {
            finite(at, "bandwidth", bandwidth)?;
            require(bandwidth > 0.0, at, || {
                format!("a bandwidth is {bandwidth}; expected more than 0 GB/s")
            })?;
        }
    }
    for (index, costs) in windows.kernels.iter().enumerate() {
        let name = format!("kernels[{index}]");
        let most_blocks = format!("{name}.most_blocks");
        least(&most_blocks, costs.most_blocks.into(), channels)?;
        let numbers = match costs.time {
            KernelTime::Smooth {
                latency,
                block,
                fan_out,
                peak,
            } => [latency, block, fan_out, peak],
            KernelTime::Longest {
                base,
                block,
                several,
                link,
            } => [base, block, several, link],
        };
        let at = format!("costs.windows.{name}");
        finite(&at, "block_price", costs.block_price)?;
        for number in numbers {
            finite(&at, "time", number as f32)?;
        }
        for call in &costs.single {
            check_call(call, &format!("{at}.single"))?;
        }
    }
    Ok(())
}

/// Checks the model of a single call on symmetric windows.
fn check_call(call: &CallTime, at: &str) -> Result<(), Error> {
    let [more, in_trough] = call.trough.unwrap_or([0.0, 1.0]);
    for number in [call.base, call.rank, more, call.overlap.unwrap_or(0.0)] {
        finite(at, "time", number as f32)?;
    }
    finite(at, "block_price", call.block_price)?;
    let rates = [call.small, call.rest, call.ll, call.one, call.few];
    let scales = call.scale.unwrap_or([1.0; 2]).into_iter();
    let rates = rates.into_iter().flatten().chain(scales);
    for rate in rates.chain([call.block, call.peak, in_trough]) {
        finite(at, "bandwidth", rate as f32)?;
        require(rate > 0.0, at, || {
            format!("a bandwidth is {rate}; expected more than 0 GB/s")
        })?;
    }
    Ok(())
}

fn check_costs(
    costs: &CostTable,
    [ranks, nodes]: [u32; 2],
    common: Option<&Common>,
) -> Result<(), Error> {
    let job = &costs.job;
    let expected = [
        ("ranks", job.ranks, Some(ranks)),
        ("nodes", job.nodes, Some(nodes)),
        (
            "channels",
            job.channels,
            common.map(|common| common.channels.count()),
        ),
    ];
    for (name, found, expected) in expected {
        require(
            expected.is_none_or(|expected| found == expected),
            &format!("costs.job.{name}"),
            || {
                format!(
                    "it is {found}, but should be {}",
                    expected.unwrap_or_default()
                )
            },
        )?;
    }
    check_calls(costs)?;
    costs.windows.as_ref().map_or(Ok(()), check_windows)?;
    let mut seen = BTreeSet::new();
    for (index, entry) in costs.entries.iter().enumerate() {
        let at = format!("costs.entries[{index}]");
        finite(&at, "bandwidth", entry.bandwidth)?;
        finite(&at, "latency", entry.latency)?;
        require(
            seen.insert((entry.collective, entry.algorithm, entry.protocol)),
            &at,
            || {
                format!(
                    "{} with {} and {} is listed twice",
                    entry.collective, entry.algorithm, entry.protocol
                )
            },
        )?;
    }
    let correction = &costs.tree_correction;
    for factor in [&correction.ll, &correction.ll128, &correction.simple]
        .into_iter()
        .flatten()
    {
        finite("costs", "tree_correction", *factor)?;
    }
    finite(
        "costs.latency_factors",
        "ring_simple",
        costs.latency_factors.ring_simple as f32,
    )
}
