//! The trials, in few lines.

use answers::tune::{Extreme, Trial, Verdict};

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

/// A message, as `all-reduce 32K ×1.84`.
fn extreme(it: &Extreme) -> String {
    let name = it.collective.command_name();
    match it.gain {
        0.0 => format!("NCCL refuses {name}"),
        gain => format!("{name} {} {}", short(it.bytes), times(gain)),
    }
}

/// A gain, as `×1.84`.
pub(super) fn times(gain: f64) -> String {
    match gain {
        100.0.. => format!("×{gain:.0}"),
        10.0.. => format!("×{gain:.1}"),
        _ => format!("×{gain:.2}"),
    }
}
