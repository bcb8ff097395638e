//! Misuse of the CUDA driver API: every case is refused as the documentation says, with the rule's
//! section in the report. Each case runs in a process of its own.

mod api;
mod contexts;
mod execution;
mod memory;
mod multicast;
mod streams;
mod virtual_memory;

use std::path::{Path, PathBuf};
use std::process::Command;

/// The variable that tells a child its case.
const CASE: &str = "PHANTOM_CASE";

/// A misuse: its name, lines of the machine file, the function that refuses, CUDA's number of the
/// error, the section, and what to do. It returns the last call's result.
pub struct Case(
    pub &'static str,
    pub &'static str,
    pub &'static str,
    pub u32,
    pub &'static str,
    pub fn() -> u32,
);

fn cases() -> impl Iterator<Item = &'static Case> {
    let tables: [&[Case]; 6] = [
        contexts::CASES,
        memory::CASES,
        virtual_memory::CASES,
        multicast::CASES,
        streams::CASES,
        execution::CASES,
    ];
    tables.into_iter().flatten()
}

fn built(name: &str) -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.with_file_name(name)
}

/// The child: runs its case, and exits with success if the error is the expected one.
#[test]
fn child() {
    let Ok(name) = std::env::var(CASE) else {
        return;
    };
    let case = cases().find(|it| it.0 == name).unwrap();
    let error = (case.5)();
    println!("error {error}");
    assert_eq!(error, case.3, "{name}");
}

#[test]
fn every_misuse_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let topologies = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../topologies");
    let mut wrong = Vec::new();
    let mut count = 0;
    for Case(name, lines, function, error, section, _) in cases() {
        count += 1;
        let (machine, report) = (folder.path().join("machine"), folder.path().join("report"));
        let mut topology = "dgx-h100";
        let mut more = String::new();
        for line in lines.split("; ").filter(|it| !it.is_empty()) {
            match line.strip_prefix("machine ") {
                Some(other) => topology = other,
                None => more.push_str(&format!("{line}\n")),
            }
        }
        let text = format!(
            "topology {}\nemulator {}\nreport {}\nmultiprocessors 4\nmemory-mib 256\n{more}",
            topologies.join(topology).join("topology.xml").display(),
            built("libphantom_kernels.so").display(),
            report.display(),
        );
        std::fs::write(&machine, text).unwrap();
        let _ = std::fs::remove_file(&report);
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture"])
            .env(CASE, name)
            .env("TOPO_PHANTOM_MACHINE", &machine)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let said = said + &String::from_utf8_lossy(&output.stderr);
        let reported = std::fs::read_to_string(&report).unwrap_or_default();
        // An empty section: the call is legal, and only its result says so.
        let line = format!("refused {function} {error} {section}: ");
        let told = section.is_empty() || reported.lines().any(|it| it.starts_with(&line));
        if !output.status.success() || !told {
            wrong.push(format!("{name}: expected `{line}`\n{said}\n{reported}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // A child finds its case by name.
    let names: std::collections::BTreeSet<&str> = cases().map(|it| it.0).collect();
    assert_eq!(names.len(), count);
    println!("{count} cases");
}
