//! Bandwidths of copies between GPUs: one pair at a time, both directions of a pair, all pairs at
//! once.
//!
//! Copies that are timed at once begin together: each stream first copies as much as is timed, and
//! then waits until all have done so, while the host submits the rest. Pairs that end early copy
//! until all have ended, so that the slow ones are timed under the whole load.

use std::time::{Duration, Instant};

use cudarc::driver::DriverError;
use cudarc::driver::result;
use cudarc::driver::sys::{self, CUresult};
use device_runtime::DeviceDriver;

use crate::device::{Device, Stream};
use crate::driver::Cuda;
use crate::error::words;
use crate::memory::Plain;
use crate::presence;

/// How long the host sleeps between two looks at running copies.
const PAUSE: Duration = Duration::from_micros(50);

/// Copies that a pair submits at a time when its own are timed and others still run.
const LOAD_COPIES: u32 = 4;

/// Waits for an event without a condition.
const WAIT: sys::CUevent_wait_flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;

/// Bandwidths between GPUs, GB/s, by the GPU that holds the data and the one that gets it; `None`
/// for a GPU and itself, and where the first cannot access the memory of the second.
pub type PairBandwidths = Vec<Vec<Option<f64>>>;

/// How copies are timed.
#[derive(Debug, Clone, Copy)]
pub struct CopyPlan {
    /// Bytes of a copy.
    pub bytes: u64,
    /// Copies of a pair that follow each other and are timed together.
    pub copies: u32,
    /// The longest wait for the copies that run at once.
    pub patience: Duration,
}

/// Bandwidths of all pairs of GPUs.
#[derive(Debug, Clone, PartialEq)]
pub struct TimedPairs {
    /// Each pair alone.
    pub one: PairBandwidths,
    /// Both directions of a pair at once: the sum.
    pub both: PairBandwidths,
    /// All pairs at once: the bandwidth of each.
    pub all: PairBandwidths,
}

/// The copies of a pair.
struct Pair<'a> {
    from: u32,
    to: u32,
    source: &'a Device,
    stream: Stream,
    /// Addresses of the data and of their copy.
    addresses: [u64; 2],
    bytes: usize,
    /// Recorded after the first copies.
    ready: sys::CUevent,
    /// Around the copies that are timed.
    begin: sys::CUevent,
    end: sys::CUevent,
    /// After the last copies that only load the links; null before.
    last: sys::CUevent,
}

impl Drop for Pair<'_> {
    fn drop(&mut self) {
        // If entering fails, so does destroying, and the end of the process frees the rest.
        let _ = self.source.enter();
        for event in [self.ready, self.begin, self.end, self.last] {
            if !event.is_null() {
                // SAFETY: created once, in this context, and nobody else has it.
                let _ = unsafe { result::event::destroy(event) };
            }
        }
    }
}

impl<'a> Pair<'a> {
    fn new(
        source: &'a Device,
        (from, to): (u32, u32),
        blocks: &Blocks,
        bytes: u64,
    ) -> Result<Self, String> {
        source.enter()?;
        let failed = |error| {
            let why = words(error);
            format!("preparing copies from GPU {from} to GPU {to}: {why}")
        };
        let null = std::ptr::null_mut();
        let mut made = Self {
            from,
            to,
            source,
            stream: Stream::new().map_err(failed)?,
            addresses: blocks.addresses(from, to),
            bytes: bytes as usize,
            ready: null,
            begin: null,
            end: null,
            last: null,
        };
        for event in [&mut made.ready, &mut made.begin, &mut made.end] {
            *event =
                result::event::create(sys::CUevent_flags_enum::CU_EVENT_DEFAULT).map_err(failed)?;
        }
        Ok(made)
    }

    fn failed(&self, error: DriverError) -> String {
        let why = words(error);
        format!("copying from GPU {} to GPU {}: {why}", self.from, self.to)
    }

    /// Submits copies, and records an event after them.
    fn submit(&self, copies: u32, after: sys::CUevent) -> Result<(), String> {
        self.source.enter()?;
        let [from, to] = self.addresses;
        // SAFETY: both ranges are blocks of `bytes` bytes that live until the copies have ended;
        // stream and events are those of this pair.
        let submitted = unsafe {
            let stream = self.stream.handle();
            (0..copies)
                .try_for_each(|_| result::memcpy_dtod_async(to, from, self.bytes, stream))
                .and_then(|()| result::event::record(after, stream))
        };
        submitted.map_err(|error| self.failed(error))
    }

    /// Lets the next copies wait for events of pairs, and records that they begin.
    fn begin_after(&self, events: impl Iterator<Item = sys::CUevent>) -> Result<(), String> {
        self.source.enter()?;
        for event in events {
            // SAFETY: the event was recorded, and is destroyed only after all copies have ended.
            unsafe { result::stream::wait_event(self.stream.handle(), event, WAIT) }
                .map_err(|error| self.failed(error))?;
        }
        self.submit(0, self.begin)
    }

    /// Whether an event was reached.
    fn reached(&self, event: sys::CUevent) -> Result<bool, String> {
        self.source.enter()?;
        // SAFETY: the event was recorded in this context.
        match unsafe { result::event::query(event) } {
            Ok(()) => Ok(true),
            Err(error) if error.0 == CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// Loads the links once more, if the last copies have ended.
    fn load(&mut self) -> Result<(), String> {
        if self.last.is_null() {
            self.source.enter()?;
            let made = result::event::create(sys::CUevent_flags_enum::CU_EVENT_DEFAULT);
            self.last = made.map_err(|error| self.failed(error))?;
        } else if !self.reached(self.last)? {
            return Ok(());
        }
        self.submit(LOAD_COPIES, self.last)
    }

    /// Whether nothing of this pair runs any more.
    fn has_ended(&self) -> Result<bool, String> {
        Ok(self.reached(self.end)? && (self.last.is_null() || self.reached(self.last)?))
    }

    /// The bandwidth of the timed copies, GB/s, once they have ended.
    fn gbps(&self, copies: u32) -> Result<f64, String> {
        self.source.enter()?;
        let ms = presence::elapsed_ms(self.begin, self.end);
        let seconds = f64::from(ms.map_err(|error| self.failed(error))?) / 1e3;
        let bytes = self.bytes as f64 * f64::from(copies);
        Ok(bytes / seconds.max(1e-9) / 1e9)
    }
}

/// Memory of the GPUs for copies of all pairs: for each GPU one block that is read, and one for
/// each sender that is written.
struct Blocks {
    read: Vec<Plain>,
    written: Vec<Vec<Plain>>,
}

impl Blocks {
    fn new(cuda: &Cuda, gpus: u32, bytes: u64) -> Result<Self, String> {
        let block = |place| Plain::new(cuda.device(place)?, bytes);
        let written = |place| (0..gpus).map(|_| block(place)).collect();
        Ok(Self {
            read: (0..gpus).map(block).collect::<Result<_, _>>()?,
            written: (0..gpus).map(written).collect::<Result<_, _>>()?,
        })
    }

    /// Addresses of what a GPU sends, and of where another gets it.
    fn addresses(&self, from: u32, to: u32) -> [u64; 2] {
        let (from, to) = (from as usize, to as usize);
        [self.read[from].address, self.written[to][from].address]
    }
}

impl Cuda {
    /// Pairs of different GPUs of which the first can access the memory of the second.
    fn joined(&self) -> Vec<(u32, u32)> {
        let gpus = self.devices().count() as u32;
        let all = (0..gpus).flat_map(|from| (0..gpus).map(move |to| (from, to)));
        all.filter(|(from, to)| from != to && self.reaches(*from, *to).is_ok())
            .collect()
    }

    /// Times copies of each pair alone, in both directions at once, and of all pairs at once.
    ///
    /// # Errors
    /// No GPU can access the memory of another, there is not enough memory, a copy failed, or
    /// copies did not end in time. After the last two this process must end: memory is not freed.
    pub fn time_pairs(&self, plan: &CopyPlan) -> Result<TimedPairs, String> {
        let gpus = self.devices().count() as u32;
        let joined = self.joined();
        if joined.is_empty() {
            return Err(format!(
                "none of the {gpus} GPUs can access the memory of another; expected a pair with peer access: nvidia-smi \
                 topo -p2p r shows what prevents it"
            ));
        }
        let none = || vec![vec![None; gpus as usize]; gpus as usize];
        let mut found = TimedPairs {
            one: none(),
            both: none(),
            all: none(),
        };
        let blocks = Blocks::new(self, gpus, plan.bytes)?;
        let timed = self.time_joined(&joined, &blocks, plan, &mut found);
        if let Err(why) = timed {
            // Copies may still run.
            std::mem::forget(blocks);
            return Err(why);
        }
        Ok(found)
    }

    fn time_joined(
        &self,
        joined: &[(u32, u32)],
        blocks: &Blocks,
        plan: &CopyPlan,
        found: &mut TimedPairs,
    ) -> Result<(), String> {
        for (from, to) in joined.iter().copied() {
            let (row, column) = (from as usize, to as usize);
            let alone = self.time_at_once(&[(from, to)], blocks, plan)?;
            found.one[row][column] = alone.first().copied();
            if from < to && joined.contains(&(to, from)) {
                let pair = [(from, to), (to, from)];
                let sum = self.time_at_once(&pair, blocks, plan)?.iter().sum();
                found.both[row][column] = Some(sum);
                found.both[column][row] = Some(sum);
            }
        }
        let at_once = self.time_at_once(joined, blocks, plan)?;
        for ((from, to), gbps) in joined.iter().zip(at_once) {
            found.all[*from as usize][*to as usize] = Some(gbps);
        }
        Ok(())
    }

    /// The bandwidths of copies that run at once, GB/s.
    fn time_at_once(
        &self,
        pairs: &[(u32, u32)],
        blocks: &Blocks,
        plan: &CopyPlan,
    ) -> Result<Vec<f64>, String> {
        let mut made = Vec::with_capacity(pairs.len());
        for pair in pairs {
            made.push(Pair::new(self.device(pair.0)?, *pair, blocks, plan.bytes)?);
        }
        let found = run_at_once(&mut made, plan);
        if found.is_err() {
            // Their streams may still run.
            std::mem::forget(made);
        }
        found
    }
}

/// Runs the copies of pairs at once and returns their bandwidths, GB/s.
fn run_at_once(pairs: &mut [Pair<'_>], plan: &CopyPlan) -> Result<Vec<f64>, String> {
    for pair in &*pairs {
        pair.submit(plan.copies, pair.ready)?;
    }
    // The first pair waits for all, and the others for the first: if each waited for all, the host
    // would still submit waits when copies begin.
    let Some((first, others)) = pairs.split_first() else {
        return Ok(Vec::new());
    };
    first.begin_after(pairs.iter().map(|pair| pair.ready))?;
    first.submit(plan.copies, first.end)?;
    for pair in others {
        pair.begin_after([first.begin].into_iter())?;
        pair.submit(plan.copies, pair.end)?;
    }
    let deadline = Instant::now() + plan.patience;
    let mut are_timed = vec![false; pairs.len()];
    loop {
        for (pair, is_timed) in pairs.iter().zip(&mut are_timed) {
            *is_timed = *is_timed || pair.reached(pair.end)?;
        }
        let all_are_timed = are_timed.iter().all(|it| *it);
        let mut running = None;
        for (pair, is_timed) in pairs.iter_mut().zip(&are_timed) {
            if *is_timed && !all_are_timed {
                pair.load()?;
            }
            if !pair.has_ended()? {
                running = running.or(Some((pair.from, pair.to)));
            }
        }
        let Some((from, to)) = running else {
            break;
        };
        if Instant::now() >= deadline {
            return Err(format!(
                "copies from GPU {from} to GPU {to} did not end within {} s; expected a driver that answers: look at the \
                 kernel's log (Xid), then reset the GPUs",
                plan.patience.as_secs()
            ));
        }
        std::thread::sleep(PAUSE);
    }
    pairs.iter().map(|pair| pair.gbps(plan.copies)).collect()
}
