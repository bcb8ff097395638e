//! Missing NVLinks, peer access, and the NVLink fabric.

use crate::gpu::ProbedGpu;
use crate::nvml::Answer;
use crate::probed::Probe;
use findings::{AttributeChange, Effect, Selector};
use findings::{Finding, Rule};

/// Status of products without peer access, which is no fault.
const BY_PRODUCT: &str = "GpuNotSupported";

/// Most pairs of GPUs that a finding lists.
const NAMED_PAIRS: usize = 4;

pub(super) fn check(probe: &Probe) -> Vec<Finding> {
    let mut findings: Vec<Finding> = probe
        .gpus
        .iter()
        .filter_map(|gpu| missing(probe, gpu))
        .collect();
    findings.extend(peer_access(probe));
    findings.extend(fabric(probe));
    findings
}

/// Finds a GPU with fewer active links than others of its kind, or with links down.
fn missing(probe: &Probe, gpu: &ProbedGpu) -> Option<Finding> {
    // TreeParts of GPUs have no links.
    if gpu.mig {
        return None;
    }
    let own = gpu.nvlink_count();
    let twins = probe
        .gpus
        .iter()
        .filter(|other| other.device == gpu.device && other.sm == gpu.sm && !other.mig);
    let most = twins.map(ProbedGpu::nvlink_count).max().unwrap_or(own);
    let links = &probe.answers.devices.get(gpu.index as usize)?.nvlinks;
    let down: Vec<String> = (0..)
        .zip(links)
        .filter(|(_, link)| link.p2p.value() == Some(&true) && link.up.value() == Some(&false))
        .map(|(number, _): (u32, _)| number.to_string())
        .collect();
    // Unused bridge slots are not down.
    let partly_down = own > 0 && !down.is_empty();
    if own >= most && !partly_down {
        return None;
    }
    let expected = if partly_down {
        most.max(own + down.len() as u32)
    } else {
        most
    };
    let numbers = match down.as_slice() {
        [] => String::new(),
        down => format!(" (down: {})", down.join(", ")),
    };
    // All links from a GPU to one target are one element, whose repaired count is known.
    let mended = match gpu.nvlinks.as_slice() {
        [(target, count)] => vec![AttributeChange {
            at: Selector::Nvlink(gpu.bus_id.clone(), target.clone()),
            attribute: "count",
            value: (count + expected - own).to_string(),
        }],
        _ => Vec::new(),
    };
    let finding = Finding::new(
        Rule::NvlinkMissing,
        probe.label(&gpu.bus_id),
        format!("{own} NVLinks{numbers}"),
        format!("{expected} NVLinks"),
    );
    Some(finding.with_effect(Effect {
        mended,
        ..Effect::default()
    }))
}

/// Finds GPUs that share NVLinks or a switch but lack peer access.
fn peer_access(probe: &Probe) -> Option<Finding> {
    let used: Vec<&ProbedGpu> = probe
        .gpus
        .iter()
        .filter(|gpu| gpu.rank.is_some() && !gpu.mig)
        .collect();
    let mut pairs = Vec::new();
    let mut why = String::new();
    for (at, gpu) in used.iter().enumerate() {
        for other in used
            .iter()
            .skip(at + 1)
            .filter(|other| joined(probe, gpu, other))
        {
            let peers = probe
                .answers
                .devices
                .get(gpu.index as usize)
                .map(|device| &device.peers);
            let Some(peer) = peers.and_then(|peers| peers.get(other.index as usize)) else {
                continue;
            };
            let refused = |answer: &Answer<String>| {
                let status = answer.value()?;
                (status != "Ok" && status != BY_PRODUCT).then(|| status.clone())
            };
            if let Some(status) = refused(&peer.read).or_else(|| refused(&peer.write)) {
                pairs.push(format!("GPU{}–GPU{}", gpu.index, other.index));
                why = status;
            }
        }
    }
    if pairs.is_empty() {
        return None;
    }
    let mut device = pairs
        .iter()
        .take(NAMED_PAIRS)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    if pairs.len() > NAMED_PAIRS {
        device.push_str(&format!(" and {} more pairs", pairs.len() - NAMED_PAIRS));
    }
    Some(Finding::new(
        Rule::NoPeerAccess,
        device,
        format!("peer access: {why}"),
        "Ok",
    ))
}

fn joined(probe: &Probe, gpu: &ProbedGpu, other: &ProbedGpu) -> bool {
    let to_gpu = |from: &ProbedGpu, to: &ProbedGpu| {
        from.nvlinks.iter().any(|(target, _)| *target == to.bus_id)
    };
    let to_switch = |gpu: &ProbedGpu| {
        let is_gpu = |target: &String| probe.gpus.iter().any(|other| other.bus_id == *target);
        gpu.nvlinks.iter().any(|(target, _)| !is_gpu(target))
    };
    let switch = |gpu: &ProbedGpu| {
        let function = probe.machine.pci.get(&gpu.bus_id)?;
        function.parent().map(str::to_owned)
    };
    to_gpu(gpu, other)
        || to_switch(gpu) && to_switch(other)
        || switch(gpu).is_some() && switch(gpu) == switch(other)
}

/// Finds GPUs whose fabric is not ready.
fn fabric(probe: &Probe) -> Option<Finding> {
    let waiting = |gpu: &&ProbedGpu| {
        let device = probe.answers.devices.get(gpu.index as usize);
        let fabric = device.and_then(|device| device.fabric.value());
        fabric.is_some_and(|fabric| matches!(fabric.state.as_str(), "NotStarted" | "InProgress"))
    };
    let gpus: Vec<String> = probe
        .gpus
        .iter()
        .filter(waiting)
        .map(|gpu| format!("GPU{}", gpu.index))
        .collect();
    (!gpus.is_empty()).then(|| {
        Finding::new(
            Rule::Fabric,
            gpus.join(", "),
            "the fabric is not set up",
            "state Completed",
        )
    })
}
