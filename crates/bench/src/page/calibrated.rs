//! The page of a calibration: how far choices are from the fastest, before and now.

use backend_cpu::Profile;
use backend_cpu::loss::{Loss, losses};
use backend_cpu::speeds::{Scale, Speeds};
use pages::numbers::{count, or_dash};
use pages::terminal::Look;
use pages::{Table, row};
use program::{Collective, size};

use super::table::in_words;

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
    let [before_losses, now_losses] =
        [(before, scale), (now, Scale::NONE)].map(|(profile, scale)| losses(profile, scale, now));
    let figures = |of: Option<Collective>| {
        [&before_losses, &now_losses].map(|losses| {
            let losses = losses.iter();
            let losses = losses.filter(|it| of.is_none_or(|of| of == it.collective));
            let mut factors: Vec<f64> = losses.map(|it| it.factor).collect();
            factors.sort_by(f64::total_cmp);
            let figures = [factors.get(factors.len() / 2), factors.last()];
            figures.map(|it| or_dash(it.map(|it| format!("{it:.2}"))))
        })
    };
    let mut table = Table::new(["collective", ">before", ">most", ">now", ">most"]);
    let mut collectives: Vec<_> = now.measured.iter().map(|it| it.collective).collect();
    collectives.sort_unstable();
    collectives.dedup();
    for it in collectives.into_iter().map(Some).chain([None]) {
        let name = it.map_or("all", Collective::command_name);
        table.row([row![name], figures(it).concat()].concat());
    }
    let used = match is_built_in {
        true => "the built-in profile, scaled to this machine's speeds".to_owned(),
        false => format!("the profile `{}`, of {}", before.name, before.machine),
    };
    let remark = "the time of the choice by that of the fastest one, at the median and at most";
    let mut text = look.title("CPU cost profile", &now.machine);
    text.push_str(&look.field("before", &used));
    text.push_str(&look.section("Choices", remark, &table.text(look)));
    let pairs = before_losses.iter().zip(&now_losses);
    let changed = pairs.filter(|(before, now)| before.choice != now.choice);
    let mut changed: Vec<(f64, &Loss, &Loss)> = changed
        .map(|(before, now)| (before.factor / now.factor, before, now))
        .collect();
    changed.sort_by(|one, other| other.0.total_cmp(&one.0));
    let remark = format!(
        "those that gain most of {}",
        count(changed.len(), "changed choice")
    );
    changed.retain(|(factor, ..)| *factor >= WORTH_A_LINE);
    let mut table = Table::new(["collective", ">ranks", ">size", "before", "now", ">faster"]);
    for (factor, before, now) in changed.into_iter().take(LISTED) {
        let choices = [before, now].map(|it| in_words(it.choice)[..2].join(" "));
        let [then, now] = choices;
        table.row(row![
            before.collective.command_name(),
            before.shape.ranks,
            size::short(before.bytes),
            then,
            now,
            format!("{factor:.2}×"),
        ]);
    }
    if !table.is_empty() {
        text.push_str(&look.section("Changes", &remark, &table.text(look)));
    }
    text
}
