//! Every algorithm is proved, for every number of ranks.

use program::Channels;
use program::verify::verify;

use crate::cases;

#[test]
fn every_algorithm_is_proved() {
    for ranks in (1..=9).chain([13, 16]) {
        let channels = Channels::plain(ranks, 2).expect("few ranks");
        for root in [0, ranks / 2, ranks - 1] {
            for case in cases::all(root) {
                let programs = case
                    .lower(&channels)
                    .unwrap_or_else(|error| panic!("{case:?}: {error}"));
                if let Err(error) = verify(programs, 2) {
                    panic!("{case:?}, {ranks} ranks: {error}");
                }
            }
        }
    }
}
