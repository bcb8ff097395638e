//! Collectives × algorithms × protocols × types × operations × threads, processes and hosts ×
//! machines: drawn at random, always the same ones. `cargo xtask phantom-matrix` draws more.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use executor::suite::{self, Case};
use program::{Collective, Schedule, Transfer};

use crate::machine::Phantom;

/// Runs that each test run draws.
const FEW: usize = 16;

/// Runs that the deep test draws without the variable [`CASES`].
const MANY: usize = 100;

/// How many runs the deep test draws.
const CASES: &str = "TOPO_PHANTOM_CASES";

/// Elements of a block.
const COUNTS: [usize; 6] = [1, 2, 7, 64, 1023, 4099];

/// Ranks, at most: as many as GPUs of the smallest machine here that is not for two.
const RANKS: [u32; 4] = [1, 2, 3, 4];

/// A machine of `topologies/`, the driver's version (0: newest), and a line of its machine file.
const MACHINES: [(&str, u32, &str); 15] = [
    ("dgx-h100", 0, ""),
    ("dgx-h100", 12_000, ""),
    ("dgx-h100", 12_020, ""),
    ("dgx-h100", 12_040, "pidfd no"),
    ("dgx-h100", 12_080, ""),
    ("dgx-h100", 0, "ipc no"),
    ("dgx-a100", 0, ""),
    ("dgx-a100", 12_040, "ipc no"),
    ("dgx-1v", 12_000, ""),
    ("dgx-b200", 12_080, ""),
    ("gb200-nvl72-tray", 0, "fabric whole"),
    ("gb200-nvl72-tray", 0, "fabric refused"),
    ("gb200-nvl72-tray", 0, "fabric half"),
    ("pcie-8gpu-nonet", 0, ""),
    ("pcie-8gpu-nonet", 0, "peers none"),
];

/// Lines of the machine file for what drivers may do.
const SWITCHES: [&str; 9] = [
    "",
    "queue 1",
    "queue-bytes 9000",
    "calls-wait yes",
    "queue 2\nlaunch-lock yes",
    "queue-bytes 9000\nlaunch-lock yes\ncalls-wait yes",
    "cooperative-overlap no",
    "overlap no",
    LATE,
];

/// The second launch on the first GPU fails, and the driver says so when it is waited for.
const LATE: &str = "fault 0 2 late";

/// How a run names that error.
const ILLEGAL: &str = "ILLEGAL_ADDRESS";

/// What the driver reports when it says so.
const SHOWS_LATE: &str = "shows late";

/// The kinds of ranks, and the least number of them.
const STARTERS: [(&str, u32); 4] = [
    ("", 1),
    ("--processes", 1),
    ("--processes --hosts 2", 2),
    ("--graph 2 -n 4", 1),
];

/// Variables that choose another transport or kind of memory.
const VARIABLES: [&str; 6] = [
    "",
    "",
    "",
    "--set NCCL_P2P_DISABLE=1",
    "--set NCCL_CUMEM_ENABLE=1",
    "--set NCCL_CUMEM_ENABLE=0",
];

/// Reasons for which a machine or a transport refuses an algorithm.
const REASONS: [&str; 8] = [
    "LL128 needs lines of 128 bytes",
    "PCIe may split",
    "no algorithm for",
    "a direct transfer accesses",
    "NVLS",
    "multicast",
    "cuMulticast",
    "equal numbers of ranks",
];

/// The reports of a driver because its machine is to refuse.
const ASKED_FOR: [&str; 3] = [
    "the device cannot access this memory",
    "the machine file:",
    "the device cannot access the memory's device",
];

/// One run.
#[derive(Debug)]
struct Run {
    machine: (&'static str, u32, &'static str),
    switch: &'static str,
    arguments: String,
}

/// Numbers that follow from a seed.
struct Draw(u64);

impl Draw {
    /// A number below `end`.
    fn below(&mut self, end: usize) -> usize {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) as usize % end
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

/// The run with this number, of these cases.
fn draw(number: usize, cases: &[Case]) -> Run {
    let mut draw = Draw(number as u64);
    let case = draw.of(cases);
    let starters: Vec<&str> = STARTERS
        .into_iter()
        .filter(|(_, least)| case.ranks >= *least)
        .map(|(options, _)| options)
        .collect();
    let blocks = if case.collective.splits_message() {
        case.ranks as usize
    } else {
        1
    };
    let bytes = case.count * case.element.bytes() as usize * blocks;
    let mut words = vec![
        format!("--ranks {} {}", case.ranks, case.collective.command_name()),
        format!("--algorithm {}", case.choice.schedule.name()),
        format!("--type {} -b {bytes} -e {bytes}", case.element.name()),
        format!("--channels={}", case.choice.channels),
        draw.of(&starters).to_owned(),
        draw.of(&VARIABLES).to_owned(),
    ];
    if case.collective.reduces() {
        words.push(format!("--op {}", case.reduction.name()));
    }
    if case.collective.has_root() {
        words.push(format!("--root {}", case.root));
    }
    match case.choice.transfer {
        Transfer::Direct => words.push("--transfer direct".to_owned()),
        _ => words.push(format!(
            "--transfer fifo --protocol {}",
            case.choice.protocol.name()
        )),
    }
    let (machine, switch) = (draw.of(&MACHINES), draw.of(&SWITCHES));
    if case.choice.schedule == Schedule::Nvls && draw.below(2) == 0 {
        words.push("--register".to_owned());
    }
    Run {
        machine,
        switch,
        arguments: words.join(" "),
    }
}

/// How a run ended.
enum Ended {
    Right,
    /// Refused for one of [`REASONS`].
    Refused(&'static str),
    /// With the error of a kernel that was planted.
    Told,
    Failed(String),
}

fn run(run: &Run) -> Ended {
    let (machine, version, line) = run.machine;
    let lines = [line, run.switch];
    let phantom = match version {
        0 => Phantom::new(machine, &lines),
        version => Phantom::with_driver(machine, version, &lines),
    };
    let mut command = phantom.topo();
    command.args(["run", "--backend", "cuda", "-w", "0", "--warm", "0"]);
    if !run.arguments.contains("-n ") {
        command.args(["-n", "2"]);
    }
    let output = command
        .args(run.arguments.split_whitespace())
        .output()
        .unwrap();
    let page = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    let report = phantom.report();
    let is_late = |it: &String| run.switch == LATE && it.contains(SHOWS_LATE);
    let late = report.problems.iter().any(is_late);
    let mut problems = report.problems.iter().filter(|it| !is_late(it));
    let unexpected = problems.find(|it| !ASKED_FOR.iter().any(|asked| it.contains(asked)));
    let reason = REASONS.into_iter().find(|it| errors.contains(it));
    match (unexpected, output.status.code(), reason) {
        (None, Some(2), _) if late && errors.contains(ILLEGAL) => Ended::Told,
        (None, Some(0), _) if !late && page.contains("every element is right") => Ended::Right,
        (None, Some(2), Some(reason)) if !late => Ended::Refused(reason),
        _ => Ended::Failed(format!(
            "{run:?}: {}\n{page}\n{errors}\n{:?}",
            output.status, report.problems
        )),
    }
}

#[test]
fn drawn_runs() {
    draw_and_run(FEW);
}

#[test]
#[ignore = "deep: cargo xtask deep"]
fn deep_drawn_runs() {
    draw_and_run(std::env::var(CASES).map_or(MANY, |text| text.parse().expect(CASES)));
}

fn draw_and_run(wanted: usize) {
    let mut cases = suite::cases(&RANKS, &COUNTS);
    // Transfers name their own two ranks; no choice of the command line shortens pieces.
    cases.retain(|case| case.collective != Collective::SendRecv && case.choice.piece_bytes == 0);
    cases.retain(Case::is_of_nccl);
    cases.retain(|case| case.choice.schedule != Schedule::Nvls || case.ranks > 1);
    let began = Instant::now();
    let next = AtomicUsize::new(0);
    let ended: Mutex<Vec<Ended>> = Mutex::default();
    let runs = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= wanted {
                break;
            }
            let one = run(&draw(number, &cases));
            ended.lock().unwrap().push(one);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(runs);
        }
    });
    let mut refused: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut failed, mut told) = (Vec::new(), 0);
    for one in ended.into_inner().unwrap() {
        match one {
            Ended::Right => {}
            Ended::Told => told += 1,
            Ended::Refused(reason) => *refused.entry(reason).or_default() += 1,
            Ended::Failed(why) => failed.push(why),
        }
    }
    let count: usize = refused.values().sum();
    println!(
        "{} runs were right, {count} refused ({refused:?}), {told} told a late error, {} failed, in {:.0} s",
        wanted - count - told - failed.len(),
        failed.len(),
        began.elapsed().as_secs_f64()
    );
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert!(3 * count < wanted, "{refused:?}");
}
