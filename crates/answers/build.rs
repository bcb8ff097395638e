//! Lists the machines of `topologies/` that are models of products, so that the program holds them.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../topologies");
    println!("cargo::rerun-if-changed={}", root.display());
    let folders = fs::read_dir(&root).unwrap_or_else(|why| panic!("{}: {why}", root.display()));
    let mut folders: Vec<PathBuf> = folders.flatten().map(|entry| entry.path()).collect();
    folders.sort();
    // The page in the browser does not show them, and its size is limited.
    let has_facts = env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|it| it != "wasm32");
    let mut text = "[\n".to_owned();
    for folder in folders {
        let Ok(origin) = fs::read_to_string(folder.join("origin.toml")) else {
            continue;
        };
        let origin = format!("\n{}\n", origin.replace('\r', ""));
        let value = |key: &str, end: &str| {
            let start = format!("\n{key} = ");
            let rest = origin.split_once(&start).map(|(_, rest)| rest);
            let value = rest.and_then(|rest| Some(rest.split_once(end)?.0));
            value.unwrap_or_else(|| panic!("{}/origin.toml: no {key}", folder.display()))
        };
        if value("kind", "\n").trim() != "\"model\"" {
            continue;
        }
        // A string of TOML, or a list of strings, is one of Rust, too, and Rust refuses others.
        let [title, summary] = ["name", "summary"].map(|key| value(key, "\n"));
        let facts = match has_facts {
            true => value("facts", "\n]\n"),
            false => "[",
        };
        let file = folder.join("topology.xml");
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "BuiltIn {{ name: {name:?}, title: {title}, summary: {summary}, facts: &{facts}], text: include_str!({:?}) }},",
            file.display().to_string(),
        );
    }
    text.push_str("]\n");
    let out = env::var_os("OUT_DIR").expect("Cargo says where");
    let out = Path::new(&out).join("machines.rs");
    fs::write(&out, text).unwrap_or_else(|why| panic!("{}: {why}", out.display()));
}
