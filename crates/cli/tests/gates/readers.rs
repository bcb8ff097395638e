//! The programs that read the files: Slurm's daemon, Node Health Check, pytest.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

use libtest_mimic::Failed;

use findings::check::Verdict;

use crate::runs::Run;
use crate::{executable, executable_text, output, program, text};

/// A program that reads a file.
pub(crate) struct Reader {
    pub(crate) name: &'static str,
    /// The form of the file; none: what is printed is judged at once.
    pub(crate) format: Option<&'static str>,
    /// What it has of what runs need.
    pub(crate) has: &'static [&'static str],
    /// Runs it on the file in a folder with `programs` and logs, on a host of this name; `None`
    /// where it is not installed.
    pub(crate) run: fn(&Path, &str, &str) -> Result<Option<Ended>, Failed>,
    /// The word of the verdict that it takes from the end on a host; `None` for an end that it must
    /// not see.
    pub(crate) verdict: fn(&Ended, &str) -> Option<&'static str>,
    /// How to install it.
    pub(crate) lacks: &'static str,
}

impl Reader {
    /// Whether a run has a meaning for it.
    pub(crate) fn reads(&self, run: &Run) -> bool {
        let needs = run.needs.as_deref();
        needs.is_none_or(|needs| self.has.contains(&needs))
    }
}

/// The words of verdicts.
const PASS: Option<&str> = Some(Verdict::Pass.word());
const FAIL: Option<&str> = Some(Verdict::Fail.word());

/// What is not measured: unknown, or skipped.
fn unmeasured(text: &str) -> Option<&'static str> {
    let verdicts = [
        Verdict::Unknown(String::new()),
        Verdict::Skipped(String::new()),
    ];
    let mut words = verdicts.iter().map(Verdict::word);
    words.find(|word| text.contains(&word.to_uppercase()))
}

/// The end of a run.
pub(crate) struct Ended {
    pub(crate) status: Option<i32>,
    /// Both streams, after the status.
    pub(crate) text: String,
    /// What `scontrol` or a function of Node Health Check was told.
    pub(crate) told: String,
    /// For how long a container sleeps.
    pub(crate) slept: String,
}

pub(crate) const READERS: &[Reader] = &[
    Reader {
        name: "slurm",
        format: Some("slurm"),
        has: &["devices", "programs", "drains", "idle"],
        run: slurm,
        verdict: of_slurm,
        lacks: "",
    },
    Reader {
        name: "slurm_health",
        format: Some("slurm-health"),
        has: &["devices", "programs", "drains", "idle"],
        run: slurm,
        verdict: of_slurm,
        lacks: "",
    },
    // Node Health Check's own functions, those that checks call.
    Reader {
        name: "nhc",
        format: Some("nhc"),
        has: &["devices", "programs", "idle"],
        run: nhc,
        verdict: of_nhc,
        lacks: "",
    },
    Reader {
        name: "nhc_itself",
        format: Some("nhc"),
        has: &["devices"],
        run: nhc_itself,
        verdict: of_nhc_itself,
        lacks: "there is no Node Health Check (github.com/mej/nhc), which TOPO_NHC can name",
    },
    Reader {
        name: "kubernetes_job",
        format: Some("kubernetes-job"),
        has: &["programs"],
        run: container,
        verdict: of_job,
        lacks: "",
    },
    Reader {
        name: "kubernetes_daemonset",
        format: Some("kubernetes-daemonset"),
        has: &["devices", "programs", "drains", "idle"],
        run: container,
        verdict: of_daemonset,
        lacks: "",
    },
    Reader {
        name: "pytest",
        format: Some("pytest"),
        has: &["devices", "counts"],
        run: pytest,
        verdict: of_pytest,
        lacks: "there is no Python with pytest (cargo xtask fetch readers), which TOPO_PYTEST can name",
    },
    Reader {
        name: "results",
        format: None,
        has: &["counts"],
        run: results,
        verdict: of_results,
        lacks: "",
    },
];

/// A program in a folder, whose `programs` it finds first.
fn program_in(folder: &Path, program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder).env_clear();
    let programs = folder.join("programs");
    command.env("PATH", format!("{}:/usr/bin:/bin", programs.display()));
    let variables = std::fs::read_to_string(folder.join("variables"));
    for line in variables.iter().flat_map(|it| it.lines()) {
        command.envs(line.split_once('='));
    }
    command.stdin(Stdio::null());
    command
}

/// Runs it.
fn ended(folder: &Path, command: &mut Command) -> Result<Ended, Failed> {
    let said = output(command)?;
    Ok(Ended {
        status: said.status.code(),
        text: text(&said),
        told: std::fs::read_to_string(folder.join("drained")).unwrap_or_default(),
        slept: std::fs::read_to_string(folder.join("slept")).unwrap_or_default(),
    })
}

fn slurm(folder: &Path, file: &str, host: &str) -> Result<Option<Ended>, Failed> {
    let prolog = folder.join("prolog.sh");
    executable_text(&prolog, file)?;
    let mut command = program_in(folder, &prolog);
    ended(folder, command.env("SLURMD_NODENAME", host)).map(Some)
}

/// Slurm drains a host for each status of a prolog but 0. A health check must drain it itself.
fn of_slurm(ended: &Ended, host: &str) -> Option<&'static str> {
    let drains = format!("update NodeName={host} State=DRAIN Reason=all-reduce of ");
    match (ended.status, ended.told.as_str()) {
        (Some(0), "") => unmeasured(&ended.text).or(PASS),
        (Some(1), told) if told.starts_with(&drains) => FAIL,
        (Some(1), "") if ended.text.contains("FAIL scontrol could not drain") => FAIL,
        _ => None,
    }
}

/// Runs the script of a manifest's container.
fn container(folder: &Path, file: &str, host: &str) -> Result<Option<Ended>, Failed> {
    let script = block(file, "          args:\n            - |\n");
    let mut command = program_in(folder, "sh");
    // Kubernetes puts the values of variables that it knows in place of $(NAME), and $ of $$.
    if script.contains("$(NODE_NAME)") || script.contains("$$") {
        return Err("Kubernetes would change the script".into());
    }
    ended(folder, command.args(["-c", &script]).env("NODE_NAME", host)).map(Some)
}

/// The lines of a text block of YAML after its head, of the first one's depth or deeper.
pub(crate) fn block(file: &str, head: &str) -> String {
    let lines = file.split_once(head).map_or("", |it| it.1).lines();
    let deep = |it: &str| it.len() - it.trim_start().len();
    let depth = lines.clone().next().map_or(0, deep);
    let own = lines.take_while(|it| it.is_empty() || deep(it) >= depth);
    own.map(|it| format!("{}\n", it.get(depth..).unwrap_or_default()))
        .collect()
}

fn of_job(ended: &Ended, _host: &str) -> Option<&'static str> {
    match (ended.status, ended.told.as_str()) {
        (Some(0), "") if unmeasured(&ended.text).is_none() => PASS,
        (Some(1), "") => FAIL,
        (Some(3), "") => unmeasured(&ended.text),
        _ => None,
    }
}

fn of_daemonset(ended: &Ended, host: &str) -> Option<&'static str> {
    let taints = format!("taint node {host} topo-all-reduce=fail:NoSchedule --overwrite");
    match (ended.status, ended.told.trim_end(), ended.slept.trim_end()) {
        (Some(0), "", "infinity") => PASS,
        (Some(0), told, "infinity") if told == format!("taint node {host} topo-all-reduce-") => {
            PASS
        }
        (Some(0), "", "3600") => unmeasured(&ended.text),
        (Some(0), told, "infinity") if told == taints => FAIL,
        // Kubernetes starts the container again, which measures again.
        (Some(1), "", "") if ended.text.contains("FAIL kubectl taint failed") => FAIL,
        _ => None,
    }
}

fn results(folder: &Path, _file: &str, _host: &str) -> Result<Option<Ended>, Failed> {
    let mut command = program_in(folder, env!("CARGO_BIN_EXE_topo"));
    command.args([
        "expect",
        "--results",
        "all_reduce.log",
        "--expect",
        "--topology",
        "dgx-h100",
    ]);
    command.args(["--junit", "junit.xml", "--prometheus", "topo.prom"]);
    ended(folder, &mut command).map(Some)
}

fn of_results(ended: &Ended, _host: &str) -> Option<&'static str> {
    match ended.status {
        Some(0) => PASS,
        Some(1) => FAIL,
        Some(2) if ended.text.contains("error: cannot read") => Some("unknown"),
        Some(3) => unmeasured(&ended.text),
        _ => None,
    }
}

fn nhc(folder: &Path, file: &str, _host: &str) -> Result<Option<Ended>, Failed> {
    std::fs::write(folder.join("topo_all_reduce.nhc"), file)?;
    let script = "die() { shift; echo \"$*\" >>drained; echo \"$*\"; exit 1; }\n\
                  log() { echo \"$*\"; }\nsyslog() { echo \"syslog: $*\"; }\ndbg() { :; }\n\
                  source ./topo_all_reduce.nhc && check_topo_all_reduce";
    let mut command = program_in(folder, "bash");
    ended(folder, command.args(["-c", script])).map(Some)
}

fn of_nhc(ended: &Ended, _host: &str) -> Option<&'static str> {
    let said = ["UNKNOWN", "SKIPPED"].map(|it| format!("syslog: check_topo_all_reduce: {it}"));
    let said = said.iter().any(|it| ended.text.contains(it));
    match (ended.status, ended.told.as_str()) {
        (Some(0), "") if said => unmeasured(&ended.text),
        (Some(0), "") => PASS,
        (Some(1), told) if told.starts_with("check_topo_all_reduce: all-reduce") => FAIL,
        _ => None,
    }
}

fn nhc_itself(folder: &Path, file: &str, _host: &str) -> Result<Option<Ended>, Failed> {
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
    command.env("NVIDIA_SMI", folder.join("programs/nvidia-smi"));
    command.arg(program);
    command.arg(format!("CONFFILE={}", settings.display()));
    command.arg(format!("HELPERDIR={}", folder.display()));
    command.arg(format!("INCDIR={}", scripts.display()));
    command.args(["LOGFILE=-", "NHC_RM=slurm", "ONLINE_NODE=:"]);
    command.arg(format!("OFFLINE_NODE={}", offline.display()));
    ended(folder, &mut command).map(Some)
}

fn of_nhc_itself(ended: &Ended, _host: &str) -> Option<&'static str> {
    match (ended.status, ended.told.as_str()) {
        (Some(0), "") => unmeasured(&ended.text).or(PASS),
        (Some(1), told) if told.contains("check_topo_all_reduce: all-reduce") => FAIL,
        _ => None,
    }
}

fn pytest(folder: &Path, file: &str, _host: &str) -> Result<Option<Ended>, Failed> {
    let Some(python) = program("TOPO_PYTEST", "python3") else {
        return Ok(None);
    };
    let mut import = Command::new(&python);
    let imported = output(import.args(["-c", "import pytest"]));
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
    let said = output(command.current_dir(folder))?;
    Ok(Some(Ended {
        status: said.status.code(),
        text: text(&said),
        told: String::new(),
        slept: String::new(),
    }))
}

fn of_pytest(ended: &Ended, _host: &str) -> Option<&'static str> {
    let counts = |what: &str| ended.text.contains(what);
    match ended.status {
        Some(0) if counts("1 passed") => PASS,
        Some(1) if counts("1 failed") => FAIL,
        Some(3) if counts("1 error") && !counts("failed") => unmeasured(&ended.text),
        _ => None,
    }
}
