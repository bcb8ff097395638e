//! A path hop by hop.

use planner::explain::{ExplainedPath, PathAnswer};
use topology::LinkType;

use super::table::Columns;
use super::{Look, gbps, wrap};

/// The widest path, what became of it, and what that means.
pub fn answer(title: &str, answer: &PathAnswer, look: Look) -> String {
    let widest = &answer.widest;
    let mut text = look.title(title, &summary(widest));
    text.push_str(&route(widest, look));
    if let Some((ruled, why)) = &answer.diverted {
        text.push_str(&look.section(
            "NCCL takes instead",
            &summary(ruled),
            &wrap(why, "  ", "  ", look.width),
        ));
        text.push_str(&hops(ruled, look));
    }
    if !answer.verdicts.is_empty() {
        text.push('\n');
    }
    for verdict in &answer.verdicts {
        text.push_str(&wrap(verdict, "  ", "  ", look.width));
    }
    text
}

fn summary(route: &ExplainedPath) -> String {
    if route.hops.is_empty() {
        return route.kind.to_string();
    }
    format!(
        "{}, {} GB/s, {}",
        route.kind,
        gbps(route.bw),
        super::count(route.hops.len(), "hop")
    )
}

fn route(route: &ExplainedPath, look: Look) -> String {
    let mut text = hops(route, look);
    text.push_str(&wrap(&route.reason, "  ", "  ", look.width));
    text
}

fn hops(route: &ExplainedPath, look: Look) -> String {
    if route.hops.is_empty() {
        return String::new();
    }
    let mut table = Columns::new(
        look,
        &["hop", "from", "to", "link", "GB/s", "path so far", ""],
    )
    .right(&[0, 4]);
    // Where all hops are alike, none is a bottleneck.
    let uneven = route.hops.iter().any(|hop| !hop.narrowest);
    for (index, hop) in route.hops.iter().enumerate() {
        let link = match hop.link {
            LinkType::Loc => "inside",
            kind => kind.name(),
        };
        table.row(vec![
            (index + 1).to_string(),
            hop.from.clone(),
            hop.to.clone(),
            link.to_owned(),
            gbps(hop.bw),
            hop.so_far.to_string(),
            if uneven && hop.narrowest {
                "narrowest"
            } else {
                ""
            }
            .to_owned(),
        ]);
    }
    table.finish()
}
