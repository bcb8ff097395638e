//! Questions about a planned job.

use answers::file_question::FileQuestion;
use answers::question::Question;
use answers::request::JobRequest;
use serde_json::{Value, json};

fn ask(machine: &str, question: Value) -> Result<Value, String> {
    let question: Question = serde_json::from_value(question).map_err(|why| why.to_string())?;
    let answer = JobRequest::of(machine).plan()?.ask(&question)?;
    serde_json::from_str(&answer.json).map_err(|why| why.to_string())
}

/// NVLink SHARP does not average: with averages nothing of it is allocated.
#[test]
fn memory_follows_the_calls() {
    let all_reduces = |details: Value| {
        let mut question = json!({ "ask": "memory", "collectives": ["all-reduce"] });
        let fields = question.as_object_mut().unwrap();
        fields.extend(details.as_object().unwrap().clone());
        ask("dgx-h100", question)
    };
    let has_nvls = |details| {
        let answer = all_reduces(details).unwrap();
        let algorithms = answer["communicators"][0]["algorithms"].as_array();
        algorithms.unwrap().contains(&json!("NVLS"))
    };
    assert!(has_nvls(json!({})));
    assert!(!has_nvls(json!({ "op": "avg", "type": "bf16" })));
    assert!(has_nvls(json!({ "window": "local", "calls": 2 })));
    let refused = all_reduces(json!({ "op": "xor" })).unwrap_err();
    assert!(refused.contains("xor"), "{refused}");
}

/// The plan of a job of JSON, or why there is none.
fn job(details: Value) -> Result<Value, String> {
    let mut job = json!({ "file": { "name": "dgx-a100" } });
    let fields = job.as_object_mut().unwrap();
    fields.extend(details.as_object().unwrap().clone());
    let job: JobRequest = serde_json::from_value(job).map_err(|why| why.to_string())?;
    let answer = job
        .plan()?
        .ask(&serde_json::from_value(json!({ "ask": "overview" })).unwrap())?;
    let answer: Value = serde_json::from_str(&answer.json).unwrap();
    Ok(answer["plan"].clone())
}

/// What the command line takes as text, JSON takes too.
#[test]
fn lists_may_be_texts() {
    let listed = job(json!({ "gpus": [0, 1, 2, 3], "rank_order": [3, 2, 1, 0] })).unwrap();
    let texts = job(json!({ "gpus": "0-3", "rank_order": "3-0" })).unwrap();
    assert_eq!(listed, texts);
    assert_ne!(listed, job(json!({ "gpus": "0-3" })).unwrap());
    for (details, why) in [
        (json!({ "gpus": "0-" }), "gpus 0-: `0-` is neither"),
        (
            json!({ "gpus": "visible" }),
            "CUDA_VISIBLE_DEVICES is not set",
        ),
        (
            json!({ "gpus": { "0": 1 } }),
            "expected a list of device numbers",
        ),
        (
            json!({ "rank_order": "hosts" }),
            "rank_order hosts: no such order",
        ),
        (
            json!({ "rank_order": "@ranks" }),
            "rank_order @ranks: a file",
        ),
        (json!({ "without": ["GPU9"] }), "GPU9"),
        (
            json!({ "assume_gpu": "sm=9" }),
            "assume_gpu sm=9: sm=9 is not",
        ),
        (json!({ "nccl": "1.2" }), "NCCL 1.2: "),
        (json!({ "hosts": 0 }), "0 hosts; expected 1 to"),
        (json!({ "host": 2 }), "unknown field `host`"),
    ] {
        let said = job(details).unwrap_err();
        assert!(said.contains(why), "{said}");
    }
}

/// A model by Megatron's arguments, as the script says it.
#[test]
fn a_model_is_a_step() {
    let ask = |details: Value| {
        let mut step = json!({ "ask": "step", "job": { "file": { "name": "dgx-a100" } } });
        let fields = step.as_object_mut().unwrap();
        fields.extend(details.as_object().unwrap().clone());
        let step: FileQuestion = serde_json::from_value(step).map_err(|why| why.to_string())?;
        Ok::<String, String>(step.answer()?.json)
    };
    let model = |hidden: u64| {
        json!({ "num_layers": 4, "hidden_size": hidden, "num_attention_heads": 8, "seq_length": 512,
            "global_batch_size": 8, "tensor_model_parallel_size": 2, "sequence_parallel": true })
    };
    let script = "--num-layers 4 --hidden-size 1024 --num-attention-heads 8 --seq-length 512 \
        --global-batch-size 8 --tensor-model-parallel-size 2 --sequence-parallel";
    let files = json!([{ "name": "train.sh", "text": script }]);
    let answer = ask(json!({ "model": model(1024) })).unwrap();
    assert_eq!(answer, ask(json!({ "files": files })).unwrap());
    for (details, why) in [
        (json!({ "model": model(0) }), "hidden-size 0; expected 1 to"),
        (
            json!({ "model": model(u64::MAX) }),
            "hidden-size 18446744073709551615",
        ),
        (
            json!({ "model": model(1024), "files": files }),
            "both files and a model",
        ),
        (
            json!({ "model": { "num_layers": 4 } }),
            "missing field `hidden_size`",
        ),
    ] {
        let said = ask(details).unwrap_err();
        assert!(said.contains(why), "{said}");
    }
}
