//! `topo gpu-test`: every check that needs a GPU, in one run that needs no compiler and no network: the correctness matrix,
//! the tables of times beside what the memory allows, compute-sanitizer and PyTorch's NCCL where they are installed.

use std::fmt::Write as _;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use executor::Settings;
use executor::suite::{self, Case};
use plan::program::Transfer;
use plan::{Collective, Protocol};

use super::{Row, Spec, cuda};
use crate::arguments::run::GpuTestArguments;
use crate::environment::Environment;
use crate::output::Output;
use crate::sizes;

/// Numbers of ranks, all on one GPU.
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
    let opened = cuda::open_on_first(1, &Settings::default()).context(
        "nothing was run: every check of this command needs an NVIDIA GPU; copy this program to a machine that has one and run \
         `topo gpu-test` there",
    )?;
    say(&cuda::describe(&opened.fleet.machine));
    let wrong = matrix(arguments)?;
    output.differs = wrong > 0;
    if arguments.small {
        return Ok(());
    }
    let copied = arguments.end.max(1 << 20);
    let copy = opened.fleet.machine.copy_bandwidth(0, copied);
    let copy = copy.map_err(|why| anyhow!(why))?;
    drop(opened);
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
    // Nobody is left to tell when standard output is closed.
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// The correctness matrix; answers how many cases gave a wrong result.
fn matrix(arguments: &GpuTestArguments) -> Result<usize> {
    let mut wrong = 0;
    say("\ncorrectness: collectives by every way, type and operation, each element checked\n");
    for ranks in RANKS {
        let all = suite::cases(&[ranks], &COUNTS);
        let size = if arguments.small {
            FEW
        } else {
            arguments.cases
        };
        let cases: Vec<Case> = suite::sample(&all, size, u64::from(ranks));
        let settings = Settings {
            longest_wait: Duration::from_secs(60),
            ..Settings::default()
        };
        let opened = cuda::open_on_first(ranks, &settings)?;
        let result = suite::run(opened.communicators, &cases);
        let count = cases.len();
        match result {
            Ok(()) => say(&format!(
                "  {ranks} ranks: {count} cases, no wrong element\n"
            )),
            Err(problem) => {
                wrong += 1;
                say(&format!("  {ranks} ranks: WRONG: {problem}\n"));
            }
        }
    }
    Ok(wrong)
}

/// The least time of a collective when all ranks are on one GPU, µs: every input byte is read once from its memory and every
/// output byte written once, at the rate at which a copy reads and writes.
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

fn tables(arguments: &GpuTestArguments, copy: f64) -> Result<()> {
    for collective in [
        Collective::AllReduce,
        Collective::AllGather,
        Collective::Broadcast,
    ] {
        for ranks in RANKS {
            say(&format!(
                "\n{} of f32 on {ranks} ranks of one GPU: µs, and the share of the bound in percent\n",
                sizes::kebab(collective)
            ));
            let mut head = format!("  {:>8} {:>10}", "size", "bound µs");
            for (name, ..) in WAYS {
                write!(head, " {name:>18}")?;
            }
            say(&format!("{head}\n"));
            let grows = std::iter::successors(Some(1_u64 << 10), |size| size.checked_mul(8));
            for bytes in grows.take_while(|size| *size <= arguments.end) {
                let bound = bound_us(collective, ranks, bytes, copy);
                let mut line = format!("  {:>8} {bound:>10.1}", sizes::short(bytes));
                for (_, transfer, protocol) in WAYS {
                    let cell = match one(collective, ranks, bytes, transfer, protocol) {
                        Ok(row) => {
                            let time = row.separate.time_us;
                            let wrong = row.wrong();
                            let mark = if wrong > 0 { " WRONG" } else { "" };
                            if bytes >= LONG {
                                format!("{time:.1} ({:.0}%){mark}", 100.0 * bound / time)
                            } else {
                                format!("{time:.1}{mark}")
                            }
                        }
                        Err(_) => "-".to_owned(),
                    };
                    write!(line, " {cell:>18}")?;
                }
                say(&format!("{line}\n"));
            }
        }
    }
    Ok(())
}

/// One figure.
fn one(
    collective: Collective,
    ranks: u32,
    bytes: u64,
    transfer: Option<Transfer>,
    protocol: Option<Protocol>,
) -> Result<Row> {
    let spec = Spec {
        ranks,
        processes: false,
        collective,
        algorithm: None,
        transfer: transfer.map(|it| it.name().to_owned()),
        protocol,
        channels: None,
        element: "f32".to_owned(),
        op: "sum".to_owned(),
        root: 0,
        sizes: vec![bytes],
        iterations: None,
        warmup: 3,
        time_ms: 30,
        // The matrix checks; filling and comparing gigabytes would take most of the time.
        check: bytes <= 1 << 20,
        in_place: false,
        reply: false,
        bind: false,
        timeout_s: 60,
        rings: Vec::new(),
        trees: Vec::new(),
    };
    let opened = cuda::open_on_first(ranks, &spec.settings()?)?;
    let rows = cuda::threads_of(opened, &spec, &mut |_| {})?;
    rows.into_iter().next().context("nothing was measured")
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
                let last = text
                    .lines()
                    .filter(|line| line.contains("====="))
                    .next_back();
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
