//! What each rank does: for every size, run and check, then run and time.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use backend_cpu::{Cpu, Profile, profile};
use executor::check::{Check, Sample};
use executor::{Buffer, Communicator, Reduction, Request, Way};
use half::{bf16, f16};
use plan::program::{Schedule, Transfer};
use plan::{ElementType, Protocol};
use serde::Serialize;

use super::Spec;

/// Most launches in a row, so that a clock that is too coarse ends too.
const MOST_LAUNCHES: u64 = 1 << 20;

/// Channels between hosts where none are asked for: while one waits for the network, another has something to send.
const NET_CHANNELS: u16 = 2;

/// Batches of which the median is taken.
const BATCHES: usize = 5;

/// What was measured of one placement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Timing {
    /// Time of a launch on the slowest rank, µs; the median of some batches, in a survey the least.
    pub time_us: f64,
    /// Wrong elements on all ranks; none if they were not checked.
    pub wrong: Option<u64>,
}

/// One size.
#[derive(Debug, Clone)]
pub struct Row {
    /// Bytes of the message.
    pub bytes: u64,
    /// Elements of a block.
    pub count: u64,
    /// How it was carried out.
    pub way: Way,
    /// How it was carried out in place.
    pub way_in_place: Option<Way>,
    /// With two buffers.
    pub separate: Timing,
    /// In place.
    pub in_place: Option<Timing>,
    /// Time that the cost profile predicts, µs.
    pub predicted_us: Option<f64>,
}

impl Row {
    /// Wrong elements.
    pub fn wrong(&self) -> u64 {
        let both = [Some(self.separate), self.in_place];
        both.into_iter().flatten().filter_map(|it| it.wrong).sum()
    }
}

/// Runs all sizes on one rank. All ranks get the same rows.
pub fn sweep(
    communicator: &mut Communicator<Cpu>,
    spec: &Spec,
    profile: &Profile,
    progress: &mut dyn FnMut(u64),
) -> Result<Vec<Row>> {
    match spec.element()? {
        ElementType::I8 => of_type::<i8>(communicator, spec, profile, progress),
        ElementType::U8 => of_type::<u8>(communicator, spec, profile, progress),
        ElementType::I32 => of_type::<i32>(communicator, spec, profile, progress),
        ElementType::U32 => of_type::<u32>(communicator, spec, profile, progress),
        ElementType::I64 => of_type::<i64>(communicator, spec, profile, progress),
        ElementType::U64 => of_type::<u64>(communicator, spec, profile, progress),
        ElementType::F16 => of_type::<f16>(communicator, spec, profile, progress),
        ElementType::Bf16 => of_type::<bf16>(communicator, spec, profile, progress),
        ElementType::F32 => of_type::<f32>(communicator, spec, profile, progress),
        ElementType::F64 => of_type::<f64>(communicator, spec, profile, progress),
    }
}

fn of_type<T: Sample>(
    communicator: &mut Communicator<Cpu>,
    spec: &Spec,
    profile: &Profile,
    progress: &mut dyn FnMut(u64),
) -> Result<Vec<Row>> {
    let rank = communicator.rank();
    let reduction = spec.reduction()?;
    let check = |bytes: u64| {
        let blocks = if spec.collective.splits_message() {
            u64::from(spec.ranks)
        } else {
            1
        };
        let count = (bytes / size_of::<T>() as u64 / blocks).max(1);
        Check {
            collective: spec.collective,
            reduction,
            ranks: spec.ranks,
            root: spec.root,
            count: usize::try_from(count).unwrap_or(usize::MAX),
            seed: bytes,
        }
    };
    let largest = check(spec.sizes.iter().copied().max().unwrap_or(1));
    let most_output = largest.output_elements(rank).max(largest.in_place(rank).0);
    let mut bench = Bench {
        input: communicator.buffer::<T>(largest.input_elements(rank))?,
        output: communicator.buffer::<T>(most_output)?,
        communicator,
        spec,
    };
    let mut rows = Vec::with_capacity(spec.sizes.len());
    let mut survey = Survey::default();
    for bytes in &spec.sizes {
        progress(*bytes);
        let check = check(*bytes);
        let mut request = Request {
            collective: spec.collective,
            element: T::TYPE,
            reduction,
            root: spec.root,
            to: 0,
            in_place: false,
            count: check.count as u64,
            way: None,
        };
        if spec.survey {
            rows.extend(survey.size(&mut bench, &request, &check)?);
            continue;
        }
        let way = choose(bench.communicator, spec, profile, &request)?;
        let predicted_us = profile.predict(&request, &way, bench.communicator.neighbourhood()?);
        let separate = bench.separate(&check, way)?;
        let (mut way_in_place, mut in_place) = (None, None);
        if spec.in_place {
            request.in_place = true;
            // What does not exist in place is left out, unless it was chosen freely.
            if let Ok(way) = choose(bench.communicator, spec, profile, &request) {
                way_in_place = Some(way);
                in_place = Some(bench.in_place(&check, way)?);
            }
        }
        rows.push(Row {
            bytes: request.bytes(spec.ranks),
            count: request.count,
            way,
            way_in_place,
            separate,
            in_place,
            predicted_us,
        });
    }
    Ok(rows)
}

/// Messages from which on a way that is far behind does not come back, bytes.
const LARGE: u64 = 32 << 10;

/// How many times as long as the fastest a way may take to be measured at larger sizes too.
const FAR_BEHIND: f64 = 4.0;

/// Measures every way instead of the chosen one, and leaves out those that have fallen far behind.
#[derive(Default)]
struct Survey {
    ways: Option<Vec<Way>>,
}

impl Survey {
    fn size<T: Sample>(
        &mut self,
        bench: &mut Bench<'_, T>,
        request: &Request,
        check: &Check,
    ) -> Result<Vec<Row>> {
        let ranks = bench.spec.ranks;
        let ways = self
            .ways
            .take()
            .unwrap_or_else(|| profile::ways(request, ranks));
        let mut rows = Vec::with_capacity(ways.len());
        for way in ways {
            rows.push(Row {
                bytes: request.bytes(ranks),
                count: request.count,
                way,
                way_in_place: None,
                separate: bench.separate(check, way)?,
                in_place: None,
                predicted_us: None,
            });
        }
        // All ranks have the slowest rank's times, so all drop the same.
        let least = rows
            .iter()
            .map(|row: &Row| row.separate.time_us)
            .fold(f64::INFINITY, f64::min);
        let keeps =
            |row: &&Row| request.bytes(ranks) < LARGE || row.separate.time_us <= FAR_BEHIND * least;
        self.ways = Some(rows.iter().filter(keeps).map(|row| row.way).collect());
        Ok(rows)
    }
}

/// The way for a request, within what the command line leaves. All ranks choose the same.
fn choose(
    communicator: &mut Communicator<Cpu>,
    spec: &Spec,
    profile: &Profile,
    request: &Request,
) -> Result<Way> {
    let (schedule, wanted_transfer) = (spec.schedule()?, spec.transfer()?);
    let place = communicator.neighbourhood()?;
    let channels = spec
        .channels
        .unwrap_or(if place.one_host {
            profile.channels
        } else {
            NET_CHANNELS
        })
        .min(place.channels);
    if schedule.is_none() && wanted_transfer.is_none() && spec.protocol.is_none() {
        communicator.set_way(None);
        let chosen = communicator.way(request)?;
        return Ok(Way { channels, ..chosen });
    }
    let schedules = Schedule::ALL
        .into_iter()
        .filter(|it| schedule.is_none_or(|wanted| wanted == *it));
    let mut best: Option<(f64, Way)> = None;
    for schedule in schedules {
        for transfer in Transfer::ALL {
            for protocol in Protocol::ALL {
                let way = Way {
                    schedule,
                    transfer,
                    protocol,
                    channels,
                    piece_bytes: 0,
                };
                // A direct transfer has no protocol; it is listed once.
                let protocol_fits = match transfer {
                    Transfer::Fifo => spec.protocol.is_none_or(|it| it == protocol),
                    Transfer::Direct => spec.protocol.is_none() && protocol == Protocol::Simple,
                };
                let reaches = place.one_host || transfer == Transfer::Fifo;
                let wanted =
                    protocol_fits && reaches && wanted_transfer.is_none_or(|it| it == transfer);
                if !wanted || !profile::serves(request, &way, spec.ranks) {
                    continue;
                }
                let time = profile.predict(request, &way, place);
                let time = time.unwrap_or(f64::INFINITY);
                if best.is_none_or(|(least, _)| time < least) {
                    best = Some((time, way));
                }
            }
        }
    }
    let (_, way) = best.with_context(|| {
        let serving = Schedule::ALL.into_iter().filter(|schedule| {
            let serves = |transfer| schedule.serves(spec.collective, transfer);
            Transfer::ALL.into_iter().any(serves)
        });
        let names: Vec<&str> = serving.map(Schedule::name).collect();
        format!(
            "{} cannot be carried out so; expected one of the algorithms {}, with a protocol through FIFOs, or directly \
             by mesh or two-phase-mesh",
            crate::sizes::kebab(spec.collective),
            names.join(", ")
        )
    })?;
    Ok(way)
}

/// The buffers of a rank and how it times.
struct Bench<'a, T: Sample> {
    communicator: &'a mut Communicator<Cpu>,
    spec: &'a Spec,
    input: Buffer<T>,
    output: Buffer<T>,
}

impl<T: Sample> Bench<'_, T> {
    fn separate(&mut self, check: &Check, way: Way) -> Result<Timing> {
        let rank = self.communicator.rank();
        let input = &mut self.input[..check.input_elements(rank)];
        check.fill(rank, 0, input);
        let output = &mut self.output[..check.output_elements(rank)];
        output.fill(T::default());
        self.communicator.set_way(Some(way));
        check.launch(self.communicator, input, output)?;
        let wrong = if self.spec.check {
            check.wrong(rank, output)
        } else {
            0
        };
        let reply = self.spec.reply.then(|| Check {
            root: check.ranks - 1,
            ..*check
        });
        let time_us = time(self.communicator, self.spec, way, &mut |communicator| {
            check.launch(communicator, input, output)?;
            match &reply {
                Some(reply) => reply.launch_in_place(communicator, output),
                None => Ok(()),
            }
        })?;
        self.timing(time_us, wrong)
    }

    fn in_place(&mut self, check: &Check, way: Way) -> Result<Timing> {
        let rank = self.communicator.rank();
        let (elements, from, to) = check.in_place(rank);
        let buffer = &mut self.output[..elements];
        buffer.fill(T::default());
        check.fill(rank, 0, &mut buffer[from]);
        self.communicator.set_way(Some(way));
        check.launch_in_place(self.communicator, buffer)?;
        let wrong = if self.spec.check {
            check.wrong(rank, &buffer[to])
        } else {
            0
        };
        let last = Check {
            root: check.ranks - 1,
            ..*check
        };
        let reply = self.spec.reply;
        let time_us = time(self.communicator, self.spec, way, &mut |communicator| {
            check.launch_in_place(communicator, buffer)?;
            if reply {
                last.launch_in_place(communicator, buffer)?;
            }
            Ok(())
        })?;
        self.timing(time_us, wrong)
    }

    /// The slowest rank's time and everyone's wrong elements.
    fn timing(&mut self, time_us: f64, wrong: usize) -> Result<Timing> {
        self.communicator.set_way(None);
        let mut wrong = [wrong as u64];
        self.communicator
            .all_reduce_in_place(&mut wrong, Reduction::Sum)?;
        let launches = if self.spec.reply { 2.0 } else { 1.0 };
        Ok(Timing {
            time_us: time_us / launches,
            wrong: self.spec.check.then_some(wrong[0]),
        })
    }
}

type Launch<'a> = dyn FnMut(&mut Communicator<Cpu>) -> Result<(), executor::Error> + 'a;

/// Time of a launch on the slowest rank, µs.
fn time(
    communicator: &mut Communicator<Cpu>,
    spec: &Spec,
    way: Way,
    launch: &mut Launch<'_>,
) -> Result<f64> {
    for _ in 0..spec.warmup {
        launch(communicator)?;
    }
    if let Some(iterations) = spec.iterations {
        let taken = batch(communicator, way, u64::from(iterations), launch)?;
        return Ok(taken.as_secs_f64() * 1e6 / f64::from(iterations));
    }
    // Growing batches until one takes a tenth of the time, then some that fill it together.
    let wanted = Duration::from_millis(spec.time_ms);
    let mut launches = 1_u64;
    let mut taken = batch(communicator, way, launches, launch)?;
    while taken < wanted / 10 && launches < MOST_LAUNCHES {
        // Twice as many, or so many more that half of it suffices.
        let missing = wanted.as_nanos() / 20 / taken.as_nanos().max(1);
        let factor = u64::try_from(missing).unwrap_or(2).clamp(2, 64);
        launches = (launches * factor).min(MOST_LAUNCHES);
        taken = batch(communicator, way, launches, launch)?;
    }
    let each = taken.as_secs_f64() / launches as f64;
    let fill = (wanted.as_secs_f64() / BATCHES as f64 / each) as u64;
    let fill = fill.clamp(1, MOST_LAUNCHES);
    // A survey compares ways that are measured one after the other, so what disturbs one of them must not count.
    if spec.survey {
        let mut least = f64::INFINITY;
        for _ in 0..BATCHES {
            let taken = batch(communicator, way, fill, launch)?;
            least = least.min(taken.as_secs_f64() * 1e6 / fill as f64);
        }
        return Ok(least);
    }
    let mut batches = [0.0; BATCHES];
    for time in &mut batches {
        let taken = batch(communicator, way, fill, launch)?;
        *time = taken.as_secs_f64() * 1e6 / fill as f64;
    }
    batches.sort_by(f64::total_cmp);
    Ok(batches[BATCHES / 2])
}

/// So many launches in a row, on the slowest rank. All ranks get the same time.
fn batch(
    communicator: &mut Communicator<Cpu>,
    way: Way,
    launches: u64,
    launch: &mut Launch<'_>,
) -> Result<Duration> {
    communicator.set_way(None);
    let mut together = [0_u64];
    communicator.all_reduce_in_place(&mut together, Reduction::Maximum)?;
    communicator.set_way(Some(way));
    let began = Instant::now();
    for _ in 0..launches {
        launch(communicator)?;
    }
    let mut taken = [u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX)];
    communicator.set_way(None);
    communicator.all_reduce_in_place(&mut taken, Reduction::Maximum)?;
    communicator.set_way(Some(way));
    Ok(Duration::from_nanos(taken[0]))
}
