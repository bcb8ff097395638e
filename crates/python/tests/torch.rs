//! The Python package, run by Python: programs with one process for each rank.
//!
//! Those that need torch run with the interpreter that `TOPO_TORCH_PYTHON` names, or with the one
//! that `cargo xtask fetch torch` has installed; the others with any Python.

mod support;

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use libtest_mimic::{Arguments, Completion, Failed, Trial};

use answers::gpus::AskedGpus;
use answers::request::JobRequest;
use support::answered::answered;
use support::{Package, agents_python, here, inspector, plain_python, torch_python};
use tempfile::NamedTempFile;
use testkit::launch_options::{CASES, Case, MACHINE};
use testkit::phantom::Phantom;

/// Cases of `failures.py`, and whether rank 1 ends by a signal.
const FAILURES: [(&str, bool); 13] = [
    ("interrupt_of_a_call", false),
    ("interrupt_of_an_exchange", false),
    ("interrupt_of_a_first_call", false),
    ("interrupt_of_a_wait", false),
    ("killed", true),
    ("leaves_without_destroying", false),
    ("leaves_with_work", false),
    ("forks", false),
    ("mismatched", false),
    ("mismatched_without_debug_mode", false),
    ("late", false),
    ("aborts", false),
    ("missing_at_a_barrier", false),
];

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Ranks of several programs at once would wait for each other's cores.
    arguments.test_threads = Some(1);
    let mut trials = vec![
        with_python("plan", &["plan.py"], 1),
        with_python("memory", &["memory.py"], 2),
        // The protocol's own client asks the server for agents.
        with_agents("agents", "mcp"),
        with_agents("typed", "mypy"),
        Trial::ignorable_test("inspected", inspected),
        Trial::ignorable_test("answers", answers),
        Trial::ignorable_test("arrays_of_gpus", arrays_of_gpus),
        Trial::ignorable_test("options_of_gpus", options_of_gpus),
        Trial::ignorable_test("options_of_gpus::torch", options_of_torch),
    ];
    for ranks in [2, 4] {
        let test = move || tensors_of_gpus(ranks);
        let name = format!("tensors_of_gpus::{ranks}");
        trials.push(Trial::ignorable_test(name, test));
        trials.push(with_python("arrays", &["arrays.py"], ranks));
        trials.push(with_python("plans", &["plans.py"], ranks));
        trials.push(with_torch(&["planned.py"], ranks, false));
        for program in [
            &["collectives.py"][..],
            &["calls.py"],
            &["training.py", "ddp"],
            &["training.py", "fsdp"],
        ] {
            trials.push(with_torch(program, ranks, false));
        }
    }
    trials.push(with_torch(&["mixed.py"], 2, false));
    trials.push(with_torch(&["mixed.py", "detail"], 2, false));
    for kind in ["ddp", "fsdp"] {
        let test = move || hosts(kind);
        trials.push(Trial::ignorable_test(
            format!("training::{kind}::hosts"),
            test,
        ));
    }
    for (case, is_killed) in FAILURES {
        trials.push(with_torch(&["failures.py", case], 2, is_killed));
    }
    trials.push(Trial::ignorable_test("examples", examples));
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// A program that needs torch.
fn with_torch(arguments: &[&'static str], ranks: u32, is_killed: bool) -> Trial {
    let arguments = arguments.to_vec();
    let name = format!("{}::{ranks}", arguments.join("::").replace(".py", ""));
    let ignores = |why: &str| Ok(Completion::ignored_with(format!("not run: {why}")));
    Trial::ignorable_test(name, move || {
        let Some(python) = torch_python() else {
            return ignores("there is no torch (cargo xtask fetch torch)");
        };
        Package::make()?.run_ranks(&python, &arguments, ranks, is_killed)?;
        Ok(Completion::Completed)
    })
}

/// A program that needs only Python; with several ranks it starts the others itself.
fn with_python(name: &str, arguments: &'static [&'static str], ranks: u32) -> Trial {
    Trial::ignorable_test(format!("{name}::{ranks}"), move || {
        let Some(python) = plain_python() else {
            let why = "not run: there is no Python 3.9 or newer";
            return Ok(Completion::ignored_with(why));
        };
        let ranks = ranks.to_string();
        let mut arguments = arguments.to_vec();
        arguments.push(&ranks);
        Package::make()?.run(&python, &arguments)?;
        Ok(Completion::Completed)
    })
}

/// Collectives on arrays of GPUs, which are a phantom's; and without a driver.
fn arrays_of_gpus() -> Result<Completion, Failed> {
    let Some(python) = plain_python() else {
        let why = "not run: there is no Python 3.9 or newer";
        return Ok(Completion::ignored_with(why));
    };
    let package = Package::make()?;
    package.run(&python, &["gpu_arrays.py", "0"])?;
    let phantom = phantom()?;
    package.run_prepared(&python, &["gpu_arrays.py", "2"], |it| phantom.prepare(it))?;
    match phantom.problems()[..] {
        [] => Ok(Completion::Completed),
        _ => Err(format!("{:?}", phantom.problems()).into()),
    }
}

/// The plan of a case of options in a file.
fn plan_of(case: &Case) -> Result<Option<NamedTempFile>, Failed> {
    let Some(settings) = case.plan else {
        return Ok(None);
    };
    let mut job = JobRequest::of(MACHINE);
    job.ranks.gpus = Some(AskedGpus::Listed(vec![0, 1]));
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    job.variables.set.extend(settings.iter().map(own));
    let file = NamedTempFile::new()?;
    std::fs::write(file.path(), job.plan()?.planned.plan().to_json()?)?;
    Ok(Some(file))
}

/// Options of launches do what they do for other programs.
fn options_of_gpus() -> Result<Completion, Failed> {
    let Some(python) = plain_python() else {
        let why = "not run: there is no Python 3.9 or newer";
        return Ok(Completion::ignored_with(why));
    };
    let package = Package::make()?;
    for case in CASES {
        let plan = plan_of(&case)?;
        let ranks = if case.refused.is_some() {
            "threads"
        } else {
            "processes"
        };
        case.check(&libraries()?, |prepare| {
            let ended = package.run_prepared(&python, &["gpu_options.py", ranks], |it| {
                prepare(it);
                it.envs(plan.iter().map(|file| ("TOPO_PLAN", file.path())));
            });
            (ended.is_ok(), ended.unwrap_or_else(|why| why))
        });
    }
    Ok(Completion::Completed)
}

/// So do PyTorch's process groups, whose ranks are processes.
fn options_of_torch() -> Result<Completion, Failed> {
    let Some(python) = torch_python() else {
        let why = "not run: there is no torch (cargo xtask fetch torch)";
        return Ok(Completion::ignored_with(why));
    };
    let package = Package::make()?;
    for case in CASES.into_iter().filter(|it| it.refused.is_none()) {
        let plan = plan_of(&case)?;
        case.check(&libraries()?, |prepare| {
            let once = ["gpu_tensors.py", "once"];
            let ended = package.run_ranks_prepared(&python, &once, 2, false, |it| {
                prepare(it);
                it.envs(plan.iter().map(|file| ("TOPO_PLAN", file.path())));
            });
            (ended.is_ok(), ended.err().unwrap_or_default())
        });
    }
    Ok(Completion::Completed)
}

/// Tensors of torch on a phantom's GPUs.
fn tensors_of_gpus(ranks: u32) -> Result<Completion, Failed> {
    let Some(python) = torch_python() else {
        let why = "not run: there is no torch (cargo xtask fetch torch)";
        return Ok(Completion::ignored_with(why));
    };
    let phantom = phantom()?;
    let prepare = |it: &mut Command| phantom.prepare(it);
    Package::make()?.run_ranks_prepared(&python, &["gpu_tensors.py"], ranks, false, prepare)?;
    // torch's runtime library looks for functions and tables that there are not.
    let mut problems = phantom.problems();
    problems.retain(|it| !it.starts_with("refused "));
    match problems[..] {
        [] => Ok(Completion::Completed),
        _ => Err(format!("{problems:?}").into()),
    }
}

/// A machine with the driver that was built beside this test.
fn phantom() -> std::io::Result<Phantom> {
    Phantom::new(&libraries()?, "dgx-h100", &[])
}

/// The folder with that driver.
fn libraries() -> std::io::Result<PathBuf> {
    let own = std::env::current_exe()?;
    Ok(own.parent().unwrap_or(here()).to_owned())
}

/// Answers about drawn jobs are those of the library.
fn answers() -> Result<Completion, Failed> {
    let Some(python) = plain_python() else {
        let why = "not run: there is no Python 3.9 or newer";
        return Ok(Completion::ignored_with(why));
    };
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), answered()?)?;
    let path = file.path().display().to_string();
    Package::make()?.run(&python, &["answers.py", &path, "700"])?;
    Ok(Completion::Completed)
}

/// A program that needs a package of those beside the client of the protocol.
fn with_agents(name: &'static str, package: &'static str) -> Trial {
    Trial::ignorable_test(name, move || {
        let has = |python: &PathBuf| {
            let status = Command::new(python)
                .args(["-c", &format!("import {package}")])
                .status();
            status.is_ok_and(|it| it.success())
        };
        let Some(python) = agents_python().filter(has) else {
            let why = format!("not run: there is no package {package} (cargo xtask fetch mcp)");
            return Ok(Completion::ignored_with(why));
        };
        Package::make()?.run(&python, &[&format!("{name}.py")])?;
        Ok(Completion::Completed)
    })
}

/// The protocol's inspector asks the server for agents.
fn inspected() -> Result<Completion, Failed> {
    let (Some(python), Some(inspector)) = (agents_python(), inspector()) else {
        let why =
            "not run: there is no package mcp or no inspector (cargo xtask fetch mcp, inspector)";
        return Ok(Completion::ignored_with(why));
    };
    let inspector = inspector.display().to_string();
    Package::make()?.run(&python, &["inspected.py", &inspector])?;
    Ok(Completion::Completed)
}

/// Trains on two hosts, which are network namespaces.
fn hosts(kind: &str) -> Result<Completion, Failed> {
    let Some(python) = torch_python() else {
        let why = "not run: there is no torch (cargo xtask fetch torch)";
        return Ok(Completion::ignored_with(why));
    };
    match Package::make()?.run_hosts(&python, &["training.py", kind])? {
        Ok(()) => Ok(Completion::Completed),
        Err(why) => Ok(Completion::ignored_with(format!("not run: {why}"))),
    }
}

/// The examples of the documents.
fn examples() -> Result<Completion, Failed> {
    let Some(python) = torch_python() else {
        let why = "not run: there is no torch (cargo xtask fetch torch)";
        return Ok(Completion::ignored_with(why));
    };
    Package::make()?.run_ranks(&python, &["train_ddp.py"], 2, false)?;
    Ok(Completion::Completed)
}
