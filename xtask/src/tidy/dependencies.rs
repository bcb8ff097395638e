//! The allowed dependencies of crates, and the places of unsafe code: the table of crates in
//! ARCHITECTURE.md.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use toml::{Table, Value};

/// A row of the table.
pub(super) struct Rule {
    pub name: String,
    /// The crates of the workspace that it depends on, apart from its tests; `None` for a program,
    /// which may use all.
    uses: Option<BTreeSet<String>>,
    pub may_be_unsafe: bool,
    /// Whether only tests and chores may use it.
    is_for_tests: bool,
}

/// Reads the table: the name, the purpose, the crates it uses, and remarks, each between bars.
///
/// # Errors
/// There is no such table.
pub(super) fn rules(page: &str) -> Result<Vec<Rule>> {
    let rows = page
        .lines()
        .skip_while(|line| !line.starts_with("| Crate |"))
        .skip(2);
    let rows = rows.take_while(|line| line.starts_with('|'));
    let rules: Vec<Rule> = rows.filter_map(rule).collect();
    ensure!(
        !rules.is_empty(),
        "ARCHITECTURE.md: expected a table that begins with `| Crate |`"
    );
    Ok(rules)
}

fn rule(row: &str) -> Option<Rule> {
    let cells: Vec<&str> = row.split('|').map(str::trim).collect();
    let [_, name, _, uses, remarks, ..] = cells[..] else {
        return None;
    };
    let quoted = |cell: &str| -> Vec<String> {
        cell.split('`')
            .skip(1)
            .step_by(2)
            .map(str::to_owned)
            .collect()
    };
    Some(Rule {
        name: quoted(name).pop()?,
        uses: (uses != "all").then(|| quoted(uses).into_iter().collect()),
        may_be_unsafe: remarks.contains(super::UNSAFE),
        is_for_tests: remarks.contains("for tests"),
    })
}

impl Rule {
    /// Returns a sentence for each fault of the manifest in `folder`.
    ///
    /// # Errors
    /// The manifest cannot be read.
    pub(super) fn check(&self, folder: &Path, rules: &[Self]) -> Result<Vec<String>> {
        let path = folder.join("Cargo.toml");
        let manifest: Table = super::read(&path)?
            .parse()
            .with_context(|| format!("parsing {}", path.display()))?;
        let mut problems = self.check_dependencies(&manifest, rules);
        let lints = manifest
            .get("lints")
            .and_then(|lints| lints.get("workspace"));
        if lints != Some(&Value::Boolean(true)) && !self.may_be_unsafe {
            problems.push(format!(
                "{}: Cargo.toml lacks `[lints] workspace = true`",
                self.name
            ));
        }
        Ok(problems)
    }

    fn check_dependencies(&self, manifest: &Table, rules: &[Self]) -> Vec<String> {
        let name = &self.name;
        let found = dependencies(manifest);
        let of_workspace = rules.iter().filter(|it| found.contains(&it.name));
        let Some(uses) = &self.uses else {
            let wrong = of_workspace.filter(|it| it.is_for_tests);
            return wrong
                .map(|it| format!("{name}: depends on {}, which is for tests", it.name))
                .collect();
        };
        let found: BTreeSet<String> = of_workspace.map(|it| it.name.clone()).collect();
        let more = found
            .difference(uses)
            .map(|it| format!("{name}: depends on {it}, which ARCHITECTURE.md does not allow"));
        let less = uses
            .difference(&found)
            .map(|it| format!("{name}: does not depend on {it}, as ARCHITECTURE.md says"));
        more.chain(less).collect()
    }
}

/// The names of a crate's dependencies, but for its tests and what is optional.
fn dependencies(manifest: &Table) -> BTreeSet<String> {
    let targets = manifest
        .get("target")
        .and_then(Value::as_table)
        .into_iter()
        .flatten();
    let tables = std::iter::once(manifest).chain(targets.filter_map(|(_, table)| table.as_table()));
    let kinds =
        tables.flat_map(|it| ["dependencies", "build-dependencies"].map(|kind| it.get(kind)));
    let entries = kinds.flatten().filter_map(Value::as_table).flatten();
    let required = entries.filter(|(_, it)| it.get("optional") != Some(&Value::Boolean(true)));
    // A dependency may be renamed.
    let names = required.map(|(key, it)| it.get("package").and_then(Value::as_str).unwrap_or(key));
    names.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "text\n\n| Crate | What | Depends on | Remarks |\n|---|---|---|---|\n\
                        | `low` | it | – | |\n| `high` | it | `low` | |\n| `check` | it | – | for tests |\n\
                        | `cli` | it | all | |\n\n| `no` | row | – | |\n";

    fn faults(of: &str, manifest: &str) -> usize {
        let rules = rules(PAGE).unwrap();
        let rule = rules.iter().find(|rule| rule.name == of).unwrap();
        rule.check_dependencies(&manifest.parse().unwrap(), &rules)
            .len()
    }

    #[test]
    fn dependencies_are_those_of_the_table() {
        assert_eq!(rules(PAGE).unwrap().len(), 4);
        assert_eq!(faults("low", "[dependencies]\nserde = \"1\""), 0);
        assert_eq!(faults("low", "[dependencies]\nhigh.workspace = true"), 1);
        assert_eq!(faults("high", "[dependencies]\nlow.workspace = true"), 0);
        assert_eq!(faults("high", "[dependencies]\nserde = \"1\""), 1);
        assert_eq!(
            faults("low", "[build-dependencies]\nhigh.workspace = true"),
            1
        );
        assert_eq!(
            faults(
                "low",
                "[target.'cfg(unix)'.dependencies]\nhigh.workspace = true"
            ),
            1
        );
        assert_eq!(
            faults("low", "[dependencies]\nother = { package = \"high\" }"),
            1
        );
        assert_eq!(
            faults("low", "[dev-dependencies]\ncheck.workspace = true"),
            0
        );
        assert_eq!(faults("cli", "[dependencies]\nhigh.workspace = true"), 0);
        assert_eq!(faults("cli", "[dependencies]\ncheck.workspace = true"), 1);
    }
}
