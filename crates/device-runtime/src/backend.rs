//! The [`Backend`] of one rank on a device.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use executor::Transport;
use executor::backend::{
    Backend, CommunicatorShape, InFlight, LaunchContext, OwnWiring, Part, PrepareRequest,
};
use executor::bootstrap::Bootstrap;
use executor::connections::SlotBytes;
use executor::{Choice, Error, Memory, Request, Waiting};
use program::{BoundProgram, Reduction};

use crate::connect::{
    CallersWindows, Connector, RankConnections, Regions, ScratchWindow, VECTOR_BYTES, peers,
    shows_buffers,
};
use crate::default_choice;
use crate::driver::{DeviceDriver, LaunchMemory};
use crate::entry::Kernel;
use crate::flat::Flat;
use crate::launch::Submitted;
use crate::layout::LaunchPart;
use crate::process_ranks::{PeerTransport, ProcessRanks, Span};

/// Most bytes per step: kernels count 16-byte vectors and lines in 32 bits.
const MOST_STEP_BYTES: u64 = 32 << 30;

/// Bytes of a block's begin and end times.
const SPAN_BYTES: u64 = 16;

/// One rank on a device.
pub struct Kernels<M: DeviceDriver> {
    /// Launches that this rank submitted in the order of streams, oldest first. Dropped before the
    /// memory that they use.
    pub(crate) in_flight: VecDeque<Submitted<M>>,
    pub(crate) shared: Arc<ProcessRanks<M>>,
    pub(crate) rank: u32,
    pub(crate) connected: RankConnections,
    pub(crate) scratch: Option<(M::Block, u64)>,
    scratch_bytes: u64,
    pub(crate) regions: Regions,
    pub(crate) windows: CallersWindows<M>,
}

/// A program in device memory.
pub struct DeviceProgram<M: DeviceDriver> {
    pub(crate) part: LaunchPart,
    pub(crate) kernel: Kernel,
    pub(crate) peers: Vec<u32>,
    /// Whether peers read this rank's buffer table.
    pub(crate) direct: bool,
    /// Whether the table has the places of its buffers in windows, for multicasts.
    pub(crate) registered: bool,
    /// If ranks of other processes access its buffers: bytes of its scratch memory, which begins
    /// the window.
    pub(crate) window_scratch: Option<u64>,
    /// Ranks of other processes among its peers.
    pub(crate) remote: Vec<u32>,
    /// Whether a network connects it to any of them.
    pub(crate) uses_network: bool,
    pub(crate) waiting: Waiting,
    /// Address of its scratch memory if it has its own.
    pub(crate) scratch: Option<u64>,
    /// The channels of its lanes, if their times are recorded.
    channels: Vec<u16>,
    has_ended: bool,
    /// The window of its scratch memory, which lives as long as it.
    _window: Option<Arc<ScratchWindow>>,
    _memory: M::Block,
}

impl<M: DeviceDriver> Kernels<M> {
    /// Creates the backend of a rank.
    pub fn new(shared: Arc<ProcessRanks<M>>, rank: u32) -> Self {
        Self {
            in_flight: VecDeque::new(),
            shared,
            rank,
            connected: RankConnections::default(),
            scratch: None,
            scratch_bytes: 0,
            regions: Regions::default(),
            windows: CallersWindows::default(),
        }
    }

    pub(crate) fn failed(&self, why: String) -> Error {
        let rank = self.rank;
        Error::Device { rank, why }
    }

    pub(crate) fn device(&self) -> u32 {
        self.shared.device(self.rank)
    }

    /// Records the span of each lane: from its first block's begin to its last block's end.
    fn note(&self, program: &DeviceProgram<M>, launch: u64) -> Result<(), Error> {
        let shares = program.part.shares.max(1) as usize;
        let mut times = vec![[0_u64; 2]; program.channels.len() * shares];
        let bytes = bytemuck::cast_slice_mut(&mut times);
        let (device, address) = (self.device(), program.part.profile);
        let read = self.shared.driver.read(device, address, bytes);
        read.map_err(|why| self.failed(why))?;
        let lanes = program.channels.iter().zip(0..).zip(times.chunks(shares));
        let spans = lanes.map(|((channel, lane), blocks)| Span {
            rank: self.rank,
            launch,
            channel: *channel,
            lane,
            begin_ns: blocks.iter().map(|[begin, _]| *begin).min().unwrap_or(0),
            end_ns: blocks.iter().map(|[_, end]| *end).max().unwrap_or(0),
        });
        self.shared.note(spans);
        Ok(())
    }

    /// Times copies as long as those of a launch into and out of the window.
    fn time_copies(&self, memory: &Memory<'_>) -> Result<(), Error> {
        let mut time_us = 0.0;
        for bytes in [memory.input_bytes(), memory.output_bytes()] {
            let took = self.shared.driver.copy_time_us(self.device(), bytes as u64);
            time_us += took.map_err(|why| self.failed(why))?;
        }
        self.shared.note_copies(time_us);
        Ok(())
    }

    fn reserve_scratch(&mut self, bytes: u64) -> Result<(), String> {
        if bytes > self.scratch_bytes {
            // No kernel of this rank is running. Peers read the new address in the next table.
            self.scratch = None;
            self.scratch = Some(self.shared.driver.allocate(self.device(), bytes)?);
            self.scratch_bytes = bytes;
        }
        Ok(())
    }

    /// Stores a program in device memory. Returns the memory and a part with its addresses.
    fn store(&self, flat: &mut Flat) -> Result<(M::Block, LaunchPart), Error> {
        let (driver, device) = (&self.shared.driver, self.device());
        let after = |at: u64, bytes: usize| (at + bytes as u64).next_multiple_of(256);
        let steps_at = after(0, size_of_val(&flat.lanes[..]));
        let peers_at = after(steps_at, size_of_val(&flat.steps[..]));
        let ends_at = after(peers_at, size_of_val(&flat.peers[..]));
        let profile_at = after(ends_at, size_of_val(&flat.ends[..]));
        let shares = self.connected.shares;
        let profile_bytes = match self.shared.options.trace {
            true => SPAN_BYTES * flat.channels.len() as u64 * u64::from(shares),
            false => 0,
        };
        let allocated = driver.allocate(device, profile_at + profile_bytes);
        let (memory, address) = allocated.map_err(|why| self.failed(why))?;
        flat.place_addresses(address + peers_at, address + ends_at);
        let parts: [(u64, &[u8]); 4] = [
            (0, bytemuck::cast_slice(&flat.lanes)),
            (steps_at, bytemuck::cast_slice(&flat.steps)),
            (peers_at, bytemuck::cast_slice(&flat.peers)),
            (ends_at, bytemuck::cast_slice(&flat.ends)),
        ];
        for (at, bytes) in parts.into_iter().filter(|(_, bytes)| !bytes.is_empty()) {
            let wrote = driver.write(device, address + at, bytes);
            wrote.map_err(|why| self.failed(why))?;
        }
        let part = LaunchPart {
            lanes: address,
            steps: address + steps_at,
            profile: match profile_bytes {
                0 => 0,
                _ => address + profile_at,
            },
            lane_count: u32::try_from(flat.channels.len()).unwrap_or(u32::MAX),
            shares,
            ..LaunchPart::default()
        };
        Ok((memory, part))
    }
}

/// Ranks that a program exchanges data or signals with; a rank may occur several times.
fn peers_of(bound: &BoundProgram) -> impl Iterator<Item = u32> {
    let connections = bound.receives.iter().chain(&bound.sends);
    let connections = connections.chain(&bound.waits).chain(&bound.notifies);
    let peers = connections.map(|connection| connection.peer);
    peers.chain(bound.peers.iter().copied())
}

impl<M: DeviceDriver> Backend for Kernels<M> {
    type Program = DeviceProgram<M>;

    fn name(&self) -> &'static str {
        self.shared.driver.name()
    }

    fn slot_bytes(&self) -> SlotBytes {
        self.shared.options.slot_bytes
    }

    fn choose(&self, request: &Request, place: &CommunicatorShape) -> Option<Choice> {
        Some(default_choice::choose(
            request,
            place,
            &self.capabilities(request),
        ))
    }

    fn meet(&mut self, bootstrap: &mut dyn Bootstrap, longest: Duration) -> Result<(), Error> {
        self.connected.peers = peers::meet(&self.shared, bootstrap, longest)?;
        if !self.shared.options.nvls_from.is_empty() {
            self.note_no_multicast();
        }
        if self.shared.options.stages_in_window {
            self.make_table()?;
        }
        let peers = &self.connected.peers;
        let others = peers.all().filter(|(peer, _)| *peer != self.rank);
        self.shared
            .note_reached(others.map(|(peer, transport)| PeerTransport {
                rank: self.rank,
                peer,
                transport,
                fallen_back: peers.why_not_p2p(peer),
                rdma: match peers.rdma(self.rank) && peers.rdma(peer) {
                    true => Ok(()),
                    false => Err(peers.no_rdma.clone()),
                },
                shares_device: peers.shares_device(peer),
            }));
        Ok(())
    }

    fn refuses(&self, request: &Request, choice: &Choice) -> Option<String> {
        self.why_refused(request, choice)
    }

    fn accesses_all(&self) -> bool {
        self.connected.peers.all_p2p
    }

    fn multicasts(&self) -> bool {
        true
    }

    fn wires(&self) -> bool {
        true
    }

    fn registers(&self) -> bool {
        !self.windows.own.is_empty() || self.shared.options.stages_in_window
    }

    fn register(
        &mut self,
        memory: (u64, u64),
        bootstrap: &mut dyn Bootstrap,
        longest: Duration,
    ) -> Result<u32, Error> {
        self.register_window(memory, bootstrap, longest)
    }

    fn deregister(&mut self, window: u32) -> Result<(), Error> {
        self.deregister_window(window)
    }

    fn wire(&mut self, own: &mut OwnWiring<'_>) -> Result<(), Error> {
        let mut connector = Connector {
            shared: &self.shared,
            own,
            known: &mut self.connected,
        };
        let connected = connector.connect();
        let wired = connected.and_then(|()| self.meet_staging_window(own));
        let Err(Error::Unsupported {
            collective,
            ranks,
            why,
        }) = wired
        else {
            return wired;
        };
        // Only multicasts are not supported. All ranks heard why, and none chooses one again.
        let advised = format!("{why}; take another algorithm");
        self.connected.peers.multicast = Err(why);
        self.note_no_multicast();
        Err(Error::Unsupported {
            collective,
            ranks,
            why: advised,
        })
    }

    fn prepare(&mut self, request: &PrepareRequest<'_>) -> Result<DeviceProgram<M>, Error> {
        let bound = request.bound;
        let scratch = if bound.multicasts {
            // Wiring made the window.
            let window = self.connected.windows.of_program.as_ref();
            window.map(|it| it.addresses.own)
        } else {
            self.reserve_scratch(bound.scratch_bytes)
                .map_err(|why| self.failed(why))?;
            None
        };
        let mut flat = Flat::new(bound, request.reduction, &self.connected);
        // Equal on all ranks. Scratch memory has room behind other messages.
        let block_bytes = request.count * u64::from(bound.element_bytes);
        let usable = bound.multicasts
            && block_bytes.is_multiple_of(VECTOR_BYTES)
            && request.reduction != Some(Reduction::PreMultipliedSum);
        if let Some(registered) = request.registered.filter(|_| usable) {
            flat.add_registered(registered, request.reduction, &self.connected);
        }
        let registered = flat.lanes.len() > flat.channels.len();
        if let Some(step) = flat.steps.iter().find(|step| step.bytes > MOST_STEP_BYTES) {
            return Err(self.failed(format!(
                "a step moves {} bytes, more than the {MOST_STEP_BYTES} that kernels support; take more channels or smaller \
                 pieces",
                step.bytes
            )));
        }
        let (memory, stored) = self.store(&mut flat)?;
        let operation = match request.reduction {
            Some(Reduction::Product) => 1,
            Some(Reduction::Minimum) => 2,
            Some(Reduction::Maximum) => 3,
            Some(Reduction::Sum | Reduction::Average | Reduction::PreMultipliedSum) | None => 0,
            Some(reduction @ (Reduction::BitAnd | Reduction::BitOr | Reduction::BitXor)) => {
                return Err(Error::NoReduction {
                    backend: self.name(),
                    element: request.element,
                    reduction,
                });
            }
        };
        let direct = shows_buffers(bound);
        let part = LaunchPart {
            protocol: request.protocol as u32,
            operation,
            divisor: request.ranks.max(1),
            ..stored
        };
        let peer = peers_of(bound).next().unwrap_or(self.rank);
        let peers = &self.connected.peers;
        let by_network = |peer| peers.transport(peer) == Transport::Net;
        Ok(DeviceProgram {
            window_scratch: (direct && !peers.is_alone()).then_some(bound.scratch_bytes),
            remote: self.connected.ranks(peers_of(bound), false),
            uses_network: peers_of(bound).any(by_network),
            part,
            kernel: Kernel::of(request.reduction.map(|_| request.element)),
            peers: self.connected.ranks(peers_of(bound), true),
            direct,
            registered,
            waiting: Waiting::Signal {
                from: peer,
                channel: 0,
            },
            scratch,
            channels: flat.channels,
            has_ended: false,
            _window: self.connected.windows.of_program.take(),
            _memory: memory,
        })
    }

    fn begin(&mut self, part: &mut Part<'_, DeviceProgram<M>>) {
        part.program.has_ended = false;
    }

    fn has_ended(&self, program: &DeviceProgram<M>) -> bool {
        program.has_ended
    }

    /// One launch runs all to their ends.
    fn run_some(
        &mut self,
        parts: &mut [Part<'_, DeviceProgram<M>>],
        context: &mut LaunchContext<'_>,
        _stop: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Waiting>, Error> {
        self.drain(context)?;
        let device = self.device();
        let mut staged: Vec<LaunchMemory<M::Block>> = Vec::with_capacity(parts.len());
        let mut deposit = self.deposit(None);
        let rank = self.rank;
        let mut waiting = Waiting::Signal {
            from: rank,
            channel: 0,
        };
        for part in parts.iter_mut() {
            let at = self
                .window_buffers(part.program)
                .or_else(|| self.staging_window(part.program));
            let of_caller = self
                .shared
                .driver
                .stage(device, &part.memory, at, part.program.direct);
            let own = of_caller.map_err(|why| self.failed(why))?;
            let origins = self.origins(part, &own);
            self.add_part(&mut deposit, part, (&own, origins), context.launch);
            waiting = part.program.waiting;
            staged.push(own);
        }
        deposit.peers.sort_unstable();
        deposit.peers.dedup();
        deposit.peers.retain(|peer| *peer != rank);
        self.launcher().launch(deposit, waiting, context)?;
        for (own, part) in staged.into_iter().zip(parts) {
            if part.program.window_scratch.is_some() && self.shared.repeats().count > 1 {
                self.time_copies(&part.memory)?;
            }
            if part.program.part.profile != 0 {
                self.note(part.program, context.launch)?;
            }
            let done = self.shared.driver.copy_back(device, own, &part.memory);
            done.map_err(|why| self.failed(why))?;
            part.program.has_ended = true;
        }
        Ok(None)
    }

    fn enqueue(
        &mut self,
        parts: &mut [Part<'_, DeviceProgram<M>>],
        copies: &[Memory<'_>],
        stream: u64,
        context: &mut LaunchContext<'_>,
    ) -> Result<InFlight, Error> {
        self.enqueue_parts(parts, copies, stream, context)
    }

    fn look_after(&mut self, context: &mut LaunchContext<'_>) -> Result<InFlight, Error> {
        self.look_after_all(context)
    }

    fn end_early(&mut self) -> InFlight {
        self.end_all_early()
    }
}
