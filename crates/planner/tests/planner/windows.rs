//! Kernels for symmetric windows on a machine whose numbers can be computed by hand.

use crate::hopper::hopper;
use plan::Algorithm;
use planner::cost::{self, Calls, CostProfile, CostTable, Inputs, Registration, TunedOperation};
use planner::{NcclVersion, Rules, Settings};
use program::Collective;

/// The costs of a version on a number of nodes.
fn of(version: NcclVersion, nodes: u32) -> CostTable {
    under(version, &hopper(nodes), &[])
}

/// The costs of a version under settings.
fn under(version: NcclVersion, inputs: &Inputs, variables: &[(&str, &str)]) -> CostTable {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let settings = Settings::with_variables(version, variables.iter().map(owned));
    let profile = CostProfile::of(version);
    let table = cost::table(inputs, &settings.tuning, &profile, Rules::of(version));
    table.expect("no setting can be wrong")
}

/// The choice for a sum of floats on windows.
fn on_windows(
    table: &CostTable,
    collective: Collective,
    bytes: u64,
) -> Option<(&'static str, u32)> {
    let choice = table.window_choice(&TunedOperation {
        collective,
        bytes,
        calls: Calls {
            registration: Registration::Symmetric,
            ..Calls::ONE
        },
    })?;
    Some((choice.name(), choice.blocks))
}

/// The kernels that NCCL 2.30.7 and 2.32.3 logged on 8 H100 with an NVSwitch.
#[test]
fn kernels_on_windows_are_those_that_nccl_logged() {
    use Collective::{AllGather, AllReduce, ReduceScatter};
    for version in [NcclVersion::V2_30, NcclVersion::V2_32] {
        let table = of(version, 1);
        for (collective, bytes, kernel, blocks) in [
            (AllReduce, 1 << 10, "AllReduce_AGxLLMC_R", 1),
            (AllReduce, 8 << 10, "AllReduce_AGxLLMC_R", 4),
            (AllReduce, 64 << 10, "AllReduce_RSxLDMC_AGxSTMC", 1),
            (AllReduce, 32 << 20, "AllReduce_RSxLDMC_AGxSTMC", 2),
            (AllGather, 8 << 10, "AllGather_LLMC", 1),
            (AllGather, 64 << 10, "AllGather_LLMC", 8),
            (AllGather, 512 << 10, "AllGather_STMC", 2),
            (ReduceScatter, 64 << 10, "ReduceScatter_LL", 8),
            (ReduceScatter, 32 << 20, "ReduceScatter_LDMC", 2),
        ] {
            let taken = on_windows(&table, collective, bytes);
            let blocks = match (version, kernel, bytes) {
                // Before 2.31 numbers need not be even.
                (NcclVersion::V2_30, _, 65_536) if blocks == 8 => taken.map_or(0, |it| it.1),
                _ => blocks,
            };
            assert_eq!(
                taken,
                Some((kernel, blocks)),
                "{version} {collective} {bytes}"
            );
        }
        assert_eq!(on_windows(&table, Collective::Broadcast, 1 << 20), None);
    }
    assert_eq!(
        on_windows(&of(NcclVersion::V2_30, 2), AllReduce, 1024),
        None
    );
}

/// A call on buffers that each rank registers.
fn registered(collective: Collective, bytes: u64, number: u32) -> TunedOperation {
    TunedOperation {
        collective,
        bytes,
        calls: Calls {
            number,
            registration: Registration::Local,
            ..Calls::ONE
        },
    }
}

/// One GPU in each of two nodes needs one channel for registered buffers. From 2.29 on a window
/// between nodes registers nothing.
#[test]
fn windows_between_nodes() {
    let mut inputs = hopper(2);
    inputs.ranks = 2;
    (inputs.min_local_ranks, inputs.max_local_ranks) = (1, 1);
    inputs.registered_ports = Some(1);
    for version in NcclVersion::ALL {
        let table = under(
            version,
            &inputs,
            &[("NCCL_ALGO", "Ring"), ("NCCL_PROTO", "Simple")],
        );
        let channels = |registration| {
            let mut operation = registered(Collective::AllGather, 8 << 20, 1);
            operation.calls.registration = registration;
            table.choose_for(&operation).expect("a ring").channels
        };
        assert_eq!(channels(Registration::Local), 1, "{version}");
        let registers = version < NcclVersion::V2_29;
        assert_eq!(
            channels(Registration::Symmetric) == 1,
            registers,
            "{version}"
        );
    }
}

/// NVLS needs 8 channels for registered buffers of 8 Blackwell GPUs, so that five calls fill 24;
/// Hopper needs 4, and hosts of 4 GPUs twice as many as those of 8.
#[test]
fn registered_calls_of_nvls() {
    let mut blackwell = hopper(1);
    (blackwell.min_cc, blackwell.max_cc) = (100, 100);
    let with_heads = |mut inputs: Inputs, heads: u32| {
        let nvls = inputs.nvls.as_mut().expect("NVLS");
        (nvls.heads, nvls.channels) = (heads, 24);
        inputs
    };
    let of_four = with_heads(hopper(1), 4);
    let (blackwell, hopper) = (with_heads(blackwell, 8), with_heads(hopper(1), 8));
    for version in [NcclVersion::V2_27, NcclVersion::V2_32] {
        for (inputs, number, channels) in [
            (&blackwell, 1, 8),
            (&blackwell, 5, 24),
            (&hopper, 1, 4),
            (&hopper, 5, 20),
            (&of_four, 1, 8),
        ] {
            let table = under(version, inputs, &[("NCCL_ALGO", "NVLS")]);
            let operation = registered(Collective::AllReduce, 64 << 20, number);
            let choice = table.choose_for(&operation).expect("NVLS is left");
            let spread = table.spread(&choice);
            let last = spread.last().map(|it| it.end() + 1);
            assert_eq!(last, Some(channels), "{version}: {number} calls");
        }
    }
}

/// `NCCL_CTA_POLICY`: NVLS spares channels, copy engines spare all.
#[test]
fn policies_spare_thread_blocks() {
    let inputs = hopper(1);
    let gathered = registered(Collective::AllGather, 1 << 20, 1);
    let chosen = |version, policy: &str| {
        let table = under(version, &inputs, &[("NCCL_CTA_POLICY", policy)]);
        let choice = table.choose_for(&gathered).expect("a choice");
        (choice.algorithm, choice.channels)
    };
    for version in NcclVersion::ALL {
        assert_ne!(chosen(version, "0").0, Algorithm::Nvls, "{version}");
        assert_eq!(chosen(version, "1"), (Algorithm::Nvls, 4), "{version}");
        let zero = under(version, &inputs, &[("NCCL_CTA_POLICY", "2")]);
        let engines = Some(("copy engines", 0));
        let taken = on_windows(&zero, Collective::AllGather, 1024);
        assert_eq!(taken == engines, version > NcclVersion::V2_27, "{version}");
        let taken = on_windows(&zero, Collective::AllReduce, 1024);
        assert_ne!(taken, engines, "{version}");
    }
    // Names are read from 2.29 on, of which ZERO counts first.
    assert_ne!(chosen(NcclVersion::V2_28, "EFFICIENCY").0, Algorithm::Nvls);
    assert_eq!(chosen(NcclVersion::V2_29, "efficiency").0, Algorithm::Nvls);
    assert_ne!(
        chosen(NcclVersion::V2_29, "EFFICIENCY|ZERO").0,
        Algorithm::Nvls
    );
    assert_ne!(chosen(NcclVersion::V2_29, "bogus").0, Algorithm::Nvls);
}

/// NCCL 2.31 has a model of copy engines: 8 H100 with x86 processors.
#[test]
fn copy_engines_have_a_time_in_2_31() {
    let time = |version, ranks, in_place| {
        let (min_local_ranks, max_local_ranks) = (ranks, ranks);
        let inputs = Inputs {
            ranks,
            min_local_ranks,
            max_local_ranks,
            ..hopper(1)
        };
        let table = under(version, &inputs, &[("NCCL_CTA_POLICY", "2")]);
        let choice = table.window_choice(&TunedOperation {
            collective: Collective::AllGather,
            bytes: 64 << 20,
            calls: Calls {
                registration: Registration::Symmetric,
                in_place,
                ..Calls::ONE
            },
        });
        choice.expect("copy engines").time_us
    };
    // Of each rank 8 MiB to 7 others at 392 GB/s, after 17.5 + 8 × 1.957 µs; multicast sends them
    // to all 8 after 14.9 + 8 × 0.726 µs.
    let (one, all) = (33.156 + 149.797, 20.708 + 171.196);
    // Of two ranks 32 MiB pass the link, and out of place the host's memory at 106 GB/s.
    let (out, within) = (21.414 + 316.551, 21.414 + 85.598);
    for (ranks, in_place, expected) in [
        (8, false, f64::min(one, all)),
        (2, false, out),
        (2, true, within),
    ] {
        let found = time(NcclVersion::V2_31, ranks, in_place).expect("a time");
        assert!((found - expected).abs() < 0.01, "{found}, {expected}");
        assert_eq!(time(NcclVersion::V2_32, ranks, in_place), None);
    }
}

/// The time of a kernel with a number of thread blocks, and the costs that have it.
fn time_of(version: NcclVersion, min_cc: i32, words: &[&str]) -> (CostTable, f64) {
    let [kernel, data_type, ranks, bytes, blocks, _, place @ ..] = words else {
        panic!("{words:?}");
    };
    let ranks: u32 = ranks.parse().expect("a number");
    let inputs = Inputs {
        ranks,
        min_local_ranks: ranks,
        max_local_ranks: ranks,
        min_cc,
        max_cc: min_cc,
        ..hopper(1)
    };
    let variables = [("NCCL_SYM_KERNEL", *kernel), ("NCCL_SYM_CTAS", *blocks)];
    let table = under(version, &inputs, &variables);
    let collective = match kernel.split('_').next() {
        Some("AllGather") => Collective::AllGather,
        Some("ReduceScatter") => Collective::ReduceScatter,
        _ => Collective::AllReduce,
    };
    let own: u64 = bytes.parse().expect("a number");
    let choice = table.window_choice(&TunedOperation {
        collective,
        bytes: match collective {
            Collective::AllReduce => own,
            _ => own * u64::from(ranks),
        },
        calls: Calls {
            data_type: data_type.parse().expect("a type"),
            registration: Registration::Symmetric,
            in_place: *place == ["in-place"],
            ..Calls::ONE
        },
    });
    let choice = choice.expect("the kernel is forced");
    assert_eq!(choice.name(), *kernel);
    (table, choice.time_us.expect("a time"))
}

/// The times of every kernel of Rubin in 2.32.6, also of sums of narrow numbers, as another program
/// computes them from the facts. In 2.32.3 Rubin has Blackwell's older model.
#[test]
fn rubin_has_a_model_of_single_calls() {
    let lines = include_str!("windows.txt").lines();
    let mut kernels = std::collections::BTreeSet::new();
    for line in lines.filter(|it| !it.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let expected: f64 = words[5].parse().expect("a time");
        let (table, found) = time_of(NcclVersion::V2_32_6, 107, &words);
        assert!(
            (found - expected).abs() < 1e-4 * expected,
            "{found}: {line}"
        );
        let json = serde_json::to_string(&table).expect("JSON");
        assert_eq!(
            serde_json::from_str::<CostTable>(&json).expect("costs"),
            table
        );
        kernels.insert(words[0].to_owned());
        let rubin = time_of(NcclVersion::V2_32, 107, &words).1;
        let blackwell = time_of(NcclVersion::V2_32, 110, &words).1;
        assert_eq!(rubin, blackwell, "{line}");
    }
    assert_eq!(kernels.len(), 15);
}
