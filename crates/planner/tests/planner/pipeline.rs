//! The pipeline model of NCCL 2.32.6, by a table of times from its facts.

use crate::hopper::hopper;
use plan::cost::PipelineEntry;
use plan::{Algorithm, CostTable};
use planner::cost::{self, CostProfile, GraphFigures, Inputs, TunedOperation};
use planner::{NcclVersion, Rules, Settings};
use program::{Collective, Protocol};
use topology::PathType;

const VERSION: NcclVersion = NcclVersion::V2_32_6;

/// How far times may differ, as a share of them: NCCL computes in 32 bits.
const CLOSE: f64 = 1e-4;

fn table(inputs: &Inputs, version: NcclVersion) -> CostTable {
    let tuning = Settings::of(version).tuning;
    let profile = CostProfile::of(version);
    cost::table(inputs, &tuning, &profile, Rules::of(version)).expect("no setting can be wrong")
}

/// A communicator of Rubin whose graphs all have these figures.
fn rubin(ranks: u32, nodes: u32, channels: u32, bandwidth: [f32; 2]) -> Inputs {
    let graph = GraphFigures {
        channels,
        bw_intra: bandwidth[0],
        bw_inter: bandwidth[1],
        type_intra: PathType::Nvl,
        ..hopper(nodes).ring
    };
    Inputs {
        ranks,
        nodes,
        min_local_ranks: ranks / nodes,
        max_local_ranks: ranks / nodes,
        min_cc: 107,
        max_cc: 107,
        ring: graph,
        tree: graph,
        nvls_graph: graph,
        ..hopper(nodes)
    }
}

/// An operation that the model prices on a number of channels.
struct Row {
    table: CostTable,
    entry: PipelineEntry,
    operation: TunedOperation,
    channels: u32,
    expected_us: f64,
}

impl Row {
    fn read(line: &str) -> Self {
        let words: Vec<&str> = line.split_whitespace().filter(|it| *it != "|").collect();
        let number = |at: usize| words[at].parse::<f64>().expect("a number");
        let collective = words[0].parse::<Collective>().expect("a collective");
        let mut algorithm = Algorithm::ALL.into_iter();
        let algorithm = algorithm.find(|it| it.name().eq_ignore_ascii_case(words[1]));
        let protocol = words[2].parse::<Protocol>().expect("a protocol");
        let [ranks, nodes, channels] = [5, 6, 7].map(|at| number(at) as u32);
        let bandwidth = [8, 9].map(|at| number(at) as f32);
        let table = table(&rubin(ranks, nodes, channels, bandwidth), VERSION);
        let choice = (algorithm.expect("an algorithm"), protocol);
        let pipeline = table.pipeline.as_ref().expect("a model");
        let found = *pipeline.entry(choice).expect("an entry");
        // The table gives the bytes of the whole message.
        let bytes = number(3) as u64;
        Self {
            operation: TunedOperation::new(collective, bytes),
            channels: number(4) as u32,
            entry: PipelineEntry {
                blocks: number(10) as u32,
                ..found
            },
            expected_us: number(12),
            table,
        }
    }

    /// The time with other bytes, µs.
    fn time_us(&self, bytes: u64) -> f64 {
        let operation = TunedOperation::new(self.operation.collective, bytes);
        let pipeline = self.table.pipeline.as_ref().expect("a model");
        let time = pipeline.time_us(&self.table.job, &self.entry, &operation, self.channels);
        time.expect("a time")
    }
}

fn rows() -> Vec<Row> {
    let lines = include_str!("pipeline.txt").lines();
    lines
        .filter(|line| !line.starts_with('#'))
        .map(Row::read)
        .collect()
}

#[test]
fn times_are_those_of_the_facts() {
    let rows = rows();
    assert_eq!(rows.len(), 12);
    for (row, number) in rows.iter().zip(1..) {
        let bytes = row.operation.bytes;
        let time = row.time_us(bytes);
        let off = (time / row.expected_us - 1.0).abs();
        assert!(
            off < CLOSE,
            "row {number}: {time} µs, expected {}",
            row.expected_us
        );
    }
}

#[test]
fn times_grow_and_bandwidth_is_bounded() {
    for row in rows() {
        let mut last = 0.0;
        for log in 0..40 {
            let time = row.time_us(1 << log);
            assert!(
                time.is_finite() && time >= last * 0.999,
                "2^{log}: {time} after {last}"
            );
            last = time;
        }
    }
}

#[test]
fn only_rubin_follows_it() {
    let mut inputs = rubin(8, 1, 4, [140.4, 140.4]);
    assert!(table(&inputs, NcclVersion::V2_32).pipeline.is_none());
    (inputs.min_cc, inputs.max_cc) = (103, 103);
    let [newer, judged] = [VERSION, NcclVersion::V2_32].map(|it| table(&inputs, it));
    let mut alike = judged.clone();
    alike.profile.clone_from(&newer.profile);
    // The model of symmetric windows changed for Blackwell, too.
    alike.windows.clone_from(&newer.windows);
    assert_eq!(newer, alike);
}
