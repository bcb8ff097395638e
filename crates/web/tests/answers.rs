//! Answers to the page that must be those of the program.

use serde_json::{Value, json};

fn ask(request: &Value) -> Value {
    let answer = web::answer(request.to_string().as_bytes());
    serde_json::from_str(&answer).unwrap()
}

fn plan(job: &Value) -> Value {
    ask(&json!({ "do": "ask", "job": job, "question": { "ask": "overview" } }))
}

#[test]
fn ranks_run_in_the_order_of_the_gpus() {
    let answer = plan(&json!({ "file": { "name": "dgx-h100" }, "gpus": [3, 2, 1, 0] }));
    let plan: Value = serde_json::from_str(answer["plan"].as_str().unwrap()).unwrap();
    let order = &plan["plan"]["rank_order"];
    assert_eq!(*order, json!([{ "first": 3, "count": 4, "step": -1 }]));
}

#[test]
fn unknown_gpus_are_refused() {
    let answer = plan(&json!({ "file": { "name": "dgx-h100" }, "gpus": [0, 99] }));
    assert_eq!(answer["error"], "dgx-h100 has no GPU99; it has GPU 0-7");
}

#[test]
fn files_of_amd_are_refused() {
    let machine = answers::built_in::find("dgx-h100").unwrap();
    let text = machine.text.replacen("version=\"1\"", "version=\"2\"", 1);
    let answer = plan(&json!({ "file": { "name": "mi300.xml", "text": text } }));
    let error = answer["error"].as_str().unwrap();
    assert!(
        error.starts_with("mi300.xml is a topology of AMD's RCCL"),
        "{error}"
    );
}
