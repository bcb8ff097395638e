//! The connections of one protocol, and the steps that use them.

use executor::connections::{Connections, Ends};
use shared_memory::fifo::{FifoProtocol, LowLatency, LowLatency128, Receiver, Sender, Simple};
use shared_memory::{Bell, BufferTable, Signal, SignalCount};

use crate::bases::{local, remote as remote_address};
use crate::program::{BufferBase, CpuOperand, CpuStep};
use crate::reduce::{self, MOST_OPERANDS};
use crate::remote::{self, LocalSide};

/// Slots for other hosts of at most so many bytes are sent together at the end of a pass, since
/// sending takes longer than writing them.
const SHORT: usize = 16 << 10;

/// A protocol with ends in [`Connections`].
pub trait WiredProtocol: FifoProtocol {
    fn ends(connections: &mut Connections) -> Wires<'_, Self>;
}

/// The connections of one protocol.
pub struct Wires<'a, P: FifoProtocol> {
    ends: &'a mut Ends<P>,
    signals: &'a mut [Signal],
    counts: &'a mut [SignalCount],
    bells: &'a [Bell],
    wakes_proxies: &'a [bool],
    /// Whether the own proxies are to be woken after the pass.
    pub posted: bool,
    pub buffer_tables: &'a [BufferTable],
    /// The own rank.
    rank: u32,
}

macro_rules! wired {
    ($($protocol:ty, $field:ident;)*) => {
        $(
            impl WiredProtocol for $protocol {
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
                        rank: connections.rank,
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

impl<P: WiredProtocol> Wires<'_, P> {
    /// The own buffer table.
    #[inline(always)]
    pub const fn own_table(&self) -> &BufferTable {
        &self.buffer_tables[self.rank as usize]
    }

    #[inline(always)]
    pub fn is_ready(&mut self, step: &CpuStep) -> bool {
        self.unmet(step).is_none()
    }

    /// Index in [`CpuStep::waiting`] of the first condition that is not met.
    #[inline(always)]
    pub fn unmet(&mut self, step: &CpuStep) -> Option<usize> {
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
    pub fn missing(&mut self, step: &CpuStep) -> Option<usize> {
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
    pub fn run(
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
