//! Network ports.

use std::collections::BTreeMap;

use topology::xml::Element;

use crate::machine::{Adapter, RdmaPort};
use crate::net;
use crate::probed::Probe;
use crate::tree::TreeParts;
use findings::{AttributeChange, Effect, Selector};
use findings::{Finding, Rule};

pub(super) fn check(probe: &Probe) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut twins: BTreeMap<[String; 3], Vec<(&Adapter, &RdmaPort)>> = BTreeMap::new();
    for adapter in &probe.machine.adapters {
        let function = adapter
            .bus_id
            .as_deref()
            .and_then(|bus_id| probe.machine.pci.get(bus_id));
        let kind = function.map(|function| {
            [
                &function.vendor,
                &function.device,
                &function.subsystem_device,
            ]
            .map(String::clone)
        });
        let kind = kind.unwrap_or_default();
        twins
            .entry(kind)
            .or_default()
            .extend(adapter.ports.iter().map(|port| (adapter, port)));
    }
    for ports in twins.values() {
        compare(probe, ports, &mut findings);
    }
    virtual_functions(probe, &mut findings);
    direct_access(probe, &mut findings);
    findings
}

/// Compares the ports of one kind of adapter.
fn compare(probe: &Probe, ports: &[(&Adapter, &RdmaPort)], findings: &mut Vec<Finding>) {
    let active = || ports.iter().filter(|(_, port)| port.is_active());
    let best = active().max_by_key(|(_, port)| port.rate);
    let fastest = best.and_then(|(_, port)| port.rate);
    for (adapter, port) in ports {
        let name = format!("{} port {}", adapter.name, port.number);
        if let (false, Some((_, twin))) = (port.is_active(), best) {
            let seen = format!("{}, cable {}", words(&port.state), words(&port.cable));
            let finding = Finding::new(Rule::PortDown, name, seen, "ACTIVE, as its twins");
            let effect = Effect {
                mended_root: with_port(probe, adapter, port, twin),
                ..Effect::default()
            };
            findings.push(finding.with_effect(effect));
        } else if let (Some(rate), Some(fastest)) =
            (port.rate.filter(|_| port.is_active()), fastest)
            && rate < fastest
        {
            let mended = vec![AttributeChange {
                at: Selector::Net(adapter.name.clone()),
                attribute: "speed",
                value: fastest.to_string(),
            }];
            let gigabits = |rate: i32| format!("{} Gb/s", f64::from(rate) / 1000.0);
            let finding = Finding::new(Rule::PortSlow, name, gigabits(rate), gigabits(fastest));
            findings.push(finding.with_effect(Effect {
                mended,
                ..Effect::default()
            }));
        }
    }
}

/// The topology with a port repaired; `None` if NCCL would not use it either.
fn with_port(
    probe: &Probe,
    adapter: &Adapter,
    port: &RdmaPort,
    twin: &RdmaPort,
) -> Option<Box<Element>> {
    let mut machine = probe.machine.clone();
    let known = machine.adapters.iter_mut();
    let ports = known
        .filter(|known| known.name == adapter.name)
        .flat_map(|known| &mut known.ports);
    for known in ports.filter(|known| known.number == port.number) {
        *known = RdmaPort {
            number: port.number,
            ..twin.clone()
        };
    }
    let nets = net::list(&machine, &probe.options);
    if nets.len() <= probe.nets.len() {
        return None;
    }
    let parts = TreeParts::new(&machine, &probe.gpus, &nets, probe.base.as_ref());
    Some(Box::new(parts.root(probe.options.all_devices)))
}

/// Removes the number from a state such as `1: DOWN`.
fn words(state: &str) -> &str {
    match state.split_once(':') {
        Some((_, words)) => words.trim(),
        None if state.is_empty() => "unknown",
        None => state,
    }
}

/// Virtual functions in use beside their physical function.
fn virtual_functions(probe: &Probe, findings: &mut Vec<Finding>) {
    let adapters = || {
        let active = probe
            .machine
            .adapters
            .iter()
            .filter(|adapter| adapter.ports.iter().any(RdmaPort::is_active));
        active.filter_map(|adapter| Some((adapter, adapter.bus_id.as_deref()?)))
    };
    for (adapter, bus_id) in adapters() {
        let parent = probe
            .machine
            .pci
            .get(bus_id)
            .and_then(|function| function.physical_function.as_deref());
        if let Some((other, _)) = adapters().find(|(_, other)| Some(*other) == parent) {
            findings.push(Finding::new(
                Rule::VirtualFunction,
                adapter.name.clone(),
                format!("a virtual function of {}, both active", other.name),
                "one of them",
            ));
        }
    }
}

/// Adapters that lack access to GPU memory because of GPUs or kernel.
fn direct_access(probe: &Probe, findings: &mut Vec<Finding>) {
    let rdma = probe.nets.iter().any(|net| net.rdma);
    let used = || probe.gpus.iter().filter(|gpu| gpu.rank.is_some());
    let able = used().any(|gpu| gpu.direct_access);
    if !rdma || used().next().is_none() {
        return;
    }
    if !able {
        let name = used().next().map_or("", |gpu| gpu.name.as_str());
        findings.push(Finding::new(
            Rule::DirectAccess,
            "all GPUs",
            format!("{name} does not let adapters reach its memory"),
            "a data centre or workstation GPU",
        ));
    } else if !probe.machine.direct.is_possible() {
        let mended = vec![AttributeChange {
            at: Selector::Nets,
            attribute: "gdr",
            value: "1".to_owned(),
        }];
        let finding = Finding::new(
            Rule::DirectAccess,
            "all NICs",
            probe.machine.direct.reason(),
            "peer memory or DMA-BUF",
        );
        findings.push(finding.with_effect(Effect {
            mended,
            ..Effect::default()
        }));
    }
}
