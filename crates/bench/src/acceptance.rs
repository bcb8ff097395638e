//! The programs of an acceptance run: nccl-tests, PyTorch or this program, whichever is there, and
//! what times copies between GPUs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use answers::acceptance::{AcceptanceQuestion, COLLECTIVES, LINKS, ProgramRun};
use anyhow::{Context, Result};
use records::results::program_name;

use crate::child_process::{ProgramEnd, RunningProgram};
use crate::gpu_test::torch;

/// Longest time in which Python says whether it has PyTorch.
const LONGEST_START: Duration = Duration::from_secs(60);

/// The test of nvbandwidth that copies between all pairs of GPUs.
const COPIES: &str = "device_to_device_memcpy_read_ce";

/// Who measures collectives.
enum Tool {
    /// The folder of nccl-tests; none: they are in `PATH`.
    NcclTests(Option<PathBuf>),
    /// PyTorch's NCCL.
    Torch,
    /// This program.
    Topo,
}

/// Measures collectives on this machine's `gpus` GPUs, or as one of the ranks that a launcher
/// started, and then copies between all pairs. `progress` hears what runs, `keep` what ended.
///
/// # Errors
/// This program's own file is not found, or `keep` failed.
pub fn measure(
    question: &AcceptanceQuestion,
    gpus: u32,
    is_launched: bool,
    measures_links: bool,
    progress: &dyn Fn(&str),
    keep: &mut dyn FnMut(&ProgramRun) -> Result<()>,
) -> Result<Vec<ProgramRun>> {
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let deadline = Duration::from_secs(question.timeout);
    let tool = tool(question, is_launched);
    let end = question.end.to_string();
    let ranks = gpus.to_string();
    let mut runs = Vec::new();
    let mut ended = |run: ProgramRun| {
        keep(&run)?;
        runs.push(run);
        anyhow::Ok(())
    };
    if let Tool::Torch = tool {
        progress("collectives by PyTorch");
        let printed = torch::tables(gpus, question.end, deadline);
        ended(ProgramRun {
            part: "collectives".to_owned(),
            command: format!("torch.distributed on {gpus} GPUs"),
            is_wrong: printed.as_ref().is_err_and(torch::found_wrong),
            failure: printed.as_ref().err().map(|why| format!("{why:#}")),
            out: printed.unwrap_or_default(),
            errors: String::new(),
        })?;
    }
    for collective in COLLECTIVES {
        let name = collective.command_name();
        progress(name);
        ended(match &tool {
            Tool::NcclTests(folder) => {
                let test = program_name::of_collective(collective).unwrap_or_default();
                let path = folder
                    .as_ref()
                    .map_or_else(|| PathBuf::from(&test), |it| it.join(&test));
                // A process that a launcher started has one GPU.
                let gpus = if is_launched { "1" } else { &ranks };
                run(
                    name,
                    &path,
                    &["-b", "8", "-e", &end, "-f", "2", "-g", gpus],
                    deadline,
                )
            }
            Tool::Torch => break,
            Tool::Topo => {
                let mut arguments = vec!["run", "--backend", "cuda", name, "-e", &end, "--json"];
                if !is_launched {
                    arguments.extend(["--ranks", &ranks]);
                }
                run(name, &program, &arguments, deadline)
            }
        })?;
    }
    if measures_links && gpus > 1 {
        progress(LINKS);
        ended(match in_path("nvbandwidth") {
            true => run(LINKS, Path::new("nvbandwidth"), &["-t", COPIES], deadline),
            false => run(
                LINKS,
                &program,
                &["run", "--backend", "cuda", "--pairs", "--launcher", "none"],
                deadline,
            ),
        })?;
    }
    Ok(runs)
}

fn tool(question: &AcceptanceQuestion, is_launched: bool) -> Tool {
    if question.tests.is_some() || in_path("all_reduce_perf") {
        return Tool::NcclTests(question.tests.clone());
    }
    // Its program starts the ranks of one host.
    match !is_launched && torch::has_gpus(LONGEST_START) {
        true => Tool::Torch,
        false => Tool::Topo,
    }
}

/// Whether a folder of `PATH` has a program.
fn in_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|it| it.join(program).is_file())
}

/// Runs a program, with everything that it starts, until a deadline.
fn run(part: &str, program: &Path, arguments: &[&str], deadline: Duration) -> ProgramRun {
    let name = program.file_name().unwrap_or(program.as_os_str());
    let mut ran = ProgramRun {
        part: part.to_owned(),
        command: format!("{} {}", name.to_string_lossy(), arguments.join(" ")),
        failure: None,
        is_wrong: false,
        out: String::new(),
        errors: String::new(),
    };
    let mut command = Command::new(program);
    // NVML, which reads the machine, numbers GPUs so.
    command
        .args(arguments)
        .env("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
    let running = match RunningProgram::leader(command) {
        Ok(running) => running,
        Err(why) => {
            ran.failure = Some(format!("{why:#}"));
            return ran;
        }
    };
    match running.end_by(Instant::now() + deadline) {
        ProgramEnd::InTime(ended) => {
            let last_words = ended.last_words().to_owned();
            (ran.out, ran.errors) = (ended.out, ended.errors);
            // nccl-tests and topo run end with 1 where elements are wrong, behind their table.
            let is_table = part == LINKS || !ran.tables().is_empty();
            let is_right = match ended.status.code() {
                Some(0) => is_table,
                Some(1) => is_table && part != LINKS,
                _ => false,
            };
            // nccl-tests print what failed to standard output.
            let mut lines = ran.out.lines().rev();
            let last_line = lines.find(|it| !it.trim().is_empty());
            let why = match (ran.errors.trim().is_empty(), last_line) {
                (true, Some(line)) => line.trim().to_owned(),
                _ => last_words,
            };
            ran.failure = (!is_right).then_some(why);
        }
        ProgramEnd::Killed(out) => {
            ran.failure = Some(format!("it did not end within {} s", deadline.as_secs()));
            ran.out = out;
        }
    }
    ran
}
