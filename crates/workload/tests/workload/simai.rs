//! Workload text of SimAI.

use program::Collective;
use workload::{Workload, read};

/// Two layers on two stages, with experts.
const SMALL: &str = "\
HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 4 pp: 2 vpp: 3 ga: 5 all_gpus: 32 \
checkpoints: 0 checkpoint_initiates: 0 pp_comm: 4096.0
3
grad\t-1\t1\tNONE\t0\t1\tNONE\t0\t1\tREDUCESCATTER\t1000\t100
attention\t-1\t2000\tALLGATHER\t2048\t3000\tREDUCESCATTER\t0\t4000\tNONE\t0\t100
moe\t-1\t5000\tALLTOALL_EP\t8192\t6000\tALLTOALL_EP\t8192\t1\tALLGATHER_DP_EP\t512\t100
";

fn calls(workload: &Workload) -> Vec<(String, String, Collective, u64, u64)> {
    let calls = workload.calls.iter();
    calls
        .map(|it| {
            let group = workload.groups[it.group].name.clone();
            (group, it.name.clone(), it.collective, it.bytes, it.count)
        })
        .collect()
}

#[test]
fn passes_follow_each_other() {
    let found = read("w.txt", SMALL, 8, None).unwrap();
    assert_eq!(found.ranks, Some(32));
    let shapes: Vec<String> = found
        .groups
        .iter()
        .map(|it| format!("{}={}", it.name, it.members))
        .collect();
    assert_eq!(shapes, ["tp=2:1", "ep=4:2", "pp=2:16", "edp=2:8", "dp=8:2"]);
    let expected = [
        ("tp", "attention", Collective::AllGather, 2048, 1),
        ("ep", "moe", Collective::AllToAll, 8192, 1),
        ("pp", "pipeline forward", Collective::SendRecv, 4096, 15),
        ("edp", "moe", Collective::AllGather, 512, 1),
        ("ep", "moe", Collective::AllToAll, 8192, 1),
        ("dp", "grad", Collective::ReduceScatter, 1000, 1),
        ("pp", "pipeline backward", Collective::SendRecv, 4096, 15),
    ];
    let expected = expected.map(|(group, name, collective, bytes, count)| {
        (group.to_owned(), name.to_owned(), collective, bytes, count)
    });
    assert_eq!(calls(&found), expected);
    // ns become µs; computation without a call counts for the next one.
    let compute: Vec<f64> = found.calls.iter().map(|it| it.compute_us).collect();
    assert_eq!(compute, [2.001, 5.0, 0.0, 0.001, 6.0, 7.001, 0.0]);
    assert_eq!(found.compute_after_us, 0.001);
    assert_eq!(found.pipeline.unwrap().bubble(), 1.0 / 15.0);
}

#[test]
fn micro_tests_call_on_all_ranks() {
    let text = "MICRO\n1\nmicro_test\t-1\t1\tNONE\t0\t1\tNONE\t0\t1\tALLREDUCE\t4096\t1\n";
    let found = read("w.txt", text, 8, None).unwrap();
    assert_eq!(calls(&found)[0].0, "all");
    assert_eq!(found.ranks, None);
}

#[test]
fn what_is_wrong_is_said_with_its_line() {
    let head = "HYBRID_TRANSFORMER model_parallel_NPU_group: 2";
    let layer = "a -1 1 NONE 0 1 NONE 0 1 ALLREDUCE 8 1";
    for (text, expected) in [
        (
            SMALL.replace("vpp: 3", "vpp: 4294967295"),
            "w:1: vpp × ga is 21474836475; expected at most 4294967296",
        ),
        (
            format!("{head}x\n1\n{layer}"),
            "w:1: model_parallel_NPU_group: `2x`; expected a whole",
        ),
        (
            format!("{head}\nx\n{layer}"),
            "w:2: `x`; expected the number of layers",
        ),
        (
            format!("{head}\n99999999\n"),
            "w:2: 99999999 layers; expected at most",
        ),
        (
            format!("{head}\n2\n{layer}\n"),
            "w:3: the file ends after 1 layers; expected 2",
        ),
        (
            format!("{head}\n1\n{layer}\n{layer}"),
            "w:4: a line after the 1 layers",
        ),
        (
            format!("{head}\n1\n{layer} 1"),
            "w:3: more than 12 fields; expected 12",
        ),
        (format!("{head}\n1\na -1 1"), "w:3: 3 fields; expected 12"),
        (
            format!("{head}\n1\n{}", layer.replace("ALLREDUCE", "ALLREDUCE_X")),
            "w:3: collective `ALLREDUCE_X`",
        ),
        (
            format!("{head}\n1\n{}", layer.replace(" 8 ", " -8 ")),
            "w:3: bytes `-8`",
        ),
        (
            format!("{head} all_gpus: 3\n1\n{layer}"),
            "w:1: the product of tensor, context and pipeline",
        ),
    ] {
        let found = read("w", &text, 8, None).unwrap_err().to_string();
        assert!(found.starts_with(expected), "{text:?}: {found}");
    }
}
