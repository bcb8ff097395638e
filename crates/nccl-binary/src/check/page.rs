//! The comparison as text.

use pages::Table;
use pages::numbers::count;
use pages::terminal::{Look, wrap};

use super::Check;

/// Most differences of a field that the page shows; JSON has all.
const SHOWN: usize = 8;

/// The page.
pub fn page(check: &Check, look: Look) -> String {
    let values: u64 = check.fields.iter().map(|it| it.values).sum();
    let different: usize = check.fields.iter().map(|it| it.differences.len()).sum();
    let subject = format!(
        "{} on {}, NCCL {} ({})",
        check.name,
        count(check.hosts as usize, "host"),
        check.nccl,
        check.library,
    );
    let verdict = match (different, check.agrees) {
        (0, true) => format!("NCCL decides as planned, {values} of {values} values"),
        (0, false) => format!("{values} of {values} values are equal, but some are lacking"),
        _ => format!("{different} of {values} values differ"),
    };
    let mut text = wrap(&format!("{subject}: {verdict}"), "", "  ", look.width);
    if different > 0 {
        text.push_str(&fields(check, look));
        text.push_str(&differences(check, look));
    }
    let missing = check.fields.iter();
    let missing = missing.filter_map(|it| Some((it.field.name(), it.not_compared.as_ref()?)));
    for (field, why) in missing {
        let line = format!("not compared: {field} ({why})");
        text.push_str(&wrap(&line, "", "  ", look.width));
    }
    for note in &check.notes {
        text.push_str(&wrap(&format!("note: {note}"), "", "  ", look.width));
    }
    text
}

fn fields(check: &Check, look: Look) -> String {
    let mut table = Table::new(["field", ">values", ">differ"]);
    for compared in check.fields.iter().filter(|it| it.values > 0) {
        table.row(vec![
            compared.field.name().to_owned(),
            compared.values.to_string(),
            compared.differences.len().to_string(),
        ]);
    }
    look.section("Fields", "", &table.text(look))
}

fn differences(check: &Check, look: Look) -> String {
    let mut table = Table::new(["field", "value", "NCCL", "plan"]);
    for compared in &check.fields {
        for difference in compared.differences.iter().take(SHOWN) {
            table.row(vec![
                compared.field.name().to_owned(),
                difference.what.clone(),
                difference.nccl.clone(),
                difference.plan.clone(),
            ]);
        }
        let more = compared.differences.len().saturating_sub(SHOWN);
        if more > 0 {
            let more = format!("{more} more (--format json)");
            let field = compared.field.name().to_owned();
            table.row(vec![field, more, String::new(), String::new()]);
        }
    }
    look.section("Differences", "", &table.text(look)) + "\n"
}
