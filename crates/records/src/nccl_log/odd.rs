//! Hosts and ranks that differ from most.

use std::collections::BTreeMap;

use crate::nccl_log::log::{HostFacts, OWN, Oddity, RankFacts};
use crate::nccl_log::statement::Stage;

/// An initialisation is slow if it takes so many times and so many seconds more than half of the
/// ranks need.
const SLOW: (f32, f32) = (1.5, 1.0);

/// The words for a missing value.
const NOTHING: &str = "not said";

/// Compares hosts.
pub fn hosts(hosts: &BTreeMap<String, HostFacts>) -> Vec<Oddity> {
    let hosts: Vec<_> = hosts.iter().filter(|(name, _)| !name.is_empty()).collect();
    let mut odd = Vec::new();
    let mut compare = |what: &str, value: &dyn Fn(&HostFacts) -> Option<String>| {
        let values = hosts
            .iter()
            .map(|(name, facts)| ((*name).clone(), value(facts)));
        odd.extend(oddity(what, values));
    };
    let join = |values: &std::collections::BTreeSet<String>| {
        values.iter().cloned().collect::<Vec<_>>().join(" | ")
    };
    for name in ["version", "driver", "network", "ports", "interface"] {
        compare(name, &|facts| facts.values.get(name).map(join));
    }
    let names = hosts.iter().flat_map(|(_, facts)| facts.settings.keys());
    let names: std::collections::BTreeSet<&String> = names.collect();
    for name in names {
        if !OWN.contains(&name.as_str()) {
            compare(name, &|facts| facts.settings.get(name).map(join));
        }
    }
    compare("GPUDirect RDMA", &|facts| {
        let off = facts.gdr.values().filter(|(enabled, _)| !enabled).count();
        (!facts.gdr.is_empty()).then(|| match off {
            0 => "everywhere".to_owned(),
            _ => format!("not for {off} of {}", facts.gdr.len()),
        })
    });
    odd
}

/// Compares the ranks of a communicator.
pub fn ranks(members: &[RankFacts]) -> Vec<Oddity> {
    let mut odd = Vec::new();
    let mut compare = |what: &str, value: &dyn Fn(&RankFacts) -> Option<String>| {
        let values = members.iter().map(|member| (name(member), value(member)));
        odd.extend(oddity(what, values));
    };
    compare("stage", &|it| {
        let stage = match it.stage? {
            Stage::Start | Stage::Shape => "initialisation did not end",
            Stage::Complete | Stage::Destroyed => "ready",
            Stage::Aborted => "aborted",
        };
        Some(stage.to_owned())
    });
    compare("channels", &|it| {
        let counts = it.counts?;
        Some(format!(
            "{} for collectives, {} of NVLS, {} point to point, {} per peer",
            counts.collectives, counts.nvls, counts.p2p, counts.per_peer
        ))
    });
    compare("NVLS", &|it| {
        let available = it.nvls_available?;
        Some(
            if available {
                "available"
            } else {
                "not available"
            }
            .to_owned(),
        )
    });
    compare("GPUDirect RDMA", &|it| {
        let all = it
            .ports
            .values()
            .fold([0, 0], |sum, it| [sum[0] + it[0], sum[1] + it[1]]);
        match all {
            [0, 0] => None,
            [_, 0] => Some("used".to_owned()),
            [0, _] => Some("not used".to_owned()),
            [..] => Some("used by some connections".to_owned()),
        }
    });
    compare("direct connections", &|it| {
        let kinds = it
            .transports
            .keys()
            .filter(|kind| !kind.starts_with("NET/"));
        let kinds: Vec<&str> = kinds.map(String::as_str).collect();
        (!it.transports.is_empty() && !kinds.is_empty()).then(|| kinds.join(", "))
    });
    odd.extend(views(members));
    odd.extend(slow(members));
    odd
}

/// Hosts that NCCL sees with other links or devices.
fn views(members: &[RankFacts]) -> Option<Oddity> {
    let mut hosts: BTreeMap<&str, &RankFacts> = BTreeMap::new();
    for member in members.iter().filter(|it| !it.view.is_empty()) {
        hosts.entry(&member.host).or_insert(member);
    }
    let values = hosts.iter().map(|(host, member)| {
        let mut view = member.view.clone();
        view.sort();
        let mut parts: BTreeMap<String, usize> = BTreeMap::new();
        for line in view {
            *parts.entry(line).or_default() += 1;
        }
        let parts = parts
            .iter()
            .map(|(line, count)| format!("{count} × {}", line.trim()));
        (
            (*host).to_owned(),
            Some(parts.collect::<Vec<_>>().join(", ")),
        )
    });
    oddity("links and devices", values)
}

/// Ranks whose initialisation takes much longer than that of most.
fn slow(members: &[RankFacts]) -> Option<Oddity> {
    let mut times: Vec<f32> = members.iter().filter_map(|it| it.seconds).collect();
    times.sort_by(f32::total_cmp);
    let median = *times.get(times.len() / 2)?;
    let limit = (median * SLOW.0).max(median + SLOW.1);
    let slow = members
        .iter()
        .filter(|it| it.seconds.is_some_and(|it| it > limit));
    let others: Vec<_> = slow
        .map(|it| {
            let longest = it.phases.iter().max_by(|a, b| a.1.total_cmp(&b.1));
            let longest = longest.map(|(phase, time)| format!(", {time} s of it {phase}"));
            let seconds = it.seconds.unwrap_or(0.0);
            let value = format!("{seconds} s{}", longest.unwrap_or_default());
            (value, vec![name(it)])
        })
        .collect();
    (!others.is_empty()).then(|| Oddity {
        what: "time of initialisation".to_owned(),
        usual: format!("{median} s"),
        usual_count: times.len() - others.len(),
        others,
    })
}

fn name(member: &RankFacts) -> String {
    match member.rank {
        Some(rank) => format!("rank {rank} ({})", member.host),
        None => format!("a rank of {}", member.host),
    }
}

/// Groups by value. Returns `None` if all are equal or fewer than two say something.
fn oddity(what: &str, values: impl Iterator<Item = (String, Option<String>)>) -> Option<Oddity> {
    let mut by_value: BTreeMap<Option<String>, Vec<String>> = BTreeMap::new();
    for (who, value) in values {
        by_value.entry(value).or_default().push(who);
    }
    let said = by_value.keys().filter(|value| value.is_some()).count();
    let settings = what.starts_with("NCCL_");
    // A line that one host lacks may have been lost; a setting is logged by all that have it.
    if !settings {
        by_value.remove(&None);
    }
    if by_value.len() < 2 || said == 0 {
        return None;
    }
    let most = by_value
        .iter()
        .max_by_key(|(value, who)| (who.len(), value.is_some()))?;
    let usual = most.0.clone();
    let usual_count = most.1.len();
    let show = |value: Option<String>| value.unwrap_or_else(|| NOTHING.to_owned());
    let others = by_value.into_iter().filter(|(value, _)| *value != usual);
    let others = others.map(|(value, who)| (show(value), who)).collect();
    Some(Oddity {
        what: what.to_owned(),
        usual: show(usual),
        usual_count,
        others,
    })
}
