//! What carries programs out.

use std::time::Duration;

use program::BoundProgram;
use program::{Collective, ElementType, Protocol, Reduction};

use crate::bootstrap::Bootstrap;
use crate::connections::{Connections, SlotBytes, Wiring};
use crate::error::Error;
use crate::memory::Memory;
use crate::registered::Registered;
use crate::request::{Choice, Request};
use crate::supervisor::Supervisor;

/// Something that interprets bound programs: processors, GPUs, a simulation.
pub trait Backend: Send + 'static {
    /// A bound program with everything looked up that running it needs.
    type Program: Send + 'static;

    /// Its name, such as `cpu`.
    fn name(&self) -> &'static str;

    /// Sizes of the FIFO slots it works best with. All ranks must say the same.
    fn slot_bytes(&self) -> SlotBytes;

    /// The way it expects to be the fastest; `None` if it knows none. All ranks must choose the same.
    fn choose(&self, request: &Request, place: &CommunicatorShape) -> Option<Choice>;

    /// Finds out how the other ranks are reached, as far as the backend has ways of its own. All ranks call it together when
    /// they meet.
    ///
    /// # Errors
    /// Another rank does not come, or nothing leads to it.
    fn meet(&mut self, bootstrap: &mut dyn Bootstrap, longest: Duration) -> Result<(), Error> {
        let _ = (bootstrap, longest);
        Ok(())
    }

    /// Why a way cannot be taken between these ranks, if it cannot. All ranks say the same.
    fn refuses(&self, choice: &Choice) -> Option<String> {
        let _ = choice;
        None
    }

    /// Whether it accesses the memory of all ranks also where the communicator cannot: that of other hosts.
    fn accesses_all(&self) -> bool {
        false
    }

    /// Whether its programs may reduce and store at all ranks at once. For those that cannot, such steps are replaced by
    /// ones that access one peer after the other.
    fn multicasts(&self) -> bool {
        false
    }

    /// Makes the connections of a program in memory of the backend's own, if its programs do not run over those that the
    /// communicator makes in the host's memory.
    ///
    /// # Errors
    /// The ranks cannot be connected.
    fn wire(&mut self, own: &mut OwnWiring<'_>) -> Result<WiredBy, Error> {
        let _ = own;
        Ok(WiredBy::Communicator)
    }

    /// Looks up everything that running the program needs.
    ///
    /// # Errors
    /// The backend cannot reduce this type so.
    fn prepare(&mut self, request: &PrepareRequest<'_>) -> Result<Self::Program, Error>;

    /// Runs programs together, each with its memory, until all have ended.
    ///
    /// # Errors
    /// The supervisor ended the waiting.
    fn run(
        &mut self,
        parts: &mut [Part<'_, Self::Program>],
        context: &mut LaunchContext<'_>,
    ) -> Result<(), Error>;
}

/// What a choice may depend on besides the request; equal on all ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommunicatorShape {
    /// Ranks of the communicator.
    pub ranks: u32,
    /// Whether all are threads of one process.
    pub one_process: bool,
    /// Whether all can access each other's memory: none is on another host.
    pub one_host: bool,
    /// Channels that the plan has.
    pub channels: u16,
}

/// Who makes the connections of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WiredBy {
    /// The communicator, in the host's memory.
    Communicator,
    /// The backend, and it has made them.
    Backend,
}

/// What a backend with memory of its own makes connections with.
pub struct OwnWiring<'a> {
    /// What it carries out.
    pub collective: Collective,
    /// The program.
    pub bound: &'a BoundProgram,
    /// The protocol of its FIFOs.
    pub protocol: Protocol,
    /// Most bytes that any rank's input has, and any rank's output.
    pub buffer_bytes: u64,
    /// Carries addresses to the peers and back. Whoever offers first and fetches then waits in no circle.
    pub bootstrap: &'a mut dyn Bootstrap,
    /// How long to wait for a peer.
    pub longest: Duration,
}

/// A program to be prepared.
#[derive(Debug, Clone, Copy)]
pub struct PrepareRequest<'a> {
    /// The program.
    pub bound: &'a BoundProgram,
    /// The places of its connections.
    pub wiring: &'a Wiring,
    /// The protocol of its FIFOs.
    pub protocol: Protocol,
    /// Type of the elements.
    pub element: ElementType,
    /// How they are reduced; `None` if they are not.
    pub reduction: Option<Reduction>,
    /// The own rank.
    pub rank: u32,
    /// Ranks of the communicator.
    pub ranks: u32,
}

/// A program and the memory that it works on.
#[derive(Debug)]
pub struct Part<'a, P> {
    /// The program.
    pub program: &'a mut P,
    /// Its input and output.
    pub memory: Memory<'a>,
    /// Memory of the runtime, of as many bytes as the program said it needs.
    pub scratch: *mut u8,
    /// By what the input is multiplied first: the bytes of an element in the low bytes. Ignored by all operations but
    /// [`Reduction::PreMultipliedSum`].
    pub scalar: u64,
}

/// The resources of a launch.
pub struct LaunchContext<'a> {
    /// Ends of FIFOs and signals, at the places that the program's wiring says.
    pub connections: &'a mut Connections,
    /// The memory of peers.
    pub registered: &'a Registered,
    /// Number of the launch. Entries of the peers' buffer tables carry the same one.
    pub launch: u64,
    /// How often to look for what is awaited before the supervisor's waiting is worth its cost.
    pub spins: u32,
    /// Waits when nothing goes on.
    pub supervisor: Supervisor<'a>,
}
