//! Checks of measured links against others of their kind.

use std::collections::BTreeMap;

use findings::{Check, Maturity};

use super::{CapacityKind, MeasuredLink, MeasuredLinks};

/// A link below this share of what is usual is slow, as in `topo diagnose`.
const SLOW: f64 = 0.7;

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
        if known.len() < ENOUGH {
            return check.skipped("fewer than three of them limit a transfer alone");
        }
        let (usual, most) = (known[known.len() / 2], known[known.len() - 1]);
        let least = SLOW * usual;
        let check = check.expects(
            format!("≥ {least:.1} GB/s, {SLOW} of what is usual"),
            "nvbandwidth -t device_to_device_memcpy_read_ce",
        );
        let slow: Vec<&&MeasuredLink> =
            links.iter().filter(|it| it.measured_gbps < least).collect();
        match (slow.iter().find(|it| is_known(it)), slow.len()) {
            (Some(first), count) => {
                let more = match count {
                    1 => String::new(),
                    count => format!(" and {} more", count - 1),
                };
                let (from, to, gbps) = (&first.from, &first.to, first.measured_gbps);
                check.judged(false, format!("{from}→{to}{more}: {gbps:.1} GB/s"))
            }
            // What a link that never was the limit carried is the least that it has.
            (None, 1..) => check.unknown(format!(
                "{} of them never limited a transfer alone, and carried less",
                slow.len()
            )),
            (None, 0) => check.judged(true, format!("{:.1} to {most:.1} GB/s", known[0])),
        }
    }
}
