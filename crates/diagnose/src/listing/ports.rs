//! Ports of adapters, their counters, limits of a process, and tests of DCGM: what is wrong.

use std::collections::BTreeMap;

use findings::causes::Certainty::Possible;
use findings::causes::table::{gpu, network, nvlink, pcie};
use findings::causes::{self, Cause};
use findings::facts::counters;
use records::adapter::Adapter;
use records::outputs::{Outputs, Test, Verdict};

use super::Shown;

/// Memory that a process may lock, KiB, below which NICs run out of it; Linux gives 64, systemd
/// 8192.
const LITTLE_LOCKED: u64 = 16 << 10;

/// Ports that are down, unless no cable is plugged in, and ports that are slower than their like.
pub(super) fn ports(adapters: &[Adapter]) -> Vec<Shown> {
    let empty = without_cable(adapters);
    let down = adapters
        .iter()
        .filter(|it| it.is_active == Some(false) && !empty.contains(it));
    let down =
        down.map(|it| Shown::new(&network::PORT_DOWN, Possible, vec![it.name.clone()], "down"));
    down.chain(slow(adapters)).collect()
}

/// Down ports of connectors none of whose ports are up, beside a connector all of whose ports are:
/// a connector of a DGX Spark leads to two ports, `rocep1s0f1` and `roceP2p1s0f1`, and one cable is
/// enough. Source: NVIDIA, DGX Spark user guide, "Spark stacking".
pub(super) fn without_cable(adapters: &[Adapter]) -> Vec<&Adapter> {
    let mut connectors: BTreeMap<&str, Vec<&Adapter>> = BTreeMap::new();
    for it in adapters.iter().filter(|it| it.is_active.is_some()) {
        let function = it
            .name
            .strip_prefix("roce")
            .and_then(|name| name.rsplit_once('f'));
        if let Some((_, number)) = function {
            connectors.entry(number).or_default().push(it);
        }
    }
    let are = |ports: &Vec<&Adapter>, state: bool| {
        ports.len() > 1 && ports.iter().all(|it| it.is_active == Some(state))
    };
    if !connectors.values().any(|it| are(it, true)) {
        return Vec::new();
    }
    let empty = connectors.into_values().filter(|it| are(it, false));
    empty.flatten().collect()
}

/// Few InfiniBand ports at half the rate of the others or less.
fn slow(adapters: &[Adapter]) -> Vec<Shown> {
    let like = || {
        let up = adapters
            .iter()
            .filter(|it| it.is_active == Some(true) && it.is_infiniband);
        up.filter_map(|it| Some((it, it.speed?)))
    };
    let Some(most) = like().map(|it| it.1).max() else {
        return Vec::new();
    };
    let slow: Vec<_> = like().filter(|it| it.1 <= most / 2).collect();
    // Ports for storage and management are slower, too, and there are several.
    if slow.len() > 1 || like().filter(|it| it.1 == most).count() < 3 {
        return Vec::new();
    }
    let shown = slow.into_iter().map(|(it, speed)| {
        let text = format!(
            "{} Gb/s, the other ports of its kind {}",
            speed / 1000,
            most / 1000
        );
        Shown::new(&network::PORT_SLOW, Possible, vec![it.name.clone()], &text)
    });
    shown.collect()
}

/// What counters, limits and tests show.
pub(super) fn outputs(outputs: &Outputs) -> Vec<Shown> {
    let mut shown = Vec::new();
    for port in &outputs.counters {
        let mut by_cause: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (name, value) in &port.set {
            let known = counters::of(name);
            let Some((id, counts)) = known.and_then(|it| Some((it.cause?, it.counts))) else {
                continue;
            };
            // Counters of InfiniBand end at the largest value of their size.
            let is_full = [0xf, 0xff, 0xffff, 0xffff_ffff].contains(value);
            let more = if is_full { " or more" } else { "" };
            by_cause
                .entry(id)
                .or_default()
                .push(format!("{name} {value}{more} ({counts})"));
        }
        for (id, texts) in by_cause {
            let cause = causes::of_id(id);
            shown.extend(cause.map(|cause| {
                Shown::new(cause, Possible, vec![port.port.clone()], &texts.join(", "))
            }));
        }
    }
    if let Some(locked) = outputs.locked_memory.filter(|it| *it <= LITTLE_LOCKED) {
        let text = format!("{locked} KiB, expected unlimited");
        let device = vec!["max locked memory".to_owned()];
        shown.push(Shown::new(&network::LOCKED_MEMORY, Possible, device, &text));
    }
    shown.extend(outputs.tests.iter().filter_map(test));
    shown
}

/// A test of DCGM that failed on hardware.
fn test(test: &Test) -> Option<Shown> {
    let name = test.name.to_lowercase();
    let has = |words: &[&str]| {
        words
            .iter()
            .any(|it| name.contains(it) || test.why.contains(it))
    };
    let cause: &Cause = match () {
        () if test.verdict != Verdict::Failed => return None,
        () if has(&["nvlink", "NVLink", "nvbandwidth"]) => &nvlink::LINKS_MISSING,
        () if has(&["memory", "remap", "retirement", "ECC", "DBE"]) => &gpu::REMAP,
        () if has(&[
            "PCIe replay",
            "link width",
            "PCIe bandwidth",
            "PCI-E bandwidth",
        ]) =>
        {
            &pcie::LINK_SLOW
        }
        () => return None,
    };
    let gpus = test.gpus.iter().map(|it| format!("GPU {it}")).collect();
    let why = match test.why.as_str() {
        "" => String::new(),
        why => format!(": {why}"),
    };
    Some(Shown::new(
        cause,
        Possible,
        gpus,
        &format!("DCGM's test {} failed{why}", test.name),
    ))
}
