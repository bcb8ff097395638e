//! Checks of measured links against others of their kind.

use std::collections::BTreeMap;

use findings::check::SLOW;
use findings::{Check, Maturity};

use super::{CapacityKind, MeasuredLink, MeasuredLinks};

/// Links of a kind of which one can be said to be unlike the others.
const ENOUGH: usize = 3;

impl MeasuredLinks {
    /// What was checked of each kind of links.
    pub fn link_checks(&self) -> Vec<Check> {
        let mut kinds: BTreeMap<(&str, String), Vec<&MeasuredLink>> = BTreeMap::new();
        for it in &self.links {
            let kind = (it.kind, format!("{:.1}", it.nccl_gbps));
            kinds.entry(kind).or_default().push(it);
        }
        let kinds = kinds.into_iter();
        kinds
            .map(|(kind, links)| self.of_kind(kind, &links))
            .collect()
    }

    fn of_kind(&self, (kind, nccl): (&str, String), links: &[&MeasuredLink]) -> Check {
        let source = &self.source;
        let what = format!(
            "{} {kind} links that NCCL takes for {nccl} GB/s, by {source}",
            links.len()
        );
        let check = Check::new(
            format!("links-{}", kind.to_lowercase()),
            what,
            Maturity::Guessed,
        );
        let is_known = |it: &&&MeasuredLink| it.certainty == CapacityKind::Known;
        let mut known: Vec<f64> = links
            .iter()
            .filter(is_known)
            .map(|it| it.measured_gbps)
            .collect();
        known.sort_unstable_by(f64::total_cmp);
        if links.len() < ENOUGH {
            return check.skipped("there are fewer than three of them");
        }
        // What was seen of the others is the least that they have, and so is its median.
        let mut all: Vec<f64> = links.iter().map(|it| it.measured_gbps).collect();
        all.sort_unstable_by(f64::total_cmp);
        let of_known = known.get(known.len() / 2).filter(|_| known.len() >= ENOUGH);
        let usual = all[all.len() / 2].max(of_known.copied().unwrap_or(0.0));
        let least = SLOW * usual;
        let check = check.expects(
            format!("≥ {least:.1} GB/s, {SLOW} of what is usual"),
            "nvbandwidth -t device_to_device_memcpy_read_ce",
        );
        let slow: Vec<&&MeasuredLink> =
            links.iter().filter(|it| it.measured_gbps < least).collect();
        let mut slow_known = slow.iter().filter(|it| is_known(it));
        match (slow_known.next(), slow.len()) {
            (Some(first), _) => {
                let more = match slow_known.count() {
                    0 => String::new(),
                    count => format!(" and {count} more"),
                };
                let (from, to, gbps) = (&first.from, &first.to, first.measured_gbps);
                check.judged(false, format!("{from}→{to}{more}: {gbps:.1} GB/s"))
            }
            _ if known.len() < ENOUGH => {
                check.skipped("fewer than three of them limit a transfer alone")
            }
            // What a link that never was the limit carried is the least that it has.
            (None, 1..) => check.unknown(format!(
                "{} of them never limited a transfer alone, and carried less",
                slow.len()
            )),
            (None, 0) => {
                let (least, most) = (known[0], known[known.len() - 1]);
                check.judged(true, format!("{least:.1} to {most:.1} GB/s"))
            }
        }
    }
}
