//! Checks statements of the documents.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use golden::Case;
use libtest_mimic::Trial;

use planner::memory::MemorySettings;
use planner::settings::{SettingEffect, is_known_to, variables};
use planner::{NcclVersion, Settings};
use testkit::{Expectation, Machine, elsewhere};

use crate::{not_run, root, test};

pub(crate) fn tests() -> Result<Vec<Trial>> {
    let agreement = match elsewhere::golden() {
        Ok(golden) => test("documents::agreement_of_the_readme", move || {
            let cases = Case::list(&golden)?.len();
            let line = format!("{cases} cases, 0 differ");
            ensure!(
                read("README.md")?.lines().any(|other| other == line),
                "README.md does not say `{line}`"
            );
            Ok(())
        }),
        Err(why) => not_run("documents::agreement_of_the_readme", why),
    };
    Ok(vec![
        agreement,
        test("documents::pictures_in_the_readme", pictures),
        test("documents::commands_of_the_readme", commands),
        test("documents::links_lead_somewhere", links),
        test("documents::files_of_decisions_exist", decisions),
        test("documents::every_setting_is_explained", settings),
        test("documents::defaults_are_the_programs", defaults),
        test("documents::every_machine_is_listed", machines),
    ])
}

fn read(name: &str) -> Result<String> {
    let path = root().join(name);
    std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
}

/// The page in README.md is an excerpt of an expected page: its lines are there in this order, and
/// `…` replaces lines that are left out.
fn pictures() -> Result<()> {
    let (readme, page) = (
        read("README.md")?,
        read("crates/cli/tests/cases/pages/plan-dgx-h100.txt")?,
    );
    let shown = readme
        .split("```text\n$ topo plan topologies/dgx-h100\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next())
        .context("README.md shows no page")?;
    let mut rest = page.lines();
    let mut skipping = false;
    for line in shown.lines() {
        if line.trim() == "…" {
            skipping = true;
        }
        // After `…` an empty line matches any line.
        if line.trim() == "…" || skipping && line.is_empty() {
            continue;
        }
        let found = if skipping {
            rest.find(|other| *other == line)
        } else {
            rest.next()
        };
        ensure!(
            found == Some(line),
            "README.md shows a line that the program does not print there: {line:?} (it prints {found:?})"
        );
        skipping = false;
    }
    ensure!(
        shown.lines().count() > 12,
        "README.md shows too little of the page"
    );
    Ok(())
}

/// Continuous integration runs the commands that README.md and CONTRIBUTING.md name.
fn commands() -> Result<()> {
    let readme = read("README.md")?;
    let (ci, contributing) = (read(".ci/run")?, read("CONTRIBUTING.md")?);
    let commands: Vec<&str> = ci
        .lines()
        .filter(|line| line.starts_with("cargo ") || line.starts_with("RUSTDOCFLAGS="))
        .collect();
    let (tests, lints): (Vec<&str>, Vec<&str>) = commands
        .into_iter()
        .partition(|line| line.starts_with("cargo xtask test"));
    ensure!(
        tests.len() == 1 && lints.len() >= 4,
        ".ci/run has {} commands that test and {} that lint",
        tests.len(),
        lints.len()
    );
    for (name, text, lines) in [
        ("README.md", &readme, tests),
        ("CONTRIBUTING.md", &contributing, lints),
    ] {
        for line in lines {
            ensure!(
                text.contains(line),
                "{name} does not name the command of .ci/run: {line}"
            );
        }
    }
    // README.md counts the answers of NCCL in the repository.
    let answers: usize = Machine::all()?
        .iter()
        .map(|machine| Ok(machine.answers()?.len()))
        .sum::<Result<_>>()?;
    ensure!(
        readme.contains(&format!("{answers} of its answers")),
        "README.md does not say that {answers} of the golden answers are here"
    );
    Ok(())
}

/// The Markdown pages of the repository: at its top, in `docs/`, and the READMEs of folders and
/// crates.
fn pages() -> Result<Vec<PathBuf>> {
    let mut pages: Vec<PathBuf> = vec!["topologies/README.md".into(), "kernels/README.md".into()];
    for folder in ["", "docs"] {
        for entry in std::fs::read_dir(root().join(folder))? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(PathBuf::from(folder).join(path.file_name().unwrap_or_default()));
            }
        }
    }
    for entry in std::fs::read_dir(root().join("crates"))? {
        let page = PathBuf::from("crates")
            .join(entry?.file_name())
            .join("README.md");
        if root().join(&page).exists() {
            pages.push(page);
        }
    }
    Ok(pages)
}

/// Every link to a file of the repository leads to one.
fn links() -> Result<()> {
    let pages = pages()?;
    let mut broken = Vec::new();
    for page in pages {
        let text = read(&page.to_string_lossy())?;
        let folder = root().join(&page);
        let folder = folder.parent().context("a page is in a folder")?;
        for target in text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
        {
            let file = target.split('#').next().unwrap_or_default();
            if !file.is_empty() && !file.contains("://") && !folder.join(file).exists() {
                broken.push(format!("{}: there is no {file}", page.display()));
            }
        }
    }
    ensure!(broken.is_empty(), "{}", broken.join("\n"));
    Ok(())
}

/// The tables "Decision, File" in the crates' READMEs name files that exist, by paths from the
/// README's folder.
fn decisions() -> Result<()> {
    let mut missing = Vec::new();
    let mut named = 0;
    for page in pages()?.iter().filter(|page| page.starts_with("crates")) {
        let text = read(&page.to_string_lossy())?;
        let folder = root().join(page);
        let folder = folder.parent().context("a page is in a folder")?;
        let mut lines = text.lines();
        while lines.any(|line| line == "| Decision | File |") {
            for row in lines.by_ref().take_while(|line| line.starts_with('|')) {
                let files = row.split('|').nth(2).unwrap_or_default();
                let paths = files.split('`').skip(1).step_by(2);
                for path in paths.filter(|path| path.contains(['/', '.'])) {
                    named += 1;
                    if !folder.join(path).exists() {
                        missing.push(format!("{}: there is no {path}", page.display()));
                    }
                }
            }
        }
    }
    ensure!(missing.is_empty(), "{}", missing.join("\n"));
    ensure!(named > 100, "only {named} files are named");
    Ok(())
}

/// The rows of docs/settings.md: heading, name, second column.
fn rows() -> Result<Vec<(String, String, String)>> {
    let text = read("docs/settings.md")?;
    let mut heading = "";
    let mut rows = Vec::new();
    for line in text.lines() {
        heading = line.strip_prefix("## ").unwrap_or(heading);
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let is_name = |it: &&str| it.starts_with("NCCL_") || it.starts_with("TOPO_");
        if let [_, name, second, ..] = cells.as_slice()
            && let Some(name) = name.strip_prefix('`').and_then(|it| it.strip_suffix('`'))
            && is_name(&name)
        {
            rows.push((heading.to_owned(), name.to_owned(), (*second).to_owned()));
        }
    }
    Ok(rows)
}

fn settings() -> Result<()> {
    let mut listed: BTreeMap<String, String> = BTreeMap::new();
    for (heading, name, _) in rows()? {
        ensure!(
            listed.insert(name.clone(), heading).is_none(),
            "docs/settings.md explains {name} twice"
        );
    }
    for (name, effect) in variables() {
        let heading = match effect {
            SettingEffect::Search => Some("Paths and search"),
            SettingEffect::Joining => Some("Joining hosts"),
            SettingEffect::Cost => Some("Cost model"),
            SettingEffect::Memory => Some("Memory"),
            SettingEffect::NotModelled(_) => Some("Not modelled"),
            SettingEffect::Nothing => None,
        };
        let found = listed.remove(name);
        ensure!(
            found.as_deref() == heading,
            "{name} stands under {found:?} in docs/settings.md; expected {heading:?}"
        );
    }
    ensure!(
        listed.is_empty(),
        "docs/settings.md explains what there is not: {listed:?}"
    );
    Ok(())
}

/// Setting a variable to its documented default changes nothing and causes no note.
fn defaults() -> Result<()> {
    for (heading, name, default) in rows()? {
        if heading == "Not modelled" || default == "unset" {
            continue;
        }
        let Some(value) = default
            .strip_prefix('`')
            .and_then(|value| value.strip_suffix('`'))
        else {
            bail!(
                "docs/settings.md: the default of {name} is {default}; expected `VALUE` or unset"
            );
        };
        // The newest version that has the variable.
        let mut versions = NcclVersion::ALL.into_iter().rev();
        let version = versions.find(|it| is_known_to(&name, *it));
        let version = version.unwrap_or_default();
        let read = Settings::with_variables(version, [(name.clone(), value.to_owned())]);
        ensure!(read.notes.is_empty(), "{name}={value}: {:?}", read.notes);
        let plain = Settings::of(version);
        let [own, other] = [&read, &plain].map(MemorySettings::of);
        ensure!(own == other, "{name}={value} changes memory");
        let same_channels = read.connect.fewest_channels() == plain.connect.fewest_channels()
            && read.connect.most_channels() == plain.connect.most_channels()
            && read.connect.ctas() == plain.connect.ctas();
        let limits = ["NCHANNELS", "NRINGS", "CTAS"]
            .iter()
            .any(|part| name.ends_with(part));
        let bare = Settings {
            in_force: Vec::new(),
            ..read
        };
        // A limit that equals its default is set, and limits nothing.
        ensure!(
            bare == plain || limits && same_channels,
            "{name}={value} is not the default"
        );
    }
    Ok(())
}

/// topologies/README.md lists every folder once, below the heading of its kind.
fn machines() -> Result<()> {
    let text = read("topologies/README.md")?;
    let mut heading = "";
    let mut listed: BTreeMap<String, String> = BTreeMap::new();
    for line in text.lines() {
        heading = line.strip_prefix("## ").unwrap_or(heading);
        let name = line
            .strip_prefix("| `")
            .and_then(|rest| rest.split('`').next());
        if let Some(name) = name.filter(|_| heading != "Machines" && !heading.is_empty()) {
            ensure!(
                listed.insert(name.to_owned(), heading.to_owned()).is_none(),
                "{name} is listed twice"
            );
        }
    }
    for machine in Machine::all()? {
        let expected = match (machine.origin.kind, machine.origin.expectation) {
            (testkit::Kind::Generated, _) => "Generated, with answers of NCCL",
            (_, Expectation::Nccl) => "Models with answers of NCCL",
            (_, Expectation::Blessed) => "Models with blessed answers",
        };
        let found = listed.remove(&machine.name);
        ensure!(
            found.as_deref() == Some(expected),
            "{} stands under {found:?} in topologies/README.md; expected {expected}",
            machine.name
        );
    }
    ensure!(
        listed.is_empty(),
        "topologies/README.md lists what there is not: {listed:?}"
    );
    Ok(())
}
