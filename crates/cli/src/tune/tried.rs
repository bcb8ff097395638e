//! What was tried, in few lines.

use answers::tune::{Trial, Verdict};

use super::page::extreme;
use crate::render::{Look, group, wrap};
use crate::sizes::short;

/// The trials, those with equal outcomes together.
pub(super) fn lines(tried: &[Trial], look: Look) -> String {
    let outcomes = tried
        .iter()
        .map(|it| (outcome(&it.verdict), it.what.as_str()));
    let mut text = String::new();
    for (outcome, whats) in group(outcomes) {
        let line = format!("{}: {outcome}", whats.join(", "));
        text.push_str(&wrap(&line, "  ", "    ", look.width));
    }
    text
}

fn outcome(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Helps(most) => format!("faster: {}", extreme(most)),
        Verdict::NoEffect => "no effect".to_owned(),
        Verdict::Slower {
            least,
            most,
            helps_from,
        } => {
            let mut text = match most {
                None => format!("slower: {}", extreme(least)),
                Some(most) => format!(
                    "some faster, some slower: {}, {}",
                    extreme(most),
                    extreme(least)
                ),
            };
            if let Some(from) = helps_from {
                text.push_str(&format!("; nothing slower from {} on", short(*from)));
            }
            text
        }
        Verdict::Refused(why) => format!("refused: {why}"),
        Verdict::NotTried(why) => format!("not tried: {why}"),
    }
}
