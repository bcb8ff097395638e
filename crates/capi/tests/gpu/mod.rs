//! Programs that run collectives on memory of GPUs in the order of streams, on a phantom driver.

use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;

use answers::gpus::AskedGpus;
use answers::request::JobRequest;
use tempfile::TempDir;
use testkit::launch_options::{CASES as CASES_OF_OPTIONS, MACHINE};
use testkit::phantom::Phantom;

use crate::support::{compile, finish, libraries};

/// A run of a case of a program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case {
    pub name: &'static str,
    program: Program,
    case: &'static str,
    ranks: u32,
    gpus: u32,
    /// The machine; `None`: there is no driver.
    machine: Option<&'static str>,
    /// Lines of the machine file.
    lines: &'static [&'static str],
    /// Whether it is a deep test: another one runs in every test run and shows the same of fewer
    /// kinds of ranks or memory.
    pub is_deep: bool,
}

/// The programs.
#[derive(Debug, Clone, Copy)]
enum Program {
    /// `programs/gpu.c`
    Gpu,
    /// `programs/gpu_buffers.c`
    Buffers,
    /// `programs/gpu_transfers.c`
    Transfers,
    /// `programs/gpu_windows.c`
    Windows,
    /// `programs/gpu_captures.c`
    Captures,
}

impl Case {
    const fn of(self, program: Program) -> Self {
        Self { program, ..self }
    }

    const fn deep(self) -> Self {
        Self {
            is_deep: true,
            ..self
        }
    }
}

const fn on(
    name: &'static str,
    (case, ranks, gpus): (&'static str, u32, u32),
    machine: &'static str,
    lines: &'static [&'static str],
) -> Case {
    Case {
        name,
        program: Program::Gpu,
        case,
        ranks,
        gpus,
        machine: Some(machine),
        lines,
        is_deep: false,
    }
}

/// A stream that is none; what a machine file plants; whether the legacy stream captures; and what
/// two ranks try before they take another way to reach each other.
const REFUSED: [&str; 5] = [
    "the machine file:",
    "the legacy stream is used while a blocking stream captures",
    "the handle is no stream",
    "CUDA IPC does not work",
    "the device cannot access the memory's device",
];

/// All runs.
pub(crate) const CASES: [Case; 36] = [
    on("gpu_processes", ("processes", 2, 2), "dgx-h100", &[]),
    on(
        "gpu_processes_by_descriptors",
        ("processes", 3, 3),
        "dgx-h100",
        &["ipc no"],
    ),
    on(
        "gpu_processes_without_p2p",
        ("processes", 2, 2),
        "workstation-2gpu",
        &["peers none"],
    ),
    on(
        "gpu_calls_that_wait",
        ("processes", 2, 2),
        "dgx-h100",
        &["calls-wait yes"],
    ),
    on("gpu_threads", ("threads", 3, 3), "dgx-a100", &[]),
    on(
        "gpu_threads_that_share_gpus",
        ("threads", 4, 2),
        "dgx-h100",
        &[],
    ),
    on("gpu_threads_of_processes", ("both", 4, 4), "dgx-h100", &[]),
    on("gpu_misuse", ("misuse", 2, 2), "dgx-h100", &[]),
    on("gpu_no_gpu", ("lacking", 2, 2), "dgx-h100", &[]),
    on(
        "gpu_a_peer_dies",
        ("a_peer_dies", 2, 2),
        "dgx-h100",
        &["queue-bytes 1048576"],
    ),
    on("gpu_aborts", ("aborts", 2, 2), "dgx-h100", &[]),
    on(
        "gpu_buffers_in_place",
        ("plain", 3, 3),
        "dgx-h100",
        &["reuse yes"],
    )
    .of(Program::Buffers),
    on(
        "gpu_buffers_in_place_on_one_gpu",
        ("plain", 3, 1),
        "dgx-a100",
        &["reuse yes", "calls-wait yes"],
    )
    .of(Program::Buffers),
    on(
        "gpu_buffers_without_ipc",
        ("plain_closed", 3, 3),
        "dgx-h100",
        &["reuse yes", "ipc no", "fabric whole", "multicast no"],
    )
    .of(Program::Buffers)
    .deep(),
    on(
        "gpu_buffers_of_virtual_memory",
        ("virtual", 3, 3),
        "dgx-h100",
        &[],
    )
    .of(Program::Buffers)
    .deep(),
    on(
        "gpu_buffers_of_private_memory",
        ("private", 3, 3),
        "dgx-h100",
        &[],
    )
    .of(Program::Buffers),
    on(
        "gpu_buffers_of_threads_of_processes",
        ("of_threads", 4, 4),
        "dgx-h100",
        &["fabric whole", "multicast no"],
    )
    .of(Program::Buffers)
    .deep(),
    on(
        "gpu_buffers_copied_as_asked",
        ("copied", 3, 3),
        "dgx-h100",
        &["reuse yes"],
    )
    .of(Program::Buffers)
    .deep(),
    on(
        "gpu_buffers_in_mappings",
        ("mappings", 3, 3),
        "dgx-h100",
        &[],
    )
    .of(Program::Buffers),
    on(
        "gpu_buffers_in_mappings_by_fabric_handles",
        ("mappings", 3, 3),
        "gb200-nvl72-tray",
        &["fabric whole", "multicast no"],
    )
    .of(Program::Buffers)
    .deep(),
    on("gpu_transfers", ("processes", 3, 3), "dgx-h100", &[]).of(Program::Transfers),
    on(
        "gpu_transfers_of_threads",
        ("threads", 4, 2),
        "dgx-a100",
        &[],
    )
    .of(Program::Transfers)
    .deep(),
    on(
        "gpu_transfers_of_threads_of_processes",
        ("both", 4, 4),
        "dgx-h100",
        &["calls-wait yes"],
    )
    .of(Program::Transfers)
    .deep(),
    on(
        "gpu_transfers_without_p2p",
        ("processes", 2, 2),
        "workstation-2gpu",
        &["peers none"],
    )
    .of(Program::Transfers),
    on("gpu_windows", ("processes", 3, 3), "dgx-h100", &[]).of(Program::Windows),
    on("gpu_windows_of_threads", ("threads", 3, 3), "dgx-h100", &[]).of(Program::Windows),
    on(
        "gpu_windows_of_threads_of_processes",
        ("both", 4, 4),
        "dgx-h100",
        &["calls-wait yes"],
    )
    .of(Program::Windows)
    .deep(),
    on(
        "gpu_windows_without_multicast",
        ("without", 2, 2),
        "dgx-a100",
        &[],
    )
    .of(Program::Windows),
    on(
        "gpu_windows_of_mappings",
        ("mappings", 2, 2),
        "dgx-h100",
        &[],
    )
    .of(Program::Windows),
    on("gpu_windows_of_one", ("without", 1, 1), "dgx-h100", &[]).of(Program::Windows),
    on(
        "gpu_windows_without_an_object",
        ("fall_back", 2, 2),
        "dgx-h100",
        &["fail cuMulticastCreate 2 2"],
    )
    .of(Program::Windows),
    on(
        "gpu_windows_without_memory_of_a_thread",
        ("fall_back_together", 3, 3),
        "dgx-h100",
        &["fail cuMulticastBindMem 2 2"],
    )
    .of(Program::Windows),
    on("gpu_captures", ("processes", 2, 2), "dgx-h100", &[]).of(Program::Captures),
    on(
        "gpu_captures_of_threads",
        ("threads", 3, 3),
        "dgx-h100",
        &[],
    )
    .of(Program::Captures),
    on(
        "gpu_captures_of_threads_of_processes",
        ("both", 4, 4),
        "dgx-h100",
        &["calls-wait yes"],
    )
    .of(Program::Captures),
    Case {
        name: "gpu_no_driver",
        program: Program::Gpu,
        case: "lacking",
        ranks: 2,
        gpus: 2,
        machine: None,
        lines: &[],
        is_deep: false,
    },
];

/// A program, compiled once.
type Compiled = LazyLock<(TempDir, PathBuf)>;

static GPU: Compiled = LazyLock::new(|| compiled("gpu"));
static BUFFERS: Compiled = LazyLock::new(|| compiled("gpu_buffers"));
static TRANSFERS: Compiled = LazyLock::new(|| compiled("gpu_transfers"));
static WINDOWS: Compiled = LazyLock::new(|| compiled("gpu_windows"));
static CAPTURES: Compiled = LazyLock::new(|| compiled("gpu_captures"));

fn compiled(name: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(&format!("tests/programs/{name}.c"), folder.path());
    (folder, program)
}

/// Options of launches do what they do for other programs.
pub(crate) fn options() {
    let (folder, program) = &compiled("gpu_options");
    for case in CASES_OF_OPTIONS {
        case.check(&libraries(), |prepare| {
            let kind = if case.refused.is_some() {
                "threads"
            } else {
                "processes"
            };
            let mut command = Command::new(program);
            command.args([kind, "2", "2"]);
            if let Some(settings) = case.plan {
                let mut job = JobRequest::of(MACHINE);
                job.ranks.gpus = Some(AskedGpus::Listed(vec![0, 1]));
                let text = |it: &&str| (*it).to_owned();
                let settings = settings
                    .iter()
                    .map(|(name, value)| (text(name), text(value)));
                job.variables.set.extend(settings);
                let file = folder.path().join("plan.json");
                let plan = job.plan().unwrap().planned.plan().to_json().unwrap();
                std::fs::write(&file, plan).unwrap();
                command.env("PLAN_FILE", file);
            }
            prepare(&mut command);
            let ended = finish(&mut command);
            let said = String::from_utf8_lossy(&ended.stderr).into_owned();
            (ended.status.success(), said)
        });
    }
}

/// Cases with launches that are told to end. On a busy machine they may take longer than these are
/// waited for; then they are given up, and keep what they use.
const END_EARLY: [&str; 2] = ["gpu_a_peer_dies", "gpu_aborts"];

/// Runs a case. The driver reports no broken rule, fault or leak.
pub(crate) fn run(case: &Case) {
    let program = match case.program {
        Program::Gpu => &GPU,
        Program::Buffers => &BUFFERS,
        Program::Transfers => &TRANSFERS,
        Program::Windows => &WINDOWS,
        Program::Captures => &CAPTURES,
    };
    let mut command = Command::new(&program.1);
    command.args([case.case, &case.ranks.to_string(), &case.gpus.to_string()]);
    command
        .env_remove("LD_LIBRARY_PATH")
        .env_remove("TOPO_PHANTOM_MACHINE");
    let open = |machine| Phantom::new(&libraries(), machine, case.lines).unwrap();
    let phantom = case.machine.map(open);
    phantom.iter().for_each(|it| it.prepare(&mut command));
    let ended = finish(&mut command);
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{}: {said}", case.name);
    // The fallback is told once by all ranks.
    let told = said.matches("fallback: no NVLS").count();
    let falls_back = case.case.starts_with("fall_back");
    assert_eq!(told, usize::from(falls_back), "{}: {said}", case.name);
    let found = phantom.map_or_else(Vec::new, |it| it.problems());
    let kept = |it: &str| it.starts_with("kept ") && END_EARLY.contains(&case.name);
    let unexpected = |it: &&String| !kept(it) && !REFUSED.iter().any(|rule| it.contains(rule));
    let unexpected: Vec<&String> = found.iter().filter(unexpected).collect();
    assert!(unexpected.is_empty(), "{}: {unexpected:?}", case.name);
}
