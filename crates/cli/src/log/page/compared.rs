//! The comparison with the plan.

use answers::log::Comparison;

use super::SHOWN;
use crate::render::table::Columns;
use crate::render::{Look, count, wrap};

pub(super) fn compared(comparison: &Comparison, look: Look) -> String {
    let values: u64 = comparison.compared.iter().map(|it| it.values).sum();
    let different: usize = comparison
        .compared
        .iter()
        .map(|it| it.differences.len())
        .sum();
    let verdict = match different {
        0 => format!("NCCL decided as planned, {values} of {values} values"),
        _ => format!("{different} of {values} values differ"),
    };
    let hosts = count(comparison.hosts as usize, "host");
    let subject = format!("{} on {hosts}: {verdict}", comparison.machine);
    let mut body = wrap(&subject, "  ", "    ", look.width);
    for note in &comparison.notes {
        body.push_str(&wrap(&format!("note: {note}"), "  ", "    ", look.width));
    }
    let mut table = Columns::new(look, &["field", "values", "differ"]).right(&[1, 2]);
    for it in &comparison.compared {
        let (values, differ) = (it.values.to_string(), it.differences.len().to_string());
        table.row(vec![it.field.name().to_owned(), values, differ]);
    }
    body.push_str(&table.finish());
    if different > 0 {
        body.push('\n');
        let mut table = Columns::new(look, &["field", "value", "log", "plan"]);
        for it in &comparison.compared {
            for difference in it.differences.iter().take(SHOWN / 2) {
                table.row(vec![
                    it.field.name().to_owned(),
                    difference.what.clone(),
                    difference.nccl.clone(),
                    difference.plan.clone(),
                ]);
            }
        }
        body.push_str(&table.finish());
    }
    look.section("Compared with the plan", "", &body)
}
