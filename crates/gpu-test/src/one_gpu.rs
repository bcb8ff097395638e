//! Times of collectives with all ranks on one GPU, beside what its memory allows.

use anyhow::{Context, Result, anyhow};
use backend_cuda::Cuda;
use device_runtime::{DeviceBuffer, ProcessRanks, RunOnDevice};
use executor::Request;
use program::{Collective, ElementType, Protocol, Reduction, Transfer};

use crate::report::{Figure, Outcome, Section};
use crate::test::Test;
use crate::{Part, child, test};
use measurement::{cuda, ranks};

/// Variants that are tried besides the choice.
const VARIANTS: [(&str, Option<Transfer>, Option<Protocol>); 5] = [
    ("chosen", None, None),
    ("LL", Some(Transfer::Fifo), Some(Protocol::Ll)),
    ("LL128", Some(Transfer::Fifo), Some(Protocol::Ll128)),
    ("Simple", Some(Transfer::Fifo), Some(Protocol::Simple)),
    ("direct", Some(Transfer::Direct), None),
];

const COLLECTIVES: [Collective; 3] = [
    Collective::AllReduce,
    Collective::AllGather,
    Collective::Broadcast,
];

/// One of the collectives that are timed.
pub fn collective(name: &str) -> Option<Collective> {
    let mut all = COLLECTIVES.into_iter();
    all.find(|it| it.command_name() == name)
}

/// Memory of a rank by the length of its message: input, output, and FIFOs and windows.
const BUFFERS: u64 = 4;

/// The longest message of `ranks` ranks that share a GPU with this memory, bytes: they take at most
/// half of it.
pub fn longest(end: u64, ranks: u32, memory_bytes: u64) -> u64 {
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
pub fn lengths(end: u64) -> impl Iterator<Item = u64> {
    let grows = std::iter::successors(Some(LEAST), |size| size.checked_mul(4));
    grows.take_while(move |size| *size <= end)
}

/// The least time of a collective with all ranks on one GPU, µs: every input byte is read once and
/// every output byte written once, at the rate of a copy.
pub fn bound_us(collective: Collective, ranks: u32, bytes: u64, copy_gbs: f64) -> f64 {
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
pub fn run(test: &Test<'_>) -> Section {
    let mut section = Section {
        title: "Speed on one GPU".to_owned(),
        note: "Times of launches by the device's clock, buffers in its memory, f32. The bound is \
               that of reading every input and writing every output once, at the rate of the copy; \
               long messages show their share of it."
            .to_owned(),
        ..Section::default()
    };
    let longest = |ranks| longest(test.options.end, ranks, test.machine.memory_bytes);
    let mut copy = None;
    let check = test.check("copy within memory", COPY_S, |deadline| {
        let mut part = test.part(Part::Copy, 1);
        // The last one counts.
        part.args(["--end", &longest(1).to_string()]);
        let bandwidth: f64 = child::json(part, deadline)?;
        copy = Some(bandwidth);
        Ok(Outcome::Right(format!(
            "{bandwidth:.0} GB/s of bytes copied"
        )))
    });
    section.checks.push(check);
    for ranks in test.options.ranks.iter().copied() {
        let name = format!("times of {ranks} ranks");
        let check = test.check(&name, TIMES_S, |deadline| {
            let mut part = test.part(Part::OneGpu, ranks);
            part.args(["--end", &longest(ranks).to_string()]);
            let mut figures: Vec<Figure> = child::json(part, deadline)?;
            let count = figures.len();
            for figure in &mut figures {
                let timed = self::collective(&figure.collective);
                let bound = |(copy, collective): (f64, Collective)| {
                    bound_us(collective, ranks, figure.bytes, copy)
                };
                figure.bound_us = copy.zip(timed).map(bound);
            }
            section.figures.extend(figures);
            Ok(Outcome::Right(format!("{count} figures")))
        });
        section.checks.push(check);
    }
    section
}

/// Measures all figures for a number of ranks, in memory of the GPU, without the bound.
pub fn measure(count: u32, end: u64) -> Result<Vec<Figure>> {
    let opened = cuda::open_on_first(count, &test::settings())?;
    let process_ranks = &opened.process_ranks;
    let figures = ranks::run(opened.communicators, |communicator| {
        of_rank(communicator, process_ranks, end)
    })?;
    // All ranks read the same times.
    figures.into_iter().next().context("there is no rank 0")
}

fn of_rank(
    communicator: &mut cuda::Gpu,
    process_ranks: &ProcessRanks<Cuda>,
    end: u64,
) -> Result<Vec<Figure>> {
    let allocate = || {
        let buffer = DeviceBuffer::new(&process_ranks.driver, 0, end);
        buffer.map_err(|why| anyhow!(why))
    };
    let (input, output) = (allocate()?, allocate()?);
    let mut figures = Vec::new();
    for collective in COLLECTIVES {
        for bytes in lengths(end) {
            for (variant, transfer, protocol) in VARIANTS {
                let wanted = cuda::ChoiceLimits {
                    transfer,
                    protocol,
                    ..cuda::ChoiceLimits::default()
                };
                let figure = TimedFigure {
                    communicator,
                    process_ranks,
                    collective,
                    bytes,
                    buffers: (&input, &output),
                };
                // Not every choice exists for every message.
                let Ok(time_us) = figure.time(&wanted) else {
                    continue;
                };
                figures.push(Figure {
                    gpus: 1,
                    ranks: communicator.ranks(),
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
    Ok(figures)
}

/// One figure. All ranks do the same, and read the same times.
struct TimedFigure<'a> {
    communicator: &'a mut cuda::Gpu,
    process_ranks: &'a ProcessRanks<Cuda>,
    collective: Collective,
    bytes: u64,
    /// Input and output in memory of the GPU.
    buffers: (&'a DeviceBuffer<Cuda>, &'a DeviceBuffer<Cuda>),
}

impl TimedFigure<'_> {
    /// The time of a launch, µs.
    fn time(self, wanted: &cuda::ChoiceLimits) -> Result<f64> {
        let Self {
            communicator,
            process_ranks,
            collective,
            bytes,
            buffers: (input, output),
        } = self;
        let (rank, all) = (communicator.rank(), u64::from(communicator.ranks()));
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
            tag: 0,
            in_place: false,
            count,
            choice: None,
        };
        request.choice = Some(cuda::choose(communicator, wanted, &request)?);
        let (input, output) = ((input, input_bytes), (output, output_bytes));
        cuda::time(process_ranks, &cuda::TimingLimits::default(), &mut || {
            communicator.run_on_device(&request, input, output)
        })
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
