//! `topo gpu-test`: every check that needs a GPU, without compiler or network: the correctness
//! matrix, ranks of several processes and hosts, graphs, tables of times beside the bound of
//! memory, and compute-sanitizer and PyTorch's NCCL where they are installed.

mod several;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use backend_cuda::Cuda;
use device_runtime::{DeviceDriver, ProcessRanks};
use executor::suite::{self, Case};
use executor::{Memory, Request, Settings};
use program::{Collective, ElementType, Protocol, Reduction};
use program::{Schedule, Transfer};

use super::{cuda, ranks};
use crate::arguments::run::GpuTestArguments;
use crate::environment::Environment;
use crate::output::Output;
use crate::sizes;

const RANKS: [u32; 4] = [1, 2, 4, 8];

/// Elements of a block in the matrix.
const COUNTS: [usize; 8] = [0, 1, 2, 7, 64, 1023, 20_011, 150_001];

/// Cases for each number of ranks in a small run.
const FEW: usize = 12;

/// From here on a message is long: its bound is that of memory, not that of a launch. Bytes.
const LONG: u64 = 64 << 20;

/// What a table tries besides what is chosen.
const WAYS: [(&str, Option<Transfer>, Option<Protocol>); 5] = [
    ("chosen", None, None),
    ("LL", Some(Transfer::Fifo), Some(Protocol::Ll)),
    ("LL128", Some(Transfer::Fifo), Some(Protocol::Ll128)),
    ("Simple", Some(Transfer::Fifo), Some(Protocol::Simple)),
    ("direct", Some(Transfer::Direct), None),
];

/// Runs everything.
///
/// # Errors
/// There is no GPU, or something failed.
pub fn run(
    arguments: &GpuTestArguments,
    _environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    #[cfg(feature = "emulator")]
    if arguments.emulator {
        output.differs = several::run("emulator", None, &mut say)? > 0;
        return Ok(());
    }
    let opened = cuda::open_on_first(1, &Settings::default()).context(
        "nothing was run: every check of this command needs an NVIDIA GPU; copy this program to a machine that has one and run \
         `topo gpu-test` there",
    )?;
    say(&cuda::describe(&opened.process_ranks.driver));
    // All ranks on one GPU are no members of a multicast.
    let members = cuda::count_for_multicast();
    let wrong = matrix(arguments, members.as_ref().ok().copied())?;
    let without_nvls = members.err().map(|why| format!("{why:#}"));
    if let Some(why) = &without_nvls {
        say(&format!("  NVLS: not run: {why}\n"));
    }
    output.differs = wrong > 0;
    if arguments.small {
        return Ok(());
    }
    let copied = arguments.end.max(1 << 20);
    let copy = opened.process_ranks.driver.copy_bandwidth(0, copied);
    let copy = copy.map_err(|why| anyhow!(why))?;
    drop(opened);
    output.differs |= several::run("cuda", without_nvls.as_deref(), &mut say)? > 0;
    say(&format!(
        "\ndevice copy bandwidth: {copy:.0} GB/s of bytes copied ({} at a time, best of 10)\n",
        sizes::short(copied)
    ));
    tables(arguments, copy)?;
    sanitizer();
    torch();
    Ok(())
}

/// Prints at once, for a run takes long.
fn say(text: &str) {
    use std::io::Write;
    // A closed standard output cannot be reported anywhere.
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// Runs the correctness matrix, NVLS on `members` GPUs. Returns how many cases were wrong.
fn matrix(arguments: &GpuTestArguments, members: Option<u32>) -> Result<usize> {
    let mut wrong = 0;
    say(
        "\ncorrectness: collectives by every algorithm, type and operation, each element checked\n",
    );
    let settings = Settings {
        longest_wait: Duration::from_secs(60),
        ..Settings::default()
    };
    let size = if arguments.small {
        FEW
    } else {
        arguments.cases
    };
    let draw = |ranks: u32, nvls: bool| -> Vec<Case> {
        let mut all = suite::cases(&[ranks], &COUNTS);
        all.retain(|case| (case.choice.schedule == Schedule::Nvls) == nvls);
        suite::sample(&all, size, u64::from(ranks))
    };
    let mut tell = |what: &str, count: usize, result: Result<(), String>| match result {
        Ok(()) => say(&format!("  {what}: {count} cases, no wrong element\n")),
        Err(problem) => {
            wrong += 1;
            say(&format!("  {what}: WRONG: {problem}\n"));
        }
    };
    for ranks in RANKS {
        let cases = draw(ranks, false);
        let opened = cuda::open_on_first(ranks, &settings)?;
        let result = suite::run(opened.communicators, &cases);
        tell(&format!("{ranks} ranks"), cases.len(), result);
    }
    if let Some(ranks) = members {
        let cases = draw(ranks, true);
        let opened = cuda::open_one_each(ranks, &settings)?;
        let result = suite::run(opened.communicators, &cases);
        tell(&format!("NVLS on {ranks} GPUs"), cases.len(), result);
    }
    Ok(wrong)
}

/// The least time of a collective with all ranks on one GPU, µs: every input byte is read once and
/// every output byte written once, at the rate of a copy.
fn bound_us(collective: Collective, ranks: u32, bytes: u64, copy_gbs: f64) -> f64 {
    let (bytes, ranks) = (bytes as f64, f64::from(ranks));
    let crossing = match collective {
        Collective::AllReduce => 2.0 * ranks * bytes,
        // Each rank brings its part; or the root brings all of it. Each rank gets all of it.
        _ => (1.0 + ranks) * bytes,
    };
    // A byte copied is one read and one written.
    crossing / (2.0 * copy_gbs * 1e3)
}

/// What the tables show.
const COLLECTIVES: [Collective; 3] = [
    Collective::AllReduce,
    Collective::AllGather,
    Collective::Broadcast,
];

/// Time of a launch, µs; `None` if the choice does not exist or failed.
type Figures = BTreeMap<(usize, u64, usize), Option<f64>>;

fn lengths(end: u64) -> impl Iterator<Item = u64> {
    let grows = std::iter::successors(Some(1_u64 << 10), |size| size.checked_mul(4));
    grows.take_while(move |size| *size <= end)
}

fn tables(arguments: &GpuTestArguments, copy: f64) -> Result<()> {
    for ranks in RANKS {
        let figures = measure(ranks, arguments.end)?;
        for (at, collective) in COLLECTIVES.into_iter().enumerate() {
            say(&format!(
                "\n{} of f32 on {ranks} ranks of one GPU: µs, and of long messages the share of the bound\n",
                collective.command_name()
            ));
            let mut text = format!("  {:>8} {:>10}", "size", "bound µs");
            for (name, ..) in WAYS {
                write!(text, " {name:>16}")?;
            }
            for bytes in lengths(arguments.end) {
                let bound = bound_us(collective, ranks, bytes, copy);
                write!(text, "\n  {:>8} {bound:>10.1}", sizes::short(bytes))?;
                for choice in 0..WAYS.len() {
                    let cell = match figures.get(&(at, bytes, choice)) {
                        Some(Some(time)) if bytes >= LONG => {
                            format!("{time:.1} ({:.0} %)", 100.0 * bound / time)
                        }
                        Some(Some(time)) => format!("{time:.1}"),
                        _ => "-".to_owned(),
                    };
                    write!(text, " {cell:>16}")?;
                }
            }
            text.push('\n');
            say(&text);
        }
    }
    Ok(())
}

/// Measures all figures for a number of ranks, in memory of the GPU.
fn measure(count: u32, end: u64) -> Result<Figures> {
    let settings = Settings {
        longest_wait: Duration::from_secs(60),
        ..Settings::default()
    };
    let opened = cuda::open_on_first(count, &settings)?;
    let process_ranks = &opened.process_ranks;
    let figures = ranks::run(opened.communicators, |communicator| {
        of_rank(communicator, process_ranks, end)
    })?;
    figures.into_iter().next().context("there is no rank 0")
}

fn of_rank(
    communicator: &mut cuda::Gpu,
    process_ranks: &ProcessRanks<Cuda>,
    end: u64,
) -> Result<Figures> {
    let allocate = || {
        process_ranks
            .driver
            .allocate(0, end)
            .map_err(|why| anyhow!(why))
    };
    let (_input, input) = allocate()?;
    let (_output, output) = allocate()?;
    let mut figures = Figures::new();
    for (at, collective) in COLLECTIVES.into_iter().enumerate() {
        for bytes in lengths(end) {
            for (number, (_, transfer, protocol)) in WAYS.into_iter().enumerate() {
                let time = one(
                    communicator,
                    process_ranks,
                    collective,
                    bytes,
                    transfer,
                    protocol,
                    (input, output),
                );
                figures.insert((at, bytes, number), time.ok());
            }
        }
    }
    Ok(figures)
}

/// One figure. All ranks do the same, and read the same times.
fn one(
    communicator: &mut cuda::Gpu,
    process_ranks: &ProcessRanks<Cuda>,
    collective: Collective,
    bytes: u64,
    transfer: Option<Transfer>,
    protocol: Option<Protocol>,
    (input, output): (u64, u64),
) -> Result<f64> {
    let (rank, ranks) = (communicator.rank(), communicator.ranks());
    let all = u64::from(ranks);
    let (count, input_bytes, output_bytes) = match collective {
        Collective::AllGather => (bytes / 4 / all, bytes / all, bytes),
        Collective::Broadcast if rank != 0 => (bytes / 4, 0, bytes),
        _ => (bytes / 4, bytes, bytes),
    };
    let mut request = Request {
        collective,
        element: ElementType::F32,
        reduction: Reduction::Sum,
        root: 0,
        to: 0,
        in_place: false,
        count,
        choice: None,
    };
    let wanted = cuda::Wanted {
        schedule: None,
        transfer,
        protocol,
        channels: None,
    };
    request.choice = Some(cuda::choose(communicator, &wanted, &request)?);
    let pointer = |address: u64| std::ptr::with_exposed_provenance_mut::<u8>(address as usize);
    cuda::time(process_ranks, &cuda::TimingLimits::default(), &mut || {
        let memory = Memory::at(
            pointer(input).cast_const(),
            input_bytes as usize,
            pointer(output),
            output_bytes as usize,
        );
        communicator.run(&request, memory, 0)
    })
}

/// Runs this program's small matrix under compute-sanitizer, where it is installed.
fn sanitizer() {
    let Ok(own) = std::env::current_exe() else {
        return;
    };
    for tool in ["memcheck", "racecheck", "synccheck"] {
        let ran = Command::new("compute-sanitizer")
            .args(["--tool", tool, "--error-exitcode", "9"])
            .arg(&own)
            .args(["gpu-test", "--small"])
            .output();
        match ran {
            Err(error) => {
                say(&format!("\ncompute-sanitizer: not run ({error})\n"));
                return;
            }
            Ok(ran) => {
                let text = String::from_utf8_lossy(&ran.stdout);
                let last = text.lines().rfind(|line| line.contains("====="));
                say(&format!(
                    "\ncompute-sanitizer {tool}: {} ({})\n",
                    last.unwrap_or("no summary").trim_matches(['=', ' ']),
                    ran.status
                ));
            }
        }
    }
}

/// What PyTorch's NCCL needs for the same, on one rank, where it is installed.
const TORCH: &str = "
import os, torch, torch.distributed as d
os.environ.update(MASTER_ADDR='127.0.0.1', MASTER_PORT='29533', RANK='0', WORLD_SIZE='1')
d.init_process_group('nccl')
print('PyTorch', torch.__version__, 'NCCL', '.'.join(map(str, torch.cuda.nccl.version())))
for p in range(10, 31, 4):
    x = torch.ones(2**p // 4, device='cuda'); y = torch.empty_like(x)
    row = []
    for f in (lambda: d.all_reduce(x), lambda: d.all_gather_into_tensor(y, x), lambda: d.broadcast(x, 0)):
        for _ in range(5): f()
        b, e = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        b.record()
        for _ in range(50): f()
        e.record(); torch.cuda.synchronize()
        row.append(b.elapsed_time(e) * 20)
    print(f'{2**p:>12} bytes: all-reduce {row[0]:.1f} all-gather {row[1]:.1f} broadcast {row[2]:.1f} us')
d.destroy_process_group()
";

fn torch() {
    say("\nPyTorch's NCCL on one rank\n");
    match Command::new("python3").args(["-c", TORCH]).output() {
        Ok(ran) if ran.status.success() => say(&String::from_utf8_lossy(&ran.stdout)),
        Ok(ran) => {
            let text = String::from_utf8_lossy(&ran.stderr);
            let last = text.lines().next_back().unwrap_or("it failed");
            say(&format!("  not run: {last}\n"));
        }
        Err(error) => say(&format!("  not run: {error}\n")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds() {
        // 1 GB on 2 ranks at 2000 GB/s copied: 2 GB read and 2 GB written.
        assert_eq!(
            bound_us(Collective::AllReduce, 2, 1_000_000_000, 2000.0),
            1000.0
        );
        // One rank's copy is one copy.
        assert_eq!(
            bound_us(Collective::Broadcast, 1, 1_000_000_000, 2000.0),
            500.0
        );
        assert_eq!(
            bound_us(Collective::AllGather, 3, 1_000_000_000, 2000.0),
            1000.0
        );
    }
}
