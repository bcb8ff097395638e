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
//! In reading order: [`reduce`], `program`, `bases`, `interpret`, `wires`, `remote`, `work`,
//! [`model`], [`speeds`], [`profile`], [`kept`], `fit`, [`choose`], [`table`], [`loss`].

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

use std::cell::RefCell;
use std::sync::Arc;

use ::program::{Collective, ElementType, Reduction};
use executor::backend::{Attempt, Backend, CommunicatorShape, LaunchContext, Part, PrepareRequest};
use executor::connections::{Connections, SlotBytes};
use executor::{Choice, Error, Request, Waiting};
pub use profile::Profile;
use program::CpuProgram;
use speeds::{Scale, Speeds};
use table::{ChoiceTable, nearest_measurement};

/// The requests that share a table of choices: all that differ only in size, root and type.
type TableKey = (Collective, CommunicatorShape, bool, bool);

/// The CPU backend.
#[derive(Debug, Clone)]
pub struct Cpu {
    /// The profile of this machine, if there is one, and all ranks have it.
    calibrated: Option<Arc<Profile>>,
    /// Those of the first profile: all ranks were told.
    slots: SlotBytes,
    stream_bytes: u64,
    /// How the machines differ from the built-in profile's.
    scale: Scale,
    /// The tables that were asked for: one communicator has few shapes.
    tables: RefCell<Vec<(TableKey, Arc<ChoiceTable>)>>,
}

impl Default for Cpu {
    /// A backend that chooses by the built-in profile.
    fn default() -> Self {
        Self::new(Profile::built_in())
    }
}

impl Cpu {
    /// Creates a backend that chooses by a profile if all ranks have it, and by the built-in one
    /// for ranks unlike those that were measured. That one is scaled to the machines' speeds.
    pub fn new(profile: Arc<Profile>) -> Self {
        Self {
            slots: profile.slot_bytes(),
            stream_bytes: profile.stream_bytes,
            calibrated: (profile.id() != Profile::built_in().id()).then_some(profile),
            scale: Scale::NONE,
            tables: RefCell::default(),
        }
    }

    /// The expected times of the choices for requests like this one.
    pub fn table(&self, request: &Request, shape: CommunicatorShape) -> Arc<ChoiceTable> {
        let multiplies = request.reduction == Reduction::PreMultipliedSum;
        let key = (request.collective, shape, request.in_place, multiplies);
        let mut tables = self.tables.borrow_mut();
        if let Some((_, known)) = tables.iter().find(|(it, _)| *it == key) {
            return Arc::clone(known);
        }
        let built_in = Profile::built_in();
        let distance = |it: &Profile| nearest_measurement(it, request.collective, shape);
        let (profile, scale) = match &self.calibrated {
            Some(it) if distance(it) <= distance(&built_in) => (it, Scale::NONE),
            _ => (&built_in, self.scale),
        };
        let table = Arc::new(ChoiceTable::new(profile, scale, request, shape));
        tables.push((key, Arc::clone(&table)));
        table
    }
}

impl Backend for Cpu {
    type Program = CpuProgram;

    fn name(&self) -> &'static str {
        "cpu"
    }

    fn slot_bytes(&self) -> SlotBytes {
        self.slots
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

    /// The profile, the built-in one, and the machine's speeds.
    fn offer(&self) -> Vec<u64> {
        let built_in = Profile::built_in().id();
        let ids = [
            self.calibrated.as_ref().map_or(built_in, |it| it.id()),
            built_in,
        ];
        let speeds = Speeds::here().times().map(f64::to_bits);
        [&ids[..], &speeds].concat()
    }

    fn agree(&mut self, offers: &[Vec<u64>]) -> Result<(), String> {
        // All ranks read the same offers.
        let is_same = |at: usize| {
            let mut offers = offers.iter().map(|it| it.get(at));
            let first = offers.next().flatten();
            first.is_some() && offers.all(|it| it == first)
        };
        if !is_same(1) {
            return Err("their built-in CPU cost profiles differ; give all ranks the same build of this program"
                .to_owned());
        }
        if !is_same(0) {
            self.calibrated = None;
        }
        let speeds = offers
            .iter()
            .filter_map(|it| Speeds::from_bits(it.get(2..)?));
        let speeds = Speeds::median(&speeds.collect::<Vec<_>>());
        let built_in = Profile::built_in();
        self.scale = speeds.map_or(Scale::NONE, |it| it.beside(&built_in.speeds));
        self.tables.get_mut().clear();
        Ok(())
    }

    fn prepare(&mut self, request: &PrepareRequest<'_>) -> Result<CpuProgram, Error> {
        Ok(CpuProgram::new(request, self.stream_bytes))
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
    use executor::BufferAccess;
    use executor::bootstrap::Crowd;
    use proptest::prelude::*;

    use super::*;
    use crate::loss::request;

    /// The built-in profile, or one that a calibration may have made.
    fn profile(number: u32) -> Arc<Profile> {
        if number == 0 {
            return Profile::built_in();
        }
        let mut profile = Profile::default();
        profile.model.hop_us *= f64::from(number) * 10.0;
        profile.slots.simple += number << 10;
        Arc::new(profile)
    }

    /// The profile that the ranks have in common after they have met. Asserts that all choose
    /// alike.
    fn met(mut ranks: Vec<Cpu>, offers: &[Vec<u64>]) -> Result<Option<u64>, String> {
        let slots: Vec<SlotBytes> = ranks.iter().map(Cpu::slot_bytes).collect();
        let shape = CommunicatorShape {
            ranks: 5,
            one_process: false,
            hosts: 1,
            even_hosts: true,
            channels: 2,
            crowd: Crowd { ranks: 5, cores: 2 },
            buffers: BufferAccess::Mapped,
        };
        // A table of before does not count.
        let _ = ranks[0].table(&request(Collective::AllReduce), shape);
        let agreed = ranks.iter_mut().map(|it| {
            it.agree(offers)?;
            let table = it.table(&request(Collective::AllReduce), shape);
            let choices: Vec<_> = (0..40).map(|power| table.choose(1 << power)).collect();
            Ok((choices, it.calibrated.as_ref().map(|it| it.id())))
        });
        let agreed: Vec<Result<_, String>> = agreed.collect();
        let same = agreed.windows(2).all(|pair| pair[0] == pair[1]);
        assert!(same, "{agreed:?}");
        // Connections have slots of the sizes that were offered.
        assert_eq!(slots, ranks.iter().map(Cpu::slot_bytes).collect::<Vec<_>>());
        agreed[0].clone().map(|it| it.1)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        #[test]
        fn all_ranks_choose_alike(
            numbers in prop::collection::vec(0_u32..3, 1..6),
            times in prop::collection::vec(-3.0_f64..3.0, 18),
            spoiled in prop::option::weighted(0.3, prop::collection::vec(any::<u64>(), 0..7)),
            other_program in prop::bool::weighted(0.2),
        ) {
            let ranks = || numbers.iter().map(|it| Cpu::new(profile(*it)));
            let mut offers: Vec<Vec<u64>> = ranks().map(|it| it.offer()).collect();
            // Machines of one job differ.
            for (offer, times) in offers.iter_mut().zip(times.chunks(3)) {
                for (bits, time) in offer[2..].iter_mut().zip(times) {
                    *bits = time.exp().to_bits();
                }
            }
            offers[0][1] ^= u64::from(other_program);
            let is_spoiled = spoiled.is_some();
            if let Some(spoiled) = spoiled {
                *offers.last_mut().expect("there is a rank") = spoiled;
            }
            let met = met(ranks().collect(), &offers);
            let alike = numbers.windows(2).all(|pair| pair[0] == pair[1]);
            if other_program && numbers.len() > 1 {
                prop_assert!(met.is_err());
            } else if !is_spoiled {
                let common = (alike && numbers[0] > 0).then(|| profile(numbers[0]).id());
                prop_assert_eq!(met, Ok(common));
            }
        }
    }
}
