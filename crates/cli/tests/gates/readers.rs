//! The programs that read the files: Slurm's daemon, Node Health Check, pytest.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

use libtest_mimic::Failed;

use crate::{Verdict, executable, program, text};

/// Seconds that a gate gives nccl-tests.
const SECONDS: &str = "2";

/// A program that reads a file.
pub(crate) struct Reader {
    pub(crate) name: &'static str,
    /// The form of the file.
    pub(crate) format: &'static str,
    /// Runs it on the file in a folder with `programs` and logs; `None` where it is not installed.
    pub(crate) run: fn(&Path, &str) -> Result<Option<Ended>, Failed>,
    /// The verdict that it takes from the end; `None` for an end that it must not see.
    pub(crate) verdict: fn(&Ended) -> Option<Verdict>,
    /// How to install it.
    pub(crate) lacks: &'static str,
}

/// The end of a run.
pub(crate) struct Ended {
    pub(crate) status: Option<i32>,
    /// Both streams, after the status.
    pub(crate) text: String,
    /// What `scontrol` or a function of Node Health Check was told.
    pub(crate) told: String,
}

pub(crate) const READERS: &[Reader] = &[
    Reader {
        name: "slurm",
        format: "slurm",
        run: slurm,
        verdict: of_slurm,
        lacks: "",
    },
    // Node Health Check's own functions, those that checks call.
    Reader {
        name: "nhc",
        format: "nhc",
        run: nhc,
        verdict: of_nhc,
        lacks: "",
    },
    Reader {
        name: "nhc_itself",
        format: "nhc",
        run: nhc_itself,
        verdict: of_nhc_itself,
        lacks: "there is no Node Health Check (github.com/mej/nhc), which TOPO_NHC can name",
    },
    Reader {
        name: "pytest",
        format: "pytest",
        run: pytest,
        verdict: of_pytest,
        lacks: "there is no Python with pytest, which TOPO_PYTEST can name",
    },
];

/// A program in a folder, whose `programs` it finds first.
fn program_in(folder: &Path, program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder).env_clear();
    let programs = folder.join("programs");
    command.env("PATH", format!("{}:/usr/bin:/bin", programs.display()));
    command.env("ALL_REDUCE_SECONDS", SECONDS);
    command.stdin(Stdio::null());
    command
}

/// Runs it.
fn ended(folder: &Path, command: &mut Command) -> Result<Ended, Failed> {
    let said = command.output()?;
    Ok(Ended {
        status: said.status.code(),
        text: text(&said),
        told: std::fs::read_to_string(folder.join("drained")).unwrap_or_default(),
    })
}

fn slurm(folder: &Path, file: &str) -> Result<Option<Ended>, Failed> {
    let prolog = folder.join("prolog.sh");
    executable(&prolog, "")?;
    std::fs::write(&prolog, file)?;
    let mut command = program_in(folder, &prolog);
    ended(folder, command.env("SLURMD_NODENAME", "n1")).map(Some)
}

/// Slurm drains a host for each status but 0.
fn of_slurm(ended: &Ended) -> Option<Verdict> {
    let drains = "update NodeName=n1 State=DRAIN Reason=all-reduce of 8589934592 bytes: 233.10";
    match (ended.status, ended.told.as_str()) {
        (Some(0), "") if ended.text.contains("UNKNOWN") => Some(Verdict::Unknown),
        (Some(0), "") => Some(Verdict::Pass),
        (Some(1), told) if told.starts_with(drains) => Some(Verdict::Fail),
        _ => None,
    }
}

fn nhc(folder: &Path, file: &str) -> Result<Option<Ended>, Failed> {
    std::fs::write(folder.join("topo_all_reduce.nhc"), file)?;
    let script = "die() { shift; echo \"$*\" >>drained; echo \"$*\"; exit 1; }\n\
                  log() { echo \"$*\"; }\nsyslog() { echo \"syslog: $*\"; }\ndbg() { :; }\n\
                  source ./topo_all_reduce.nhc && check_topo_all_reduce";
    let mut command = program_in(folder, "bash");
    ended(folder, command.args(["-c", script])).map(Some)
}

fn of_nhc(ended: &Ended) -> Option<Verdict> {
    let said = ended
        .text
        .contains("syslog: check_topo_all_reduce: UNKNOWN");
    match (ended.status, ended.told.as_str()) {
        (Some(0), "") if said => Some(Verdict::Unknown),
        (Some(0), "") => Some(Verdict::Pass),
        (Some(1), told) if told.starts_with("check_topo_all_reduce: all-reduce") => {
            Some(Verdict::Fail)
        }
        _ => None,
    }
}

fn nhc_itself(folder: &Path, file: &str) -> Result<Option<Ended>, Failed> {
    let Some(program) = program("TOPO_NHC", "nhc") else {
        return Ok(None);
    };
    let scripts = folder.join("scripts");
    std::fs::create_dir(&scripts)?;
    // Its own functions, of the source or installed.
    let beside = program.with_file_name("scripts");
    let own = [beside, "/etc/nhc/scripts".into()].map(|it| it.join("common.nhc"));
    let Some(common) = own.iter().find(|it| it.is_file()) else {
        return Ok(None);
    };
    std::fs::copy(common, scripts.join("common.nhc"))?;
    std::fs::write(scripts.join("topo_all_reduce.nhc"), file)?;
    let settings = folder.join("nhc.conf");
    std::fs::write(&settings, " * || check_topo_all_reduce\n")?;
    let offline = folder.join("programs/offline");
    let drained = folder.join("drained");
    executable(&offline, &format!("echo \"$*\" >>{}", drained.display()))?;
    // Its own limit is 30 s, and it looks for programs in the system's folders alone.
    let mut command = program_in(folder, "bash");
    command.env("ALL_REDUCE_PERF", folder.join("programs/all_reduce_perf"));
    command.arg(program);
    command.arg(format!("CONFFILE={}", settings.display()));
    command.arg(format!("HELPERDIR={}", folder.display()));
    command.arg(format!("INCDIR={}", scripts.display()));
    command.args(["LOGFILE=-", "NHC_RM=slurm", "ONLINE_NODE=:"]);
    command.arg(format!("OFFLINE_NODE={}", offline.display()));
    ended(folder, &mut command).map(Some)
}

fn of_nhc_itself(ended: &Ended) -> Option<Verdict> {
    match (ended.status, ended.told.as_str()) {
        (Some(0), "") if ended.text.contains("UNKNOWN") => Some(Verdict::Unknown),
        (Some(0), "") => Some(Verdict::Pass),
        (Some(1), told) if told.contains("check_topo_all_reduce: all-reduce") => {
            Some(Verdict::Fail)
        }
        _ => None,
    }
}

fn pytest(folder: &Path, file: &str) -> Result<Option<Ended>, Failed> {
    let Some(python) = program("TOPO_PYTEST", "python3") else {
        return Ok(None);
    };
    let mut import = Command::new(&python);
    let imported = import.args(["-c", "import pytest"]).output();
    if !imported.is_ok_and(|said| said.status.success()) {
        return Ok(None);
    }
    std::fs::write(folder.join("test_all_reduce.py"), file)?;
    let mut command = Command::new(python);
    command.args([
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "test_all_reduce.py",
    ]);
    command.env("NCCL_TESTS_OUTPUT", folder);
    let said = command.current_dir(folder).output()?;
    Ok(Some(Ended {
        status: said.status.code(),
        text: text(&said),
        told: String::new(),
    }))
}

fn of_pytest(ended: &Ended) -> Option<Verdict> {
    let counts = |what: &str| ended.text.contains(what);
    match ended.status {
        Some(0) if counts("1 passed") => Some(Verdict::Pass),
        Some(1) if counts("1 failed") => Some(Verdict::Fail),
        Some(3) if counts("1 error") && !counts("failed") => Some(Verdict::Unknown),
        _ => None,
    }
}
