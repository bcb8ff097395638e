//! Questions about a planned job.

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
