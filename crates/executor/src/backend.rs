//! The trait of backends, which run programs.

use std::time::Duration;

use program::BoundProgram;
use program::{Collective, ElementType, Protocol, Reduction};

use crate::bootstrap::{Bootstrap, Crowd};
use crate::callers_memory::BufferAccess;
use crate::connections::{Connections, SlotBytes, Wiring};
use crate::error::{Error, Waiting};
use crate::memory::Memory;
use crate::registered::Registered;
use crate::request::{Choice, Request};
use crate::supervisor::Supervisor;

/// Runs bound programs: on processors, GPUs, or emulated GPUs.
pub trait Backend: Send + 'static {
    /// A bound program that is ready to run.
    type Program: Send + 'static;

    /// Its name, such as `cpu`.
    fn name(&self) -> &'static str;

    /// Sizes of its FIFO slots. All ranks must return the same.
    fn slot_bytes(&self) -> SlotBytes;

    /// Whether FIFOs of a short message may have shorter slots than [`Self::slot_bytes`], so that
    /// their memory does not grow with the square of the ranks. All ranks must return the same.
    fn shortens_slots(&self) -> bool {
        false
    }

    /// The choice that it expects to be the fastest; `None` if it supports none. All ranks must
    /// choose the same.
    fn choose(&self, request: &Request, place: &CommunicatorShape) -> Option<Choice>;

    /// Whether the backend has a reduction of a type. All ranks must answer alike. The default: the
    /// types and reductions of NCCL.
    fn reduces(&self, element: ElementType, reduction: Reduction) -> bool {
        ElementType::OF_NCCL.contains(&element) && Reduction::OF_NCCL.contains(&reduction)
    }

    /// Numbers that ranks must know of each other's backends to choose alike, such as the speeds of
    /// their machines.
    fn offer(&self) -> Vec<u64> {
        Vec::new()
    }

    /// Takes the offers of all ranks, in rank order.
    ///
    /// # Errors
    /// The ranks cannot choose alike. All ranks return the same.
    fn agree(&mut self, offers: &[Vec<u64>]) -> Result<(), String> {
        let _ = offers;
        Ok(())
    }

    /// Agrees on the backend's own transports. All ranks call it together when they meet.
    ///
    /// # Errors
    /// Another rank does not call it in time, or no transport reaches it.
    fn meet(&mut self, bootstrap: &mut dyn Bootstrap, longest: Duration) -> Result<(), Error> {
        let _ = (bootstrap, longest);
        Ok(())
    }

    /// Why a choice for a request is not possible between these ranks; `None` if it is. All ranks
    /// return the same.
    fn refuses(&self, request: &Request, choice: &Choice) -> Option<String> {
        let _ = (request, choice);
        None
    }

    /// Whether peer memory is accessible across hosts (multi-node NVLink).
    fn accesses_all(&self) -> bool {
        false
    }

    /// Whether its programs may reduce and store at all ranks at once (NVLS). If not, such steps
    /// are replaced by steps that access one peer after the other.
    fn multicasts(&self) -> bool {
        false
    }

    /// Whether [`Self::wire`] makes the connections of programs, in the backend's own memory. If
    /// not, the communicator makes them in the host's memory. Such a backend never listens.
    fn wires(&self) -> bool {
        false
    }

    /// Makes the connections of a program in the backend's own memory.
    ///
    /// # Errors
    /// The ranks cannot be connected. After [`Error::Unsupported`], which all ranks return alike,
    /// [`Self::choose`] may choose another program.
    fn wire(&mut self, own: &mut OwnWiring<'_>) -> Result<(), Error> {
        let _ = own;
        Ok(())
    }

    /// Whether memory is registered, so that programs for registered buffers are prepared, too.
    /// Equal on all ranks.
    fn registers(&self) -> bool {
        false
    }

    /// Registers memory of the rank's device, by its address and bytes, which a multicast of all
    /// ranks then reaches (NVLS). All ranks call it together. Nothing runs meanwhile. Returns the
    /// window's number.
    ///
    /// # Errors
    /// The memory cannot be registered, on all ranks alike; or a rank failed.
    fn register(
        &mut self,
        memory: (u64, u64),
        bootstrap: &mut dyn Bootstrap,
        longest: Duration,
    ) -> Result<u32, Error> {
        let _ = (memory, bootstrap, longest);
        Err(Error::Registration {
            why: format!("the {} backend registers no memory", self.name()),
        })
    }

    /// Ends a window. All ranks call it in the same order with their registrations. Nothing runs
    /// meanwhile.
    ///
    /// # Errors
    /// There is no such window.
    fn deregister(&mut self, window: u32) -> Result<(), Error> {
        Err(Error::Registration {
            why: format!("there is no window {window}"),
        })
    }

    /// Makes a program ready to run.
    ///
    /// # Errors
    /// The backend does not support this reduction of this type.
    fn prepare(&mut self, request: &PrepareRequest<'_>) -> Result<Self::Program, Error>;

    /// Begins a program, which [`Self::run_some`] runs.
    fn begin(&mut self, part: &mut Part<'_, Self::Program>);

    /// Makes [`Self::run_some`] look whether a program that only receives could begin: then it has
    /// ended, but runs no step. [`Self::begin`] ends that.
    fn listen(&mut self, program: &mut Self::Program) {
        let _ = program;
    }

    /// Whether a program that was begun has ended.
    fn has_ended(&self, program: &Self::Program) -> bool;

    /// Runs a program of one step, which was not begun, if that step is ready.
    fn try_run(
        &mut self,
        part: &mut Part<'_, Self::Program>,
        connections: &mut Connections,
    ) -> Attempt {
        let _ = (part, connections);
        Attempt::Refused
    }

    /// Runs programs that were begun, each with its memory, until one has ended or `stop` returns
    /// `true`. If no step was run, returns the reason of the wait. A backend that cannot stop in
    /// between runs all to their ends.
    ///
    /// # Errors
    /// The supervisor ended a wait.
    fn run_some(
        &mut self,
        parts: &mut [Part<'_, Self::Program>],
        context: &mut LaunchContext<'_>,
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Waiting>, Error>;

    /// Enqueues programs on memory of the rank's device, which run together, and copies from inputs
    /// to outputs there: behind the work of the device's stream `stream`, and before what that
    /// stream gets later. Returns once they are enqueued, with what was not seen to have ended.
    ///
    /// # Errors
    /// The backend has no streams, or cannot enqueue the programs.
    fn enqueue(
        &mut self,
        parts: &mut [Part<'_, Self::Program>],
        copies: &[Memory<'_>],
        stream: u64,
        context: &mut LaunchContext<'_>,
    ) -> Result<InFlight, Error> {
        let _ = (parts, copies, stream);
        Err(Error::Unsupported {
            collective: context.supervisor.collective,
            ranks: context.supervisor.bootstrap.ranks(),
            why: format!("the {} backend has no streams", self.name()),
        })
    }

    /// Looks after what was enqueued. Returns what has not ended.
    ///
    /// # Errors
    /// A launch failed or makes no progress; or another rank failed.
    fn look_after(&mut self, context: &mut LaunchContext<'_>) -> Result<InFlight, Error> {
        let _ = context;
        Ok(InFlight::default())
    }

    /// Tells what was enqueued to end early. Returns what has not ended yet.
    fn end_early(&mut self) -> InFlight {
        InFlight::default()
    }
}

/// What was enqueued and has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InFlight {
    /// Launches of this rank.
    pub launches: u32,
    /// Whether a thread that looks often moves their data faster.
    pub hurries: bool,
}

/// How an attempt to move a message without waiting ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attempt {
    /// The message was moved.
    Moved,
    /// It has not arrived, or there is no room for it. A later attempt may move it.
    NotReady,
    /// Attempts do not move it: it is long or has no bytes, its connection is new, its peer is on
    /// another host, an earlier transfer precedes it, or the communicator has failed.
    Refused,
}

/// The inputs of a choice besides the request; equal on all ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommunicatorShape {
    /// Ranks of the communicator.
    pub ranks: u32,
    /// Whether all ranks are threads of one process.
    pub one_process: bool,
    /// Hosts: groups of ranks that can access each other's memory.
    pub hosts: u32,
    /// Whether all hosts have the same number of ranks.
    pub even_hosts: bool,
    /// Channels of the plan.
    pub channels: u16,
    /// The machine on which most ranks share a core.
    pub crowd: Crowd,
    /// How ranks of one host access the buffers of collectives.
    pub buffers: BufferAccess,
}

/// The inputs for connections in a backend's own memory.
pub struct OwnWiring<'a> {
    /// The collective.
    pub collective: Collective,
    /// The type that it reduces; `None` if it does not reduce.
    pub reduces: Option<ElementType>,
    /// The program.
    pub bound: &'a BoundProgram,
    /// The protocol of its FIFOs.
    pub protocol: Protocol,
    /// Most bytes of any rank's input, and of any rank's output.
    pub buffer_bytes: u64,
    /// For addresses of peers. Offer first and fetch then, or ranks wait in a circle.
    pub bootstrap: &'a mut dyn Bootstrap,
    /// Longest wait for a peer.
    pub longest: Duration,
}

/// A program to prepare.
#[derive(Debug, Clone, Copy)]
pub struct PrepareRequest<'a> {
    /// The program.
    pub bound: &'a BoundProgram,
    /// The program for registered buffers, with the same signals.
    pub registered: Option<&'a BoundProgram>,
    /// The indices of its connections.
    pub wiring: &'a Wiring,
    /// The protocol of its FIFOs.
    pub protocol: Protocol,
    /// Type of the elements.
    pub element: ElementType,
    /// Elements of a block.
    pub count: u64,
    /// The reduction; `None` if the collective does not reduce.
    pub reduction: Option<Reduction>,
    /// The own rank.
    pub rank: u32,
    /// Ranks of the communicator.
    pub ranks: u32,
}

/// A program and its memory.
#[derive(Debug)]
pub struct Part<'a, P> {
    /// The program.
    pub program: &'a mut P,
    /// Its input and output.
    pub memory: Memory<'a>,
    /// Scratch memory, as many bytes as the program needs.
    pub scratch: *mut u8,
    /// The factor of [`Reduction::PreMultipliedSum`]: an element in the low bytes. Other reductions
    /// ignore it.
    pub scalar: u64,
}

/// The resources of a launch.
pub struct LaunchContext<'a> {
    /// Ends of FIFOs and signals, at the indices of the program's wiring.
    pub connections: &'a mut Connections,
    /// The memory of peers.
    pub registered: &'a Registered,
    /// Number of the launch, as in the entries of the peers' buffer tables.
    pub launch: u64,
    /// A hash of the request, equal on all ranks that run the same launch.
    pub request: u64,
    /// How often to poll before the supervisor waits, which costs more.
    pub spins: u32,
    /// Waits when there is no progress.
    pub supervisor: Supervisor<'a>,
}
