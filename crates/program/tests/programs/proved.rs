//! Every algorithm is proved, for every number of ranks.

use program::verify::verify;
use program::{Channels, Collective, Schedule, Transfer};

use crate::cases::{self, Case};

#[test]
fn every_algorithm_is_proved() {
    for ranks in (1..=9).chain([13, 16]) {
        let channels = Channels::plain(ranks, 2).expect("few ranks");
        // One host, two, and hosts of two and of three ranks with a shorter last one.
        for per_host in [ranks, ranks.div_ceil(2), 2, 3] {
            let hosts: Vec<u32> = (0..ranks).map(|rank| rank / per_host).collect();
            let channels = channels.clone().on_hosts(&hosts).expect("a host for each");
            for root in [0, ranks / 2, ranks - 1] {
                let mut cases = cases::on(&channels, root);
                // Only hierarchical algorithms know hosts.
                let all = per_host == ranks;
                cases.retain(|case| all || case.transfer == Transfer::Hierarchical);
                for case in cases {
                    let programs = case
                        .lower(&channels)
                        .unwrap_or_else(|error| panic!("{case:?}: {error}"));
                    if let Err(error) = verify(programs, case.slots()) {
                        panic!("{case:?}, {ranks} ranks, {per_host} per host: {error}");
                    }
                }
            }
        }
    }
}

/// A leader holds what its host's ranks exchange with those of three others: 3 · 148² blocks.
#[test]
fn large_hosts_have_room_for_all_blocks() {
    let (hosts, per_host) = (4, 148);
    let ranks = hosts * per_host;
    let of: Vec<u32> = (0..ranks).map(|rank| rank / per_host).collect();
    let channels = Channels::plain(ranks, 1).expect("not too many ranks");
    let channels = channels.on_hosts(&of).expect("a host for each");
    let case = Case {
        collective: Collective::AllToAll,
        schedule: Schedule::Bruck,
        transfer: Transfer::Hierarchical,
        root: 0,
        in_place: false,
        registered: false,
    };
    let programs = case.lower(&channels).expect("it serves all-to-all");
    assert_eq!(programs[0].scratch_blocks, 3 * per_host * per_host);
}
