//! The differences of two plans as a page.

use pages::numbers::{count, gbps, group, microseconds, percent, ranges, short};
use pages::{Page, Table};
use plan::{ChoiceDifference, Comparison, PlanDifference, SizeChoice};
use serde_json::Value;

use super::NamedPlan;
use crate::differences::{DeviceDifference, few};
use crate::head;

/// The differences, if there are any. `devices` are differences of the files.
pub(crate) fn page(
    plans: [NamedPlan<'_>; 2],
    devices: &[DeviceDifference],
    comparison: &Comparison,
) -> Option<Page> {
    if comparison.is_empty() && devices.is_empty() {
        return None;
    }
    let [(first, one), (second, other)] = plans;
    let names = if first == second {
        ["A".to_owned(), "B".to_owned()]
    } else {
        [first.to_owned(), second.to_owned()]
    };
    let mut page = titled([first, second]);
    page.field("nccl", versions([&one.profile, &other.profile]));
    if !devices.is_empty() {
        let unnoticed = match comparison.is_empty() {
            true => "; a job does not notice it",
            false => "",
        };
        of_devices(&mut page, &names, devices, unnoticed);
    }
    let mut sections = group(comparison.facts.iter().map(|fact| (section(fact), fact)));
    let several = plans.iter().any(|(_, plan)| plan.machines.len() > 1);
    sections.sort_by_key(|(title, _)| SECTIONS.iter().position(|known| known == title));
    for (title, rows) in &sections {
        page.section(*title, "").table(facts(rows, &names, several));
    }
    if !comparison.choices.is_empty() {
        let remark = "algorithm, protocol, channels, predicted time";
        let table = choices(&comparison.choices, &names);
        page.section("Choices", remark).table(table);
    }
    Some(page)
}

/// The differences between the devices of two files that are not planned, if there are any.
pub(super) fn of_files(names: &[String; 2], devices: &[DeviceDifference]) -> Option<Page> {
    if devices.is_empty() {
        return None;
    }
    let mut page = titled([&names[0], &names[1]]);
    of_devices(&mut page, names, devices, "");
    Some(page)
}

fn titled([first, second]: [&str; 2]) -> Page {
    Page::new(match first == second {
        true => format!("{first}: A and B"),
        false => format!("{first} and {second}"),
    })
}

/// The version of NCCL that decides, or both.
fn versions([first, second]: [&str; 2]) -> String {
    if first == second {
        return head::version(first);
    }
    let [first, second] = [first, second].map(head::version);
    format!("A {first}, B {second}")
}

fn of_devices(page: &mut Page, names: &[String; 2], devices: &[DeviceDifference], unnoticed: &str) {
    let remark = format!(
        "of {}, instead of those of {}{unnoticed}",
        names[1], names[0]
    );
    let section = page.section("Devices", remark);
    let lines = few(devices);
    let is_cut = lines.len() < devices.len();
    for line in lines {
        section.item(line);
    }
    if is_cut {
        section.hint("(--format json)");
    }
}

const MACHINES: &str = "Machines";
const CHANNELS: &str = "Channels";
const JOB: &str = "Job";
const COSTS: &str = "Costs";

/// The parts of the page, in order.
const SECTIONS: [&str; 4] = [MACHINES, CHANNELS, JOB, COSTS];

fn section(difference: &PlanDifference) -> &'static str {
    match difference.at.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["costs", ..] => COSTS,
        ["machines", _, "groups", ..] => CHANNELS,
        ["machines", ..] => MACHINES,
        _ => JOB,
    }
}

fn facts(rows: &[&PlanDifference], names: &[String; 2], several: bool) -> Table {
    let mut table = Table::new(["what", &names[0], &names[1]]);
    // The same change of several channels, hops or GPUs is one line.
    let mut merged: Vec<(Vec<String>, Vec<String>, [String; 2])> = Vec::new();
    for difference in rows {
        let values = [&difference.first, &difference.second]
            .map(|value| value.as_ref().map_or("-".to_owned(), show));
        let (pattern, member) = common(&difference.at);
        let known = member.as_ref().and_then(|_| {
            let same = |row: &&mut (Vec<String>, Vec<String>, [String; 2])| {
                row.0 == pattern && row.2 == values
            };
            merged.iter_mut().find(same)
        });
        match (known, member) {
            (Some((_, members, _)), Some(member)) => members.push(member),
            (_, member) => merged.push((pattern, member.into_iter().collect(), values)),
        }
    }
    for (pattern, members, [first, second]) in merged {
        table.row(vec![place(&pattern, &members, several), first, second]);
    }
    table
}

/// Placeholder for the number or pair that was taken out.
const MEMBER: &str = "#";

/// Most members in one row that are not ranges of numbers.
const NAMED: usize = 6;

/// The place without the last number, or pair of devices, in it.
fn common(at: &[String]) -> (Vec<String>, Option<String>) {
    let is_member = |index: &usize| {
        let of_machines = *index == 1 && at[0] == "machines";
        !of_machines && (at[*index].parse::<i32>().is_ok() || at[*index].contains('→'))
    };
    let mut pattern = at.to_vec();
    let member = (0..at.len())
        .rev()
        .find(is_member)
        .map(|index| std::mem::replace(&mut pattern[index], MEMBER.to_owned()));
    (pattern, member)
}

/// `0-3,5`, or names one after the other.
fn several_of(members: &[String]) -> String {
    let numbers: Option<Vec<i32>> = members.iter().map(|member| member.parse().ok()).collect();
    if let Some(numbers) = numbers {
        return ranges(&numbers, ",");
    }
    let named = members[..members.len().min(NAMED)].join(", ");
    match members.len().saturating_sub(NAMED) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

/// A place in words: `ring, channels 0-3, GPUs in order`.
fn place(pattern: &[String], members: &[String], several: bool) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut list: Option<&str> = None;
    for segment in pattern {
        let number = segment == MEMBER || segment.parse::<u32>().is_ok();
        let shown = if segment == MEMBER {
            several_of(members)
        } else {
            segment.clone()
        };
        match (list.take(), number) {
            (Some("machines"), true) if !several => {}
            (Some("groups"), true) if shown == "0" => {}
            (Some(of), true) => {
                let of = if members.len() > 1 && segment == MEMBER {
                    of
                } else {
                    singular(of)
                };
                words.push(format!("{of} {shown}"));
            }
            (Some("graphs" | "paths" | "entries" | "costs" | "common" | "transports"), false) => {
                words.push(title(&shown))
            }
            (Some(of), false) => words.extend([title(of), title(&shown)]),
            (None, true) if pattern.iter().any(|segment| segment == "paths") => {
                words.push(format!("hops {shown}"));
            }
            (None, _) => {
                if is_list(segment) {
                    list = Some(segment);
                } else {
                    words.push(title(&shown));
                }
                continue;
            }
        }
        if is_list(segment) && !number {
            words.pop();
            list = Some(segment);
        }
    }
    if let Some(list) = list {
        words.push(title(list));
    }
    words.join(", ")
}

fn is_list(segment: &str) -> bool {
    matches!(
        segment,
        "machines"
            | "groups"
            | "graphs"
            | "paths"
            | "channels"
            | "gpus"
            | "nics"
            | "hosts"
            | "entries"
            | "costs"
            | "common"
            | "threads"
            | "transports"
    )
}

fn singular(list: &str) -> &str {
    match list {
        "machines" => "machine",
        "groups" => "group",
        "channels" => "channel",
        "gpus" => "GPU",
        "nics" => "NIC",
        "hosts" => "hosts in a row",
        other => other,
    }
}

/// A key in words.
fn title(key: &str) -> String {
    match key {
        "ranks" => "GPUs in order".to_owned(),
        "nets" => "NICs in and out".to_owned(),
        "bw_intra" => "GB/s inside".to_owned(),
        "bw_inter" => "GB/s to the network".to_owned(),
        "type_intra" => "worst path GPU–GPU".to_owned(),
        "type_inter" => "worst path GPU–NIC".to_owned(),
        "max_bw" => "widest path, GB/s".to_owned(),
        "total_bw" => "most of one GPU, GB/s".to_owned(),
        "between" => "GPU to GPU".to_owned(),
        "ports" => "GPU to NIC".to_owned(),
        "p2p" => "point to point".to_owned(),
        "bandwidth" | "bw" => "GB/s".to_owned(),
        "latency" => "latency, µs".to_owned(),
        other => other.replace('_', " "),
    }
}

fn show(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() => gbps(float as f32),
            _ => number.to_string(),
        },
        Value::Array(values) => values.iter().map(show).collect::<Vec<_>>().join(" "),
        Value::Object(map) => summary(value).unwrap_or_else(|| {
            list(
                map.iter()
                    .map(|(key, value)| format!("{} {}", title(key), show(value))),
            )
        }),
    }
}

fn list(texts: impl Iterator<Item = String>) -> String {
    texts.collect::<Vec<_>>().join(", ")
}

/// The gist of what only one of the plans has.
fn summary(value: &Value) -> Option<String> {
    let number = |key: &str| value.get(key).map(show);
    if let (Some(entries), Some(each)) = (value["channels"].as_array(), number("bw_intra")) {
        return Some(format!("{} × {each} GB/s", count(entries.len(), "channel")));
    }
    if let (Some(bandwidth), Some(latency)) = (number("bandwidth"), number("latency")) {
        return Some(format!("{bandwidth} GB/s, {latency} µs"));
    }
    if let (Some(machine), Some(count), Some(rank)) =
        (number("machine"), number("count"), number("first_rank"))
    {
        return Some(format!("{count} of machine {machine}, from rank {rank} on"));
    }
    if let Some(ranks) = value.get("ranks").filter(|_| value.get("graphs").is_none()) {
        return Some(show(ranks));
    }
    let graphs = |group: &Value| {
        let graphs = group["graphs"].as_object()?.iter();
        let found = graphs.filter(|(_, graph)| graph["channels"] != Value::Array(Vec::new()));
        Some(list(
            found.map(|(kind, graph)| format!("{kind} {}", show(graph))),
        ))
    };
    if let (Some(ranks), Some(graphs)) = (number("ranks"), graphs(value)) {
        return Some(format!("GPUs {ranks}: {graphs}"));
    }
    let (gpus, groups) = (value["gpus"].as_array()?, value["groups"].as_array()?);
    let groups = list(groups.iter().filter_map(graphs));
    Some(format!("{}: {groups}", count(gpus.len(), "GPU")))
}

/// Consecutive sizes with the same two choices.
struct Stretch<'a> {
    from: &'a ChoiceDifference,
    to: &'a ChoiceDifference,
    /// How much longer the second takes: least and most.
    more: Option<(f64, f64)>,
}

fn stretches(rows: &[ChoiceDifference]) -> Vec<Stretch<'_>> {
    let name =
        |chosen: Option<SizeChoice>| chosen.map(|chosen| (chosen.algorithm, chosen.protocol));
    let change = |row: &ChoiceDifference| (row.collective, name(row.first), name(row.second));
    let mut found: Vec<Stretch<'_>> = Vec::new();
    for row in rows {
        let more = match (row.first, row.second) {
            (Some(first), Some(second)) if first.time_us > 0.0 => {
                Some(f64::from(second.time_us) / f64::from(first.time_us) - 1.0)
            }
            _ => None,
        };
        match found.last_mut() {
            Some(last) if change(last.to) == change(row) => {
                last.to = row;
                last.more = last
                    .more
                    .zip(more)
                    .map(|((least, most), more)| (least.min(more), most.max(more)));
            }
            _ => found.push(Stretch {
                from: row,
                to: row,
                more: more.map(|more| (more, more)),
            }),
        }
    }
    found
}

fn choices(rows: &[ChoiceDifference], names: &[String; 2]) -> Table {
    let mut table = Table::new(["collective", "sizes", &names[0], &names[1], "time"]);
    let mut before = None;
    for stretch in stretches(rows) {
        let collective = stretch.from.collective;
        let name = if before == Some(collective) {
            String::new()
        } else {
            collective.to_string()
        };
        before = Some(collective);
        let (from, to) = (short(stretch.from.bytes), short(stretch.to.bytes));
        let sizes = if from == to {
            from
        } else {
            format!("{from} to {to}")
        };
        table.row(vec![
            name,
            sizes,
            chosen(stretch.from.first, stretch.to.first),
            chosen(stretch.from.second, stretch.to.second),
            stretch.more.map_or_else(String::new, more),
        ]);
    }
    table
}

fn more((least, most): (f64, f64)) -> String {
    let (least, most) = (percent(least), percent(most));
    if least == most {
        least
    } else {
        format!("{least} to {most}")
    }
}

/// `Ring LL128, 46.5 to 612 µs on 16 channels`.
fn chosen(from: Option<SizeChoice>, to: Option<SizeChoice>) -> String {
    let (Some(from), Some(to)) = (from, to) else {
        return "no way".to_owned();
    };
    let span = |from: String, to: String| {
        if from == to {
            from
        } else {
            format!("{from}–{to}")
        }
    };
    let time = |chosen: SizeChoice| microseconds(f64::from(chosen.time_us));
    let channels = span(from.channels.to_string(), to.channels.to_string());
    format!(
        "{} {} ×{channels}, {} µs",
        from.algorithm,
        from.protocol,
        span(time(from), time(to))
    )
}
