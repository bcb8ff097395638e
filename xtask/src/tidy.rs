//! `cargo xtask tidy`: the rules of the house that no compiler checks.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use toml::{Table, Value};

/// What one crate may do.
struct Rule {
    name: &'static str,
    /// Crates of the workspace that it may depend on, apart from its tests.
    may_use: &'static [&'static str],
    /// Whether it may hold unsafe code. All others inherit the workspace's lints, which forbid it.
    may_be_unsafe: bool,
}

const fn rule(name: &'static str, may_use: &'static [&'static str]) -> Rule {
    Rule {
        name,
        may_use,
        may_be_unsafe: false,
    }
}

const fn unsafe_rule(name: &'static str, may_use: &'static [&'static str]) -> Rule {
    Rule {
        name,
        may_use,
        may_be_unsafe: true,
    }
}

/// Stands for all crates but those that only tests may use.
const ALL: &[&str] = &["*"];

/// Crates that only tests and chores may use.
const ONLY_FOR_TESTS: [&str; 6] = [
    "fuzz-targets",
    "golden",
    "kernel-emulator",
    "machines",
    "test-network",
    "xtask",
];

/// Which way the arrows point.
const RULES: [Rule; 22] = [
    rule("files", &[]),
    rule("topology", &[]),
    rule("program", &[]),
    rule("plan", &["topology", "program"]),
    rule("planner", &["topology", "plan", "program"]),
    unsafe_rule("probe", &["topology"]),
    unsafe_rule("shared-memory", &["program"]),
    rule("bootstrap", &[]),
    rule("executor", &["program", "shared-memory"]),
    unsafe_rule("net-plugin", &[]),
    rule(
        "net",
        &[
            "bootstrap",
            "executor",
            "net-plugin",
            "program",
            "shared-memory",
        ],
    ),
    unsafe_rule(
        "backend-cpu",
        &["executor", "plan", "program", "shared-memory"],
    ),
    rule("device-runtime", &["executor", "program", "shared-memory"]),
    unsafe_rule(
        "kernel-emulator",
        &["executor", "device-runtime", "shared-memory"],
    ),
    unsafe_rule(
        "backend-cuda",
        &[
            "executor",
            "files",
            "program",
            "device-runtime",
            "shared-memory",
        ],
    ),
    rule("machines", &["topology"]),
    rule(
        "golden",
        &["topology", "plan", "planner", "program", "machines"],
    ),
    rule("test-network", &[]),
    unsafe_rule(
        "fuzz-targets",
        &[
            "topology",
            "plan",
            "planner",
            "program",
            "probe",
            "shared-memory",
            "bootstrap",
            "executor",
            "net-plugin",
            "net",
            "backend-cpu",
            "machines",
        ],
    ),
    rule("cli", ALL),
    rule(
        "xtask",
        &[
            "topology",
            "plan",
            "planner",
            "device-runtime",
            "backend-cuda",
            "machines",
            "golden",
        ],
    ),
    rule("tests", &[]),
];

/// Lines after which a file has two topics.
const MOST_LINES: usize = 600;

/// Written so that this file does not complain of itself.
const UNSAFE: &str = concat!("un", "safe");

/// What breaks the rules in the repository at `root`, one sentence each.
///
/// # Errors
/// Files cannot be read.
pub fn check(root: &Path) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    let folders = crates(root)?;
    ensure!(!folders.is_empty(), "no crates in {}", root.display());
    for folder in &folders {
        let name = folder
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        let Some(rule) = RULES.iter().find(|rule| rule.name == name) else {
            problems.push(format!(
                "{name}: not in the table of xtask/src/tidy.rs; say there what it may depend on"
            ));
            continue;
        };
        check_manifest(folder, rule, &mut problems)?;
        check_sources(root, folder, rule, &mut problems)?;
    }
    Ok(problems)
}

/// The folders of the workspace's crates.
fn crates(root: &Path) -> Result<Vec<PathBuf>> {
    let mut folders = vec![root.join("xtask"), root.join("tests")];
    folders.extend(entries(&root.join("crates"))?);
    folders.retain(|folder| folder.join("Cargo.toml").is_file());
    Ok(folders)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    let mut paths = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<PathBuf>>>()?;
    paths.sort();
    Ok(paths)
}

fn check_manifest(folder: &Path, rule: &Rule, problems: &mut Vec<String>) -> Result<()> {
    let path = folder.join("Cargo.toml");
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let manifest: Table = text
        .parse()
        .with_context(|| format!("parsing {}", path.display()))?;
    problems.extend(forbidden_dependencies(&manifest, rule));
    let inherits = manifest
        .get("lints")
        .and_then(|lints| lints.get("workspace"))
        == Some(&Value::Boolean(true));
    if !inherits && !rule.may_be_unsafe {
        problems.push(format!(
            "{}: Cargo.toml lacks `[lints] workspace = true`",
            rule.name
        ));
    }
    Ok(())
}

/// The crates of the workspace that a crate depends on, but may not.
fn forbidden_dependencies(manifest: &Table, rule: &Rule) -> Vec<String> {
    let per_target = manifest
        .get("target")
        .and_then(Value::as_table)
        .into_iter()
        .flatten();
    let tables =
        std::iter::once(manifest).chain(per_target.filter_map(|(_, table)| table.as_table()));
    let normal =
        tables.flat_map(|table| ["dependencies", "build-dependencies"].map(|kind| table.get(kind)));
    let named = normal
        .flatten()
        .filter_map(Value::as_table)
        .flatten()
        // What is optional is in no program that was not asked for it.
        .filter(|(_, value)| value.get("optional") != Some(&Value::Boolean(true)))
        .map(|(key, value)| {
            // A dependency may be renamed.
            value.get("package").and_then(Value::as_str).unwrap_or(key)
        });
    let of_workspace = named.filter(|name| RULES.iter().any(|rule| rule.name == *name));
    let everything = rule.may_use == ALL;
    let forbidden = of_workspace.filter(|name| {
        !(rule.may_use.contains(name) || everything && !ONLY_FOR_TESTS.contains(name))
    });
    forbidden
        .map(|name| {
            let may_use = if rule.may_use.is_empty() {
                "no other crate".to_owned()
            } else {
                rule.may_use.join(", ")
            };
            format!(
                "{}: depends on {name}, but may depend on {may_use} only (tests excepted)",
                rule.name
            )
        })
        .collect()
}

fn check_sources(
    root: &Path,
    folder: &Path,
    rule: &Rule,
    problems: &mut Vec<String>,
) -> Result<()> {
    let mut sources = Vec::new();
    collect_sources(folder, &mut sources)?;
    for path in sources {
        let text =
            fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let name = path
            .strip_prefix(root)
            .unwrap_or(&path)
            .display()
            .to_string();
        let lines = text.lines().count();
        if lines > MOST_LINES {
            problems.push(format!(
                "{name}: {lines} lines; split what has more than {MOST_LINES}"
            ));
        }
        if !rule.may_be_unsafe {
            problems.extend(
                unsafe_lines(&text)
                    .map(|line| format!("{name}:{line}: {UNSAFE} code outside its rooms")),
            );
        }
    }
    for page in ["src/lib.rs", "src/main.rs", "main.rs"].map(|file| folder.join(file)) {
        if page.is_file() && !fs::read_to_string(&page)?.starts_with("//!") {
            let name = page
                .strip_prefix(root)
                .unwrap_or(&page)
                .display()
                .to_string();
            problems.push(format!(
                "{name}: does not begin with what the crate is for (`//!`)"
            ));
        }
    }
    Ok(())
}

/// The numbers of the lines with unsafe code. Comments behind code are taken for code only if they hold the word alone.
fn unsafe_lines(text: &str) -> impl Iterator<Item = usize> {
    let is_word_part = |character: char| character.is_alphanumeric() || character == '_';
    text.lines().enumerate().filter_map(move |(number, line)| {
        let code = line.split("//").next().unwrap_or_default();
        code.split(|character| !is_word_part(character))
            .any(|word| word == UNSAFE)
            .then_some(number + 1)
    })
}

fn collect_sources(folder: &Path, sources: &mut Vec<PathBuf>) -> Result<()> {
    for path in entries(folder)? {
        if path.is_dir() {
            // Fuzz targets are a workspace of their own, with generated sources in its `target`.
            if !path.ends_with("xtask/fuzz") {
                collect_sources(&path, sources)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            sources.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(of: &str, manifest: &str) -> Vec<String> {
        let rule = RULES.iter().find(|rule| rule.name == of).unwrap();
        forbidden_dependencies(&manifest.parse().unwrap(), rule)
    }

    #[test]
    fn arrows_point_one_way() {
        assert_eq!(
            complaints("topology", "[dependencies]\nserde = \"1\"").len(),
            0
        );
        assert_eq!(
            complaints("topology", "[dependencies]\nplan.workspace = true").len(),
            1
        );
        assert_eq!(
            complaints("plan", "[dependencies]\ntopology.workspace = true").len(),
            0
        );
        assert_eq!(
            complaints("plan", "[build-dependencies]\nplanner.workspace = true").len(),
            1
        );
        assert_eq!(
            complaints(
                "plan",
                "[target.'cfg(unix)'.dependencies]\nplanner.workspace = true"
            )
            .len(),
            1
        );
        assert_eq!(
            complaints("plan", "[dependencies]\nother = { package = \"planner\" }").len(),
            1
        );
        assert_eq!(
            complaints("planner", "[dependencies]\ngolden.workspace = true").len(),
            1
        );
        assert_eq!(
            complaints("planner", "[dev-dependencies]\ngolden.workspace = true").len(),
            0
        );
        assert_eq!(
            complaints("cli", "[dependencies]\nplanner.workspace = true").len(),
            0
        );
        assert_eq!(
            complaints("cli", "[dependencies]\ngolden.workspace = true").len(),
            1
        );
    }

    #[test]
    fn words_in_comments_are_no_code() {
        let text = format!(
            "// {UNSAFE}\nlet a = 1; // {UNSAFE}\nlet {UNSAFE}_code = 1;\n{UNSAFE} {{ }}\n"
        );
        assert_eq!(unsafe_lines(&text).collect::<Vec<_>>(), [4]);
    }
}
