//! Runs programs on CPUs: each rank is a thread, of one process or of its own, that polls the lanes of its program.
//!
//! [`Cpu`] is the [`Backend`](executor::Backend). What it chooses for a message comes from a [`Profile`], which
//! `topo calibrate` measures.
//!
//! In reading order: [`reduce`], [`program`], [`interpret`], [`remote`], [`profile`].

mod interpret;
mod program;
pub mod reduce;
mod remote;

use executor::backend::{Backend, Neighbourhood, Order, Part, Surroundings};
use executor::connections::SlotBytes;
use executor::{Error, Request, Way};
use program::Program;

/// The CPU as a backend.
#[derive(Debug, Clone, Default)]
pub struct Cpu {}

impl Backend for Cpu {
    type Program = Program;

    fn name(&self) -> &'static str {
        "cpu"
    }

    fn slot_bytes(&self) -> SlotBytes {
        SlotBytes {
            ll: 16 << 10,
            ll128: 64 << 10,
            simple: 256 << 10,
        }
    }

    fn choose(&self, request: &Request, place: &Neighbourhood) -> Option<Way> {
        use plan::program::{Schedule, Transfer};
        let big = request.bytes(place.ranks) > 65536;
        Some(Way {
            schedule: if big && request.collective == plan::Collective::AllReduce {
                Schedule::TwoPhaseMesh
            } else {
                Schedule::Mesh
            },
            transfer: if big
                && request.collective != plan::Collective::SendRecv
                && !(request.collective == plan::Collective::AllToAll && request.in_place)
                && request.reduction != plan::Reduction::PreMultipliedSum
            {
                Transfer::Direct
            } else {
                Transfer::Fifo
            },
            protocol: if big {
                plan::Protocol::Simple
            } else {
                plan::Protocol::Ll
            },
            channels: 1,
            piece_bytes: 0,
        })
    }

    fn prepare(&mut self, order: &Order<'_>) -> Result<Program, Error> {
        Program::new(order, 4 << 20)
    }

    fn run(
        &mut self,
        parts: &mut [Part<'_, Program>],
        surroundings: &mut Surroundings<'_>,
    ) -> Result<(), Error> {
        interpret::run(parts, surroundings)
    }
}
