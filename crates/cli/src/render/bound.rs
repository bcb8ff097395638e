//! The page of `topo bound`.

use answers::bound::{BoundAnswer, BoundRow};
use plan::certificate::{Bound, LinkSet, Operation, UNITS};

use super::table::Columns;
use super::{Look, count, measured, or_dash, trim_lines, version, wrap};

/// Costs that a bound never counts.
const LEFT_OUT: &str = "Left out, so a real schedule is slower: latency, the overhead of protocols, copies in GPUs that \
forward, and the memory bandwidth of hosts.";

/// A cost that a bound does not count on machines with Intel CPUs.
const INTEL: &str = "NCCL charges a fifth more for PCIe writes of GPUs through Intel host bridges; the bound does not.";

/// Where the optimum is, and the unit.
const OPTIMUM: &str = "GB/s of bus bandwidth for long messages, on NCCL's model of the machine. The best schedule lies between \
what NCCL or trees reach and the bound. Trees: packed and checked; – where none are known.";

/// The same on measured links.
const MEASURED: &str = "GB/s of bus bandwidth for long messages, on the measured links. NCCL: what the channels of its \
plan, which knows nothing of the measurements, carry on them. The best schedule lies between what NCCL or trees \
reach and the bound. Trees: packed and checked; – where none are known.";

pub(crate) fn page(bounds: &BoundAnswer, look: Look) -> String {
    let mut text = format!("{}\n", look.heading(&bounds.name));
    let graph = &bounds.certificate.graph;
    let size = format!(
        "{}, {} ranks",
        count(graph.host_count() as usize, "host"),
        graph.ranks()
    );
    text.push_str(&look.field("job", &size));
    text.push_str(&version::of_profile(&bounds.profile, look));
    text.push_str(&look.field("links", links(bounds.certificate.links)));
    if let Some(measured) = &bounds.measured {
        text.push_str(&look.field("measured", &measured.source));
    }
    text.push_str(&look.section("Bounds", "no schedule is faster", &table(bounds, look)));
    text.push('\n');
    let mut remarks = match bounds.measured {
        Some(_) => vec![MEASURED, LEFT_OUT],
        None => vec![OPTIMUM, LEFT_OUT],
    };
    if bounds.intel_bridges {
        remarks.push(INTEL);
    }
    let reasons = shortfalls(bounds);
    for remark in remarks
        .into_iter()
        .chain(reasons.iter().map(String::as_str))
    {
        text.push_str(&look.faint(&wrap(remark, "  ", "  ", look.width)));
    }
    if let Some(links) = &bounds.measured {
        text.push_str(&measured::section(links, look));
    }
    trim_lines(&text)
}

/// The links that bounds count.
const fn links(links: LinkSet) -> &'static str {
    match links {
        LinkSet::Rules => "those on paths that NCCL's rules allow for this job (--links rules)",
        LinkSet::All => "every link and every turn at PCI switches (--links all)",
    }
}

/// Why trees stay more than 5 % below bounds, each reason once.
fn shortfalls(bounds: &BoundAnswer) -> Vec<String> {
    let mut reasons: Vec<(String, Vec<String>)> = Vec::new();
    for row in &bounds.rows {
        let Some(why) = row.shortfall.as_ref().map(ToString::to_string) else {
            continue;
        };
        let name = match row.reached {
            Some(reached) => {
                format!(
                    "{} ({:.0} %)",
                    name(row.operation),
                    100.0 * reached / row.bound
                )
            }
            None => name(row.operation),
        };
        match reasons.iter_mut().find(|(known, _)| *known == why) {
            Some((_, names)) => names.push(name),
            None => reasons.push((why, vec![name])),
        }
    }
    let texts = reasons
        .into_iter()
        .map(|(why, names)| format!("Trees stay below the bound of {}: {why}.", names.join(", ")));
    texts.collect()
}

fn name(operation: Operation) -> String {
    match operation {
        Operation::AllReduceInNetwork => "all-reduce, NVLS or SHARP".to_owned(),
        operation => operation.name().to_owned(),
    }
}

fn table(bounds: &BoundAnswer, look: Look) -> String {
    let headers = ["", "bound", "NCCL", "share", "trees", "tight", "links"];
    let mut table = Columns::new(look, &headers).right(&[1, 2, 3, 4]);
    for row in &bounds.rows {
        table.row(vec![
            name(row.operation),
            format!("{:.1}", row.bound),
            or_dash(row.nccl.map(|nccl| format!("{nccl:.1}"))),
            or_dash(share(row)),
            or_dash(row.reached.map(|reached| format!("{reached:.1}"))),
            row.limit.border.clone(),
            row.limit.summary(),
        ]);
    }
    table.finish()
}

/// The share of the bound that NCCL's plan reaches.
fn share(row: &BoundRow) -> Option<String> {
    let nccl = row.nccl.filter(|_| row.bound > 0.0)?;
    Some(format!("{:.0} %", 100.0 * nccl / row.bound))
}

/// The page of bounds whose proofs hold.
pub(crate) fn checked(
    name: &str,
    counted: LinkSet,
    bounds: &[&Bound],
    about: Option<&str>,
) -> String {
    let proofs = match bounds.len() {
        1 => "1 proof holds".to_owned(),
        proofs => format!("{proofs} proofs hold"),
    };
    let mut text = match about {
        Some(about) => format!("{name}: {proofs}, for the links of {about}\n"),
        None => format!(
            "{name}: {proofs}, for the links that the file states (name the topology file to compare them)\n"
        ),
    };
    text.push_str(&format!("  links counted: {}\n", links(counted)));
    for bound in bounds {
        let value = bound.bandwidth.per(f64::from(UNITS));
        text.push_str(&format!(
            "  {:22} {value:8.1} GB/s\n",
            bound.operation.name()
        ));
    }
    text
}
