//! The page of a calibration: how far choices are from the fastest, before and now.

use backend_cpu::Profile;
use backend_cpu::loss::{Loss, Losses};
use backend_cpu::speeds::{Scale, Speeds};
use pages::numbers::{count, or_dash};
use pages::terminal::Look;
use pages::{Table, row};
use program::size;

use super::table::in_words;
use crate::figures::micros;

/// Changed choices that are listed.
const LISTED: usize = 8;

/// Factor from which a changed choice is listed.
const WORTH_A_LINE: f64 = 1.1;

/// The page of a profile that was measured here, beside the one that was used before.
pub fn page(now: &Profile, before: &Profile, look: Look) -> String {
    let is_built_in = *before == *Profile::built_in();
    let scale = match is_built_in {
        true => Speeds::here().beside(&before.speeds),
        false => Scale::NONE,
    };
    let losses = [before.losses(scale, now), now.losses(Scale::NONE, now)];
    let mut collectives: Vec<_> = now.measured.iter().map(|it| it.collective).collect();
    collectives.sort_unstable();
    collectives.dedup();
    let mut table = Table::new(["collective", ">before", ">most", ">now", ">most"]);
    let figures = |of: &dyn Fn(&&Loss) -> bool| {
        let figures = losses.iter().flat_map(|losses| {
            let found = Losses::of(losses.iter().filter(of));
            let figure =
                |of: fn(&Losses) -> f64| or_dash(found.as_ref().map(|it| format!("{:.2}", of(it))));
            [figure(|it| it.median), figure(|it| it.most)]
        });
        figures.collect::<Vec<_>>()
    };
    for collective in collectives {
        let cells = figures(&|it| it.collective == collective);
        table.row([row![collective.command_name()], cells].concat());
    }
    table.row([row!["all"], figures(&|_| true)].concat());
    let used = match is_built_in {
        true => "the built-in profile, scaled to this machine's speeds".to_owned(),
        false => format!("the profile `{}`, of {}", before.name, before.machine),
    };
    let remark = "the time of the choice by that of the fastest one, at the median and at most";
    let mut text = look.title("CPU cost profile", &now.machine);
    text.push_str(&look.field("before", &used));
    text.push_str(&look.section("Choices", remark, &table.text(look)));
    let [before, after] = &losses;
    let mut changed: Vec<(f64, &Loss, &Loss)> = before
        .iter()
        .zip(after)
        .filter(|(before, after)| before.choice != after.choice)
        .map(|(before, after)| (before.factor / after.factor, before, after))
        .collect();
    changed.sort_by(|one, other| other.0.total_cmp(&one.0));
    let all = changed.len();
    changed.retain(|(factor, ..)| *factor >= WORTH_A_LINE);
    changed.truncate(LISTED);
    let mut table = Table::new(["collective", ">ranks", ">size", "before", "now", ">faster"]);
    for (factor, before, after) in changed {
        let kind = match before.shape.one_process {
            true => "threads",
            false => "processes",
        };
        table.row(row![
            before.collective.command_name(),
            format!("{} {kind}", before.shape.ranks),
            size::short(before.bytes),
            in_words(before.choice)[..2].join(" "),
            in_words(after.choice)[..2].join(" "),
            format!("{factor:.2}×"),
        ]);
    }
    if !table.is_empty() {
        let remark = format!("those that gain most of {}", count(all, "changed choice"));
        text.push_str(&look.section("Changes", &remark, &table.text(look)));
    }
    text
}

/// The fastest choice beside the one that was taken, in words.
pub fn best_in_words(best: &crate::row::BestChoice) -> String {
    let choice = in_words(best.choice)[..2].join(" ");
    format!("{choice} {}", micros(best.time_us))
}
