//! What NCCL's log says.

use nccl_log::{Collector, Communicator, Log};
use serde_json::{Value, json};

/// Reads a log.
///
/// # Errors
/// It cannot be read.
pub fn answer(name: &str, text: &str) -> Result<Value, String> {
    let mut collector = Collector::default();
    let read = collector.read(name, text.as_bytes(), |_| {});
    read.map_err(|why| format!("{name}: {why}"))?;
    let log = collector.finish();
    let communicators = log.communicators.iter().map(communicator);
    let warnings = log.warnings.iter().map(|it| {
        let meaning = it
            .meaning
            .map(|it| json!({ "means": it.means, "advice": it.advice }));
        json!({ "text": it.text, "count": it.count, "line": it.first.1, "meaning": meaning })
    });
    let odd = log
        .odd_hosts
        .iter()
        .chain(log.communicators.iter().flat_map(|it| &it.odd_ranks));
    let odd = odd.map(|it| json!({ "what": it.what, "usual": it.usual, "others": it.others }));
    Ok(json!({
        "name": name,
        "recognized": log.counts.recognized,
        "ignored": log.counts.ignored,
        "unknown": log.counts.unknown,
        "versions": log.versions.keys().collect::<Vec<_>>(),
        "hosts": log.hosts.keys().collect::<Vec<_>>(),
        "communicators": communicators.collect::<Vec<_>>(),
        "odd": odd.collect::<Vec<_>>(),
        "warnings": warnings.collect::<Vec<_>>(),
        "broken": broken(&log),
    }))
}

fn broken(log: &Log) -> Vec<String> {
    let lines = log.broken.iter();
    lines
        .map(|it| format!("{}:{}: {}", it.file, it.line, it.text))
        .collect()
}

fn communicator(it: &Communicator) -> Value {
    let rings = it.decisions.rings.iter();
    let rings = rings.map(|(channel, ranks)| json!({ "channel": channel, "ranks": ranks }));
    let trees = it.decisions.trees.iter();
    let trees = trees.map(|((channel, rank), neighbors)| {
        json!({ "channel": channel, "rank": rank, "up": neighbors.up, "down": neighbors.down })
    });
    json!({
        "id": it.id,
        "ranks": it.ranks,
        "nodes": it.nodes,
        "rings": rings.collect::<Vec<_>>(),
        "trees": trees.collect::<Vec<_>>(),
    })
}
