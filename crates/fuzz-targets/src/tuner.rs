//! Choices for NCCL's tuner plug-in. An accepted file is asked about operations.

use tuner_plugin::choose::Operation;
use tuner_plugin::names::{ALGORITHMS, COLLECTIVES, PROTOCOLS};
use tuner_plugin::table::Table;

use crate::input::{Depth, below, checked, join, split};

/// Times of an operation that are asked about.
const ASKED: usize = 4;

/// Files with all kinds of lines.
pub fn seeds() -> Vec<Vec<u8>> {
    let one = "topo-tuner 1\n\
               # one communicator\n\
               communicator nodes 2 ranks 16\n\
               gpus 0-7\n\
               cost all-reduce simple 56 205.7\n\
               choose broadcast 0 max ring ll\n\
               choose all-reduce 0 65536 tree ll channels 2 chunk 32768\n\
               choose all-reduce 65537 max NVLSTree simple\n\
               end\n";
    let several = "topo-tuner 1\n\
                   communicator nodes 1 ranks 4\n\
                   cost all-gather ll 5 10\n\
                   choose all-gather 0 max ring ll\n\
                   communicator nodes 1 ranks 4\n\
                   cost all-gather ll 5 20\n\
                   choose all-gather 7 8 pat simple\n\
                   end\n";
    [one, several]
        .map(|text| join(text.as_bytes(), &[0, 2, 4, 0, 1, 0, 200, 7, 9]))
        .to_vec()
}

/// Reads a file, writes it again and asks it about operations, which the bytes after the first NUL
/// choose.
///
/// # Panics
/// What was written reads back differently, or something is chosen that NCCL does not consider.
pub fn run(bytes: &[u8]) -> Depth {
    let (document, mut choices) = split(bytes);
    let text = String::from_utf8_lossy(document);
    let Some(table) = checked(Table::parse(&text)) else {
        return Depth::Outside;
    };
    let again = Table::parse(&table.to_text()).expect("what was written can be read");
    assert_eq!(again, table);
    for _ in 0..ASKED {
        let times: Vec<f32> = (0..ALGORITHMS.len() * PROTOCOLS.len())
            .map(|_| below(&mut choices, 256) as f32 - 20.0)
            .collect();
        let operation = Operation {
            collective: below(&mut choices, COLLECTIVES.len()) as u8,
            bytes: (below(&mut choices, 256) as u64) << below(&mut choices, 64),
            operations: below(&mut choices, 5) as u32,
            times: &times,
            protocols: PROTOCOLS.len(),
        };
        let of = table
            .communicators
            .get(below(&mut choices, table.communicators.len().max(1)));
        let (nodes, ranks) = of.map_or((1, 1), |it| (it.nodes, it.ranks));
        let candidates = table.candidates(nodes, ranks);
        if let Ok(choice) = table.choose(&candidates, &operation) {
            assert!((choice.least..=choice.most).contains(&operation.bytes));
            assert!(operation.time(choice.algorithm, choice.protocol).is_some());
            let taken = (choice.algorithm, choice.protocol);
            let (collective, bytes) = (operation.collective, operation.bytes);
            let chunk = table.chunk(&candidates, collective, bytes, taken);
            assert!(chunk.is_none_or(|it| it >= 8192));
        }
    }
    Depth::Accepted
}
