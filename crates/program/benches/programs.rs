//! The time to write programs, to prove them, and to bind one to a message.

use divan::{Bencher, black_box};
use program::Collective;
use program::lower::{ProgramRequest, lower};
use program::verify::verify;
use program::{Channels, MessageSize, Program, Schedule, Transfer};

fn main() {
    divan::main();
}

/// Algorithms of all-reduce.
const ALGORITHMS: [(&str, Schedule, Transfer); 6] = [
    ("ring", Schedule::Ring, Transfer::Fifo),
    ("tree", Schedule::Tree, Transfer::Fifo),
    (
        "halving-doubling",
        Schedule::HalvingDoubling,
        Transfer::Fifo,
    ),
    ("mesh", Schedule::Mesh, Transfer::Fifo),
    ("mesh direct", Schedule::Mesh, Transfer::Direct),
    (
        "two-phase-mesh direct",
        Schedule::TwoPhaseMesh,
        Transfer::Direct,
    ),
];

const RANKS: [u32; 4] = [2, 16, 64, 256];

fn names() -> impl Iterator<Item = &'static str> {
    ALGORITHMS.iter().map(|(name, ..)| *name)
}

fn programs(name: &str, ranks: u32) -> Vec<Program> {
    let channels = Channels::plain(ranks, 4).expect("few ranks");
    let (_, schedule, transfer) = ALGORITHMS
        .iter()
        .find(|(known, ..)| *known == name)
        .expect("an algorithm");
    let request = ProgramRequest {
        collective: Collective::AllReduce,
        schedule: *schedule,
        transfer: *transfer,
        root: 0,
        in_place: false,
        channels: &channels,
    };
    lower(&request).expect("served")
}

#[divan::bench(args = names(), consts = RANKS, max_time = 2)]
fn lower_4_channels<const N: u32>(name: &str) -> Vec<Program> {
    programs(black_box(name), N)
}

#[divan::bench(args = names(), consts = RANKS, max_time = 2)]
fn verify_4_channels<const N: u32>(bencher: Bencher<'_, '_>, name: &str) {
    bencher
        .with_inputs(|| programs(name, N))
        .bench_values(|programs| verify(programs, 8).expect("proved"));
}

#[divan::bench(args = names(), consts = RANKS, max_time = 2)]
fn bind_4_channels<const N: u32>(bencher: Bencher<'_, '_>, name: &str) {
    let programs = verify(programs(name, N), 8).expect("proved");
    let message = MessageSize {
        count: 1_000_001,
        element_bytes: 4,
        slot_bytes: 1 << 16,
        piece_bytes: 0,
    };
    bencher.bench(|| programs[0].bind(black_box(&message)).expect("fits"));
}
