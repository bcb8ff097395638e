//! Runs programs on CPUs: each rank is a thread that polls the lanes of its program.
//!
//! [`Cpu`] is the [`Backend`]. It chooses algorithms by a [`Profile`], which
//! `topo run --calibrate` measures.
//!
//! ```
//! use backend_cpu::Cpu;
//! use executor::{Communicator, Settings};
//!
//! // Two ranks, as threads of this process.
//! let ranks = Communicator::local(2, &Settings::default(), |_| Cpu::default())?;
//! assert_eq!(ranks.len(), 2);
//! # Ok::<(), executor::Error>(())
//! ```
//!
//! In reading order: [`reduce`], `program`, `bases`, `interpret`, `wires`, `remote`, [`profile`],
//! `work`, [`model`], `fit`, [`choose`].

mod bases;
pub mod choose;
mod fit;
mod interpret;
pub mod model;
pub mod profile;
mod program;
pub mod reduce;
mod remote;
mod wires;
mod work;

use std::sync::Arc;

use ::program::{ElementType, Reduction};
use executor::backend::{Attempt, Backend, CommunicatorShape, LaunchContext, Part, PrepareRequest};
use executor::connections::{Connections, SlotBytes};
use executor::{Choice, Error, Request, Waiting};
pub use profile::Profile;
use program::CpuProgram;

/// The CPU backend.
#[derive(Debug, Clone, Default)]
pub struct Cpu {
    profile: Arc<Profile>,
}

impl Cpu {
    /// Creates a backend that chooses by a profile, which must be equal on all ranks.
    pub const fn new(profile: Arc<Profile>) -> Self {
        Self { profile }
    }
}

impl Backend for Cpu {
    type Program = CpuProgram;

    fn name(&self) -> &'static str {
        "cpu"
    }

    fn slot_bytes(&self) -> SlotBytes {
        self.profile.slot_bytes()
    }

    fn shortens_slots(&self) -> bool {
        true
    }

    fn reduces(&self, element: ElementType, reduction: Reduction) -> bool {
        reduction.suits(element)
    }

    fn choose(&self, request: &Request, shape: &CommunicatorShape) -> Option<Choice> {
        self.profile.choose(request, *shape)
    }

    fn prepare(&mut self, request: &PrepareRequest<'_>) -> Result<CpuProgram, Error> {
        Ok(CpuProgram::new(request, self.profile.stream_bytes))
    }

    fn begin(&mut self, part: &mut Part<'_, CpuProgram>) {
        interpret::begin(part);
    }

    fn listen(&mut self, program: &mut CpuProgram) {
        program.listening = Some(false);
    }

    fn has_ended(&self, program: &CpuProgram) -> bool {
        program.has_ended()
    }

    fn try_run(
        &mut self,
        part: &mut Part<'_, CpuProgram>,
        connections: &mut Connections,
    ) -> Attempt {
        interpret::try_run(part, connections)
    }

    fn run_some(
        &mut self,
        parts: &mut [Part<'_, CpuProgram>],
        context: &mut LaunchContext<'_>,
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Waiting>, Error> {
        interpret::run_some(parts, context, stop)
    }
}
