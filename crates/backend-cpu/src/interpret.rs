//! Running a program: lanes are polled in turn, and a step runs when everything that it needs is there.

use executor::backend::{LaunchContext, Part};
use executor::connections::{Connections, Ends};
use executor::registered::{Reach, Registered};
use executor::supervisor::Fault;
use executor::{Error, Waiting};
use program::Protocol;
use shared_memory::fifo::{FifoProtocol, LowLatency, LowLatency128, Receiver, Sender, Simple};
use shared_memory::{Bell, BufferTable, ProcessMemoryError, Signal, SignalCount};

use crate::program::{BUFFERS, Base, Place, Program, Step};
use crate::reduce::{self, MOST_OPERANDS};
use crate::remote;

/// Runs programs together until all have ended.
pub fn run(parts: &mut [Part<'_, Program>], context: &mut LaunchContext<'_>) -> Result<(), Error> {
    for part in parts.iter_mut() {
        let memory = &part.memory;
        let (input, output) = (memory.input(), memory.output());
        part.program.begin(input, output, part.scratch, part.scalar);
    }
    let mut spins = 0;
    loop {
        let pass = pass_all(
            parts,
            context.connections,
            context.registered,
            context.launch,
        );
        match pass.map_err(|fault| context.supervisor.fault(*fault))? {
            Pass::Done => return Ok(()),
            Pass::Went => spins = 0,
            Pass::Stuck if spins < context.spins => {
                spins += 1;
                std::hint::spin_loop();
            }
            Pass::Stuck => {
                wait(parts, context)?;
                spins = 0;
            }
        }
    }
}

/// How far a look at all lanes got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pass {
    /// All lanes have ended.
    Done,
    /// At least one step was run.
    Went,
    /// No step could be run.
    Stuck,
}

/// Waits with the supervisor's help until a step was run.
#[cold]
fn wait(parts: &mut [Part<'_, Program>], context: &mut LaunchContext<'_>) -> Result<(), Error> {
    let (connections, registered) = (&mut *context.connections, context.registered);
    let launch = context.launch;
    // Asked only when nothing goes on, so what is waited for does not change.
    let waiting = std::cell::Cell::new(first_wait(parts, connections));
    let mut failed = None;
    let waited = context.supervisor.wait(
        &mut || match pass_all(parts, connections, registered, launch) {
            Ok(Pass::Stuck) => {
                waiting.set(first_wait(parts, connections));
                false
            }
            Ok(_) => true,
            Err(fault) => {
                failed = Some(fault);
                true
            }
        },
        || waiting.get(),
    );
    match failed {
        Some(fault) => Err(context.supervisor.fault(*fault)),
        None => waited,
    }
}

/// What the first lane that has not ended waits for. What has come already is not it: its sender may have ended since.
fn first_wait(parts: &[Part<'_, Program>], connections: &mut Connections) -> Waiting {
    let mut waits = parts.iter().filter_map(|part| match part.program.protocol {
        Protocol::Simple => unmet_of::<Simple>(part.program, connections),
        Protocol::Ll => unmet_of::<LowLatency>(part.program, connections),
        Protocol::Ll128 => unmet_of::<LowLatency128>(part.program, connections),
    });
    waits.next().unwrap_or(Waiting::Signal {
        from: 0,
        channel: 0,
    })
}

fn unmet_of<P: Wired>(program: &Program, connections: &mut Connections) -> Option<Waiting> {
    let mut wires = P::ends(connections);
    let mut lanes = program.lanes.iter().filter(|lane| !lane.is_done());
    lanes.find_map(|lane| {
        let step = &program.steps[lane.at as usize];
        let at = wires.unmet(step).or_else(|| wires.missing(step))?;
        step.waiting.get(at).copied()
    })
}

#[inline]
fn pass_all(
    parts: &mut [Part<'_, Program>],
    connections: &mut Connections,
    registered: &Registered,
    launch: u64,
) -> Result<Pass, Box<Fault>> {
    let mut all = Pass::Done;
    for part in parts {
        let program = &mut *part.program;
        let pass = match program.protocol {
            Protocol::Simple => pass::<Simple>(program, connections, registered, launch),
            Protocol::Ll => pass::<LowLatency>(program, connections, registered, launch),
            Protocol::Ll128 => pass::<LowLatency128>(program, connections, registered, launch),
        };
        all = match (all, pass?) {
            (Pass::Went, _) | (_, Pass::Went) => Pass::Went,
            (Pass::Stuck, _) | (_, Pass::Stuck) => Pass::Stuck,
            (Pass::Done, Pass::Done) => Pass::Done,
        };
    }
    Ok(all)
}

/// A protocol whose ends a communicator has.
trait Wired: FifoProtocol {
    fn ends(connections: &mut Connections) -> Wires<'_, Self>;
}

/// The connections of one protocol.
struct Wires<'a, P: FifoProtocol> {
    ends: &'a mut Ends<P>,
    signals: &'a mut [Signal],
    counts: &'a mut [SignalCount],
    bells: &'a [Bell],
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

/// Runs what can be run of one program.
#[inline]
fn pass<P: Wired>(
    program: &mut Program,
    connections: &mut Connections,
    registered: &Registered,
    launch: u64,
) -> Result<Pass, Box<Fault>> {
    let mut wires = P::ends(connections);
    let Program {
        lanes,
        steps,
        peers,
        bases,
        extents,
        known,
        reduce,
        ..
    } = program;
    let (mut went, mut done) = (false, true);
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
                    registered,
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
            went = true;
        }
    }
    Ok(match (done, went) {
        (true, _) => Pass::Done,
        (_, true) => Pass::Went,
        _ => Pass::Stuck,
    })
}

/// The fault of memory that could not be accessed, of one of these peers.
#[cold]
fn refused_by(refused: remote::Refused, peers: &[u32]) -> Box<Fault> {
    let remote::Refused { base, error } = refused;
    Box::new(Fault {
        peer: peers[base as usize / BUFFERS - 1],
        refused: !matches!(error, ProcessMemoryError::NoMemory { .. }),
        why: error.to_string(),
    })
}

/// Where peers' buffers are, looked up when a launch first needs them.
struct PeerBases<'a> {
    peers: &'a [u32],
    bases: &'a mut [Base],
    extents: &'a [u64],
    known: &'a mut [u64],
    registered: &'a Registered,
    launch: u64,
}

impl PeerBases<'_> {
    /// Looks up the peers of a step, whose signals have come.
    ///
    /// # Errors
    /// What one of them shows cannot be right.
    #[inline]
    fn look_up(&mut self, step: &Step, buffer_tables: &[BufferTable]) -> Result<(), Box<Fault>> {
        let sources = &step.sources[..usize::from(step.source_count)];
        let destinations = &step.destinations[..usize::from(step.destination_count)];
        for place in sources.iter().chain(destinations) {
            if let Place::Memory { base, .. } = place
                && *base as usize >= BUFFERS
            {
                let peer = *base as usize / BUFFERS - 1;
                if self.known[peer] != self.launch {
                    self.look_up_peer(peer, buffer_tables)?;
                }
            }
        }
        Ok(())
    }

    fn look_up_peer(
        &mut self,
        peer: usize,
        buffer_tables: &[BufferTable],
    ) -> Result<(), Box<Fault>> {
        let rank = self.peers[peer];
        let fault = |why| {
            Box::new(Fault {
                peer: rank,
                refused: false,
                why,
            })
        };
        let launch = self.launch;
        let Some(buffers) = buffer_tables[rank as usize].read(launch) else {
            let why = format!(
                "it signals that it has begun launch {launch}, and shows no buffers of it, or they were overwritten"
            );
            return Err(fault(why));
        };
        let first = BUFFERS * (1 + peer);
        let bases = self.bases[first..].iter_mut().zip(&self.extents[first..]);
        for ((base, extent), buffer) in bases.zip(&buffers) {
            *base = match self
                .registered
                .reach(rank, buffer, *extent)
                .map_err(fault)?
            {
                Reach::Here(pointer) => Base::Here(pointer),
                Reach::Elsewhere { process, address } => Base::Elsewhere { process, address },
            };
        }
        self.known[peer] = launch;
        Ok(())
    }
}

impl<P: Wired> Wires<'_, P> {
    /// Whether everything that a step needs is there.
    #[inline(always)]
    fn is_ready(&mut self, step: &Step) -> bool {
        self.unmet(step).is_none()
    }

    /// The first of what a step waits for ([`Step::waiting`]) that has not come.
    #[inline(always)]
    fn unmet(&mut self, step: &Step) -> Option<usize> {
        let mut at = 0;
        for wait in &step.waits[..usize::from(step.wait_count)] {
            if !self.counts[*wait as usize].has_come() {
                return Some(at);
            }
            at += 1;
        }
        for source in &step.sources[..usize::from(step.source_count)] {
            if let Place::Fifo(place) = source {
                if !self.ends.receivers[*place as usize].is_complete(step.bytes) {
                    return Some(at);
                }
                at += 1;
            }
        }
        for destination in &step.destinations[..usize::from(step.destination_count)] {
            if let Place::Fifo(place) = destination {
                if !self.ends.senders[*place as usize].is_free() {
                    return Some(at);
                }
                at += 1;
            }
        }
        None
    }

    /// Of a ready step, the source ([`Step::waiting`]) that misses a line.
    #[cold]
    fn missing(&mut self, step: &Step) -> Option<usize> {
        let mut at = usize::from(step.wait_count);
        for source in &step.sources[..usize::from(step.source_count)] {
            if let Place::Fifo(place) = source {
                let receiver = &mut self.ends.receivers[*place as usize];
                if step.elements > 0 && receiver.slot(step.bytes).is_none() {
                    return Some(at);
                }
                at += 1;
            }
        }
        None
    }

    /// Runs a step that is ready. Returns `false` if a line of a slot has not come, although the last one has; the step can
    /// be run again.
    ///
    /// # Errors
    /// The memory of another process cannot be accessed.
    #[inline(always)]
    fn run(
        &mut self,
        step: &Step,
        turn: usize,
        bases: &[Base],
        reduce: &reduce::Reduce,
    ) -> Result<bool, Box<remote::Refused>> {
        if step.elements > 0 && !self.data(step, turn, bases, reduce)? {
            return Ok(false);
        }
        for wait in &step.waits[..usize::from(step.wait_count)] {
            self.counts[*wait as usize].try_take();
        }
        for source in &step.sources[..usize::from(step.source_count)] {
            if let Place::Fifo(place) = source {
                self.ends.receivers[*place as usize].release();
            }
        }
        for notify in &step.notifies[..usize::from(step.notify_count)] {
            self.signals[*notify as usize].notify();
        }
        for bell in &step.bells[..usize::from(step.bell_count)] {
            self.bells[*bell as usize].ring();
        }
        Ok(true)
    }

    /// Moves and reduces the data of a step, as [`Self::run`] says.
    #[inline(always)]
    fn data(
        &mut self,
        step: &Step,
        turn: usize,
        bases: &[Base],
        reduce: &reduce::Reduce,
    ) -> Result<bool, Box<remote::Refused>> {
        if step.moves && step.destination_count == 1 {
            match (step.sources[0], step.destinations[0]) {
                (source @ Place::Memory { .. }, Place::Fifo(to)) => {
                    if let Some(source) = here(source, turn, bases) {
                        let sender = &mut self.ends.senders[to as usize];
                        // SAFETY: binding keeps places within the buffers, which are lent to this launch; a peer's
                        // buffer is lent until it gets the signal that this launch gives later, and lies in its arena,
                        // as was checked.
                        unsafe { sender.send(source, step.bytes) };
                        return Ok(true);
                    }
                }
                (Place::Fifo(from), destination @ Place::Memory { .. }) => {
                    if let Some(destination) = here(destination, turn, bases) {
                        let receiver = &mut self.ends.receivers[from as usize];
                        // SAFETY: as above; nobody else writes there, which verification proved.
                        return Ok(unsafe { receiver.read(0, destination, step.bytes) });
                    }
                }
                _ => {}
            }
        }
        self.reduce(step, turn, bases, reduce)
    }

    /// Any step.
    fn reduce(
        &mut self,
        step: &Step,
        turn: usize,
        bases: &[Base],
        reduce: &reduce::Reduce,
    ) -> Result<bool, Box<remote::Refused>> {
        let (source_count, destination_count) = (
            usize::from(step.source_count),
            usize::from(step.destination_count),
        );
        let mut sources = [std::ptr::null(); MOST_OPERANDS];
        let mut destinations = [std::ptr::null_mut(); MOST_OPERANDS];
        let mut all_here = true;
        for (to, place) in sources.iter_mut().zip(&step.sources[..source_count]) {
            *to = match place {
                Place::Fifo(from) => {
                    let receiver = &mut self.ends.receivers[*from as usize];
                    let Some(slot) = receiver.slot(step.bytes) else {
                        return Ok(false);
                    };
                    slot
                }
                place => match here(*place, turn, bases) {
                    Some(pointer) => pointer.cast_const(),
                    None => {
                        all_here = false;
                        std::ptr::null()
                    }
                },
            };
        }
        for (to, place) in destinations
            .iter_mut()
            .zip(&step.destinations[..destination_count])
        {
            *to = match place {
                Place::Fifo(to) => self.ends.senders[*to as usize].slot(step.bytes),
                place => here(*place, turn, bases).unwrap_or_else(|| {
                    all_here = false;
                    std::ptr::null_mut()
                }),
            };
        }
        let mut operands = reduce::Step {
            sources: &sources[..source_count],
            destinations: &destinations[..destination_count],
            elements: step.elements,
            pre_multiply: step.pre_multiply,
            finish: step.finish,
            stream: step.stream,
        };
        if all_here {
            // SAFETY: binding keeps places within the buffers, which are lent to this launch or, if they are a peer's,
            // until it gets the signal that this launch gives later, and lie in its arena, as was checked; slots are complete or free, and as long; that
            // nobody else accesses them meanwhile, verification proved.
            unsafe { reduce.run(&operands) };
        } else {
            let elsewhere = |place: &Place| elsewhere(*place, turn, bases);
            let remote_sources = std::array::from_fn(|at| {
                (at < source_count)
                    .then(|| elsewhere(&step.sources[at]))
                    .flatten()
            });
            let remote_destinations = std::array::from_fn(|at| {
                (at < destination_count)
                    .then(|| elsewhere(&step.destinations[at]))
                    .flatten()
            });
            operands.stream = 0;
            // SAFETY: as above; what is elsewhere is in buffers that their ranks lent as long.
            unsafe { remote::reduce(reduce, &operands, &remote_sources, &remote_destinations) }
                .map_err(Box::new)?;
        }
        for place in &step.destinations[..destination_count] {
            if let Place::Fifo(to) = place {
                self.ends.senders[*to as usize].post_slot(step.bytes);
            }
        }
        Ok(true)
    }
}

/// The address of memory of this process.
#[inline(always)]
fn here(place: Place, turn: usize, bases: &[Base]) -> Option<*mut u8> {
    match place {
        Place::Memory {
            base,
            offset,
            stride,
        } => match bases[base as usize] {
            Base::Here(base) => Some(base.wrapping_add(offset + turn * stride)),
            Base::Elsewhere { .. } => None,
        },
        Place::Fifo(_) => None,
    }
}

/// The process and address of memory of another process.
fn elsewhere(place: Place, turn: usize, bases: &[Base]) -> Option<remote::Address> {
    match place {
        Place::Memory {
            base,
            offset,
            stride,
        } => match bases[base as usize] {
            Base::Here(_) => None,
            Base::Elsewhere { process, address } => Some(remote::Address {
                base,
                process,
                address: address.wrapping_add((offset + turn * stride) as u64),
            }),
        },
        Place::Fifo(_) => None,
    }
}
