//! Times of collectives with all ranks on one GPU, beside what its memory allows.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::{cuda, ranks};
use anyhow::{Context, Result, anyhow};
use backend_cuda::Cuda;
use backend_cuda::nccl::variables;
use device_runtime::{DeviceBuffer, DeviceDriver, ProcessRanks, RunOnDevice};
use executor::check::Check;
use program::{Collective, Protocol, Reduction, Transfer};
use serde::{Deserialize, Serialize};

use crate::gpu_test::page::Page;
use crate::gpu_test::report::{Figure, Outcome};
use crate::gpu_test::test;
use crate::gpu_test::test::Test;
use answers::gpu_test::{GpuTestQuestion, Part};

/// Variants that are tried besides the choice.
const VARIANTS: [(&str, Option<Transfer>, Option<Protocol>); 5] = [
    ("chosen", None, None),
    ("LL", Some(Transfer::Fifo), Some(Protocol::Ll)),
    ("LL128", Some(Transfer::Fifo), Some(Protocol::Ll128)),
    ("Simple", Some(Transfer::Fifo), Some(Protocol::Simple)),
    ("direct", Some(Transfer::Direct), None),
];

pub(crate) const COLLECTIVES: [Collective; 3] = [
    Collective::AllReduce,
    Collective::AllGather,
    Collective::Broadcast,
];

/// One of the collectives that are timed.
pub(crate) fn collective(name: &str) -> Option<Collective> {
    let mut all = COLLECTIVES.into_iter();
    all.find(|it| it.command_name() == name)
}

/// Why nothing of NCCL is run without its library.
pub(crate) const NO_NCCL: &str =
    "NCCL's library is not given; expected libnccl.so.2 of NCCL 2.30 or later";

/// Memory of a rank by the length of its message: input, output, and FIFOs and windows.
const BUFFERS: u64 = 4;

/// The longest message of `ranks` ranks that share a GPU with this memory, bytes: they take at most
/// half of it.
pub(crate) fn longest(end: u64, ranks: u32, memory_bytes: u64) -> u64 {
    let most = memory_bytes / (2 * BUFFERS * u64::from(ranks.max(1)));
    lengths(end)
        .take_while(|it| *it <= most)
        .last()
        .unwrap_or(LEAST)
}

/// Longest times of one part, s.
const COPY_S: u64 = 60;
const TIMES_S: u64 = 120;

/// The shortest message, bytes.
const LEAST: u64 = 1 << 10;

/// Lengths of messages up to `end` bytes, bytes.
pub(crate) fn lengths(end: u64) -> impl Iterator<Item = u64> {
    let grows = std::iter::successors(Some(LEAST), |size| size.checked_mul(4));
    grows.take_while(move |size| *size <= end)
}

/// The least time of a collective with all ranks on one GPU, µs: every input byte is read once and
/// every output byte written once, at the rate of a copy.
pub(crate) fn bound_us(collective: Collective, ranks: u32, bytes: u64, copy_gbs: f64) -> f64 {
    let (bytes, ranks) = (bytes as f64, f64::from(ranks));
    let crossing = match collective {
        Collective::AllReduce => 2.0 * ranks * bytes,
        // Each rank brings its part; or the root brings all of it. Each rank gets all of it.
        _ => (1.0 + ranks) * bytes,
    };
    // A byte copied is one read and one written.
    crossing / (2.0 * copy_gbs * 1e3)
}

/// Times with all ranks on one GPU, beside what its memory allows.
pub(crate) fn run(page: &mut Page<'_>) -> Result<()> {
    page.section(
        "Speed on one GPU",
        "Times of launches by the device's clock, buffers in its memory, f32; each element of \
         every figure was checked. The bound is that of reading every input and writing every \
         output once, at the rate of the copy; long messages show their share of it.",
    );
    let options = page.test.options;
    let memory_bytes = page.test.machine.memory_bytes;
    let part = |test: &Test<'_>, part, ranks| {
        let mut command = test.part(part, ranks);
        // The last one counts.
        command.args([
            "--end",
            &longest(options.end, ranks, memory_bytes).to_string(),
        ]);
        command
    };
    let mut copy = None;
    page.check("copy within memory", COPY_S, |test, deadline, _| {
        let bandwidth: f64 = crate::child_process::json(part(test, Part::Copy, 1), deadline)?;
        copy = Some(bandwidth);
        Ok(Outcome::Right(format!(
            "{bandwidth:.0} GB/s of bytes copied"
        )))
    })?;
    for ranks in options.ranks.iter().copied() {
        let name = format!("times of {ranks} ranks");
        page.check(&name, TIMES_S, |test, deadline, figures| {
            let times: Times =
                crate::child_process::json(part(test, Part::OneGpu, ranks), deadline)?;
            Ok(times.outcome(copy, figures))
        })?;
        if ranks < 2 {
            continue;
        }
        let name = format!("NCCL with {ranks} ranks");
        let Some(library) = &options.nccl_library else {
            page.leave_out(&name, NO_NCCL)?;
            continue;
        };
        page.check(&name, TIMES_S, |test, deadline, figures| {
            let mut command = part(test, Part::Nccl, ranks);
            command
                .arg("--nccl-library")
                .arg(library)
                .envs(variables(ranks));
            let times: Times = crate::child_process::json(command, deadline)?;
            Ok(times.outcome(copy, figures))
        })?;
    }
    Ok(())
}

/// The figures of a part.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Times {
    pub(crate) figures: Vec<Figure>,
    /// The first figure that is wrong or missing.
    pub(crate) problem: Option<String>,
}

impl Times {
    /// Adds the figures with their bounds, by the bandwidth of copies, GB/s. Returns how the part
    /// came out.
    fn outcome(self, copy: Option<f64>, figures: &mut Vec<Figure>) -> Outcome {
        let count = self.figures.len();
        figures.extend(self.figures.into_iter().map(|figure| {
            let timed = collective(&figure.collective);
            let bound = |(copy, collective): (f64, Collective)| {
                bound_us(collective, figure.ranks, figure.bytes, copy)
            };
            let bound_us = copy.zip(timed).map(bound);
            Figure { bound_us, ..figure }
        }));
        match self.problem {
            Some(problem) => Outcome::Failed(format!("{problem} ({count} figures before)")),
            None => Outcome::Right(format!("{count} figures")),
        }
    }
}

/// Measures all figures for a number of ranks, in memory of the GPU, without the bound.
pub(crate) fn measure(count: u32, options: &GpuTestQuestion) -> Result<Times> {
    let opened = cuda::open_on_first(count, &test::settings(options))?;
    let process_ranks = &opened.process_ranks;
    let times = Mutex::default();
    let ended = ranks::run(opened.communicators, |communicator| {
        let mut rank = Rank::new(communicator, process_ranks, options)?;
        rank.measure(&times)
    });
    // Errors of kernels may show late.
    let ended = ended.and_then(|_| process_ranks.synchronize().map_err(|why| anyhow!(why)));
    let mut times = times.into_inner().unwrap_or_else(PoisonError::into_inner);
    times.problem = times.problem.or(ended.err().map(|why| format!("{why:#}")));
    Ok(times)
}

/// One rank. All ranks do the same, and read the same times.
struct Rank<'a> {
    communicator: &'a mut cuda::Gpu,
    process_ranks: &'a ProcessRanks<Cuda>,
    end: u64,
    /// How long launches go before the first figure.
    warm: Duration,
    /// Input and output in memory of the GPU.
    buffers: [DeviceBuffer<Cuda>; 2],
}

impl<'a> Rank<'a> {
    fn new(
        communicator: &'a mut cuda::Gpu,
        process_ranks: &'a ProcessRanks<Cuda>,
        options: &GpuTestQuestion,
    ) -> Result<Self> {
        let allocate = || {
            let buffer = DeviceBuffer::new(&process_ranks.driver, 0, options.end);
            buffer.map_err(|why| anyhow!(why))
        };
        Ok(Self {
            buffers: [allocate()?, allocate()?],
            communicator,
            process_ranks,
            end: options.end,
            warm: options.warm_up(),
        })
    }

    fn measure(&mut self, times: &Mutex<Times>) -> Result<()> {
        let (rank, ranks) = (self.communicator.rank(), self.communicator.ranks());
        for collective in COLLECTIVES {
            for bytes in lengths(self.end) {
                for (variant, transfer, protocol) in VARIANTS {
                    let wanted = cuda::ChoiceLimits {
                        transfer,
                        protocol,
                        ..cuda::ChoiceLimits::default()
                    };
                    let what = || {
                        let name = collective.command_name();
                        format!("{name}, {variant}, {bytes} bytes, rank {rank}")
                    };
                    let (time_us, wrong) =
                        self.figure(collective, bytes, &wanted).with_context(what)?;
                    let mut times = times.lock().unwrap_or_else(PoisonError::into_inner);
                    if wrong > 0 {
                        // The other ranks do not know it, and wait for this one at the next figure.
                        let problem = format!("{}: {wrong} wrong elements", what());
                        times.problem = times.problem.take().or(Some(problem));
                    }
                    if rank == 0 {
                        times.figures.push(Figure {
                            gpus: 1,
                            ranks,
                            ranks_are: "threads".to_owned(),
                            collective: collective.command_name().to_owned(),
                            variant: variant.to_owned(),
                            bytes,
                            time_us,
                            bus_bandwidth_gbps: None,
                            bound_us: None,
                        });
                    }
                }
            }
        }
        Ok(())
    }

    /// The time of a launch, µs, and the number of wrong elements after the last one.
    fn figure(
        &mut self,
        collective: Collective,
        bytes: u64,
        wanted: &cuda::ChoiceLimits,
    ) -> Result<(f64, usize)> {
        let (rank, ranks) = (self.communicator.rank(), self.communicator.ranks());
        let check = Check {
            collective,
            reduction: Reduction::Sum,
            ranks,
            root: 0,
            count: (bytes / 4 / collective.blocks(ranks)) as usize,
            seed: bytes,
        };
        let mut request = crate::spec::request::<f32>(&check);
        request.choice = Some(cuda::choose(self.communicator, wanted, &request)?);
        let mut input = vec![0.0_f32; check.input_elements(rank)];
        check.fill(rank, 0, &mut input);
        // No result of an earlier launch may pass as one of these.
        let mut output = vec![f32::NAN; check.output_elements(rank)];
        let driver = &self.process_ranks.driver;
        let [from, to] = &self.buffers;
        for (buffer, values) in [(from, &input), (to, &output)] {
            let bytes = bytemuck::cast_slice(values);
            let written = driver.write(0, buffer.address(), bytes);
            written.map_err(|why| anyhow!(why))?;
        }
        let limits = cuda::TimingLimits {
            warm: std::mem::take(&mut self.warm),
            ..cuda::TimingLimits::default()
        };
        let bytes = |values: &[f32]| size_of_val(values) as u64;
        let buffers = ((from, bytes(&input)), (to, bytes(&output)));
        let time_us = cuda::time(self.process_ranks, &limits, &mut || {
            self.communicator
                .run_on_device(&request, buffers.0, buffers.1)
        })?;
        let read = driver.read(0, to.address(), bytemuck::cast_slice_mut(&mut output));
        read.map_err(|why| anyhow!(why))?;
        Ok((time_us, check.wrong(rank, &output)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds() {
        // 1 GB on 2 ranks at 2000 GB/s copied: 2 GB read and 2 GB written.
        let bound = |collective, ranks| bound_us(collective, ranks, 1_000_000_000, 2000.0);
        assert_eq!(bound(Collective::AllReduce, 2), 1000.0);
        // One rank's copy is one copy.
        assert_eq!(bound(Collective::Broadcast, 1), 500.0);
        assert_eq!(bound(Collective::AllGather, 3), 1000.0);
    }

    #[test]
    fn messages_fit_in_memory() {
        assert_eq!(longest(256 << 20, 8, 80 << 30), 256 << 20);
        assert_eq!(longest(1 << 30, 8, 16 << 30), 256 << 20);
        assert_eq!(longest(1 << 30, 8, 2 << 30), 16 << 20);
        assert_eq!(longest(1 << 30, 8, 0), LEAST);
    }
}
