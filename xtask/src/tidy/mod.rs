//! `cargo xtask tidy`: the rules of the house that no compiler checks.

mod circles;
mod dependencies;
mod words;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use dependencies::Rule;
use words::Words;

/// Lines of a source file, at most.
const MOST_LINES: usize = 500;

/// Written so that this file does not complain of itself.
const UNSAFE: &str = concat!("un", "safe");

/// Folders that hold other people's text, or what programs write.
const SKIPPED: [&str; 4] = ["target", "corpus", "artifacts", "expected"];

/// Returns a sentence for each broken rule in the repository at `root`.
///
/// # Errors
/// Files cannot be read, or ARCHITECTURE.md has no table of crates.
pub fn check(root: &Path) -> Result<Vec<String>> {
    let rules = dependencies::rules(&read(&root.join("ARCHITECTURE.md"))?)?;
    let mut problems = Vec::new();
    let mut folders = vec![root.join("xtask"), root.join("tests")];
    folders.extend(entries(&root.join("crates"))?);
    folders.retain(|folder| folder.join("Cargo.toml").is_file());
    for folder in &folders {
        let name = name_of(root, folder);
        let name = name.trim_start_matches("crates/");
        if let Some(rule) = rules.iter().find(|rule| rule.name == name) {
            problems.extend(rule.check(folder, &rules)?);
            problems.extend(check_crate(root, folder, rule)?);
        } else {
            problems.push(format!(
                "{name}: not in the table of crates in ARCHITECTURE.md"
            ));
        }
    }
    let words = Words::new()?;
    for file in files(root)? {
        let faults = match file.extension().and_then(|it| it.to_str()) {
            Some("rs" | "cuh" | "cu" | "h" | "c") => words.in_source(&read(&file)?),
            Some("md" | "toml") => words.in_text(&read(&file)?),
            _ => continue,
        };
        let name = name_of(root, &file);
        let is_test = name.contains("/tests/") || name.starts_with("tests/");
        let more = match name.ends_with(".rs") {
            true if is_test => words.in_test(&read(&file)?),
            true if is_library(&name) => words.in_library(&read(&file)?),
            _ => Vec::new(),
        };
        let faults = [faults, more].concat();
        problems.extend(
            faults
                .iter()
                .map(|(line, fault)| format!("{name}:{line}: {fault}")),
        );
    }
    Ok(problems)
}

/// Whether a file is the source of a crate that knows nothing of the program's commands.
fn is_library(file: &str) -> bool {
    let name = file.strip_prefix("crates/");
    let name = name.and_then(|it| it.split_once("/src/")).map(|it| it.0);
    name.is_some_and(|it| !words::DOORS.contains(&it))
}

/// Checks the sources of one crate.
fn check_crate(root: &Path, folder: &Path, rule: &Rule) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    let source = folder.join("src");
    let mut modules = Vec::new();
    for path in files(folder)? {
        // A folder may hold a package of another workspace.
        let owner = path.ancestors().skip(1);
        let owner = owner.into_iter().find(|it| it.join("Cargo.toml").is_file());
        if path.extension().is_none_or(|it| it != "rs") || owner != Some(folder) {
            continue;
        }
        let text = read(&path)?;
        let name = name_of(root, &path);
        let lines = text.lines().count();
        if lines > MOST_LINES {
            problems.push(format!("{name}: {lines} lines; {MOST_LINES} are allowed"));
        }
        if !rule.may_be_unsafe {
            let lines = unsafe_lines(&text);
            problems
                .extend(lines.map(|it| format!("{name}:{it}: {UNSAFE} code outside its rooms")));
        }
        if let Ok(path) = path.strip_prefix(&source) {
            let is_page = ["lib.rs", "main.rs"].iter().any(|it| Path::new(it) == path);
            if is_page && !text.starts_with("//!") {
                problems.push(format!(
                    "{name}: does not begin with the purpose of the crate (`//!`)"
                ));
            }
            modules.push((path.to_owned(), text));
        }
    }
    let circles = circles::find(&modules);
    problems.extend(
        circles
            .iter()
            .map(|it| format!("{}: {it} import each other", name_of(root, &source))),
    );
    Ok(problems)
}

/// The numbers of the lines with unsafe code. A comment behind code counts as code if it holds the
/// word alone.
fn unsafe_lines(text: &str) -> impl Iterator<Item = usize> {
    let is_word_part = |character: char| character.is_alphanumeric() || character == '_';
    text.lines().zip(1..).filter_map(move |(line, number)| {
        let code = line.split("//").next().unwrap_or_default();
        let mut words = code.split(|character| !is_word_part(character));
        words.any(|word| word == UNSAFE).then_some(number)
    })
}

fn name_of(root: &Path, path: &Path) -> String {
    path.strip_prefix(root)
        .unwrap_or(path)
        .display()
        .to_string()
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
}

/// All files below `folder`, sorted.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in entries(folder)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !path.is_dir() {
            found.push(path);
        } else if !name.starts_with('.') && !SKIPPED.contains(&&*name) {
            found.extend(files(&path)?);
        }
    }
    Ok(found)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_in_comments_are_no_code() {
        let text = format!(
            "// {UNSAFE}\nlet a = 1; // {UNSAFE}\nlet {UNSAFE}_code = 1;\n{UNSAFE} {{ }}\n"
        );
        assert_eq!(unsafe_lines(&text).collect::<Vec<_>>(), [4]);
    }
}
