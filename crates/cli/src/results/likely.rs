//! The likely causes of sizes below their floors.

use answers::results::likely::{LikelyCause, Miss};

use crate::render::table::Columns;
use crate::render::{Look, or_dash, wrap};
use crate::sizes::short;

/// Causes that are shown. The first two are the likely ones; others show what else comes near.
const SHOWN: usize = 4;

/// Causes whose advice is shown.
const ADVISED: usize = 2;

pub(super) fn section<'a>(misses: impl Iterator<Item = &'a Miss>, look: Look) -> String {
    misses
        .filter(|miss| !miss.causes.is_empty())
        .map(|miss| of_miss(miss, look))
        .collect()
}

fn of_miss(miss: &Miss, look: Look) -> String {
    let mut table = Columns::new(look, &["GB/s", "cause", "id", "where"]).right(&[0]);
    for it in miss.causes.iter().take(SHOWN) {
        table.row(vec![
            or_dash(it.gbps.map(|gbps| match it.at_most {
                true => format!("≤ {gbps:.1}"),
                false => format!("{gbps:.1}"),
            })),
            it.cause.title.to_owned(),
            it.cause.id.to_owned(),
            it.place.clone(),
        ]);
    }
    let mut text = table.finish();
    for LikelyCause { cause, .. } in miss.causes.iter().take(ADVISED) {
        let advice = format!("{}: {}", cause.id, cause.advice);
        text.push_str(&wrap(&advice, "  ", "    ", look.width));
    }
    let remark = format!(
        "of {:.1} GB/s at {}: what a healthy machine with the fault is expected to reach",
        miss.bus_gbps,
        short(miss.bytes)
    );
    look.section("Likely causes", &remark, &text)
}
