//! PCI Express links below their best speed or width.

use std::collections::BTreeSet;

use crate::gpu;
use crate::machine::PciFunction;
use crate::probed::Probe;
use crate::tree::gigatransfers;
use findings::{AttributeChange, Effect, Selector};
use findings::{Finding, Rule};
use topology::bandwidth::GENERATIONS;

/// Most lanes of a link; the kernel writes 63 or 255 for unknown.
const MOST_LANES: u32 = 32;

/// Current and best speed and width of a link, if known.
#[derive(Default)]
struct State {
    speed: Option<(String, String)>,
    width: Option<(u32, u32)>,
}

pub(super) fn check(probe: &Probe) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut seen = BTreeSet::new();
    for used in probe.used_functions() {
        let mut chain: Vec<&str> = used.bridges().collect();
        chain.push(&used.bus_id);
        // A link connects the root port and the upstream port, or a downstream port and its child.
        for pair in chain.chunks(2).filter(|pair| pair.len() == 2) {
            let (port, device) = (
                probe.machine.pci.get(pair[0]),
                probe.machine.pci.get(pair[1]),
            );
            if let (Some(port), Some(device)) = (port, device)
                && seen.insert(device.bus_id.clone())
            {
                findings.extend(check_link(probe, port, device));
            }
        }
    }
    findings
}

fn check_link(probe: &Probe, port: &PciFunction, device: &PciFunction) -> Vec<Finding> {
    let state = gpu_state(probe, device).unwrap_or_else(|| kernel_state(port, device));
    let label = probe.label(&device.bus_id);
    let edit = |attribute, value: String| AttributeChange {
        at: Selector::Pci(device.bus_id.clone()),
        attribute,
        value,
    };
    let mut findings = Vec::new();
    if let Some((now, best)) = state.width.filter(|(now, best)| now < best) {
        let effect = Effect {
            now: vec![edit("link_width", now.to_string())],
            mended: vec![edit("link_width", best.to_string())],
            ..Effect::default()
        };
        let finding = Finding::new(
            Rule::Width,
            label.clone(),
            format!("x{now}"),
            format!("x{best}"),
        );
        findings.push(finding.with_effect(effect));
    }
    // An idle GPU slows its link down, and without its driver nobody knows whether it is idle.
    let unknown = probe.has_no_driver() && device.is_nvidia_gpu();
    if let Some((now, best)) = state.speed.filter(|_| !unknown)
        && gigatransfers(&now) < gigatransfers(&best)
    {
        let effect = Effect {
            now: vec![edit("link_speed", written(&now))],
            mended: vec![edit("link_speed", written(&best))],
            ..Effect::default()
        };
        findings.push(Finding::new(Rule::Speed, label, now, best).with_effect(effect));
    }
    findings
}

/// A speed in NCCL's words; older kernels omit a part.
fn written(speed: &str) -> String {
    let same = |generation: &&&str| gigatransfers(generation) == gigatransfers(speed);
    GENERATIONS
        .iter()
        .find(same)
        .map_or_else(|| speed.to_owned(), |known| (*known).to_owned())
}

/// A GPU's link, from the driver. Idle GPUs slow their link down on purpose.
fn gpu_state(probe: &Probe, device: &PciFunction) -> Option<State> {
    let own = probe.gpus.iter().find(|gpu| gpu.bus_id == device.bus_id)?;
    let answers = probe.answers.devices.get(own.index as usize)?;
    let pair = |now: Option<&u32>, best: Option<&u32>| Some((*now?, *best?));
    let speed = pair(
        answers.link_generation.value(),
        answers.max_link_generation.value(),
    );
    let text = |generation: u32| {
        let at = (generation as usize).checked_sub(1)?;
        GENERATIONS.get(at).map(|text| (*text).to_owned())
    };
    Some(State {
        speed: speed
            .filter(|_| !gpu::is_idle(answers))
            .and_then(|(now, best)| Some((text(now)?, text(best)?))),
        width: pair(answers.link_width.value(), answers.max_link_width.value()),
    })
}

fn kernel_state(port: &PciFunction, device: &PciFunction) -> State {
    let lanes = |text: Option<&String>| {
        let lanes = text?.parse::<u32>().ok()?;
        (1..=MOST_LANES).contains(&lanes).then_some(lanes)
    };
    let width = || {
        let best = lanes(device.link.max_width.as_ref())?.min(lanes(port.link.max_width.as_ref())?);
        Some((lanes(device.link.current_width.as_ref())?, best))
    };
    let speed = || {
        let (own, above) = (
            device.link.max_speed.as_ref()?,
            port.link.max_speed.as_ref()?,
        );
        let best = if gigatransfers(above)? < gigatransfers(own)? {
            above
        } else {
            own
        };
        let now = device.link.current_speed.as_ref()?;
        gigatransfers(now)?;
        Some((now.clone(), best.clone()))
    };
    State {
        speed: speed(),
        width: width(),
    }
}
