//! Another process overwrites particular words of the memory that ranks share.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::job::Job;
use super::program::Said;

/// Time beyond a deadline that a busy machine may need.
const SLACK: Duration = Duration::from_secs(4);

fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_topo"))
}

/// A pause between two attacks, so that the ranks get a core.
const PAUSE: Duration = Duration::from_micros(50);

/// Launches without end.
const ENDLESS: [&str; 8] = [
    "-n",
    "1000000000",
    "--no-in-place",
    "--check",
    "0",
    "--timeout",
    "2",
    "--bind=none",
];

fn endless(ranks: u32, arguments: &[&str]) -> Job {
    Job::by_hand(program(), ranks, &[arguments, &ENDLESS].concat())
}

/// Checks that all ranks end with an error, and that one error has these words.
fn all_fail(said: &[Said], words: &[&str]) {
    end_in_order(said);
    assert!(tells(said, words), "{said:?}");
}

/// Checks that all ranks end with an error.
fn end_in_order(said: &[Said]) {
    for (rank, it) in said.iter().enumerate() {
        assert!(it.is_orderly(), "rank {rank}: {it:?}");
        assert_eq!(it.status, Some(2), "rank {rank}: {it:?}");
    }
}

/// Whether an error has these words.
fn tells(said: &[Said], words: &[&str]) -> bool {
    let told = |it: &Said| words.iter().all(|word| it.err.contains(word));
    said.iter().any(told)
}

/// Offset of the first entry of the buffer table in a base segment, and the size of an entry,
/// words.
const TABLE: u64 = 48;
const ENTRY: u64 = 16;

/// Offset of the first slot of the first FIFO in a segment of connections, words.
const SLOTS: u64 = 64;

/// The word of the checksum. Before it are the launch, three buffers of three words, and the
/// request.
const CHECKSUM: usize = 11;

/// The checksum of an entry.
fn checksum(entry: &[u64]) -> u64 {
    let mix = |sum: u64, word: &u64| {
        (sum ^ word)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29)
    };
    entry[1..CHECKSUM].iter().fold(mix(0, &!entry[0]), mix)
}

/// Jobs until one reads an entry whose word and checksum were both overwritten: a rank may read it
/// in between.
const TRIES: usize = 20;

/// Lets ranks read a buffer table of which a word is overwritten. If `honest`, the checksum is
/// updated too.
fn overwrite_table(place: usize, value: u64, honest: bool, words: &[&str]) {
    let tries = if honest { TRIES } else { 1 };
    let mut said = Vec::new();
    for _ in 0..tries {
        said = with_overwritten_table(place, value, honest);
        end_in_order(&said);
        assert!(tells(&said, &["buffers of rank 1"]), "{said:?}");
        if tells(&said, words) {
            return;
        }
    }
    panic!("{said:?}");
}

/// Overwrites a word in the entries of the buffer table until all ranks have ended.
fn with_overwritten_table(place: usize, value: u64, honest: bool) -> Vec<Said> {
    let arguments = [
        "all-reduce",
        "-b",
        "64K",
        "-e",
        "64K",
        "--algorithm",
        "two-phase-mesh",
        "--transfer",
        "direct",
    ];
    let mut job = endless(3, &arguments);
    job.await_memory("connections1ofrank2");
    let table = job.await_memory("baseofrank1").remove(0);
    let until = Instant::now() + Duration::from_secs(2) + SLACK;
    while !job.is_over() && Instant::now() < until {
        for first in [TABLE, TABLE + ENTRY] {
            let mut entry: Vec<u64> = (0..ENTRY).map(|word| table.read(first + word)).collect();
            entry[place] = value;
            table.write(first + place as u64, value);
            if honest {
                table.write(first + CHECKSUM as u64, checksum(&entry));
            }
        }
        thread::sleep(PAUSE);
    }
    job.finish(until)
}

pub(crate) fn an_offset_beyond_a_peers_buffers_is_named() {
    // The offset of the output.
    let words = ["buffers of rank 1", "1099511627776"];
    overwrite_table(5, 0x100_0000_0000, true, &words);
}

pub(crate) fn a_buffer_that_ends_beyond_a_peers_memory_is_named() {
    overwrite_table(5, u64::MAX - 4096, true, &["buffers of rank 1"]);
}

pub(crate) fn a_buffer_table_of_another_launch_is_named() {
    overwrite_table(0, 1 << 40, true, &["buffers of rank 1", "launch"]);
}

pub(crate) fn an_address_that_was_overwritten_is_named() {
    overwrite_table(5, 4096, false, &["buffers of rank 1", "overwritten"]);
}

/// Overwrites the flag of a line in the middle of each slot towards rank 1 until all ranks have
/// ended. A slot of the protocol has `lines` lines.
fn overwrite_flags(protocol: &str, line_words: u64, lines: u64) {
    let arguments = [
        "broadcast",
        "-b",
        "1K",
        "-e",
        "1K",
        "--algorithm",
        "ring",
        "--protocol",
        protocol,
    ];
    let mut job = endless(2, &arguments);
    job.await_memory("connections2ofrank1");
    let memory = job.memory("connections");
    let stride = lines * line_words + 16;
    // Not the first line, which begins a slot, and not the last one, which completes it.
    let flag = SLOTS + 3 * line_words + line_words - 1;
    let until = Instant::now() + Duration::from_secs(2) + SLACK;
    while !job.is_over() && Instant::now() < until {
        for memory in memory.iter().filter(|it| it.name.ends_with("ofrank1")) {
            for slot in 0..8 {
                let word = flag + slot * stride;
                if word < memory.words {
                    memory.write(word, 0);
                }
            }
        }
        thread::sleep(PAUSE);
    }
    all_fail(&job.finish(until), &["Broadcast waited"]);
}

pub(crate) fn a_half_valid_slot_of_ll_ends_in_the_timeout() {
    overwrite_flags("ll", 1, 4096);
}

pub(crate) fn a_half_valid_slot_of_ll128_ends_in_the_timeout() {
    overwrite_flags("ll128", 8, 1024);
}
