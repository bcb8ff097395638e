//! The backend: what one rank does with a machine.

use std::sync::Arc;
use std::time::{Duration, Instant};

use executor::Transport;
use executor::backend::{
    Backend, CommunicatorShape, LaunchContext, OwnWiring, Part, PrepareRequest, WiredBy,
};
use executor::bootstrap::Bootstrap;
use executor::connections::SlotBytes;
use executor::{Choice, Error, Request, Waiting};
use program::{BoundProgram, Schedule, Transfer};
use program::{Protocol, Reduction};
use shared_memory::Bell;

use crate::choose::{self, Means};
use crate::connect::{Connected, Connector, peers, shows_buffers};
use crate::entry::Kernel;
use crate::flat::Flat;
use crate::gang::{Deposit, Role};
use crate::layout;
use crate::machine::{DeviceDriver, LaunchMemory, Running, Start};
use crate::process_ranks::{ProcessRanks, Reached, Span};
use crate::remote::RemoteRanks;

/// How long the host looks for the end of a launch without sleeping. Launches that take longer are seen to end late by as
/// much as the supervisor sleeps, which does not matter to them.
const WATCHING: Duration = Duration::from_secs(2);

/// How long the host sleeps between two looks at kernels that wait for other processes, where a program that computes wants
/// the core.
const NAP: Duration = Duration::from_micros(50);

/// Looks at the end of a launch between two looks at the clock.
const LOOKS: u32 = 256;

/// Most bytes that one step moves: workers count vectors of 16 bytes, and lines, in 32 bits.
const MOST_STEP_BYTES: u64 = 32 << 30;

/// Bytes of the two times of a block.
const SPAN_BYTES: u64 = 16;

/// Most channels that are chosen, NCCL's limit.
const MOST_CHANNELS: u16 = 64;

/// One rank on a machine that runs kernels.
pub struct Kernels<M: DeviceDriver> {
    process_ranks: Arc<ProcessRanks<M>>,
    rank: u32,
    connected: Connected,
    scratch: Option<(M::Block, u64)>,
    scratch_bytes: u64,
}

/// A program in the machine's memory.
pub struct Program<M: DeviceDriver> {
    part: layout::Part,
    kernel: Kernel,
    peers: Vec<u32>,
    /// Whether peers look where this rank's buffers are.
    direct: bool,
    /// What is resolved again when memory of other processes moves.
    again: Option<Again>,
    /// Ranks of other processes among its peers.
    remote: Vec<u32>,
    /// Whether it reaches any of them by a network.
    carried: bool,
    waiting: Waiting,
    /// Address of its scratch memory, if that is not the rank's own.
    scratch: Option<u64>,
    /// Channels of its lanes, if their times are noted.
    channels: Vec<u16>,
    _memory: M::Block,
}

/// A program that accesses memory of other processes.
struct Again {
    bound: BoundProgram,
    protocol: Protocol,
    reduction: Option<Reduction>,
    /// Where that memory was when it was resolved.
    generation: u64,
}

impl<M: DeviceDriver> Kernels<M> {
    /// A rank of a process_ranks.
    pub fn new(process_ranks: Arc<ProcessRanks<M>>, rank: u32) -> Self {
        Self {
            process_ranks,
            rank,
            connected: Connected::default(),
            scratch: None,
            scratch_bytes: 0,
        }
    }

    fn failed(&self, why: String) -> Error {
        let rank = self.rank;
        Error::Device { rank, why }
    }

    fn device(&self) -> u32 {
        self.process_ranks.device(self.rank)
    }

    /// Reads when each lane began and ended: when its first block began, and its last one ended.
    fn note(&self, program: &Program<M>, launch: u64) -> Result<(), Error> {
        let shares = program.part.shares.max(1) as usize;
        let mut times = vec![[0_u64; 2]; program.channels.len() * shares];
        let bytes = bytemuck::cast_slice_mut(&mut times);
        let (device, address) = (self.device(), program.part.profile);
        let read = self.process_ranks.machine.read(device, address, bytes);
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
        self.process_ranks.note(spans);
        Ok(())
    }

    /// Resolves a program again if memory of other processes has moved since.
    fn resolve_again(&mut self, program: &mut Program<M>) -> Result<(), Error> {
        let generation = self.connected.buffer_tables.generation;
        let Some(again) = &mut program.again else {
            return Ok(());
        };
        if again.generation == generation {
            return Ok(());
        }
        again.generation = generation;
        self.connected.protocol = Some(again.protocol);
        self.connected.shares = program.part.shares;
        let flat = Flat::new(&again.bound, again.reduction, &self.connected);
        let steps: &[u8] = bytemuck::cast_slice(&flat.steps);
        // No kernel of this rank is running.
        let wrote = self
            .process_ranks
            .machine
            .write(self.device(), program.part.steps, steps);
        wrote.map_err(|why| self.failed(why))
    }

    fn reserve_scratch(&mut self, bytes: u64) -> Result<(), String> {
        if bytes > self.scratch_bytes {
            // No kernel of this rank is running. Peers learn of the new address by the next launch's buffer table.
            self.scratch = None;
            self.scratch = Some(self.process_ranks.machine.allocate(self.device(), bytes)?);
            self.scratch_bytes = bytes;
        }
        Ok(())
    }

    /// Deposits what is to be run and waits until it has run.
    fn launch(
        &self,
        deposit: Deposit,
        waiting: Waiting,
        context: &mut LaunchContext<'_>,
    ) -> Result<(), Error> {
        let gang = &self.process_ranks.gang;
        let before = gang.ended(self.rank);
        match gang.join(deposit) {
            Role::Leads(deposits) => {
                let outcome = self.lead(&deposits, waiting, context);
                let told = match &outcome {
                    Ok(()) => Ok(()),
                    Err(error) => Err(error.to_string()),
                };
                gang.finish(&deposits, &told);
                for other in deposits.iter().filter(|other| other.rank != self.rank) {
                    context.connections.bells[other.rank as usize].ring();
                }
                outcome
            }
            Role::Follows => {
                let mut ended = || gang.ended(self.rank) != before;
                let began = Instant::now();
                let mut looks = 0_u32;
                // Who leads may be watching for long, and rings only when the launch is over.
                while !ended() && began.elapsed() < WATCHING {
                    looks += 1;
                    let yielder = context.supervisor.yielder();
                    if looks <= context.spins {
                        std::hint::spin_loop();
                    } else if yielder.try_yield(Instant::now()).is_none() {
                        break;
                    }
                    if looks.is_multiple_of(LOOKS) && gang.is_given_up() {
                        break;
                    }
                }
                let missing = || {
                    gang.missing(self.rank).map_or(waiting, |from| {
                        let channel = 0;
                        Waiting::Signal { from, channel }
                    })
                };
                if let Err(error) = context.supervisor.wait(&mut ended, missing) {
                    gang.give_up();
                    if !gang.withdraw(self.rank) {
                        // The kernels use memory that is lent for this launch only: they must end first. They will,
                        // for they look whether they should give up.
                        while gang.ended(self.rank) == before {
                            std::thread::yield_now();
                        }
                    }
                    return Err(error);
                }
                match gang.failure(self.rank) {
                    Some(why) => Err(self.failed(why)),
                    None => Ok(()),
                }
            }
        }
    }

    /// Launches what the ranks deposited, and watches over it.
    fn lead(
        &self,
        deposits: &[Deposit],
        waiting: Waiting,
        context: &mut LaunchContext<'_>,
    ) -> Result<(), Error> {
        let process_ranks = &self.process_ranks;
        let remote = deposits.iter().flat_map(|deposit| &deposit.remote);
        let mut remote = RemoteRanks::new(self.rank, remote.copied());
        let carried = deposits.iter().any(|deposit| deposit.carried);
        let mut devices: Vec<u32> = deposits.iter().map(|deposit| deposit.device).collect();
        devices.sort_unstable();
        devices.dedup();
        let mut of_device: Vec<(u32, Kernel, Vec<layout::Part>)> = Vec::new();
        for device in devices {
            let mut own = deposits
                .iter()
                .filter(|deposit| deposit.device == device)
                .peekable();
            let Some(first) = own.peek() else { continue };
            let kernel = first.kernel;
            let mut parts = Vec::new();
            for deposit in own {
                if deposit.kernel != kernel {
                    return Err(self.failed(format!(
                        "rank {} reduces {:?}, and rank {} {kernel:?}; all ranks call collectives with equal types",
                        deposit.rank, deposit.kernel, deposits[0].rank
                    )));
                }
                parts.extend(deposit.parts.iter().filter(|part| part.lane_count > 0));
            }
            if !parts.is_empty() {
                of_device.push((device, kernel, parts));
            }
        }
        let starts: Vec<Start<'_>> = of_device
            .iter()
            .map(|(device, kernel, parts)| Start {
                device: *device,
                kernel: *kernel,
                parts,
                threads: process_ranks.options.threads,
                remote: remote.waits(),
            })
            .collect();
        let started = process_ranks.machine.start(&starts, process_ranks.times());
        let mut running = started.map_err(|why| self.failed(why))?;
        let began = Instant::now();
        let mut looks = 0_u32;
        let mut told = false;
        let mut poll = |told: &mut bool| {
            if process_ranks.gang.is_given_up() && !*told {
                running.give_up();
                *told = true;
            }
            running.poll()
        };
        loop {
            if poll(&mut told).map_err(|why| self.failed(why))? {
                break;
            }
            looks += 1;
            let outcome = if remote.waits() {
                // Kernels do not wake whoever carries what they send, so this does, or carries it.
                if carried && !context.supervisor.make_progress() {
                    context.connections.ring_proxies();
                }
                self.connected.carriers.iter().for_each(Bell::ring);
                let yielder = context.supervisor.yielder();
                if looks > context.spins && yielder.try_yield(Instant::now()).is_none() {
                    // Kernels wake nobody.
                    std::thread::sleep(NAP);
                }
                remote.look(&mut context.supervisor)
            } else if looks.is_multiple_of(LOOKS) && began.elapsed() > WATCHING {
                let mut ended = || !matches!(poll(&mut told), Ok(false));
                context.supervisor.wait(&mut ended, || waiting)
            } else {
                Ok(())
            };
            if let Err(error) = outcome {
                process_ranks.gang.give_up();
                while matches!(poll(&mut told), Ok(false)) {
                    std::thread::yield_now();
                }
                return Err(error);
            }
        }
        if told {
            return Err(self.failed("another rank gave up".to_owned()));
        }
        process_ranks.set_time(running.time_us());
        process_ranks.set_without_graph(running.without_graph());
        Ok(())
    }
}

impl<M: DeviceDriver> Kernels<M> {
    /// What the transports between ranks allow.
    pub fn means(&self) -> Means {
        let peers = &self.connected.peers;
        Means {
            direct: peers.all_p2p,
            ll128: !peers.any_shm || self.process_ranks.machine.keeps_lines(),
            blocks: u16::try_from(peers.blocks)
                .unwrap_or(u16::MAX)
                .min(MOST_CHANNELS),
        }
    }
}

/// Ranks that a program exchanges anything with.
fn peers_of(bound: &BoundProgram) -> impl Iterator<Item = u32> {
    let connections = bound.receives.iter().chain(&bound.sends);
    let connections = connections.chain(&bound.waits).chain(&bound.notifies);
    let peers = connections.map(|connection| connection.peer);
    peers.chain(bound.peers.iter().copied())
}

impl<M: DeviceDriver> Backend for Kernels<M> {
    type Program = Program<M>;

    fn name(&self) -> &'static str {
        self.process_ranks.machine.name()
    }

    fn slot_bytes(&self) -> SlotBytes {
        self.process_ranks.options.slot_bytes
    }

    fn choose(&self, request: &Request, place: &CommunicatorShape) -> Option<Choice> {
        Some(choose::way(request, place, &self.means()))
    }

    fn meet(&mut self, bootstrap: &mut dyn Bootstrap, longest: Duration) -> Result<(), Error> {
        self.connected.peers = peers::meet(&self.process_ranks, bootstrap, longest)?;
        let peers = &self.connected.peers;
        let others = peers.all().filter(|(peer, _)| *peer != self.rank);
        self.process_ranks
            .note_reached(others.map(|(peer, transport)| Reached {
                rank: self.rank,
                peer,
                transport,
                fallen_back: peers.why_not_p2p(peer),
                rdma: match peers.rdma(self.rank) && peers.rdma(peer) {
                    true => Ok(()),
                    false => Err(peers.no_rdma.clone()),
                },
            }));
        Ok(())
    }

    fn refuses(&self, way: &Choice) -> Option<String> {
        let Means { direct, ll128, .. } = self.means();
        let peers = &self.connected.peers;
        let why = || match &peers.apart {
            Some((one, other, why)) => format!(" (ranks {one} and {other}: {why})"),
            None => String::new(),
        };
        if way.schedule == Schedule::Nvls {
            if !direct {
                return Some(format!(
                    "a multicast (NVLS) is of memory that all ranks access, and not all reach each other by P2P{}; take another \
                     algorithm",
                    why()
                ));
            }
            if let Err(why) = &peers.multicast {
                return Some(format!("{why}; take another algorithm"));
            }
        }
        if way.transfer == Transfer::Direct && !direct {
            return Some(format!(
                "a direct transfer accesses the buffers of other ranks, and not all ranks reach each other by P2P{}; take the \
                 transfer `fifo`",
                why()
            ));
        }
        let lines = way.transfer == Transfer::Fifo && way.protocol == Protocol::Ll128;
        (lines && !ll128).then(|| {
            format!(
                "LL128 counts on lines of 128 bytes that arrive as a whole, and not all ranks of a host reach each other by \
                 P2P{}; take the protocol LL or Simple",
                why()
            )
        })
    }

    fn accesses_all(&self) -> bool {
        self.connected.peers.all_p2p
    }

    fn multicasts(&self) -> bool {
        true
    }

    fn wire(&mut self, own: &mut OwnWiring<'_>) -> Result<WiredBy, Error> {
        let mut connector = Connector {
            process_ranks: &self.process_ranks,
            own,
            known: &mut self.connected,
        };
        connector.connect()?;
        Ok(WiredBy::Backend)
    }

    fn prepare(&mut self, request: &PrepareRequest<'_>) -> Result<Program<M>, Error> {
        let bound = request.bound;
        let scratch = if bound.multicasts {
            // Wiring made it.
            self.connected.windows.of_program.map(|window| window.own)
        } else {
            self.reserve_scratch(bound.scratch_bytes)
                .map_err(|why| self.failed(why))?;
            None
        };
        let flat = Flat::new(bound, request.reduction, &self.connected);
        if let Some(step) = flat.steps.iter().find(|step| step.bytes > MOST_STEP_BYTES) {
            return Err(self.failed(format!(
                "a step would move {} bytes, and kernels count at most {MOST_STEP_BYTES} in one; take more channels or \
                 smaller pieces",
                step.bytes
            )));
        }
        let lanes: &[u8] = bytemuck::cast_slice(&flat.lanes);
        let steps: &[u8] = bytemuck::cast_slice(&flat.steps);
        let device = self.device();
        let steps_at = (lanes.len() as u64).next_multiple_of(256);
        let profile_at = (steps_at + steps.len() as u64).next_multiple_of(256);
        let shares = self.connected.shares;
        let profile_bytes = match self.process_ranks.options.trace {
            true => SPAN_BYTES * flat.lanes.len() as u64 * u64::from(shares),
            false => 0,
        };
        let allocated = self
            .process_ranks
            .machine
            .allocate(device, profile_at + profile_bytes);
        let (memory, address) = allocated.map_err(|why| self.failed(why))?;
        for (at, bytes) in [(address, lanes), (address + steps_at, steps)] {
            let wrote = self.process_ranks.machine.write(device, at, bytes);
            wrote.map_err(|why| self.failed(why))?;
        }
        let operation = match request.reduction {
            Some(Reduction::Product) => 1,
            Some(Reduction::Minimum) => 2,
            Some(Reduction::Maximum) => 3,
            Some(Reduction::Sum | Reduction::Average | Reduction::PreMultipliedSum) | None => 0,
        };
        let direct = shows_buffers(bound);
        let part = layout::Part {
            lanes: address,
            steps: address + steps_at,
            profile: match profile_bytes {
                0 => 0,
                _ => address + profile_at,
            },
            lane_count: u32::try_from(flat.lanes.len()).unwrap_or(u32::MAX),
            protocol: request.protocol as u32,
            operation,
            divisor: request.ranks.max(1),
            shares,
            ..layout::Part::default()
        };
        let peer = peers_of(bound).next().unwrap_or(self.rank);
        let peers = &self.connected.peers;
        let far = |peer| peers.transport(peer) == Transport::Net;
        Ok(Program {
            again: (direct && !peers.is_alone()).then(|| Again {
                bound: bound.clone(),
                protocol: request.protocol,
                reduction: request.reduction,
                generation: self.connected.buffer_tables.generation,
            }),
            remote: self.connected.remote(peers_of(bound)),
            carried: peers_of(bound).any(far),
            part,
            kernel: match request.reduction {
                Some(_) => Kernel::Reduce(request.element),
                None => Kernel::Move,
            },
            peers: self.connected.local(peers_of(bound)),
            direct,
            waiting: Waiting::Signal {
                from: peer,
                channel: 0,
            },
            scratch,
            channels: flat.channels,
            _memory: memory,
        })
    }

    fn run(
        &mut self,
        parts: &mut [Part<'_, Program<M>>],
        context: &mut LaunchContext<'_>,
    ) -> Result<(), Error> {
        let device = self.device();
        let mut lent: Vec<LaunchMemory<M::Block>> = Vec::with_capacity(parts.len());
        let mut deposit = Deposit {
            rank: self.rank,
            peers: Vec::new(),
            device,
            kernel: Kernel::Move,
            parts: Vec::with_capacity(parts.len()),
            remote: Vec::new(),
            carried: false,
        };
        let rank = self.rank;
        let mut waiting = Waiting::Signal {
            from: rank,
            channel: 0,
        };
        for part in parts.iter_mut() {
            self.resolve_again(part.program)?;
            let program = &part.program;
            // Where other processes find the buffers, if they access them.
            let window = program.again.as_ref().and_then(|again| {
                let buffers = self
                    .connected
                    .buffer_tables
                    .behind_scratch(again.bound.scratch_bytes);
                Some((self.connected.buffer_tables.window?.0, buffers?))
            });
            let at = window.map(|(_, buffers)| buffers);
            let of_caller = self.process_ranks.machine.lend(device, &part.memory, at);
            let own = of_caller.map_err(|why| self.failed(why))?;
            let scratch = match window {
                Some((window, _)) => window,
                None => self.scratch.as_ref().map_or(0, |(_, address)| *address),
            };
            let scratch = program.scratch.unwrap_or(scratch);
            let buffer_table = self.connected.buffer_tables.own;
            deposit.kernel = program.kernel;
            deposit.remote.extend(&program.remote);
            deposit.carried |= program.carried;
            deposit.parts.push(layout::Part {
                buffers: [own.input, own.output, scratch],
                buffer_table: buffer_table.filter(|_| program.direct).unwrap_or_default(),
                launch: context.launch,
                scalar: part.scalar,
                window: window.map_or(0, |(window, _)| window),
                ..program.part
            });
            deposit.peers.extend(&program.peers);
            waiting = program.waiting;
            lent.push(own);
        }
        deposit.peers.sort_unstable();
        deposit.peers.dedup();
        deposit.peers.retain(|peer| *peer != rank);
        self.launch(deposit, waiting, context)?;
        for (own, part) in lent.into_iter().zip(parts.iter()) {
            if part.program.part.profile != 0 {
                self.note(part.program, context.launch)?;
            }
            let done = self
                .process_ranks
                .machine
                .give_back(device, own, &part.memory);
            done.map_err(|why| self.failed(why))?;
        }
        Ok(())
    }
}
