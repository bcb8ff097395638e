//! Runs programs: polls the lanes in turn and runs every step that is ready.

use executor::backend::{LaunchContext, Part};
use executor::connections::{Connections, Ends};
use executor::supervisor::{Fault, WaitsFor};
use executor::{Error, Waiting};
use program::Protocol;
use shared_memory::fifo::{FifoProtocol, LowLatency, LowLatency128, Receiver, Sender, Simple};
use shared_memory::{Bell, BufferTable, Signal, SignalCount};

use crate::bases::{Launch, PeerBases, local, refused_by, remote as remote_address};
use crate::program::{BufferBase, CpuOperand, CpuProgram, CpuStep};
use crate::reduce::{self, MOST_OPERANDS};
use crate::remote::{self, LocalSide};

/// Slots of at most so many bytes for other hosts wait for others of the same pass: sending them
/// takes longer than writing them.
const SHORT: usize = 16 << 10;

/// Prepares a launch.
pub fn begin(part: &mut Part<'_, CpuProgram>) {
    let memory = &part.memory;
    let (input, output) = (memory.input(), memory.output());
    part.program.begin(input, output, part.scratch, part.scalar);
}

/// Runs programs that were begun until one has ended or `stop` returns `true`.
pub fn run_some(
    parts: &mut [Part<'_, CpuProgram>],
    context: &mut LaunchContext<'_>,
    stop: &mut dyn FnMut() -> bool,
) -> Result<(), Error> {
    let mut spins = 0;
    loop {
        let launch = Launch::of(context);
        let pass = pass_all(parts, context.connections, launch);
        let pass = pass.map_err(|fault| context.supervisor.fault(*fault))?;
        if has_ended(parts) || stop() {
            return Ok(());
        }
        match pass {
            Pass::Stuck if spins >= context.spins => {
                wait(parts, context, &mut |parts| has_ended(parts) || stop())?;
                spins = 0;
            }
            Pass::Stuck => {
                spins += 1;
                std::hint::spin_loop();
            }
            Pass::Done | Pass::Progress => spins = 0,
        }
    }
}

/// Runs programs together until all have ended.
pub fn run(
    parts: &mut [Part<'_, CpuProgram>],
    context: &mut LaunchContext<'_>,
) -> Result<(), Error> {
    parts.iter_mut().for_each(begin);
    let mut spins = 0;
    loop {
        let launch = Launch::of(context);
        let pass = pass_all(parts, context.connections, launch);
        match pass.map_err(|fault| context.supervisor.fault(*fault))? {
            Pass::Done => return Ok(()),
            Pass::Progress => spins = 0,
            Pass::Stuck if spins < context.spins => {
                spins += 1;
                std::hint::spin_loop();
            }
            Pass::Stuck => {
                wait(parts, context, &mut |_| false)?;
                spins = 0;
            }
        }
    }
}

/// The result of polling all lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pass {
    /// All lanes have ended.
    Done,
    /// At least one step was run.
    Progress,
    /// No step could be run.
    Stuck,
}

/// Whether a program has ended.
fn has_ended(parts: &[Part<'_, CpuProgram>]) -> bool {
    parts.iter().any(|part| part.program.has_ended())
}

/// Waits with the supervisor's help until a step was run or `stop` returns `true`.
#[cold]
fn wait(
    parts: &mut [Part<'_, CpuProgram>],
    context: &mut LaunchContext<'_>,
    stop: &mut dyn FnMut(&[Part<'_, CpuProgram>]) -> bool,
) -> Result<(), Error> {
    let (launch, connections) = (Launch::of(context), &mut *context.connections);
    // Updated only after a pass without progress, so it does not change meanwhile.
    let unmet = std::cell::Cell::new(Unmet::of(parts, connections));
    let mut failed = None;
    let waited = context.supervisor.wait(
        &mut || match pass_all(parts, connections, launch) {
            Ok(Pass::Stuck) => {
                unmet.set(Unmet::of(parts, connections));
                stop(parts)
            }
            Ok(_) => true,
            Err(fault) => {
                failed = Some(fault);
                true
            }
        },
        || unmet.get().first,
        || unmet.get().waits_for,
    );
    match failed {
        Some(fault) => Err(context.supervisor.fault(*fault)),
        None => waited,
    }
}

/// What unfinished lanes wait for. Data that has arrived is not reported: its sender may have left
/// since.
#[derive(Debug, Clone, Copy)]
struct Unmet {
    /// The wait of the first lane.
    first: Waiting,
    waits_for: WaitsFor,
}

impl Unmet {
    fn of(parts: &[Part<'_, CpuProgram>], connections: &mut Connections) -> Self {
        let (mut first, mut remote, mut local) = (None, false, false);
        let mut add = |waiting: Waiting, is_remote: bool| {
            first.get_or_insert(waiting);
            (remote, local) = (remote || is_remote, local || !is_remote);
        };
        for part in parts {
            match part.program.protocol {
                Protocol::Simple => unmet_of::<Simple>(part.program, connections, &mut add),
                Protocol::Ll => unmet_of::<LowLatency>(part.program, connections, &mut add),
                Protocol::Ll128 => unmet_of::<LowLatency128>(part.program, connections, &mut add),
            }
        }
        let none = Waiting::Signal {
            from: 0,
            channel: 0,
        };
        Self {
            first: first.unwrap_or(none),
            waits_for: match (remote, local) {
                (true, false) => WaitsFor::Remote,
                (true, true) if connections.wakes_by_all() => WaitsFor::Remote,
                (false, true) => WaitsFor::Local,
                _ => WaitsFor::Any,
            },
        }
    }
}

/// Calls `add` with the first unmet condition of each lane, and whether a rank of another host ends
/// it.
fn unmet_of<P: Wired>(
    program: &CpuProgram,
    connections: &mut Connections,
    add: &mut impl FnMut(Waiting, bool),
) {
    for lane in program.lanes.iter().filter(|lane| !lane.is_done()) {
        let step = &program.steps[lane.at as usize];
        let mut wires = P::ends(connections);
        let at = wires.unmet(step).or_else(|| wires.missing(step));
        if let Some(waiting) = at.and_then(|at| step.waiting.get(at)) {
            add(*waiting, connections.ends_remotely(*waiting));
        }
    }
}

#[inline]
fn pass_all(
    parts: &mut [Part<'_, CpuProgram>],
    connections: &mut Connections,
    launch: Launch<'_>,
) -> Result<Pass, Box<Fault>> {
    let mut all = Pass::Done;
    for part in parts {
        let program = &mut *part.program;
        let pass = match program.protocol {
            Protocol::Simple => pass::<Simple>(program, connections, launch),
            Protocol::Ll => pass::<LowLatency>(program, connections, launch),
            Protocol::Ll128 => pass::<LowLatency128>(program, connections, launch),
        };
        all = match (all, pass?) {
            (Pass::Progress, _) | (_, Pass::Progress) => Pass::Progress,
            (Pass::Stuck, _) | (_, Pass::Stuck) => Pass::Stuck,
            (Pass::Done, Pass::Done) => Pass::Done,
        };
    }
    Ok(all)
}

/// A protocol with ends in [`Connections`].
trait Wired: FifoProtocol {
    fn ends(connections: &mut Connections) -> Wires<'_, Self>;
}

/// The connections of one protocol.
struct Wires<'a, P: FifoProtocol> {
    ends: &'a mut Ends<P>,
    signals: &'a mut [Signal],
    counts: &'a mut [SignalCount],
    bells: &'a [Bell],
    wakes_proxies: &'a [bool],
    /// Whether the own proxies are to be woken after the pass.
    posted: bool,
    buffer_tables: &'a [BufferTable],
}

macro_rules! wired {
    ($($protocol:ty, $field:ident;)*) => {
        $(
            impl Wired for $protocol {
                #[inline(always)]
                fn ends(connections: &mut Connections) -> Wires<'_, Self> {
                    Wires {
                        ends: &mut connections.$field,
                        signals: &mut connections.signals,
                        counts: &mut connections.signal_counts,
                        bells: &connections.bells,
                        wakes_proxies: &connections.wakes_proxies,
                        posted: false,
                        buffer_tables: &connections.buffer_tables,
                    }
                }
            }
        )*
    };
}

wired! {
    Simple, simple;
    LowLatency, low_latency;
    LowLatency128, low_latency_128;
}

/// Runs all ready steps of one program.
#[inline]
fn pass<P: Wired>(
    program: &mut CpuProgram,
    connections: &mut Connections,
    launch: Launch<'_>,
) -> Result<Pass, Box<Fault>> {
    let mut wires = P::ends(connections);
    let CpuProgram {
        lanes,
        steps,
        peers,
        bases,
        extents,
        known,
        reduce,
        ..
    } = program;
    let (mut progress, mut done) = (false, true);
    for lane in lanes {
        while !lane.is_done() {
            let step = &steps[lane.at as usize];
            if !wires.is_ready(step) {
                done = false;
                break;
            }
            if step.reaches {
                let mut reach = PeerBases {
                    peers,
                    bases,
                    extents,
                    known,
                    launch,
                };
                reach.look_up(step, wires.buffer_tables)?;
            }
            let turn = lane.turn as usize;
            let ran = wires.run(step, turn, bases, reduce);
            if !ran.map_err(|refused| refused_by(*refused, peers))? {
                done = false;
                break;
            }
            lane.advance();
            progress = true;
        }
    }
    if wires.posted {
        connections.ring_proxies();
    }
    Ok(match (done, progress) {
        (true, _) => Pass::Done,
        (_, true) => Pass::Progress,
        _ => Pass::Stuck,
    })
}

impl<P: Wired> Wires<'_, P> {
    #[inline(always)]
    fn is_ready(&mut self, step: &CpuStep) -> bool {
        self.unmet(step).is_none()
    }

    /// Index in [`CpuStep::waiting`] of the first condition that is not met.
    #[inline(always)]
    fn unmet(&mut self, step: &CpuStep) -> Option<usize> {
        let mut at = 0;
        for wait in step.waits() {
            if !self.counts[*wait as usize].has_come() {
                return Some(at);
            }
            at += 1;
        }
        for source in step.sources() {
            if let CpuOperand::Fifo(place) = source {
                if !self.ends.receivers[*place as usize].is_complete(step.bytes) {
                    return Some(at);
                }
                at += 1;
            }
        }
        for destination in step.destinations() {
            if let CpuOperand::Fifo(place) = destination {
                if !self.ends.senders[*place as usize].is_free() {
                    return Some(at);
                }
                at += 1;
            }
        }
        None
    }

    /// For a ready step, the index in [`CpuStep::waiting`] of the source that misses a line.
    #[cold]
    fn missing(&mut self, step: &CpuStep) -> Option<usize> {
        let mut at = usize::from(step.wait_count);
        for source in step.sources() {
            if let CpuOperand::Fifo(place) = source {
                let receiver = &mut self.ends.receivers[*place as usize];
                if step.elements > 0 && receiver.slot(step.bytes).is_none() {
                    return Some(at);
                }
                at += 1;
            }
        }
        None
    }

    /// Runs a ready step. Returns `false` if a line of a slot is missing although its last line has
    /// arrived; the step can be retried.
    ///
    /// # Errors
    /// Memory of another process cannot be accessed.
    #[inline(always)]
    fn run(
        &mut self,
        step: &CpuStep,
        turn: usize,
        bases: &[BufferBase],
        reduce: &reduce::Reduce,
    ) -> Result<bool, Box<remote::RefusedAccess>> {
        if step.elements > 0 && !self.data(step, turn, bases, reduce)? {
            return Ok(false);
        }
        for wait in step.waits() {
            self.counts[*wait as usize].try_take();
        }
        for source in step.sources() {
            if let CpuOperand::Fifo(place) = source {
                self.ends.receivers[*place as usize].release();
            }
        }
        for notify in step.notifies() {
            self.signals[*notify as usize].notify();
        }
        for bell in step.bells() {
            let peer = *bell as usize;
            // Several short slots leave together.
            if step.bytes <= SHORT && self.wakes_proxies[peer] {
                self.posted = true;
            } else {
                self.bells[peer].ring();
            }
        }
        Ok(true)
    }

    /// Moves and reduces the data of a step. Same results as [`Self::run`].
    #[inline(always)]
    fn data(
        &mut self,
        step: &CpuStep,
        turn: usize,
        bases: &[BufferBase],
        reduce: &reduce::Reduce,
    ) -> Result<bool, Box<remote::RefusedAccess>> {
        if step.moves && step.destination_count == 1 {
            match (step.sources[0], step.destinations[0]) {
                (source @ CpuOperand::Memory { .. }, CpuOperand::Fifo(to)) => {
                    if let Some(source) = local(source, turn, bases) {
                        let sender = &mut self.ends.senders[to as usize];
                        // SAFETY: binding keeps operands within the buffers, which are valid during
                        // this launch. A peer's buffer is valid until this launch signals it, and
                        // was checked to be in the peer's arena.
                        unsafe { sender.send(source, step.bytes) };
                        return Ok(true);
                    }
                }
                (CpuOperand::Fifo(from), destination @ CpuOperand::Memory { .. }) => {
                    if let Some(destination) = local(destination, turn, bases) {
                        let receiver = &mut self.ends.receivers[from as usize];
                        // SAFETY: as above; verification proved that nobody else writes there.
                        return Ok(unsafe { receiver.read(0, destination, step.bytes) });
                    }
                }
                _ => {}
            }
        }
        self.reduce(step, turn, bases, reduce)
    }

    /// Runs any kind of step.
    fn reduce(
        &mut self,
        step: &CpuStep,
        turn: usize,
        bases: &[BufferBase],
        reduce: &reduce::Reduce,
    ) -> Result<bool, Box<remote::RefusedAccess>> {
        let (source_count, destination_count) = (step.sources().len(), step.destinations().len());
        let mut sources = [std::ptr::null(); MOST_OPERANDS];
        let mut destinations = [std::ptr::null_mut(); MOST_OPERANDS];
        let mut all_local = true;
        for (to, place) in sources.iter_mut().zip(step.sources()) {
            *to = match place {
                CpuOperand::Fifo(from) => {
                    let receiver = &mut self.ends.receivers[*from as usize];
                    let Some(slot) = receiver.slot(step.bytes) else {
                        return Ok(false);
                    };
                    slot
                }
                place => match local(*place, turn, bases) {
                    Some(pointer) => pointer.cast_const(),
                    None => {
                        all_local = false;
                        std::ptr::null()
                    }
                },
            };
        }
        for (to, place) in destinations.iter_mut().zip(step.destinations()) {
            *to = match place {
                CpuOperand::Fifo(to) => self.ends.senders[*to as usize].slot(step.bytes),
                place => local(*place, turn, bases).unwrap_or_else(|| {
                    all_local = false;
                    std::ptr::null_mut()
                }),
            };
        }
        let mut operands = reduce::ReduceStep {
            sources: &sources[..source_count],
            destinations: &destinations[..destination_count],
            elements: step.elements,
            pre_multiply: step.pre_multiply,
            finish: step.finish,
            stream: step.stream,
        };
        if all_local {
            // SAFETY: as in `data`; slots are complete or free and have this length, and
            // verification proved that nobody else accesses the operands meanwhile.
            unsafe { reduce.run(&operands) };
        } else {
            let remote = |place: &CpuOperand| remote_address(*place, turn, bases);
            let remote_sources = std::array::from_fn(|at| step.sources().get(at).and_then(&remote));
            let remote_destinations =
                std::array::from_fn(|at| step.destinations().get(at).and_then(&remote));
            let moves = step.moves && destination_count == 1;
            let moved = match (moves, &remote_sources[0], &remote_destinations[0]) {
                (true, Some(from), None) => Some((from, LocalSide::Destination(destinations[0]))),
                (true, None, Some(to)) => Some((to, LocalSide::Source(sources[0]))),
                _ => None,
            };
            operands.stream = 0;
            // SAFETY: as above; remote operands are in buffers that are valid during the launch.
            let done = unsafe {
                match moved {
                    Some((remote, local)) => remote::copy(remote, local, step.bytes),
                    None => {
                        remote::reduce(reduce, &operands, &remote_sources, &remote_destinations)
                    }
                }
            };
            done.map_err(Box::new)?;
        }
        for place in step.destinations() {
            if let CpuOperand::Fifo(to) = place {
                self.ends.senders[*to as usize].post_slot(step.bytes);
            }
        }
        Ok(true)
    }
}
