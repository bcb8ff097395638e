//! The canonical form of a plan: values that do not change its meaning are dropped or renumbered.

use serde_json::{Map, Value, json};

use crate::error::Error;
use crate::json;
use crate::plan::Plan;

/// The producer and the input of a plan.
const OF_PLAN: [&str; 6] = [
    "producer",
    "fingerprint",
    "settings",
    "request",
    "profile",
    "measured",
];

/// Names of a machine.
const OF_MACHINE: [&str; 2] = ["name", "summary"];

/// Names of a GPU.
const OF_GPU: [&str; 2] = ["dev", "bus_id"];

/// Names of a port.
const OF_PORT: [&str; 5] = ["id", "dev", "name", "bus_id", "port"];

/// Keys under which ports are named by their ids.
const PORT_IDS: [&str; 3] = ["net", "nets", "own"];

/// The plan as a tree in canonical form.
pub(super) fn value(plan: &Plan) -> Result<Value, Error> {
    let mut value: Value = serde_json::from_str(&json::content(plan)?).unwrap_or_default();
    drop_keys(&mut value, &OF_PLAN);
    if let Some(costs) = value.get_mut("costs") {
        canonical_costs(costs);
    }
    let machines = value.get_mut("machines").map(Value::take);
    let mut distinct: Vec<Value> = Vec::new();
    // For each machine, its index among the distinct ones.
    let mut number: Vec<usize> = Vec::new();
    for mut machine in elements(machines) {
        canonical_machine(&mut machine);
        let known = distinct.iter().position(|known| *known == machine);
        number.push(known.unwrap_or_else(|| {
            distinct.push(machine);
            distinct.len() - 1
        }));
    }
    let runs = elements(value.get_mut("hosts").map(Value::take));
    value["hosts"] = Value::Array(merge_runs(runs, &number));
    value["machines"] = Value::Array(distinct);
    Ok(keyed(value))
}

fn elements(value: Option<Value>) -> Vec<Value> {
    match value {
        Some(Value::Array(elements)) => elements,
        _ => Vec::new(),
    }
}

fn drop_keys(value: &mut Value, keys: &[&str]) {
    if let Some(map) = value.as_object_mut() {
        map.retain(|key, _| !keys.contains(&key.as_str()));
    }
}

/// Merges runs of machines that turned out equal.
fn merge_runs(runs: Vec<Value>, number: &[usize]) -> Vec<Value> {
    let mut merged: Vec<(usize, u64, Value)> = Vec::new();
    for run in runs {
        let machine = run["machine"].as_u64().unwrap_or(0) as usize;
        let machine = number.get(machine).copied().unwrap_or(machine);
        let count = run["count"].as_u64().unwrap_or(0);
        match merged.last_mut() {
            Some((last, total, _)) if *last == machine => *total += count,
            _ => merged.push((machine, count, run["first_rank"].clone())),
        }
    }
    merged
        .into_iter()
        .map(|(machine, count, first_rank)| {
            json!({"machine": machine, "count": count, "first_rank": first_rank})
        })
        .collect()
}

/// Drops unavailable entries: the reason does not matter.
fn canonical_costs(costs: &mut Value) {
    drop_keys(costs, &["profile"]);
    // These change calls that plans are not compared by: groups, averages, small types, registered
    // buffers.
    if let Some(pat) = costs.get_mut("pat") {
        drop_keys(pat, &["averages"]);
    }
    if let Some(job) = costs.get_mut("job") {
        drop_keys(job, &["refuses_fp8", "restricted"]);
        if let Some(calls) = job.get_mut("calls") {
            drop_keys(calls, &["channel_traffic"]);
        }
        if let Some(registered) = job.get_mut("registered") {
            drop_keys(registered, &["direct_peers", "nvls", "one_gpu_ring"]);
        }
    }
    if let Some(kernels) = costs.pointer_mut("/windows/kernels") {
        *kernels = kernels_by_name(kernels.take());
    }
    if let Some(entries) = costs.get_mut("entries").and_then(Value::as_array_mut) {
        entries.retain(|entry| entry["bandwidth"].as_f64() > Some(0.0));
    }
}

/// The costs of each kernel as one short text.
fn kernels_by_name(kernels: Value) -> Value {
    let kernels = elements(Some(kernels)).into_iter();
    let texts = kernels.filter_map(|costs| {
        let name = costs["kernel"].as_str()?.to_owned();
        let (smooth, longest) = (&costs["time"]["smooth"], &costs["time"]["longest"]);
        let time = match smooth.is_null() {
            false => format!(
                "{} µs, {} × {} to {} GiB/s",
                smooth["latency"], smooth["block"], smooth["fan_out"], smooth["peak"]
            ),
            true => format!(
                "fitted {} + {} × {}, {}",
                longest["base"], longest["block"], longest["several"], longest["link"]
            ),
        };
        let (most, price) = (&costs["most_blocks"], &costs["block_price"]);
        let least = [&costs["least_bytes"], &costs["least_block_bytes"]];
        let mut text = format!("{time}, {most} CTAs at {price}");
        if least.iter().any(|it| it.as_u64() != Some(0)) {
            text.push_str(&format!(", from {} B, {} B a CTA", least[0], least[1]));
        }
        Some((name, json!(text)))
    });
    Value::Object(texts.collect())
}

fn canonical_machine(machine: &mut Value) {
    drop_keys(machine, &OF_MACHINE);
    let mut ports = Vec::new();
    for port in machine["nics"].as_array_mut().into_iter().flatten() {
        ports.push(port["id"].as_i64());
        drop_keys(port, &OF_PORT);
    }
    let mut numa = Vec::new();
    for gpu in machine["gpus"].as_array_mut().into_iter().flatten() {
        drop_keys(gpu, &OF_GPU);
        if let Some(number) = gpu.get_mut("numa") {
            *number = json!(first_place(&mut numa, number));
        }
    }
    for group in machine["groups"].as_array_mut().into_iter().flatten() {
        drop_keys(group, &["trails"]);
        number_ports(group, &ports);
        let members = members(group);
        if let Some(transports) = group.get_mut("transports") {
            *transports = canonical_transports(transports.take(), &members);
        }
    }
}

/// A kind with its fields beside it.
fn flat(transport: &Value) -> Value {
    match transport
        .as_object()
        .and_then(|transport| transport.iter().next())
    {
        Some((kind, Value::Object(fields))) => {
            let mut fields = fields.clone();
            fields.insert("way".to_owned(), json!(kind));
            Value::Object(fields)
        }
        _ => transport.clone(),
    }
}

/// The GPUs of a group by their rank in the machine, ascending.
fn members(group: &Value) -> Vec<i64> {
    let ranks = group["ranks"].as_array().into_iter().flatten();
    let mut members: Vec<i64> = ranks.filter_map(Value::as_i64).collect();
    members.sort_unstable();
    members
}

/// Keys each transport by its two GPUs instead of a number, and each use of a port by its GPU and
/// port.
fn canonical_transports(transports: Value, members: &[i64]) -> Value {
    let list = |key: &str| elements(transports.get(key).cloned());
    let distinct = list("ways");
    let mut between = Map::new();
    for (row, from) in list("between").iter().zip(members) {
        for (index, to) in row.as_array().into_iter().flatten().zip(members) {
            if let Some(transport) = distinct
                .get(index.as_u64().unwrap_or(u64::MAX) as usize)
                .filter(|_| from != to)
            {
                between.insert(format!("{from}→{to}"), flat(transport));
            }
        }
    }
    let mut ports = Map::new();
    for mut port in list("ports") {
        let name = format!("{}→NIC {}", port["gpu"], port["net"]);
        drop_keys(&mut port, &["gpu", "net"]);
        ports.insert(name, port);
    }
    let mut p2p = Map::new();
    for mut own in list("p2p") {
        let name = own["gpu"].to_string();
        drop_keys(&mut own, &["gpu"]);
        p2p.insert(name, own);
    }
    json!({"between": between, "ports": ports, "p2p": p2p})
}

/// The index of a value among those seen before, in order of first appearance.
fn first_place(seen: &mut Vec<Value>, value: &Value) -> usize {
    seen.iter()
        .position(|known| known == value)
        .unwrap_or_else(|| {
            seen.push(value.clone());
            seen.len() - 1
        })
}

/// Replaces port ids by their index in the machine's list.
fn number_ports(value: &mut Value, ports: &[Option<i64>]) {
    let place = |id: &mut Value| {
        let known = ports
            .iter()
            .position(|port| port.is_some() && *port == id.as_i64());
        if let Some(place) = known {
            *id = json!(place);
        }
    };
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                match value {
                    Value::Array(ids) if PORT_IDS.contains(&key.as_str()) => {
                        ids.iter_mut().for_each(place);
                    }
                    Value::Number(_) if PORT_IDS.contains(&key.as_str()) => place(value),
                    value => number_ports(value, ports),
                }
            }
        }
        Value::Array(values) => values
            .iter_mut()
            .for_each(|value| number_ports(value, ports)),
        _ => {}
    }
}

/// The key of a list's element; `None` if it has only its index.
fn key(element: &Value) -> Option<String> {
    let text = |key: &str| element.get(key)?.as_str();
    match (text("collective"), text("algorithm"), text("protocol")) {
        (Some(collective), Some(algorithm), Some(protocol)) => {
            Some(format!("{collective} {algorithm} {protocol}"))
        }
        (None, Some(algorithm), None) => Some(algorithm.to_owned()),
        _ => text("kind").map(str::to_owned),
    }
}

/// Turns lists whose elements have keys into maps, so that a missing element does not shift the
/// others.
fn keyed(value: Value) -> Value {
    match value {
        Value::Object(map) => map
            .into_iter()
            .map(|(key, value)| (key, keyed(value)))
            .collect(),
        Value::Array(values) => {
            let values: Vec<Value> = values.into_iter().map(keyed).collect();
            let keys: Option<Vec<String>> = values.iter().map(key).collect();
            match keys {
                Some(mut keys) if !keys.is_empty() => {
                    let map: Map<String, Value> =
                        keys.iter().cloned().zip(values.clone()).collect();
                    keys.sort_unstable();
                    keys.dedup();
                    if keys.len() == values.len() {
                        Value::Object(map)
                    } else {
                        Value::Array(values)
                    }
                }
                _ => Value::Array(values),
            }
        }
        other => other,
    }
}
