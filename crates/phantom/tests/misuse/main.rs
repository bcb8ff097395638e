//! Misuse of the CUDA driver API: every case is refused as the documentation says, with the rule's
//! section in the report. Each case runs in a process of its own.

mod api;
mod contexts;
mod execution;
mod facts;
mod memory;
mod multicast;
mod streams;
mod virtual_memory;

use std::path::{Path, PathBuf};
use std::process::Command;

/// The variable that tells a child its case.
const CASE: &str = "PHANTOM_CASE";

/// A line of the machine file that is none: the case begins before `cuInit`.
const BEFORE_INIT: &str = "before cuInit";

/// A misuse.
pub struct Case {
    name: &'static str,
    /// Lines of the machine file.
    lines: &'static str,
    /// The function that refuses.
    function: &'static str,
    /// CUDA's number of the error.
    error: u32,
    /// The section of the documentation; empty: the call is legal, and only its result says so.
    section: &'static str,
    /// Returns the result of the last call. The context of device 0 is current before.
    act: fn() -> u32,
}

/// The cases of a file, a row each: name, lines of the machine file, what comes before, the call
/// that is refused (or the function, and what returns its result), its error and section.
macro_rules! table {
    (@lines) => { "" };
    (@lines $lines:expr) => { $lines };
    (@act $function:ident ($($argument:tt)*)) => { $crate::api::call!($function($($argument)*)) };
    (@act $function:ident { $($act:tt)* }) => { { $($act)* } };
    ($(
        $name:literal $([$lines:expr])? $({ $($before:tt)* })?
        => $function:ident $act:tt = $error:tt $section:expr;
    )*) => {
        pub const CASES: &[$crate::Case] = &[$($crate::Case {
            name: $name,
            lines: $crate::table!(@lines $($lines)?),
            function: stringify!($function),
            error: $error,
            section: $section,
            act: || {
                $($($before)*)?
                $crate::table!(@act $function $act)
            },
        }),*];
    };
}

pub(crate) use table;

fn cases() -> impl Iterator<Item = &'static Case> {
    let tables: [&[Case]; 7] = [
        contexts::CASES,
        memory::CASES,
        virtual_memory::CASES,
        multicast::CASES,
        streams::CASES,
        execution::CASES,
        facts::CASES,
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
    let case = cases().find(|it| it.name == name).unwrap();
    if case.lines != BEFORE_INIT {
        api::begin(0);
    }
    let error = (case.act)();
    println!("error {error}");
    assert_eq!(error, case.error, "{name}");
}

#[test]
fn every_misuse_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let topologies = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../topologies");
    let mut wrong = Vec::new();
    let mut count = 0;
    for case in cases() {
        let Case {
            name,
            lines,
            function,
            error,
            section,
            ..
        } = case;
        count += 1;
        let (machine, report) = (folder.path().join("machine"), folder.path().join("report"));
        let mut topology = "dgx-h100";
        let mut more = String::new();
        for line in lines
            .split("; ")
            .filter(|it| !it.is_empty() && *it != BEFORE_INIT)
        {
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
        let line = format!("refused {function} {error} {section}: ");
        let told = section.is_empty() || reported.lines().any(|it| it.starts_with(&line));
        if !output.status.success() || !told {
            wrong.push(format!("{name}: expected `{line}`\n{said}\n{reported}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // A child finds its case by name.
    let names: std::collections::BTreeSet<&str> = cases().map(|it| it.name).collect();
    assert_eq!(names.len(), count);
    println!("{count} cases");
}
