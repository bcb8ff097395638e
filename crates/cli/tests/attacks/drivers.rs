//! Management libraries and programs that misbehave: who asks them ends in time with the rest.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use backend_cuda::presence;
use libtest_mimic::{Completion, Failed};

use crate::program::{FAILED, LONG, Running, Said, clean, not_run, root};

/// When a command that asks a driver has ended, twice for a busy machine.
const IN_TIME: Duration = Duration::from_secs(2 * 15);

/// A library that misbehaves, and what a command says of it.
struct Library {
    mode: &'static str,
    /// The functions that it lacks or has.
    defines: &'static [&'static str],
    /// Words of the finding; none: the driver answers.
    says: Option<&'static str>,
}

const fn silent(mode: &'static str, says: &'static str) -> Library {
    Library {
        mode,
        defines: &["-DWITH_SHUTDOWN"],
        says: Some(says),
    }
}

const LATE: &str = "did not answer within 10 s";

const LIBRARIES: [Library; 10] = [
    silent("hang-load", LATE),
    silent("hang-init", LATE),
    silent("hang-answer", LATE),
    silent("abort", "ended its process (signal: 6 (SIGABRT)"),
    silent("exit", "ended its process (exit status: 0)"),
    Library {
        mode: "no-init",
        defines: &["-DWITHOUT_INIT"],
        says: Some("lacks a function"),
    },
    Library {
        mode: "no-shutdown",
        defines: &[],
        says: None,
    },
    Library {
        mode: "noise",
        defines: &["-DWITH_SHUTDOWN"],
        says: None,
    },
    Library {
        mode: "hang-end",
        defines: &["-DWITH_SHUTDOWN"],
        says: None,
    },
    Library {
        mode: "child",
        defines: &["-DWITH_SHUTDOWN"],
        says: None,
    },
];

/// Builds a library into a folder. Returns `false` without a C compiler.
fn build(library: &Library, folder: &Path) -> bool {
    let mut compiler = Command::new("cc");
    compiler.args(["-O0", "-shared", "-fPIC", "-o"]);
    compiler.arg(folder.join("libnvidia-ml.so.1"));
    compiler.arg(format!("-DMODE=\"{}\"", library.mode));
    compiler.args(library.defines);
    compiler.arg(root().join("crates/cli/tests/attacks/hostile_nvml.c"));
    compiler.status().is_ok_and(|it| it.success())
}

/// Starts `topo` with the library of a folder.
fn start(folder: &Path, arguments: &[&str]) -> Running {
    let mut command = clean(Path::new(env!("CARGO_BIN_EXE_topo")));
    command.args(arguments).env("LD_LIBRARY_PATH", folder);
    command.env("CHILD", folder.join("child"));
    Running::start(&mut command)
}

/// Whether a process runs; a zombie does not.
fn runs(number: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", number.trim()));
    stat.is_ok_and(|it| !it.contains(") Z"))
}

/// Waits until the process whose number a file holds has ended.
fn until_ended(file: &Path) {
    let number = fs::read_to_string(file).unwrap();
    assert!(!number.trim().is_empty(), "{}", file.display());
    let began = Instant::now();
    while runs(&number) {
        assert!(began.elapsed() < LONG, "process {number} still runs");
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub(crate) fn a_management_library_that_misbehaves_is_a_finding() -> Result<Completion, Failed> {
    let folder = tempfile::tempdir()?;
    let mut running = Vec::new();
    for library in &LIBRARIES {
        let place = folder.path().join(library.mode);
        fs::create_dir(&place)?;
        if !build(library, &place) {
            return not_run("there is no C compiler");
        }
        running.push((library, start(&place, &["doctor", "--json"])));
    }
    for (library, running) in running {
        let said = running.within(LONG);
        let what = format!("{}: {said:?}", library.mode);
        assert!(said.is_orderly() && said.took < IN_TIME, "{what}");
        match library.says {
            Some(words) => assert!(
                said.out.contains("no answer: libnvidia-ml.so.1") && said.out.contains(words),
                "{what}"
            ),
            None => assert!(!said.out.contains("no answer"), "{what}"),
        }
    }
    until_ended(&folder.path().join("child/child"));
    Ok(Completion::Completed)
}

pub(crate) fn a_driver_that_hangs_stops_no_command() -> Result<Completion, Failed> {
    let folder = tempfile::tempdir()?;
    if !build(&LIBRARIES[1], folder.path()) {
        return not_run("there is no C compiler");
    }
    let packed = folder.path().join("packed.tar.gz");
    let packed = packed.to_str().unwrap_or_default();
    let running = [
        start(folder.path(), &["probe"]),
        start(folder.path(), &["diagnose", "--collect", "-o", packed]),
    ];
    let said: Vec<Said> = running.into_iter().map(|it| it.within(LONG)).collect();
    for it in &said {
        assert!(it.status == Some(0) && it.took < IN_TIME, "{it:?}");
    }
    let [probe, collect] = &said[..] else {
        unreachable!()
    };
    assert!(probe.out.starts_with("<system"), "{probe:?}");
    assert!(probe.err.contains("the driver did not answer"), "{probe:?}");
    let why = "GPUs of topology.xml: no answer: libnvidia-ml.so.1 did not answer within 10 s";
    let listed = collect.out.contains("\n  topology.xml\n") && collect.out.contains(why);
    assert!(listed, "{collect:?}");
    Ok(Completion::Completed)
}

/// A driver of GPUs that hangs when it is loaded, when it is started, or when a GPU is opened.
pub(crate) fn a_driver_of_gpus_that_hangs_ends_a_run() -> Result<Completion, Failed> {
    let hanging = |answering: &[(&str, &str)]| {
        let answers = |name: &str| answering.iter().any(|it| it.0 == name);
        let functions = presence::SYMBOLS.iter().chain(&presence::ELAPSED);
        let hangs = functions.filter(|it| !answers(it));
        let hangs = hangs.map(|it| format!("int {it}(void) {{ for (;;) pause(); }}\n"));
        let mut source = "#include <unistd.h>\n".to_owned();
        source.extend(hangs);
        source.extend(
            answering
                .iter()
                .map(|(name, rest)| format!("int {name}{rest}\n")),
        );
        source
    };
    let source = hanging(&[]);
    let lost = hanging(&[
        ("cuInit", "(unsigned flags) { return 0; }"),
        ("cuDeviceGetCount", "(int *count) { *count = 2; return 0; }"),
        (
            "cuDeviceGet",
            "(int *device, int number) { *device = number; return 0; }",
        ),
    ]);
    let load = "__attribute__((constructor)) static void load(void) { for (;;) pause(); }\n";
    for (mode, source, call) in [
        ("start", source.clone(), "cuInit"),
        ("load", source + load, "loading it"),
        ("open", lost, "opening GPU 0"),
    ] {
        let folder = tempfile::tempdir()?;
        let at = |name: &str| folder.path().join(name);
        fs::write(at("driver.c"), source)?;
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-o"]);
        compiler.args([at("libcuda.so.1"), at("driver.c")]);
        if !compiler.status().is_ok_and(|it| it.success()) {
            return not_run("there is no C compiler");
        }
        fs::hard_link(at("libcuda.so.1"), at("libcuda.so"))?;
        for more in [&[][..], &["--processes"]] {
            let arguments = "run --ranks 2 all-reduce --backend cuda -T 2".split(' ');
            let arguments: Vec<&str> = arguments.chain(more.iter().copied()).collect();
            let said = start(folder.path(), &arguments).within(LONG);
            let what = format!("{mode} {more:?}: {said:?}");
            assert!(said.status == FAILED && said.took < IN_TIME, "{what}");
            let words = format!("libcuda.so.1: {call}: it did not return within 2 s");
            assert!(said.err.contains(&words), "{what}");
        }
    }
    Ok(Completion::Completed)
}

/// A program in a folder.
fn script(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

pub(crate) fn programs_that_collect_runs_end_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let child = |name: &str| format!("sleep 600 & echo $! > {}", at(name).display());
    // Each leaves a process that keeps the pipe open: the first ends, the second waits for its own,
    // and that of the third has left the group.
    let left = child("left");
    script(folder.path(), "lscpu", &format!("echo all of it\n{left}"));
    let waits = child("waits");
    script(
        folder.path(),
        "lspci",
        &format!("echo a part\n{waits}\nwait"),
    );
    let mut away = child("away").replace("sleep", "setsid sleep");
    away.push_str("; until [ $(cut -d ' ' -f 5 /proc/$!/stat) = $! ]; do :; done");
    script(
        folder.path(),
        "numactl",
        &format!("echo before it left\n{away}"),
    );
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = clean(Path::new(env!("CARGO_BIN_EXE_topo")));
    command.env("PATH", format!("{}:{path}", folder.path().display()));
    command
        .args(["diagnose", "--collect"])
        .arg("-o")
        .arg(at("packed.tar.gz"));
    let said = Running::start(&mut command).within(LONG);
    assert!(said.status == Some(0) && said.took < IN_TIME, "{said:?}");
    let late = "lspci.txt: lspci: it did not end within 10 s; a part is there";
    assert!(said.out.contains(late), "{said:?}");
    let mut unpack = Command::new("tar");
    unpack
        .arg("xzOf")
        .arg(at("packed.tar.gz"))
        .arg("--wildcards");
    let texts = unpack.args(["*/lscpu.txt", "*/lspci.txt", "*/numactl.txt"]);
    let texts = String::from_utf8(texts.output().unwrap().stdout).unwrap();
    for text in ["all of it\n", "a part\n", "before it left\n"] {
        assert!(texts.contains(text), "{texts:?}: {said:?}");
    }
    until_ended(&at("left"));
    until_ended(&at("waits"));
    let away = fs::read_to_string(at("away")).unwrap();
    Command::new("kill").arg(away.trim()).status().unwrap();
}
