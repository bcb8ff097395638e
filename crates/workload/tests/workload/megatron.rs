//! Volumes by group equal the published formulas, for published models.

use program::Collective;
use workload::megatron::Training;
use workload::{Parallelism, Workload};

/// GPT-3 175B as Narayanan et al. train it (SC 2021, table 1): tensor 8, pipeline 12, 1536 GPUs.
fn gpt3() -> Training {
    Training {
        parallelism: Parallelism {
            ranks: 1536,
            tensor: 8,
            context: 1,
            expert: 1,
            expert_tensor: 8,
            pipeline: 12,
        },
        sequence_parallel: false,
        chunks: 1,
        layers: 96,
        hidden: 12288,
        ffn: 4 * 12288,
        heads: 96,
        query_groups: 96,
        channels: 128,
        sequence: 2048,
        vocabulary: 51200,
        micro_batch: 1,
        global_batch: 1536,
        swiglu: false,
        untied: false,
        experts: 0,
        top_k: 0,
        expert_ffn: 0,
        distributed_optimizer: true,
        overlap_gradients: false,
        tflops: None,
    }
}

/// Bytes that a rank sends in a group, of calls whose name begins so.
fn sent(workload: &Workload, group: &str, names: &[&str]) -> f64 {
    let ranks = workload.ranks.unwrap();
    let calls = workload.calls.iter().filter(|call| {
        workload.groups[call.group].name == group
            && names.iter().any(|name| call.name.starts_with(name))
    });
    calls
        .map(|call| {
            let size = workload.groups[call.group].members.size(ranks);
            call.count as f64 * call.bytes as f64 * call.collective.bus_factor(size)
        })
        .sum()
}

fn equal(found: f64, expected: f64) {
    assert!(
        (found - expected).abs() <= 1e-9 * expected,
        "{found} instead of {expected}"
    );
}

/// Narayanan et al., section 3.2: all-reduces of a layer send 8 b s h (t − 1) / t elements for each
/// micro-batch; section 4.1: stages exchange b s h in each direction.
#[test]
fn tensor_and_pipeline_parallelism_of_gpt3() {
    let training = gpt3();
    let micro_batches = 1536.0 / 16.0;
    assert_eq!(training.micro_batches() as f64, micro_batches);
    let workload = training.workload().unwrap();
    let bsh = 2048.0 * 12288.0;
    let layers = ["attention", "mlp"];
    let expected = 2.0 * 8.0 * (8.0 * bsh * 7.0 / 8.0) * micro_batches;
    equal(sent(&workload, "tp", &layers), expected);
    equal(
        sent(&workload, "pp", &["stage"]),
        2.0 * 2.0 * bsh * micro_batches,
    );
    let sequence_parallel = Training {
        sequence_parallel: true,
        ..gpt3()
    };
    let with = sequence_parallel.workload().unwrap();
    // Korthikanti et al. 2022, section 4.2.2: as many bytes with sequence parallelism, except that
    // the input of two matrices is gathered again.
    let again = sent(&with, "tp", &["attention input", "mlp input"]);
    equal(sent(&with, "tp", &layers) - again, expected);
    equal(again, 2.0 * 8.0 * 2.0 * bsh * 7.0 / 8.0 * micro_batches);
    equal(
        sent(&with, "pp", &["stage"]),
        2.0 * 2.0 * bsh / 8.0 * micro_batches,
    );
}

/// Narayanan et al., equation 2: P = 12 l h² (1 + 13 / (12 h) + (V + s) / (12 l h)). Norms, biases
/// (13 / (12 h)) and positions (s) are left out.
#[test]
fn parameters_of_gpt3() {
    let training = gpt3();
    let (l, h, v) = (96.0, 12288.0, 51200.0);
    let found = training.layers * training.dense_parameters() + training.embedding_parameters();
    equal(found as f64, 12.0 * l * h * h * (1.0 + v / (12.0 * l * h)));
}

/// Rajbhandari et al. (ZeRO, 2020), section 7: gradients are reduced and parameters gathered, Ψ
/// elements each; all-reduces send 2 Ψ.
#[test]
fn data_parallelism_of_gpt3() {
    let training = gpt3();
    let stage = 8 * training.dense_parameters() + training.embedding_parameters();
    let psi = stage as f64 / 8.0;
    let share = 15.0 / 16.0;
    let workload = training.workload().unwrap();
    let gradients = ["gradients", "embedding gradients"];
    equal(sent(&workload, "dp", &gradients), 4.0 * psi * share);
    equal(sent(&workload, "dp", &["parameters"]), 2.0 * psi * share);
    let whole = Training {
        distributed_optimizer: false,
        ..gpt3()
    };
    let whole = whole.workload().unwrap();
    equal(sent(&whole, "dp", &gradients), 2.0 * 4.0 * psi * share);
    equal(sent(&whole, "dp", &["parameters"]), 0.0);
    // The first and the last stage share the embedding.
    let tied = 51200.0 * 12288.0 / 8.0 * 4.0;
    equal(sent(&whole, "embd", &["tied embedding"]), tied);
}

/// Overlapped reductions move the same bytes.
#[test]
fn overlap_changes_no_volume() {
    let training = Training {
        overlap_gradients: true,
        ..gpt3()
    };
    let (with, without) = (training.workload().unwrap(), gpt3().workload().unwrap());
    let names = ["gradients", "embedding gradients"];
    equal(sent(&with, "dp", &names), sent(&without, "dp", &names));
    assert!(with.calls.iter().any(|call| !call.blocks));
}

/// Mixtral 8x7B (Jiang et al. 2024, table 1): 46.7 billion parameters, of which a token uses 12.9.
fn mixtral() -> Training {
    Training {
        parallelism: Parallelism {
            ranks: 64,
            tensor: 2,
            context: 2,
            expert: 8,
            expert_tensor: 1,
            pipeline: 4,
        },
        sequence_parallel: true,
        layers: 32,
        hidden: 4096,
        ffn: 14336,
        heads: 32,
        query_groups: 8,
        channels: 128,
        sequence: 4096,
        vocabulary: 32000,
        micro_batch: 1,
        global_batch: 256,
        swiglu: true,
        untied: true,
        experts: 8,
        top_k: 2,
        expert_ffn: 14336,
        ..gpt3()
    }
}

#[test]
fn experts_of_mixtral() {
    let training = mixtral();
    let layer = training.dense_parameters() + training.expert_parameters();
    let all = 32 * layer + 2 * training.embedding_parameters();
    assert_eq!((all as f64 / 1e8).round(), 467.0);
    let workload = training.workload().unwrap();
    // Lepikhin et al. (GShard, 2020), section 3.3: tokens of a rank go to their k experts and back.
    let tokens = 4096.0 / 2.0 / 2.0;
    let micro_batches = 256.0 / 4.0;
    let message = 2.0 * tokens * 2.0 * 4096.0;
    let names = ["dispatch", "combine"];
    let expected = 8.0 * micro_batches * 4.0 * message * 7.0 / 8.0;
    equal(sent(&workload, "ep", &names), expected);
    // Liu et al. (Ring Attention, 2023), section 3: keys and values go around; backward with their
    // gradients.
    let keys = 2.0 * 2.0 * (4096.0 / 2.0) * 1024.0 / 2.0;
    equal(
        sent(&workload, "cp", &["keys"]),
        8.0 * micro_batches * 3.0 * keys,
    );
    let of_dp = workload.groups.iter().find(|it| it.name == "dp").unwrap();
    assert_eq!(of_dp.members.to_string(), "8:2");
    let copies = workload.groups.iter().find(|it| it.name == "edp").unwrap();
    assert_eq!(copies.members.to_string(), "2:8");
    assert!(
        workload
            .calls
            .iter()
            .any(|it| it.collective == Collective::AllToAll)
    );
}

/// Computation is 72 B s l h² (1 + s / (6 h) + V / (12 l h)) (Narayanan et al., equation 3 without
/// recomputation), over all ranks.
#[test]
fn computation_of_gpt3() {
    let mut training = gpt3();
    training.parallelism.pipeline = 1;
    training.parallelism.ranks = 8;
    training.global_batch = 16;
    training.tflops = Some(100.0);
    let workload = training.workload().unwrap();
    let calls = workload
        .calls
        .iter()
        .map(|it| it.count as f64 * it.compute_us);
    let us = calls.sum::<f64>() + workload.compute_after_us;
    let (b, s, l, h, v) = (16.0, 2048.0, 96.0, 12288.0, 51200.0);
    let flops = 72.0 * b * s * l * h * h * (1.0 + s / (6.0 * h) + v / (12.0 * l * h));
    equal(us, flops / 8.0 / 100.0 / 1e6);
}

#[test]
fn sizes_that_do_not_fit_are_refused() {
    let refused = |change: fn(&mut Training)| {
        let mut training = gpt3();
        change(&mut training);
        training.workload().unwrap_err()
    };
    for (change, expected) in [
        (
            (|it| it.layers = 97) as fn(&mut Training),
            "num-layers 97 is not divided by",
        ),
        (
            |it| it.parallelism.pipeline = 7,
            "the product of tensor, context and pipeline",
        ),
        (|it| it.hidden = 0, "hidden-size 0; expected 1 to"),
        (
            |it| it.global_batch = 1000,
            "global-batch-size 1000 is not divided",
        ),
        (
            |it| it.parallelism.expert = 2,
            "expert parallelism without num-experts",
        ),
        (
            |it| it.experts = 8,
            "experts with tensor parallelism need sequence-parallel",
        ),
        (
            |it| (it.hidden, it.sequence) = (1 << 32, 1 << 32),
            "the model or the batch is too large",
        ),
    ] {
        let found = refused(change);
        assert!(found.starts_with(expected), "{found}");
    }
}
