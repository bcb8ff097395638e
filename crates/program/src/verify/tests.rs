//! A few turns prove what many turns would.

use proptest::prelude::*;

use super::prove;
use crate::Collective;
use crate::lower::{ProgramRequest, lower};
use crate::{Channels, Program, Schedule, Transfer};

mod vocabulary {
    pub(super) use crate::{BufferKind, ConnectionEnd, Operand, Program, Step};
}

#[allow(unreachable_pub, reason = "the other tests share it")]
#[path = "../../tests/programs/mutate.rs"]
mod mutate;

fn programs(ranks: u32, pick: usize, in_place: bool) -> Vec<Program> {
    let channels = Channels::plain(ranks, 1).expect("few ranks");
    let mut choices = Vec::new();
    for collective in Collective::ALL {
        for schedule in Schedule::ALL {
            for transfer in Transfer::ALL {
                let request = ProgramRequest {
                    collective,
                    schedule,
                    transfer,
                    root: 0,
                    in_place,
                    channels: &channels,
                };
                choices.extend(lower(&request));
            }
        }
    }
    choices.swap_remove(pick % choices.len())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn few_turns_stand_for_many(
        ranks in 2_u32..5,
        pick in any::<usize>(),
        in_place in any::<bool>(),
        slots in 1_u32..4,
        changes in prop::collection::vec(any::<[usize; 8]>(), 0..3),
    ) {
        let mut programs = programs(ranks, pick, in_place);
        for picks in changes {
            mutate::mutate(&mut programs, mutate::Change { picks });
        }
        let few = prove(&programs, slots, |steady| vec![0, 1, 2, steady + 3]);
        let many = prove(&programs, slots, |steady| (0..steady + 10).collect());
        prop_assert_eq!(few.is_ok(), many.is_ok(), "{:?} {:?}", few, many);
    }
}
