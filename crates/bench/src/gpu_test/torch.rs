//! PyTorch's NCCL beside this program, on the same GPUs and sizes, where it is installed.

use std::process::Command;
use std::time::Duration;

use answers::acceptance::COLLECTIVES;
use anyhow::{Context, Result, ensure};
use program::Collective;
use serde::Deserialize;

use crate::child_process::{self, RunningProgram};
use crate::gpu_test::one_gpu;
use crate::gpu_test::page::Page;
use crate::gpu_test::report::{Figure, Outcome};

/// Longest time, s.
const DEADLINE_S: u64 = 180;

/// Prints the versions, and a time for each collective and size.
const SCRIPT: &str = r#"
import json, os, sys

def rank(number, ranks, port, sizes, results):
    import torch, torch.distributed as d
    os.environ.update(MASTER_ADDR='127.0.0.1', MASTER_PORT=str(port))
    torch.cuda.set_device(number)
    d.init_process_group('nccl', rank=number, world_size=ranks)
    rows = []
    for size in sizes:
        whole = torch.ones(size // 4, device='cuda')
        part = torch.ones(max(size // 4 // ranks, 1), device='cuda')
        gathered = torch.empty(part.numel() * ranks, device='cuda')
        for name, run in (
            ('all-reduce', lambda: d.all_reduce(whole)),
            ('all-gather', lambda: d.all_gather_into_tensor(gathered, part)),
            ('reduce-scatter', lambda: d.reduce_scatter_tensor(part, gathered)),
        ):
            whole.fill_(1)
            part.fill_(number)
            run()
            if name == 'all-reduce':
                wrong = whole != ranks
            elif name == 'all-gather':
                wrong = gathered != torch.arange(ranks, device='cuda').repeat_interleave(part.numel())
            else:
                gathered.fill_(1)
                run()
                wrong = part != ranks
            wrong = wrong.sum()
            d.all_reduce(wrong)
            if wrong.item():
                sys.exit(f'{wrong.item()} wrong elements of {name} at {size} bytes')
            times = 20 if size >= 1 << 24 else 100
            for _ in range(5):
                run()
            torch.cuda.synchronize()
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            for _ in range(times):
                run()
            end.record()
            torch.cuda.synchronize()
            time = torch.tensor([begin.elapsed_time(end) * 1e3 / times], device='cuda')
            d.all_reduce(time, op=d.ReduceOp.MAX)
            rows.append({'collective': name, 'bytes': size, 'time_us': time.item()})
    if number == 0:
        results.put(rows)
    d.barrier()
    d.destroy_process_group()

if __name__ == '__main__':
    import socket, torch
    ranks, sizes = int(sys.argv[1]), [int(it) for it in sys.argv[2].split(',')]
    if torch.cuda.device_count() < ranks:
        sys.exit(f'PyTorch {torch.__version__} sees {torch.cuda.device_count()} GPUs')
    with socket.socket() as free:
        free.bind(('127.0.0.1', 0))
        port = free.getsockname()[1]
    results = torch.multiprocessing.get_context('spawn').SimpleQueue()
    torch.multiprocessing.spawn(rank, (ranks, port, sizes, results), ranks)
    version = '.'.join(map(str, torch.cuda.nccl.version()))
    print(json.dumps({'torch': torch.__version__, 'nccl': version, 'rows': results.get()}))
"#;

#[derive(Debug, Deserialize)]
struct TorchOutput {
    torch: String,
    nccl: String,
    rows: Vec<Row>,
}

#[derive(Debug, Deserialize)]
struct Row {
    collective: String,
    bytes: u64,
    time_us: f64,
}

/// Measures these collectives by NCCL on `gpus` GPUs.
pub(crate) fn run(
    page: &mut Page<'_>,
    gpus: u32,
    end: u64,
    collectives: &[Collective],
) -> Result<()> {
    let name = format!("PyTorch's NCCL, {gpus} GPUs");
    if !page.test.wants(&name) {
        return Ok(());
    }
    let deadline = page.test.deadline(DEADLINE_S);
    if let Some(why) = lacks("import torch", deadline) {
        return page.leave_out(&name, &why);
    }
    page.check(&name, DEADLINE_S, |_, deadline, figures| {
        let printed = times(gpus, end, deadline)?;
        figures.extend(self::figures(&printed, gpus, collectives));
        Ok(Outcome::Right(format!(
            "PyTorch {}, NCCL {}",
            printed.torch, printed.nccl
        )))
    })
}

/// Why a program of Python does not run; none if it does.
fn lacks(program: &str, deadline: Duration) -> Option<String> {
    match child_process::run(python(&["-c", program]), deadline) {
        Ok(ended) if ended.status.success() => None,
        Ok(ended) => Some(ended.last_words().to_owned()),
        Err(error) => Some(format!("{error:#}")),
    }
}

/// Whether PyTorch is installed and has a GPU.
pub(crate) fn has_gpus(deadline: Duration) -> bool {
    lacks("import torch; assert torch.cuda.is_available()", deadline).is_none()
}

/// Times collectives on `gpus` GPUs, up to `end` bytes.
fn times(gpus: u32, end: u64, deadline: Duration) -> Result<TorchOutput> {
    let file = script().context("cannot write a program for PyTorch")?;
    let sizes: Vec<String> = one_gpu::lengths(end).map(|it| it.to_string()).collect();
    let path = file.path().to_string_lossy();
    let mut command = python(&[&path, &gpus.to_string(), &sizes.join(",")]);
    command.env("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
    // Its ranks end with it.
    let ended = RunningProgram::leader(command)?.wait(deadline)?;
    ensure!(ended.status.success(), "{}", ended.last_words());
    serde_json::from_str(&ended.out).context("PyTorch's program printed something else")
}

/// Whether the program ended because elements were wrong, which it says in these words.
pub(crate) fn found_wrong(why: &anyhow::Error) -> bool {
    why.to_string().contains(" wrong elements of ")
}

/// The same as tables.
///
/// # Errors
/// They cannot be timed.
pub(crate) fn tables(gpus: u32, end: u64, deadline: Duration) -> Result<String> {
    let printed = times(gpus, end, deadline)?;
    let mut text = format!("PyTorch {}, NCCL version {}\n", printed.torch, printed.nccl);
    for collective in COLLECTIVES {
        let name = collective.command_name();
        text += &format!(
            "\n## {name}, {gpus} GPUs\n\n| size | time (us) | busbw (GB/s) |\n|--:|--:|--:|\n"
        );
        for row in printed.rows.iter().filter(|it| it.collective == name) {
            let bus = Figure::bus_bandwidth(collective, gpus, row.bytes, row.time_us);
            text += &format!("| {} | {:.2} | {bus:.2} |\n", row.bytes, row.time_us);
        }
    }
    Ok(text)
}

/// PyTorch starts its processes from a file.
fn script() -> std::io::Result<tempfile::NamedTempFile> {
    let file = tempfile::Builder::new().suffix(".py").tempfile()?;
    std::fs::write(file.path(), SCRIPT)?;
    Ok(file)
}

fn python(arguments: &[&str]) -> Command {
    let mut command = Command::new("python3");
    command.args(arguments);
    command
}

fn figures(printed: &TorchOutput, gpus: u32, collectives: &[Collective]) -> Vec<Figure> {
    let known = |row: &Row| {
        let mut all = collectives.iter();
        all.find(|it| it.command_name() == row.collective)
    };
    let figures = printed.rows.iter().filter_map(|row| {
        let bus = Figure::bus_bandwidth(*known(row)?, gpus, row.bytes, row.time_us);
        Some(Figure {
            gpus,
            ranks: gpus,
            ranks_are: "processes".to_owned(),
            collective: row.collective.clone(),
            variant: format!("NCCL {}", printed.nccl),
            bytes: row.bytes,
            time_us: row.time_us,
            bus_bandwidth_gbps: Some(bus),
            bound_us: None,
        })
    });
    figures.collect()
}
