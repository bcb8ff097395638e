//! Files of a crate that import each other in a circle.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use petgraph::algo::tarjan_scc;
use petgraph::graph::DiGraph;
use regex::Regex;

/// The path of a module in its crate, without `crate`.
type Module = Vec<String>;

/// Returns the circles among the files of one crate, each as the names of its modules. A module and
/// its children may import each other. `files` holds the path below `src`, and the text, of each.
pub(super) fn find(files: &[(PathBuf, String)]) -> Vec<String> {
    let mut graph = DiGraph::<Module, ()>::new();
    let nodes: BTreeMap<Module, _> = (files.iter())
        .map(|(path, _)| (module_of(path), graph.add_node(module_of(path))))
        .collect();
    for (path, text) in files {
        let from = module_of(path);
        for mut to in imports(&from, text, |it| nodes.contains_key(it)) {
            while !nodes.contains_key(&to) && to.pop().is_some() {}
            if let Some(node) = nodes.get(&to).filter(|_| to != from) {
                graph.update_edge(nodes[&from], *node, ());
            }
        }
    }
    let circles = tarjan_scc(&graph).into_iter().filter(|it| it.len() > 1);
    let circles = circles.map(|it| it.into_iter().map(|node| &graph[node]).collect::<Vec<_>>());
    let mut found: Vec<String> = circles.filter(|it| !is_family(it)).map(names).collect();
    found.sort();
    found
}

/// Whether one of the modules is the parent of all others.
fn is_family(modules: &[&Module]) -> bool {
    let is_parent =
        |parent: &Module, it: &Module| it.split_last().is_some_and(|(_, rest)| rest == parent);
    (modules.iter()).any(|parent| {
        modules
            .iter()
            .all(|it| it == parent || is_parent(parent, it))
    })
}

fn names(circle: Vec<&Module>) -> String {
    let mut names: Vec<String> = circle.iter().map(|it| it.join("::")).collect();
    names.sort();
    names.join(", ")
}

fn module_of(file: &Path) -> Module {
    let parts = file.with_extension("");
    let mut parts: Module = (parts.iter())
        .map(|it| it.to_string_lossy().into_owned())
        .collect();
    if let Some("mod" | "lib" | "main") = parts.last().map(String::as_str) {
        parts.pop();
    }
    parts
}

/// The paths of a file by `crate::`, `super::` or `self::`, or by the name of a module that it
/// imports, but not in its tests.
fn imports(of: &Module, text: &str, is_module: impl Fn(&Module) -> bool) -> Vec<Module> {
    let text = text.split("#[cfg(test)]\nmod").next().unwrap_or_default();
    let code: Vec<&str> = text
        .lines()
        .map(|it| it.split("//").next().unwrap_or_default())
        .collect();
    let code = code.join("\n");
    let tokens = Regex::new(r"::|\w+|[{},]|\S").expect("a valid expression");
    let tokens: Vec<&str> = tokens.find_iter(&code).map(|it| it.as_str()).collect();
    let begins = |at: usize| {
        let starts = at == 0 || tokens[at - 1] != "::";
        starts && tokens.get(at + 1) == Some(&"::")
    };
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        if ["crate", "super", "self"].contains(token) && begins(at) {
            tree(&tokens[at..], &[], &mut found);
        }
    }
    let mut found: Vec<Module> = found.iter().map(|path| absolute(of, path)).collect();
    let named = found.iter().filter(|it| is_module(it));
    let named: BTreeMap<String, Module> = named
        .filter_map(|it| Some((it.last()?.clone(), it.clone())))
        .collect();
    for (at, token) in tokens.iter().enumerate() {
        if let Some(module) = named.get(*token).filter(|_| begins(at)) {
            tree(&tokens[at + 2..], module, &mut found);
        }
    }
    found
}

/// Reads one path, or a tree of paths in braces, into `found`; returns how many tokens it has.
fn tree(tokens: &[&str], prefix: &[String], found: &mut Vec<Module>) -> usize {
    let mut path = prefix.to_vec();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        if *token == "{" {
            at += 1;
            while let Some(token) = tokens.get(at).filter(|it| **it != "}") {
                at += if *token == "," {
                    1
                } else {
                    tree(&tokens[at..], &path, found).max(1)
                };
            }
            return at + 1;
        }
        path.push((*token).to_owned());
        at += 1;
        if tokens.get(at) != Some(&"::") {
            break;
        }
        at += 1;
    }
    found.push(path);
    at
}

/// Resolves `crate`, `super` and `self` at the head of a path.
fn absolute(of: &Module, path: &[String]) -> Module {
    let ups = path.iter().take_while(|it| *it == "super").count();
    let base = match path.first().map(String::as_str) {
        Some("crate") => &of[..0],
        _ => &of[..of.len().saturating_sub(ups)],
    };
    let rest = path
        .iter()
        .skip_while(|it| ["crate", "super", "self"].contains(&it.as_str()));
    base.iter().chain(rest).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<_> = files
            .iter()
            .map(|(path, text)| (PathBuf::from(path), (*text).to_owned()))
            .collect();
        find(&files)
    }

    #[test]
    fn siblings_that_import_each_other_are_found() {
        let one = ("a/one.rs", "use crate::{b, a::{mod_of, two::{Deep, It}}};");
        let two = ("a/two.rs", "use super::one::Other; // use crate::b");
        assert_eq!(found(&[one, two, ("b.rs", "")]), ["a::one, a::two"]);
    }

    #[test]
    fn paths_of_imported_modules_are_followed() {
        let command = (
            "report.rs",
            "use crate::pages;\nfn f() { pages::report::page() }",
        );
        let page = ("pages/report.rs", "use crate::report::View;");
        let pages = ("pages/mod.rs", "pub mod report;");
        assert_eq!(found(&[command, page, pages]), ["pages::report, report"]);
    }

    #[test]
    fn a_module_and_its_children_are_a_family() {
        let parent = ("a/mod.rs", "mod one; pub use self::one::It;");
        let child = ("a/one.rs", "use super::Shared;");
        assert!(found(&[parent, child]).is_empty());
        let cousin = ("b.rs", "use crate::a::Shared;");
        let child = ("a/one.rs", "use crate::b;\nuse super::Shared;");
        assert_eq!(found(&[parent, child, cousin]), ["a, a::one, b"]);
    }

    #[test]
    fn tests_may_import_what_they_like() {
        let one = ("one.rs", "#[cfg(test)]\nmod tests { use crate::two; }");
        assert!(found(&[one, ("two.rs", "use crate::one;")]).is_empty());
    }
}
