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
//! `work`, [`model`], `fit`, [`choose`], [`table`],
//! [`speeds`], [`loss`], [`kept`].

mod bases;
pub mod choose;
mod fit;
mod interpret;
pub mod kept;
pub mod loss;
pub mod model;
pub mod profile;
mod program;
pub mod reduce;
mod remote;
pub mod speeds;
pub mod table;
mod wires;
mod work;

use std::sync::Arc;

use ::program::{ElementType, Reduction};
use executor::backend::{Attempt, Backend, CommunicatorShape, LaunchContext, Part, PrepareRequest};
use executor::connections::{Connections, SlotBytes};
use executor::{Choice, Error, Request, Waiting};
pub use profile::Profile;
use program::CpuProgram;
use speeds::{Scale, Speeds};
use table::ChoiceTable;

/// The number of the built-in profile, scaled, in offers.
const BUILT_IN: u64 = 0;

/// The CPU backend.
#[derive(Debug, Clone)]
pub struct Cpu {
    profile: Arc<Profile>,
    /// Whether the profile may be of another machine, and this one's speeds count.
    scales: bool,
    scale: Scale,
}

impl Default for Cpu {
    /// A backend that chooses by the built-in profile.
    fn default() -> Self {
        Self::new(Profile::built_in())
    }
}

impl Cpu {
    /// Creates a backend that chooses by a profile: of this machine, or the built-in one, beside
    /// which the machine's speeds count. Ranks whose profiles differ choose by the built-in one.
    pub fn new(profile: Arc<Profile>) -> Self {
        let built_in = Profile::built_in();
        Self {
            scales: Arc::ptr_eq(&profile, &built_in) || profile == built_in,
            profile,
            scale: Scale::NONE,
        }
    }

    /// The expected times of the choices for requests like this one.
    pub fn table(&self, request: &Request, shape: CommunicatorShape) -> Arc<ChoiceTable> {
        self.profile.table(request, shape, self.scale)
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
        self.table(request, *shape)
            .choose(request.bytes(shape.ranks))
    }

    fn offer(&self) -> Vec<u8> {
        let id = if self.scales {
            BUILT_IN
        } else {
            self.profile.id()
        };
        [id.to_le_bytes().as_slice(), &Speeds::here().to_bytes()].concat()
    }

    fn agree(&mut self, offers: &[Vec<u8>]) {
        let read = |offer: &Vec<u8>| {
            let (id, speeds) = offer.split_first_chunk()?;
            let speeds = Speeds::from_bytes(speeds.try_into().ok()?)?;
            Some((u64::from_le_bytes(*id), speeds))
        };
        let read: Option<Vec<(u64, Speeds)>> = offers.iter().map(read).collect();
        let (ids, speeds): (Vec<u64>, Vec<Speeds>) = read.unwrap_or_default().into_iter().unzip();
        // All ranks read the same offers.
        if !self.scales && ids.windows(2).all(|pair| pair[0] == pair[1]) && !ids.is_empty() {
            return;
        }
        self.profile = Profile::built_in();
        self.scale = Speeds::median(&speeds)
            .map_or(Scale::NONE, |speeds| speeds.beside(&self.profile.speeds));
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

#[cfg(test)]
mod tests {
    use super::*;

    fn calibrated(hop_us: f64) -> Arc<Profile> {
        let built_in = Profile::default();
        Arc::new(Profile {
            model: model::Model {
                hop_us,
                ..built_in.model
            },
            ..built_in
        })
    }

    /// What each of these ranks chooses by, after they have met.
    fn met(mut ranks: Vec<Cpu>, spoil: impl Fn(&mut Vec<Vec<u8>>)) -> Vec<(u64, Scale)> {
        let mut offers: Vec<Vec<u8>> = ranks.iter().map(Cpu::offer).collect();
        spoil(&mut offers);
        ranks.iter_mut().for_each(|it| it.agree(&offers));
        ranks.iter().map(|it| (it.profile.id(), it.scale)).collect()
    }

    #[test]
    fn all_ranks_choose_by_one_profile() {
        let built_in = Profile::built_in().id();
        let alike = met(
            vec![Cpu::new(calibrated(0.1)), Cpu::new(calibrated(0.1))],
            |_| (),
        );
        assert_eq!(alike, [(calibrated(0.1).id(), Scale::NONE); 2]);
        let profiles = [calibrated(0.1), calibrated(0.2), Profile::built_in()];
        for others in profiles.iter().skip(1) {
            let ranks = vec![Cpu::new(calibrated(0.1)), Cpu::new(Arc::clone(others))];
            let met = met(ranks, |_| ());
            assert_eq!(met[0], met[1]);
            assert_eq!(met[0].0, built_in);
        }
        // Machines of one job differ.
        let slower = |bytes: &mut Vec<u8>| {
            let speeds = Speeds {
                copy_us: 1e3,
                ..Speeds::here()
            };
            bytes[8..].copy_from_slice(&speeds.to_bytes());
        };
        let of_two = met(vec![Cpu::default(), Cpu::default()], |all| {
            slower(&mut all[1])
        });
        assert_eq!(of_two[0], of_two[1]);
        assert_ne!(of_two[0].1, Scale::NONE);
        // Offers that are none, as of a program that lies.
        for spoiled in [vec![], vec![0xff; 40], vec![0; 39], vec![0; 4096]] {
            let ranks = vec![Cpu::new(calibrated(0.1)), Cpu::default()];
            let met = met(ranks, |all| all[1].clone_from(&spoiled));
            assert_eq!(met, [(built_in, Scale::NONE); 2]);
        }
    }
}
