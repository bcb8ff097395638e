//! Execution plans of MSCCL++, run by an interpreter of its operations on vectors of numbers. It
//! reads the JSON as MSCCL++'s executor does, and mixes the thread blocks of all ranks in an order
//! that a seed gives. Plans run twice, one launch after the other, without anything between.

use std::collections::BTreeMap;

use export::mscclpp::{NotExpressed, execution_plan};
use program::lower::{ProgramRequest, lower};
use program::verify::verify;
use program::{Channels, Collective, Program, Schedule, Transfer};
use serde_json::Value;

/// Numbers of a chunk.
const CHUNK: usize = 2;

/// A rank's buffers: input, output, scratch.
type Buffers = BTreeMap<char, Vec<u64>>;

fn number(value: &Value) -> usize {
    value.as_u64().expect("a number") as usize
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A thread block that runs.
struct Block {
    rank: usize,
    id: usize,
    launch: usize,
    next: usize,
}

/// All ranks.
struct Machine {
    plan: Value,
    buffers: Vec<Buffers>,
    /// Signals that wait, by receiver and its channel.
    signals: BTreeMap<(usize, usize), u64>,
    /// A rank's channel to the other rank and its channel.
    paired: BTreeMap<(usize, usize), (usize, usize)>,
}

impl Machine {
    fn new(plan: Value, input: impl Fn(usize, usize) -> u64) -> Self {
        let gpus = list(&plan["gpus"]).to_vec();
        let buffers = gpus.iter().map(|gpu| {
            let length = |key: &str| number(&gpu[key]) * CHUNK;
            let rank = number(&gpu["id"]);
            let inputs = (0..length("input_chunks"))
                .map(|at| input(rank, at))
                .collect();
            BTreeMap::from([
                ('i', inputs),
                ('o', vec![0; length("output_chunks")]),
                ('s', vec![0; length("scratch_chunks")]),
            ])
        });
        let mut paired = BTreeMap::new();
        let peers = |rank: usize| -> Vec<usize> {
            let channels = &gpus[rank]["channels"][0];
            assert_eq!(channels["channel_type"], "memory");
            list(&channels["connected_to"]).iter().map(number).collect()
        };
        for rank in 0..gpus.len() {
            for (channel, peer) in peers(rank).into_iter().enumerate() {
                // The n-th channels of two ranks to each other.
                let nth = peers(rank)[..channel]
                    .iter()
                    .filter(|it| **it == peer)
                    .count();
                let other = peers(peer).into_iter().enumerate();
                let other = other.filter(|(_, it)| *it == rank).nth(nth);
                let (other, _) = other.expect("both ranks list as many channels");
                paired.insert((rank, channel), (peer, other));
            }
        }
        Self {
            buffers: buffers.collect(),
            plan,
            signals: BTreeMap::new(),
            paired,
        }
    }

    fn blocks(&self, launch: usize) -> Vec<Block> {
        let gpus = list(&self.plan["gpus"]).iter();
        gpus.flat_map(|gpu| {
            let rank = number(&gpu["id"]);
            (0..list(&gpu["threadblocks"]).len()).map(move |id| Block {
                rank,
                id,
                launch,
                next: 0,
            })
        })
        .collect()
    }

    fn of_block(&self, block: &Block) -> &Value {
        &self.plan["gpus"][block.rank]["threadblocks"][block.id]
    }

    /// Where chunks are: the rank, the buffer and the first number.
    fn place(&self, block: &Block, chunks: &Value) -> (usize, char, usize) {
        let index = number(&chunks["index"]) * CHUNK;
        let kind = |value: &Value| value.as_str().and_then(|it| it.chars().next());
        if let Some(kind) = kind(&chunks["type"]) {
            return (block.rank, kind, index);
        }
        let refs = &self.of_block(block)["remote_buffer_refs"][0]["remote_buffer_ids"];
        let buffer = number(&refs[number(&chunks["buffer_id"])]);
        let buffer = &self.plan["gpus"][block.rank]["remote_buffers"][buffer];
        (
            number(&buffer["rank"]),
            kind(&buffer["type"]).expect("a type"),
            index,
        )
    }

    fn read(&self, block: &Block, chunks: &Value) -> Vec<u64> {
        let (rank, kind, at) = self.place(block, chunks);
        let count = number(&chunks["size"]) * CHUNK;
        self.buffers[rank][&kind][at..at + count].to_vec()
    }

    fn write(&mut self, block: &Block, chunks: &Value, numbers: &[u64]) {
        let (rank, kind, at) = self.place(block, chunks);
        assert_eq!(number(&chunks["size"]) * CHUNK, numbers.len());
        let buffer = self.buffers[rank].get_mut(&kind).expect("a buffer");
        buffer[at..at + numbers.len()].copy_from_slice(numbers);
    }

    /// Runs a block's next operation; returns `false` if it waits.
    fn step(&mut self, block: &mut Block) -> bool {
        let op = self.of_block(block)["ops"][block.next].clone();
        let channels: Vec<usize> = list(&op["channel_ids"]).iter().map(number).collect();
        let ids = &self.of_block(block)["channels"][0]["channel_ids"];
        let channels: Vec<(usize, usize)> = channels
            .into_iter()
            .map(|it| (block.rank, number(&ids[it])))
            .collect();
        let (sources, destinations) = (list(&op["src_buff"]), list(&op["dst_buff"]));
        let is_remote = |it: &Value| it["buffer_id"].is_u64();
        match op["name"].as_str().expect("a name") {
            "nop" => {}
            "signal" => {
                for channel in channels {
                    *self.signals.entry(self.paired[&channel]).or_insert(0) += 1;
                }
            }
            "wait" => {
                let has = |it: &(usize, usize)| self.signals.get(it).is_some_and(|it| *it > 0);
                if !channels.iter().all(has) {
                    return false;
                }
                for channel in channels {
                    *self.signals.get_mut(&channel).expect("a signal") -= 1;
                }
            }
            name @ ("copy" | "put" | "get") => {
                let [source, destination] = [sources, destinations].map(|it| {
                    assert_eq!(it.len(), 1);
                    &it[0]
                });
                assert_eq!(is_remote(source), name == "get");
                assert_eq!(is_remote(destination), name == "put");
                // MSCCL++'s get uses one place for both.
                assert!(name != "get" || source["index"] == destination["index"]);
                let numbers = self.read(block, source);
                self.write(block, destination, &numbers);
            }
            name @ ("re" | "res" | "rre" | "rres") => {
                let reads = name.starts_with("rr");
                assert!(!is_remote(&sources[0]) && !is_remote(&destinations[0]));
                assert!(sources[1..].iter().all(|it| is_remote(it) == reads));
                assert!(destinations[1..].iter().all(is_remote));
                assert_eq!(destinations.len() > 1, name.ends_with("es"));
                let mut sum = self.read(block, &sources[0]);
                for source in &sources[1..] {
                    let other = self.read(block, source);
                    sum.iter_mut().zip(other).for_each(|(a, b)| *a += b);
                }
                for destination in destinations {
                    self.write(block, destination, &sum);
                }
            }
            other => panic!("{other}"),
        }
        block.next += 1;
        true
    }

    /// Runs launches to the end. A rank's next launch begins when its last one has ended.
    fn run(&mut self, launches: usize, seed: u64) {
        let mut random = seed;
        let mut waiting: Vec<Block> = (0..launches).flat_map(|it| self.blocks(it)).collect();
        while !waiting.is_empty() {
            let mut made_progress = false;
            let mut at = 0;
            while at < waiting.len() {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                let (rank, launch) = (waiting[at].rank, waiting[at].launch);
                let is_turn = (waiting.iter()).all(|it| it.rank != rank || it.launch >= launch);
                let mut block = waiting.swap_remove(at);
                let length = list(&self.of_block(&block)["ops"]).len();
                let mut left = (random >> 60) as usize;
                while is_turn && left > 0 && block.next < length && self.step(&mut block) {
                    made_progress = true;
                    left -= 1;
                }
                if block.next < length {
                    waiting.push(block);
                    let last = waiting.len() - 1;
                    waiting.swap(at, last);
                    at += 1;
                } else {
                    made_progress = true;
                }
                // A block may have had no turn.
                made_progress |= random >> 60 == 0;
            }
            assert!(made_progress, "a deadlock");
        }
        let left: Vec<_> = self
            .signals
            .iter()
            .filter(|(_, count)| **count > 0)
            .collect();
        assert!(left.is_empty(), "signals are left: {left:?}");
    }
}

fn programs(of: (Collective, Schedule, Transfer), ranks: u32, channels: usize) -> Vec<Program> {
    let channels = Channels::plain(ranks, channels).expect("channels");
    let written = lower(&ProgramRequest {
        collective: of.0,
        schedule: of.1,
        transfer: of.2,
        root: 0,
        in_place: false,
        channels: &channels,
    });
    let proved = verify(written.expect("programs"), 2).expect("a proof");
    proved.iter().map(|it| it.program().clone()).collect()
}

fn plan(
    of: (Collective, Schedule, Transfer),
    ranks: u32,
    channels: usize,
) -> Result<Value, NotExpressed> {
    let programs = programs(of, ranks, channels);
    let programs: Vec<&Program> = programs.iter().collect();
    let plan = execution_plan("plan", &programs)?;
    Ok(serde_json::to_value(&plan).expect("JSON"))
}

/// A number that tells ranks and places apart, also in sums.
fn input(rank: usize, at: usize) -> u64 {
    (1 << (4 * rank)) * (at as u64 % 15 + 1)
}

/// The expected program of each rank.
fn expected(collective: Collective, ranks: usize, rank: usize, length: usize) -> Vec<u64> {
    let sum = |at: usize| (0..ranks).map(|it| input(it, at)).sum();
    match collective {
        Collective::AllReduce => (0..length).map(sum).collect(),
        Collective::ReduceScatter => (0..length).map(|at| sum(rank * length + at)).collect(),
        _ => {
            let block = length / ranks;
            (0..length)
                .map(|at| input(at / block, at % block))
                .collect()
        }
    }
}

const ALL: [(Collective, Schedule, Transfer); 8] = [
    (Collective::AllReduce, Schedule::Ring, Transfer::Fifo),
    (Collective::AllReduce, Schedule::Tree, Transfer::Fifo),
    (Collective::AllReduce, Schedule::Mesh, Transfer::Direct),
    (
        Collective::AllReduce,
        Schedule::TwoPhaseMesh,
        Transfer::Direct,
    ),
    (Collective::AllGather, Schedule::Ring, Transfer::Fifo),
    (Collective::AllGather, Schedule::Mesh, Transfer::Direct),
    (Collective::ReduceScatter, Schedule::Ring, Transfer::Fifo),
    (Collective::ReduceScatter, Schedule::Mesh, Transfer::Direct),
];

#[test]
fn every_element_is_right() {
    let mut run = 0;
    for of in ALL {
        for ranks in 2..=8 {
            for channels in [1, 3] {
                let what = format!("{of:?} of {ranks} ranks, {channels} channels");
                let plan = match plan(of, ranks, channels) {
                    Ok(plan) => plan,
                    Err(NotExpressed::TooMany { .. } | NotExpressed::Get(_)) => continue,
                    Err(other) => panic!("{what}: {other}"),
                };
                for seed in 0..4 {
                    let mut machine = Machine::new(plan.clone(), input);
                    machine.run(2, seed);
                    for (rank, buffers) in machine.buffers.iter().enumerate() {
                        let output = &buffers[&'o'];
                        let wanted = expected(of.0, ranks as usize, rank, output.len());
                        assert_eq!(*output, wanted, "{what}, rank {rank}, seed {seed}");
                    }
                }
                run += 1;
            }
        }
    }
    // Two numbers of channels, seven of ranks; what is too long for the executor is left out.
    assert!(run >= 80, "{run} plans");
}

#[test]
fn limits_of_the_executor_are_reasons() {
    let ring = (Collective::AllReduce, Schedule::Ring, Transfer::Fifo);
    let error = plan(ring, 8, 1).expect_err("a limit").to_string();
    assert!(
        error.contains("operations in one thread block; MSCCL++ has at most 64"),
        "{error}"
    );
    let leader = (Collective::AllToAll, Schedule::Mesh, Transfer::Direct);
    assert_eq!(
        plan(leader, 4, 1),
        Err(NotExpressed::Collective(Collective::AllToAll))
    );
    let switch = (Collective::AllReduce, Schedule::Nvls, Transfer::Direct);
    assert_eq!(plan(switch, 4, 1), Err(NotExpressed::Multicast));
}
