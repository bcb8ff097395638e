//! Bounds as a page.

use findings::check::{self, Verdict};
use pages::numbers::{count, or_dash};
use pages::{Page, Table, row};
use plan::certificate::{Bound, LinkSet, Operation, UNITS};

use super::{BoundReport, OperationBound};
use crate::{head, measured};

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

impl BoundReport {
    /// The page.
    pub fn page(&self) -> Page {
        let mut page = Page::new(&self.name);
        let hosts = count(self.hosts as usize, "host");
        page.field("job", format!("{hosts}, {} ranks", self.ranks));
        if let Some(profile) = &self.profile {
            page.field("nccl", head::version(profile));
        }
        let set = match self.links {
            LinkSet::Rules => "rules",
            LinkSet::All => "all",
        };
        page.field("links", links(self.links))
            .hint(format!("(--links {set})"));
        if let Some(measured) = &self.measured {
            page.field("measured", &measured.source);
        }
        let section = page.section("Bounds", "no schedule is faster");
        section.table(self.table()).lines("\n");
        section.faint(match self.measured {
            Some(_) => MEASURED,
            None => OPTIMUM,
        });
        section.faint(LEFT_OUT);
        if self.intel_bridges {
            section.faint(INTEL);
        }
        for why in self.shortfalls() {
            section.faint(why);
        }
        page.sections
            .extend(self.measured.as_ref().map(measured::page::section));
        if let (Some(section), false) = (page.sections.last_mut(), self.checks.is_empty()) {
            let failed = self.checks.iter().filter(|it| it.verdict == Verdict::Fail);
            for it in failed {
                section.notice(format!("{}: {}", it.looked_at, it.reason()));
            }
            section.faint(check::summary(&self.checks));
        }
        page
    }

    /// Why trees stay more than 5 % below bounds, each reason once.
    fn shortfalls(&self) -> Vec<String> {
        let short = self.bounds.iter().filter_map(|row| {
            let name = name(row.operation);
            let name = match row.reached_gbps {
                Some(reached) => format!("{name} ({:.0} %)", 100.0 * reached / row.bound_gbps),
                None => name,
            };
            Some((row.why.as_ref()?, name))
        });
        let reasons = pages::numbers::group(short).into_iter();
        let text = |(why, names): (&String, Vec<String>)| {
            format!("Trees stay below the bound of {}: {why}.", names.join(", "))
        };
        reasons.map(text).collect()
    }

    fn table(&self) -> Table {
        let mut table = Table::new(["", ">bound", ">NCCL", ">share", ">trees", "tight", "links"]);
        let gbps = |value: Option<f64>| or_dash(value.map(|it| format!("{it:.1}")));
        for row in &self.bounds {
            let links = row.tight_links.iter();
            let devices = links.flat_map(|it| [it.from.clone(), it.to.clone()]);
            table.row_of(
                devices.collect(),
                row![
                    name(row.operation),
                    format!("{:.1}", row.bound_gbps),
                    gbps(row.nccl_gbps),
                    or_dash(share(row)),
                    gbps(row.reached_gbps),
                    row.tight,
                    row.limit,
                ],
            );
        }
        table
    }
}

/// The links that bounds count.
const fn links(links: LinkSet) -> &'static str {
    match links {
        LinkSet::Rules => "those on paths that NCCL's rules allow for this job",
        LinkSet::All => "every link and every turn at PCI switches",
    }
}

fn name(operation: Operation) -> String {
    match operation {
        Operation::AllReduceInNetwork => "all-reduce, NVLS or SHARP".to_owned(),
        operation => operation.name().to_owned(),
    }
}

/// The share of the bound that NCCL's plan reaches.
fn share(row: &OperationBound) -> Option<String> {
    let nccl = row.nccl_gbps.filter(|_| row.bound_gbps > 0.0)?;
    Some(format!("{:.0} %", 100.0 * nccl / row.bound_gbps))
}

/// The page of bounds whose proofs hold.
pub fn checked(name: &str, counted: LinkSet, bounds: &[&Bound], about: Option<&str>) -> String {
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
