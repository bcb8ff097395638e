//! The cost model on machines whose numbers can be computed by hand.

use crate::hopper::{graph, hopper};
use plan::Algorithm;
use planner::cost::{
    self, CollnetInputs, CostProfile, CostTable, GraphFigures, Inputs, Off, RestrictError,
    TunedOperation, doubling,
};
use planner::{NcclVersion, Rules, Settings};
use program::{Collective, Protocol, Reduction};
use topology::PathType;

fn settings(variables: &[(&str, &str)]) -> Settings {
    Settings::from_variables(
        variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
    )
}

fn table(inputs: &Inputs, variables: &[(&str, &str)]) -> Result<CostTable, RestrictError> {
    let version = NcclVersion::V2_30;
    let (profile, rules) = (CostProfile::of(version), Rules::of(version));
    cost::table(inputs, &settings(variables).tuning, &profile, rules)
}

fn table_of(version: NcclVersion, inputs: &Inputs) -> CostTable {
    let (profile, rules) = (CostProfile::of(version), Rules::of(version));
    cost::table(inputs, &settings(&[]).tuning, &profile, rules).expect("no setting can be wrong")
}

fn plain(inputs: &Inputs) -> CostTable {
    table(inputs, &[]).expect("no setting can be wrong")
}

#[test]
fn eight_gpus_of_one_machine() {
    use {Algorithm::*, Protocol::*};
    let table = plain(&hopper(1));
    for (algorithm, protocol, bandwidth, latency) in [
        (Ring, Simple, 360.0 * 8.0 / 14.0, 56.0),
        (Ring, Ll, 141.0 * 8.0 / 14.0, 15.0),
        (Ring, Ll128, 331.2 * 8.0 / 14.0, 40.6),
        (Tree, Simple, 165.6, 64.4),
        (Nvls, Simple, 272.0, 25.0),
    ] {
        let entry = table
            .entry(Collective::AllReduce, algorithm, protocol)
            .expect("an entry");
        let near = |mine: f32, theirs: f32| (mine - theirs).abs() < 1e-3;
        assert!(
            near(entry.bandwidth, bandwidth),
            "{algorithm} {protocol}: {entry:?}"
        );
        assert!(
            near(entry.latency, latency),
            "{algorithm} {protocol}: {entry:?}"
        );
    }
}

/// From 2.31 on, trees of Blackwell are as fast as the slower of their links, and rings between two
/// nodes as those outside.
#[test]
fn newer_versions_take_the_slower_links_of_blackwell() {
    use {Algorithm::*, Protocol::*};
    let bandwidth = |version, nodes, cc, algorithm| {
        let mut inputs = hopper(nodes);
        (inputs.min_cc, inputs.max_cc) = (cc, cc);
        (inputs.ring, inputs.tree) = (graph(4, 24.0, 20.0), graph(4, 24.0, 18.0));
        let table = table_of(version, &inputs);
        let entry = table.entry(Collective::AllReduce, algorithm, Simple);
        entry.expect("an entry").bandwidth
    };
    let tree = |link: f32| 4.0 * link * 0.92 * 0.5;
    let ring = |nodes: u32, link: f32| 4.0 * link * (8 * nodes) as f32 / (16 * nodes - 2) as f32;
    for (version, nodes, cc, inside, ring_inside) in [
        (NcclVersion::V2_30, 2, 100, true, true),
        (NcclVersion::V2_31, 1, 100, false, true),
        (NcclVersion::V2_31, 2, 100, false, false),
        (NcclVersion::V2_32, 2, 100, false, false),
        (NcclVersion::V2_32, 2, 90, true, true),
        (NcclVersion::V2_32, 3, 90, false, false),
    ] {
        let near = |mine: f32, theirs: f32| (mine - theirs).abs() < 1e-3;
        let said = bandwidth(version, nodes, cc, Tree);
        let link = if inside { 24.0 } else { 18.0 };
        assert!(near(said, tree(link)), "{version} {nodes} {cc}: {said}");
        let said = bandwidth(version, nodes, cc, Ring);
        let link = if ring_inside { 24.0 } else { 20.0 };
        assert!(
            near(said, ring(nodes, link)),
            "{version} {nodes} {cc}: {said}"
        );
    }
}

/// From 2.31 on, CollNet asks for a head for each rank of a node instead of an NVSwitch.
#[test]
fn newer_versions_reduce_in_the_network_without_nvswitches() {
    use Algorithm::*;
    let off = |version, heads, algorithm| {
        let mut inputs = hopper(2);
        inputs.has_nvswitch = false;
        inputs.collnet_direct = graph(8, 12.0, 12.0);
        inputs.collnet_chain = graph(8, 12.0, 12.0);
        inputs.collnet = Some(CollnetInputs {
            heads,
            chain: true,
            depth: 2,
            gathers: true,
            reduce_scatters: true,
        });
        let table = table_of(version, &inputs);
        let entry = table.entry(Collective::AllReduce, algorithm, Protocol::Simple);
        entry.expect("an entry").off
    };
    let heads = Some(Off::NetworkLacksCollective);
    for (version, count, direct, chain) in [
        (NcclVersion::V2_30, 8, Some(Off::NoNvSwitch), None),
        (NcclVersion::V2_31, 8, None, None),
        (NcclVersion::V2_31, 4, heads, heads),
    ] {
        assert_eq!(
            off(version, count, CollNetDirect),
            direct,
            "{version} {count}"
        );
        assert_eq!(
            off(version, count, CollNetChain),
            chain,
            "{version} {count}"
        );
    }
}

#[test]
fn choices_carry_what_a_report_needs() {
    let table = plain(&hopper(1));
    let choice = table
        .choose(Collective::AllReduce, 1 << 30)
        .expect("a choice");
    assert_eq!(
        (choice.algorithm, choice.protocol),
        (Algorithm::Nvls, Protocol::Simple)
    );
    let time = 25.0 + f64::from(1 << 30) / 272_000.0;
    assert!(
        (f64::from(choice.time_us) - time).abs() < 0.01,
        "{choice:?}"
    );
    let algorithm = choice.algorithm_bandwidth.expect("it takes time");
    let bus = choice.bus_bandwidth.expect("it takes time");
    assert!((algorithm - f64::from(1 << 30) / time / 1000.0).abs() < 0.01);
    assert!((bus / algorithm - 1.75).abs() < 1e-12);
    let second = choice.runner_up.expect("there are others");
    assert_eq!(
        (second.algorithm, second.protocol),
        (Algorithm::Ring, Protocol::Simple)
    );
    assert!(second.time_us > f64::from(choice.time_us));
    assert_eq!((choice.channels, choice.warps), (16, 20));
}

#[test]
fn sweeps_agree_with_choices() {
    let table = plain(&hopper(1));
    let sizes: Vec<u64> = doubling(8, 1 << 33).collect();
    for collective in Collective::TUNED {
        let ranges = table.sweep(collective, sizes.iter().copied());
        assert_eq!(ranges.first().map(|range| range.from_bytes), Some(8));
        assert_eq!(ranges.last().map(|range| range.to_bytes), Some(1 << 33));
        assert!(
            ranges
                .windows(2)
                .all(|pair| pair[0].choice != pair[1].choice),
            "{ranges:?}"
        );
        for bytes in &sizes {
            let range = ranges
                .iter()
                .find(|range| (range.from_bytes..=range.to_bytes).contains(bytes))
                .expect("every size is in a range");
            let choice = table.choose(collective, *bytes).expect("a choice");
            assert_eq!(
                range.choice,
                Some((choice.algorithm, choice.protocol)),
                "{bytes}"
            );
        }
    }
}

#[test]
fn what_is_off_says_why() {
    use {Algorithm::*, Collective::*, Protocol::*};
    let off = |table: &CostTable, collective, algorithm, protocol| {
        let entry = table
            .entry(collective, algorithm, protocol)
            .expect("an entry");
        assert_eq!(entry.bandwidth == 0.0, entry.off.is_some(), "{entry:?}");
        entry.off
    };
    let one = plain(&hopper(1));
    assert_eq!(off(&one, AllReduce, NvlsTree, Simple), Some(Off::OneNode));
    assert_eq!(
        off(&one, AllReduce, CollNetDirect, Simple),
        Some(Off::NoCollnet)
    );
    assert_eq!(off(&one, AllReduce, Ring, Ll128), None);
    let two = plain(&hopper(2));
    assert_eq!(off(&two, AllReduce, Nvls, Simple), Some(Off::NoCollnet));
    assert_eq!(off(&two, AllReduce, NvlsTree, Simple), None);
    let mut distant = hopper(2);
    distant.ring.type_inter = PathType::Phb;
    assert_eq!(
        off(&plain(&distant), AllReduce, Ring, Ll128),
        Some(Off::Ll128Unsafe)
    );
    let forced = table(&distant, &[("NCCL_PROTO", "LL128")]).expect("a good setting");
    assert_eq!(off(&forced, AllReduce, Ring, Ll128), None);
    assert_eq!(
        off(&forced, AllReduce, Ring, Simple),
        Some(Off::ProtocolSetting)
    );
    let ring = table(&distant, &[("NCCL_ALGO", "allreduce:ring")]).expect("a good setting");
    assert_eq!(
        off(&ring, AllReduce, Tree, Simple),
        Some(Off::AlgorithmSetting)
    );
    let mut network = hopper(2);
    network.collnet = Some(CollnetInputs {
        heads: 8,
        chain: false,
        depth: 2,
        gathers: true,
        reduce_scatters: false,
    });
    network.collnet_direct = graph(8, 48.0, 48.0);
    let network = plain(&network);
    assert_eq!(off(&network, AllReduce, Nvls, Simple), None);
    assert_eq!(
        off(&network, AllReduce, CollNetChain, Simple),
        Some(Off::ChainHeads)
    );
    assert_eq!(
        off(&network, AllReduce, CollNetDirect, Ll),
        Some(Off::ProtocolUnfit)
    );
    assert_eq!(off(&network, AllGather, CollNetDirect, Simple), None);
    let lacks = Some(Off::NetworkLacksCollective);
    assert_eq!(off(&network, ReduceScatter, CollNetDirect, Simple), lacks);
}

#[test]
fn settings_can_leave_nothing() {
    let table = table(&hopper(1), &[("NCCL_ALGO", "tree")]).expect("a good setting");
    assert!(table.choose(Collective::AllReduce, 1024).is_ok());
    let refused = table
        .choose(Collective::Broadcast, 1024)
        .expect_err("no tree for broadcasts");
    assert_eq!(
        refused.to_string(),
        "no algorithm and protocol is left for Broadcast; expected at least one; NCCL_ALGO or NCCL_PROTO exclude the \
         others"
    );
    let refused = table
        .choose(Collective::AllToAll, 1024)
        .expect_err("NCCL has no choice there");
    assert!(
        refused
            .to_string()
            .starts_with("AllToAll is made of point-to-point transfers")
    );
}

#[test]
fn malformed_settings_are_refused_if_they_are_read() {
    let bad = [("NCCL_PROTO", "LL,Simpel")];
    let error = table(&hopper(1), &bad).expect_err("a typing error");
    assert_eq!(
        error.to_string(),
        "NCCL_PROTO=\"LL,Simpel\", character 4: `Simpel` is no protocol; did you mean Simple? Expected one of LL LL128 \
         Simple"
    );
    let alone = Inputs {
        ranks: 1,
        ..hopper(1)
    };
    let table = table(&alone, &bad).expect("one rank reads no setting");
    let choice = table.choose(Collective::AllReduce, 1024).expect("a copy");
    assert_eq!((choice.algorithm, choice.time_us), (Algorithm::Ring, 0.0));
    assert_eq!(choice.bus_bandwidth, None);
}

#[test]
fn newer_versions_exclude_what_a_forced_collective_does_not_mention() {
    /// Settings, and the collectives that are refused.
    type Case<'a> = (&'a [(&'a str, &'a str)], &'a [&'a str]);
    let refused = |version, variables: &[(&str, &str)]| {
        let profile = CostProfile::of(version);
        let tuning = &settings(variables).tuning;
        let table = cost::table(&hopper(1), tuning, &profile, Rules::of(version));
        let table = table.expect("names are right");
        let refuses = |collective: &Collective| table.choose(*collective, 1 << 20).is_err();
        let refused = Collective::TUNED.into_iter().filter(refuses);
        refused.map(Collective::name).collect::<Vec<_>>()
    };
    let tree = ("NCCL_ALGO", "allreduce:tree");
    let simple = ("NCCL_PROTO", "Simple");
    let others = ["Broadcast", "Reduce", "AllGather", "ReduceScatter"];
    let none = [""; 0];
    let cases: [Case<'_>; 6] = [
        (&[tree], &none),
        (&[simple], &none),
        (&[tree, simple], &others),
        (&[tree, ("NCCL_PROTO", "broadcast:Simple")], &["Broadcast"]),
        // A list of nothing forces no collective.
        (&[("NCCL_ALGO", "^"), ("NCCL_PROTO", "^")], &none),
        (
            &[("NCCL_ALGO", ";"), ("NCCL_PROTO", "allreduce:Simple")],
            &["AllReduce"],
        ),
    ];
    for (variables, expected) in cases {
        assert_eq!(
            refused(NcclVersion::V2_30, variables),
            none,
            "{variables:?}"
        );
        for version in [NcclVersion::V2_31, NcclVersion::V2_32] {
            assert_eq!(refused(version, variables), expected, "{variables:?}");
        }
    }
}

#[test]
fn operations_narrow_the_choice() {
    let table = plain(&hopper(1));
    let mut operation = TunedOperation::new(Collective::AllReduce, 1 << 30);
    operation.calls.reduction = Reduction::Average;
    let choice = table.choose_for(&operation).expect("a choice");
    assert_eq!(choice.algorithm, Algorithm::Ring);
    // Of 24 channels each carries nine operations.
    let mut operation = TunedOperation::new(Collective::AllReduce, 5 << 20);
    operation.calls.number = 9 * 24;
    let ring = (Algorithm::Ring, Protocol::Ll);
    let tree = (Algorithm::Tree, Protocol::Ll);
    let grows = |choice| {
        let once = TunedOperation::new(Collective::AllReduce, operation.all_bytes());
        let (many, one) = (
            table.time_us(&operation, choice),
            table.time_us(&once, choice),
        );
        many.zip(one).map(|(many, one)| many - one)
    };
    let latency = |choice: (Algorithm, Protocol)| {
        table
            .entry(Collective::AllReduce, choice.0, choice.1)
            .map(|entry| entry.latency)
    };
    // Nine operations are nine turns of a ring, and two of a tree.
    let near = |a: Option<f32>, b: Option<f32>| a.zip(b).is_some_and(|(a, b)| (a - b).abs() < 2.0);
    assert!(near(
        grows(ring),
        latency(ring).map(|latency| latency * 8.0)
    ));
    assert!(near(grows(tree), latency(tree)));
}

#[test]
fn chunks() {
    let table = plain(&hopper(1));
    let chunking = |collective, bytes, pair: (Algorithm, Protocol)| {
        let mut choice = table.choose(collective, bytes).expect("a choice");
        (choice.algorithm, choice.protocol) = pair;
        let (channels, _) = table.size(bytes, pair.0, pair.1);
        choice.channels = channels;
        table
            .chunking(&choice, false)
            .expect("the buffers are large enough")
    };
    // 4 MiB in 8 slots, 4 slots to a chunk, told in halves; 24 channels × 8 chunks a loop.
    let ring = chunking(
        Collective::AllReduce,
        1 << 30,
        (Algorithm::Ring, Protocol::Simple),
    );
    assert_eq!((ring.chunk_bytes, ring.slice_bytes), (2_097_152, 1_048_576));
    assert_eq!((ring.chunk_steps, ring.slice_steps), (4, 2));
    assert_eq!((ring.loops, ring.steps), (3, 14 * 3 * 4));
    let ll = chunking(Collective::Broadcast, 1024, (Algorithm::Ring, Protocol::Ll));
    assert_eq!((ll.chunk_bytes, ll.loops, ll.steps), (32_768, 1, 1));
    // 614400 of a slot carry 576000 of data, which is 300 grains of 1920.
    let ll128 = chunking(
        Collective::AllReduce,
        1 << 30,
        (Algorithm::Ring, Protocol::Ll128),
    );
    assert_eq!(ll128.chunk_bytes, 576_000);
    // 1 MiB over 24 channels: 576000 is halved to 72000, then to 18000, of which 9 grains remain.
    let tree = chunking(
        Collective::AllReduce,
        1 << 20,
        (Algorithm::Tree, Protocol::Ll128),
    );
    assert_eq!((tree.chunk_bytes, tree.loops), (17_280, 3));
    let nvls = chunking(
        Collective::AllReduce,
        1 << 30,
        (Algorithm::Nvls, Protocol::Simple),
    );
    assert_eq!(nvls.chunk_bytes, 131_072);
    // 1 MiB over 16 channels and 8 heads is less than two chunks of 32 KiB each.
    let nvls = chunking(
        Collective::AllReduce,
        1 << 20,
        (Algorithm::Nvls, Protocol::Simple),
    );
    assert_eq!(nvls.chunk_bytes, 16_384);
}

#[test]
fn buffers_that_hold_nothing_are_refused() {
    let table = table(&hopper(1), &[("NCCL_BUFFSIZE", "1000")]).expect("a good setting");
    let choice = table
        .choose(Collective::AllReduce, 1 << 30)
        .expect("a choice");
    for bytes in [0, 1, 1 << 30, u64::MAX] {
        let mut choice = choice;
        choice.operation.bytes = bytes;
        choice.algorithm = Algorithm::Tree;
        let error = table
            .chunking(&choice, false)
            .expect_err("125 bytes a slot");
        assert!(
            error.to_string().contains("1000 bytes is too small"),
            "{error}"
        );
    }
}

#[test]
fn extreme_jobs_do_not_panic() {
    let mut odd = Vec::new();
    for inputs in [
        Inputs {
            ranks: 0,
            nodes: 0,
            ..hopper(1)
        },
        Inputs {
            ranks: 2,
            nodes: 0,
            channels: 0,
            ..hopper(1)
        },
        Inputs {
            ranks: 65_536,
            nodes: 65_536,
            channels: 64,
            ..hopper(1)
        },
        Inputs {
            ranks: 3,
            nodes: 5,
            ring: GraphFigures::NONE,
            ..hopper(1)
        },
    ] {
        odd.push(plain(&inputs));
    }
    for table in odd {
        for collective in Collective::ALL {
            for bytes in [0, 1, 63, 1 << 20, u64::MAX] {
                if let Ok(choice) = table.choose(collective, bytes) {
                    let _ = table.chunking(&choice, true);
                    assert!(!choice.time_us.is_nan());
                }
            }
        }
    }
}

#[test]
fn another_profile_changes_the_choice() {
    let mut profile = CostProfile::of(NcclVersion::V2_30);
    profile.efficiency.nvls.hopper = 0.1;
    let table = cost::table(
        &hopper(1),
        &settings(&[]).tuning,
        &profile,
        Rules::of(NcclVersion::V2_30),
    )
    .expect("no settings");
    let choice = table
        .choose(Collective::AllReduce, 1 << 30)
        .expect("a choice");
    assert_eq!(choice.algorithm, Algorithm::Ring);
}
