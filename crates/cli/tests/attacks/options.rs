//! Options that must be equal on all ranks.

use super::ranks::{Ranks, address, id, rank};

pub(crate) fn an_option_that_one_rank_has_and_another_has_not_is_named() {
    for option in ["--checksums", "--survive"] {
        let id = id(address());
        let start = |number: u32| {
            let mut command = rank(number, 2);
            command.env("TOPO_ID", &id);
            command.args(["all-reduce", "-b", "8", "-e", "8", "-n", "1"]);
            if number == 1 {
                command.arg(option);
            }
            command
        };
        for (rank, said) in Ranks::start((0..2).map(start)).finish().iter().enumerate() {
            let named = said.err.contains(option) && said.err.contains("give all ranks the same");
            assert!(
                said.status == Some(2) && named,
                "{option}: rank {rank} ended with {:?}: {}",
                said.status,
                said.err
            );
        }
    }
}
