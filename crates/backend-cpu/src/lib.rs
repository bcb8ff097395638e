//! Runs programs on CPUs: each rank is a thread, of one process or of its own, that polls the lanes of its program.
//!
//! [`Cpu`] is the [`Backend`]. What it chooses for a message comes from a [`Profile`], which
//! `topo calibrate` measures.
//!
//! In reading order: [`reduce`], `program`, `interpret`, `remote`, [`profile`].

mod interpret;
pub mod profile;
mod program;
pub mod reduce;
mod remote;

use std::sync::Arc;

use executor::backend::{Backend, CommunicatorShape, LaunchContext, Part, PrepareRequest};
use executor::connections::SlotBytes;
use executor::{Choice, Error, Request};
pub use profile::Profile;
use program::Program;

/// The CPU as a backend.
#[derive(Debug, Clone, Default)]
pub struct Cpu {
    profile: Arc<Profile>,
}

impl Cpu {
    /// A backend that chooses by a profile. All ranks take equal ones.
    pub const fn new(profile: Arc<Profile>) -> Self {
        Self { profile }
    }
}

impl Backend for Cpu {
    type Program = Program;

    fn name(&self) -> &'static str {
        "cpu"
    }

    fn slot_bytes(&self) -> SlotBytes {
        self.profile.slot_bytes()
    }

    fn choose(&self, request: &Request, place: &CommunicatorShape) -> Option<Choice> {
        self.profile.choose(request, *place)
    }

    fn prepare(&mut self, request: &PrepareRequest<'_>) -> Result<Program, Error> {
        Ok(Program::new(request, self.profile.stream_bytes))
    }

    fn run(
        &mut self,
        parts: &mut [Part<'_, Program>],
        context: &mut LaunchContext<'_>,
    ) -> Result<(), Error> {
        interpret::run(parts, context)
    }
}
