//! Cases that several tests run.

use executor::suite::{self, Case};
use program::{Collective, ElementType, Reduction, Transfer};

/// Every collective with every algorithm, transfer and protocol, types and operations in turn,
/// beginning with the `first`; without direct transfers and NVLS if `direct` is false.
pub fn every_choice(first: usize, ranks: impl Fn(usize) -> u32, direct: bool) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut number = first;
    for collective in Collective::ALL {
        for choice in suite::choices(collective) {
            number += 1;
            let reduction = Reduction::OF_NCCL[number % Reduction::OF_NCCL.len()];
            let case = Case {
                collective,
                choice,
                element: ElementType::OF_NCCL[number % ElementType::OF_NCCL.len()],
                reduction: if collective.reduces() {
                    reduction
                } else {
                    Reduction::Sum
                },
                ranks: ranks(number),
                root: u32::from(collective.has_root() || collective == Collective::SendRecv),
                count: [1023, 7, 401][number % 3],
                in_place: number.is_multiple_of(2),
            };
            let wanted = direct || choice.transfer == Transfer::Fifo;
            // Choices with two channels and with short pieces take turns.
            let turn = (choice.channels == 2) == (number / 4).is_multiple_of(2);
            if wanted && turn && case.exists() {
                cases.push(case);
            }
        }
    }
    cases
}
