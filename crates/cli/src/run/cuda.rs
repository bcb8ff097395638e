//! Ranks on GPUs: threads of this process, one or several on each GPU. Times are the devices' own.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use backend_cuda::{Cuda, Options};
use executor::check::{Check, Sample};
use executor::{Communicator, Request, Settings, Way};
use half::{bf16, f16};
use kernel_bundle::{Fleet, Kernels, Span, choose};
use plan::program::{Channels, Schedule, Transfer};
use plan::{ElementType, Protocol};

use super::{Row, Spec, Timing};

/// Channels of a communicator without a plan; as many as NCCL ever has.
const PLAIN_CHANNELS: usize = 64;

/// Most launches in a row.
const MOST_LAUNCHES: u32 = 1 << 14;

/// Batches of which the median is taken.
const BATCHES: usize = 3;

/// The communicator of a rank on a GPU.
pub type Gpu = Communicator<Kernels<Cuda>>;

/// GPUs and the ranks on them.
pub struct Ranks {
    /// What the ranks share.
    pub fleet: Arc<Fleet<Cuda>>,
    /// One for each rank.
    pub communicators: Vec<Gpu>,
}

/// Opens GPUs for so many ranks: rank i on GPU i, from the first again when there are no more.
pub fn open(ranks: u32, settings: &Settings, trace: bool) -> Result<Ranks> {
    let devices = Cuda::count()?.min(ranks).max(1);
    open_on(devices, ranks, settings, trace)
}

/// Opens the first GPU for so many ranks.
pub fn open_on_first(ranks: u32, settings: &Settings) -> Result<Ranks> {
    open_on(1, ranks, settings, false)
}

fn open_on(devices: u32, ranks: u32, settings: &Settings, trace: bool) -> Result<Ranks> {
    let options = Options {
        devices: (0..devices).collect(),
        ..Options::default()
    };
    let cuda = Cuda::open(&options)?;
    let places = (0..ranks).map(|rank| rank % devices).collect();
    let launches = kernel_bundle::Options {
        trace,
        ..kernel_bundle::Options::nccl()
    };
    let fleet = Fleet::new(cuda, launches, places);
    let mut settings = settings.clone();
    if settings.channels.is_none() {
        settings.channels = Some(Channels::plain(ranks, PLAIN_CHANNELS)?);
    }
    // The communicator's own memory is the host's, which ranks on GPUs do not use.
    settings.buffer_bytes = Some(1 << 20);
    let communicators = Communicator::local(ranks, &settings, |rank| {
        Kernels::new(Arc::clone(&fleet), rank)
    })?;
    Ok(Ranks {
        fleet,
        communicators,
    })
}

/// Spans in the format of Chrome's tracing: a process per rank, a thread per lane, times in µs from the first.
fn chrome_trace(spans: &[Span], spec: &Spec) -> String {
    let first = spans.iter().map(|span| span.begin_ns).min().unwrap_or(0);
    let us = |ns: u64| ns.saturating_sub(first) as f64 / 1e3;
    let events = spans.iter().map(|span| {
        serde_json::json!({
            "name": format!("{} launch {} channel {}", crate::sizes::kebab(spec.collective), span.launch, span.channel),
            "ph": "X",
            "pid": span.rank,
            "tid": span.lane,
            "ts": us(span.begin_ns),
            "dur": us(span.end_ns) - us(span.begin_ns),
        })
    });
    let events: Vec<serde_json::Value> = events.collect();
    serde_json::json!({ "traceEvents": events, "displayTimeUnit": "ns" }).to_string()
}

/// The GPUs in words, one a line.
pub fn describe(cuda: &Cuda) -> String {
    let mut text = String::new();
    for (number, device) in cuda.devices().enumerate() {
        let facts = &device.facts;
        text.push_str(&format!(
            "GPU {number}: {}, compute capability {}.{}, {} multiprocessors, up to {} MHz, memory up to {} MHz, driver for \
             CUDA {}.{}; kernels {}, loaded in {:.1} ms\n",
            facts.name,
            facts.major,
            facts.minor,
            facts.multiprocessors,
            facts.clock_mhz,
            facts.memory_clock_mhz,
            facts.driver / 1000,
            facts.driver % 1000 / 10,
            facts.kernels,
            facts.kernels_ms,
        ));
    }
    text
}

/// Runs all ranks on the GPUs of this machine. Answers the GPUs in words, and the rows.
pub fn threads(
    spec: &Spec,
    trace: Option<&Path>,
    progress: &mut (dyn FnMut(u64) + Send),
) -> Result<(String, Vec<Row>)> {
    if spec.processes {
        bail!(
            "--backend cuda runs ranks as threads of one process; expected it without --processes"
        );
    }
    let ranks = open(spec.ranks, &spec.settings()?, trace.is_some())?;
    let words = describe(&ranks.fleet.machine);
    let fleet = Arc::clone(&ranks.fleet);
    let rows = threads_of(ranks, spec, progress)?;
    if let Some(file) = trace {
        crate::plan::write_beside(file, &chrome_trace(&fleet.take_spans(), spec))?;
    }
    Ok((words, rows))
}

/// Runs all ranks.
pub fn threads_of(
    ranks: Ranks,
    spec: &Spec,
    progress: &mut (dyn FnMut(u64) + Send),
) -> Result<Vec<Row>> {
    let fleet = &ranks.fleet;
    let mut progress = Some(progress);
    let results: Vec<Result<Vec<Row>>> = std::thread::scope(|scope| {
        let threads: Vec<_> = ranks
            .communicators
            .into_iter()
            .map(|mut communicator| {
                let mut progress = progress.take();
                scope.spawn(move || {
                    sweep(&mut communicator, fleet, spec, &mut |size| {
                        if let Some(progress) = &mut progress {
                            progress(size);
                        }
                    })
                })
            })
            .collect();
        let joined = threads.into_iter().map(|thread| {
            let panicked = || anyhow!("a rank's thread panicked, which is a fault of topo");
            thread.join().map_err(|_| panicked())?
        });
        joined.collect()
    });
    together(results)
}

/// The rows of rank 0 with the wrong elements of all, or the error that tells most.
fn together(results: Vec<Result<Vec<Row>>>) -> Result<Vec<Row>> {
    let (rows, errors): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
    let mut errors: Vec<anyhow::Error> = errors.into_iter().filter_map(Result::err).collect();
    errors.sort_by_key(|error| {
        matches!(
            error.downcast_ref::<executor::Error>(),
            Some(executor::Error::Aborted { .. } | executor::Error::Broken { .. })
        )
    });
    if let Some(error) = errors.into_iter().next() {
        return Err(error);
    }
    let mut rows = rows.into_iter().flatten();
    let mut all = rows.next().context("there is no rank 0")?;
    for other in rows {
        for (row, other) in all.iter_mut().zip(other) {
            add(&mut row.separate, &other.separate);
            if let (Some(row), Some(other)) = (&mut row.in_place, &other.in_place) {
                add(row, other);
            }
        }
    }
    Ok(all)
}

fn add(to: &mut Timing, other: &Timing) {
    to.wrong = to.wrong.zip(other.wrong).map(|(one, other)| one + other);
    to.time_us = to.time_us.max(other.time_us);
}

fn sweep(
    communicator: &mut Gpu,
    fleet: &Fleet<Cuda>,
    spec: &Spec,
    progress: &mut dyn FnMut(u64),
) -> Result<Vec<Row>> {
    match spec.element()? {
        ElementType::I8 => of_type::<i8>(communicator, fleet, spec, progress),
        ElementType::U8 => of_type::<u8>(communicator, fleet, spec, progress),
        ElementType::I32 => of_type::<i32>(communicator, fleet, spec, progress),
        ElementType::U32 => of_type::<u32>(communicator, fleet, spec, progress),
        ElementType::I64 => of_type::<i64>(communicator, fleet, spec, progress),
        ElementType::U64 => of_type::<u64>(communicator, fleet, spec, progress),
        ElementType::F16 => of_type::<f16>(communicator, fleet, spec, progress),
        ElementType::Bf16 => of_type::<bf16>(communicator, fleet, spec, progress),
        ElementType::F32 => of_type::<f32>(communicator, fleet, spec, progress),
        ElementType::F64 => of_type::<f64>(communicator, fleet, spec, progress),
    }
}

fn of_type<T: Sample>(
    communicator: &mut Gpu,
    fleet: &Fleet<Cuda>,
    spec: &Spec,
    progress: &mut dyn FnMut(u64),
) -> Result<Vec<Row>> {
    let reduction = spec.reduction()?;
    let mut rows = Vec::with_capacity(spec.sizes.len());
    for bytes in &spec.sizes {
        progress(*bytes);
        let blocks = if spec.collective.splits_message() {
            u64::from(spec.ranks)
        } else {
            1
        };
        let count = (bytes / size_of::<T>() as u64 / blocks).max(1);
        let check = Check {
            collective: spec.collective,
            reduction,
            ranks: spec.ranks,
            root: spec.root,
            count: usize::try_from(count).unwrap_or(usize::MAX),
            seed: *bytes,
        };
        let mut request = Request {
            collective: spec.collective,
            element: T::TYPE,
            reduction,
            root: spec.root,
            to: 0,
            in_place: false,
            count,
            way: None,
        };
        let way = choose_way(communicator, &Wanted::of(spec)?, &request)?;
        let mut bench = Bench {
            communicator: &mut *communicator,
            fleet,
            spec,
            check,
        };
        let separate = bench.separate::<T>(way)?;
        let (mut way_in_place, mut in_place) = (None, None);
        if spec.in_place {
            request.in_place = true;
            if let Ok(way) = choose_way(bench.communicator, &Wanted::of(spec)?, &request) {
                way_in_place = Some(way);
                in_place = Some(bench.in_place::<T>(way)?);
            }
        }
        rows.push(Row {
            bytes: request.bytes(spec.ranks),
            count,
            way,
            way_in_place,
            separate,
            in_place,
            predicted_us: None,
        });
    }
    Ok(rows)
}

/// What the command line leaves to choose.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wanted {
    /// The only algorithm.
    pub schedule: Option<Schedule>,
    /// The only transfer.
    pub transfer: Option<Transfer>,
    /// The only protocol.
    pub protocol: Option<Protocol>,
    /// Channels.
    pub channels: Option<u16>,
}

impl Wanted {
    fn of(spec: &Spec) -> Result<Self> {
        Ok(Self {
            schedule: spec.schedule()?,
            transfer: spec.transfer()?,
            protocol: spec.protocol,
            channels: spec.channels,
        })
    }
}

/// The way for a request, within what is left.
pub fn choose_way(communicator: &mut Gpu, wanted: &Wanted, request: &Request) -> Result<Way> {
    communicator.set_way(None);
    let chosen = communicator.way(request)?;
    let place = communicator.neighbourhood()?;
    let channels = wanted
        .channels
        .unwrap_or(chosen.channels)
        .min(place.channels);
    let fits = |way: &Way| {
        wanted.schedule.is_none_or(|only| only == way.schedule)
            && wanted.transfer.is_none_or(|only| only == way.transfer)
            && match way.transfer {
                Transfer::Fifo => wanted.protocol.is_none_or(|only| only == way.protocol),
                Transfer::Direct => wanted.protocol.is_none() && way.protocol == Protocol::Simple,
            }
            && choose::serves(request, way.schedule, way.transfer, place.ranks)
    };
    let chosen = Way { channels, ..chosen };
    if fits(&chosen) {
        return Ok(chosen);
    }
    let others = Schedule::ALL.into_iter().flat_map(|schedule| {
        let of_transfer = move |transfer| {
            // The chosen protocol, or the one that takes messages of any size.
            let protocols = [
                chosen.protocol,
                Protocol::Simple,
                Protocol::Ll128,
                Protocol::Ll,
            ];
            // Through FIFOs a channel may be two lanes, each of which is a block.
            let fewer = match transfer {
                Transfer::Fifo if wanted.channels.is_none() => channels.div_ceil(2),
                _ => channels,
            };
            protocols.into_iter().map(move |protocol| Way {
                schedule,
                transfer,
                protocol,
                channels: fewer,
                piece_bytes: 0,
            })
        };
        Transfer::ALL.into_iter().rev().flat_map(of_transfer)
    });
    others.into_iter().find(fits).with_context(|| {
        format!(
            "{} cannot be carried out so; see --algorithm, --transfer and --protocol in topo run --help",
            crate::sizes::kebab(request.collective)
        )
    })
}

/// One size on one rank.
pub struct Bench<'a> {
    /// The rank.
    pub communicator: &'a mut Gpu,
    /// What all ranks share.
    pub fleet: &'a Fleet<Cuda>,
    /// What is asked for.
    pub spec: &'a Spec,
    /// What is run.
    pub check: Check,
}

impl Bench<'_> {
    /// With two buffers.
    pub fn separate<T: Sample>(&mut self, way: Way) -> Result<Timing> {
        self.communicator.set_way(Some(way));
        let (check, rank) = (self.check, self.communicator.rank());
        let mut input = vec![T::default(); check.input_elements(rank)];
        check.fill(rank, 0, &mut input);
        let mut output = vec![T::default(); check.output_elements(rank)];
        check.launch(self.communicator, &input, &mut output)?;
        let wrong = self.spec.check.then(|| check.wrong(rank, &output) as u64);
        let time_us =
            self.time(&mut |communicator| check.launch(communicator, &input, &mut output))?;
        Ok(Timing { time_us, wrong })
    }

    /// With one buffer.
    pub fn in_place<T: Sample>(&mut self, way: Way) -> Result<Timing> {
        self.communicator.set_way(Some(way));
        let (check, rank) = (self.check, self.communicator.rank());
        let (elements, from, to) = check.in_place(rank);
        let mut buffer = vec![T::default(); elements];
        check.fill(rank, 0, &mut buffer[from]);
        check.launch_in_place(self.communicator, &mut buffer)?;
        let wrong = self
            .spec
            .check
            .then(|| check.wrong(rank, &buffer[to]) as u64);
        let time_us =
            self.time(&mut |communicator| check.launch_in_place(communicator, &mut buffer))?;
        Ok(Timing { time_us, wrong })
    }

    fn time(
        &mut self,
        launch: &mut dyn FnMut(&mut Gpu) -> Result<(), executor::Error>,
    ) -> Result<f64> {
        let timed = Timed {
            iterations: self.spec.iterations,
            warmup: self.spec.warmup,
            time_ms: self.spec.time_ms,
        };
        time(self.fleet, &timed, &mut || launch(self.communicator))
    }
}

/// How long something is timed.
#[derive(Debug, Clone, Copy)]
pub struct Timed {
    /// So many launches; as many as fill the time if not said.
    pub iterations: Option<u32>,
    /// Launches before.
    pub warmup: u32,
    /// The time, ms.
    pub time_ms: u64,
}

impl Default for Timed {
    fn default() -> Self {
        Self {
            iterations: None,
            warmup: 3,
            time_ms: 20,
        }
    }
}

/// Time of a launch by the devices' clocks, µs: of many launches in a row, which the host does not wait for. All ranks call
/// this together and get the same.
pub fn time(
    fleet: &Fleet<Cuda>,
    timed: &Timed,
    launch: &mut dyn FnMut() -> Result<(), executor::Error>,
) -> Result<f64> {
    let mut batch = |times: u32| -> Result<f64> {
        // All ranks say the same; whoever launches reads it after all ranks came.
        fleet.set_repeat(times);
        launch()?;
        Ok(fleet.last_time_us() / f64::from(times))
    };
    let launches = match timed.iterations {
        Some(iterations) => iterations,
        None => {
            let each = batch(timed.warmup.max(1))?.max(1.0);
            let wanted = timed.time_ms as f64 * 1e3 / BATCHES as f64;
            (wanted / each).clamp(1.0, f64::from(MOST_LAUNCHES)) as u32
        }
    };
    let mut times = [0.0; BATCHES];
    for time in &mut times {
        *time = batch(launches)?;
    }
    fleet.set_repeat(1);
    times.sort_by(f64::total_cmp);
    Ok(times[BATCHES / 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_begins_at_0() {
        let spec: Spec = serde_json::from_value(serde_json::json!({
            "ranks": 2, "processes": false, "collective": plan::Collective::AllReduce, "algorithm": null,
            "transfer": null, "protocol": null, "channels": null, "element": "f32", "op": "sum", "root": 0,
            "sizes": [8], "iterations": null, "warmup": 3, "time_ms": 30, "check": true, "in_place": true,
            "reply": false, "bind": false, "survey": false, "timeout_s": 60, "rings": [], "trees": []
        }))
        .unwrap();
        let span = Span {
            rank: 1,
            launch: 4,
            channel: 2,
            lane: 3,
            begin_ns: 7_000,
            end_ns: 9_500,
        };
        let early = Span {
            begin_ns: 5_000,
            ..span
        };
        let text = chrome_trace(&[span, early], &spec);
        let trace: serde_json::Value = serde_json::from_str(&text).unwrap();
        let event = &trace["traceEvents"][0];
        assert_eq!(
            (event["ts"].as_f64(), event["dur"].as_f64()),
            (Some(2.0), Some(2.5))
        );
        assert_eq!(event["name"], "all-reduce launch 4 channel 2");
        assert_eq!(trace["traceEvents"][1]["ts"], 0.0);
    }
}
