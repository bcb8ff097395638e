//! The bill of materials: every package that is compiled into what is shipped, as CycloneDX.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::build::Platform;
use xtask::workspace::cargo;

/// The packages that are shipped.
const SHIPPED: [&str; 3] = ["topo", "capi", "python"];

/// Writes the bill for a platform.
pub(super) fn write(folder: &Path, platform: &Platform) -> Result<PathBuf> {
    let listed = cargo()
        .args(["metadata", "--format-version", "1", "--locked"])
        .args(["--filter-platform", &platform.triple])
        .output()
        .context("cannot start cargo")?;
    let metadata: Value = serde_json::from_slice(&listed.stdout).context("cargo metadata")?;
    let file = folder.join(format!("topo-{}.cdx.json", platform.arch));
    fs::write(&file, serde_json::to_string_pretty(&bill(&metadata))?)?;
    Ok(file)
}

fn text<'a>(of: &'a Value, key: &str) -> &'a str {
    of[key].as_str().unwrap_or_default()
}

fn list<'a>(of: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    of[key].as_array().into_iter().flatten()
}

/// The bill of what cargo says.
fn bill(metadata: &Value) -> Value {
    let packages: BTreeMap<&str, &Value> = list(metadata, "packages")
        .map(|it| (text(it, "id"), it))
        .collect();
    let nodes: BTreeMap<&str, &Value> = list(&metadata["resolve"], "nodes")
        .map(|it| (text(it, "id"), it))
        .collect();
    let shipped = packages
        .iter()
        .filter(|(_, it)| SHIPPED.contains(&text(it, "name")));
    let mut open: Vec<&str> = shipped.map(|(id, _)| *id).collect();
    let mut found = BTreeSet::new();
    while let Some(id) = open.pop() {
        if !found.insert(id) {
            continue;
        }
        let needed = nodes
            .get(id)
            .into_iter()
            .flat_map(|node| list(node, "deps"));
        // What only builds or tests is not shipped.
        let needed = needed.filter(|it| list(it, "dep_kinds").any(|kind| kind["kind"].is_null()));
        open.extend(needed.map(|it| text(it, "pkg")));
    }
    let components = found
        .iter()
        .filter_map(|id| packages.get(id))
        .map(|package| {
            let (name, version) = (text(package, "name"), text(package, "version"));
            let mut component = json!({
                "type": "library",
                "name": name,
                "version": version,
                "licenses": [{ "expression": text(package, "license").replace('/', " OR ") }],
            });
            if !package["source"].is_null() {
                component["purl"] = json!(format!("pkg:cargo/{name}@{version}"));
            }
            component
        });
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": {
            "type": "application", "name": "topo", "version": env!("CARGO_PKG_VERSION"),
        } },
        "components": components.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_builds_is_left_out() {
        let package = |name: &str| json!({ "id": name, "name": name, "version": "1.0.0", "license": "MIT/X" });
        let needs =
            |name: &str, kind: Value| json!({ "pkg": name, "dep_kinds": [{ "kind": kind }] });
        let node = |name: &str, deps: Value| json!({ "id": name, "deps": deps });
        let packages = ["topo", "used", "builds", "other"].map(package);
        let metadata = json!({
            "packages": packages,
            "resolve": { "nodes": [
                node("topo", json!([needs("used", Value::Null), needs("builds", json!("build"))])),
                node("used", json!([])),
                node("other", json!([needs("used", Value::Null)])),
            ] },
        });
        let bill = bill(&metadata);
        let names: Vec<&str> = list(&bill, "components")
            .map(|it| text(it, "name"))
            .collect();
        assert_eq!(names, ["topo", "used"]);
        assert_eq!(
            bill["components"][0]["licenses"][0]["expression"],
            "MIT OR X"
        );
    }
}
