//! Answers in Python about drawn jobs: those of the library, which the program and the page give,
//! too.

use std::fmt::Write as _;

use answers::built_in::MACHINES;
use answers::file_question::FileQuestion;
use answers::request::JobRequest;
use serde_json::{Value, json};

/// Jobs that are drawn.
const JOBS: u64 = 200;

/// Bounds and failures take long: every sixteenth job is asked for them.
const LONG: u64 = 16;

/// Settings that change decisions.
const SETTINGS: [(&str, &str); 6] = [
    ("NCCL_ALGO", "Ring"),
    ("NCCL_PROTO", "Simple"),
    ("NCCL_P2P_LEVEL", "PIX"),
    ("NCCL_CROSS_NIC", "1"),
    ("NCCL_MIN_NCHANNELS", "4"),
    ("NCCL_NVLS_ENABLE", "0"),
];

/// The output of nccl-tests.
const TABLE: &str = "\
# nThread 1 nGpus 8 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20
#       size         count      type   redop    root     time   algbw   busbw #wrong
       65536         16384     float     sum      -1    36.20    1.81    3.17      0
";

/// The calls of a step.
const CALLS: &str = "group,collective,bytes,compute_us\nall=all,all-reduce,64M,100\n";

/// A log of NCCL.
const LOG: &str = "\
node1:100:200 [0] NCCL INFO NCCL version 2.27.5+cuda12.9
node1:100:200 [0] NCCL INFO Channel 00/02 : 0 1
node1:100:200 [0] transport/net_ib.cc:1 NCCL WARN NET/IB : Got completion with error 12
";

/// A flight recorder of PyTorch, and a line of its watchdog.
const RECORDER: &str = r#"{"version": "2.4", "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}, "entries": []}"#;
const WATCHDOG: &str = "\
[rank1]:[E] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, \
OpType=ALLREDUCE, NumelIn=16, NumelOut=16, Timeout(ms)=600000) ran for 600045 milliseconds before \
timing out.
";

/// A job by its number: the arguments of `toporing.plan`, and the same as a request.
fn job(number: u64) -> (&'static str, Value, Value) {
    let draw = |salt: u64, most: usize| {
        let mixed = (number * 64 + salt).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 33) as usize % most
    };
    let machine = MACHINES[draw(0, MACHINES.len())].name;
    let hosts = 1 + draw(1, 3);
    let gpus: &[i64] = [&[][..], &[], &[1, 0], &[0, 2, 1, 3]][draw(2, 4)];
    let (variable, value) = SETTINGS[draw(3, SETTINGS.len())];
    let versions: Vec<String> = planner::NcclVersion::ALL.map(|it| it.to_string()).to_vec();
    let version = &versions[draw(4, versions.len())];
    let without: &[&str] = [&[][..], &[], &["NIC0"]][draw(5, 3)];
    let order = match (gpus, hosts, draw(6, 2)) {
        ([1, 0], 1, _) => json!([1, 0]),
        (_, _, 0) => json!("host"),
        _ => json!("round-robin"),
    };
    let merge = ["ib", "off"][draw(7, 2)];
    let assume = [None, Some("h100-sxm")][draw(10, 2)];
    let gpu = [None, Some("sm=90,nvswitch-links=18")][draw(11, 2)];
    let nic = [None, Some("speed=400000")][draw(12, 2)];
    let engine = [None, None, Some("sglang")][draw(14, 3)];
    let nvlinks: &[&str] = [&[][..], &["GPU0:GPU1=4"]][draw(13, 2)];
    let mut options = json!({
        "hosts": hosts, "gpus": gpus, "without": without,
        "rank_order": order, "net_merge": merge, "collnet": draw(8, 4) == 0,
        "as_is": draw(9, 4) == 0, "assume": assume, "assume_gpu": gpu, "assume_nic": nic,
        "assume_nvlinks": nvlinks, "engine": engine,
    });
    let mut request = options.clone();
    options["settings"] = json!({ variable: value });
    options["nccl_version"] = json!(version);
    request["file"] = json!({ "name": machine });
    request["set"] = json!([[variable, value]]);
    request["nccl"] = json!(version);
    (machine, options, request)
}

/// The questions about jobs, and their answers, one job per line.
///
/// # Errors
/// A question is none.
pub fn answered() -> Result<String, String> {
    let mut lines = String::new();
    for number in 0..JOBS {
        let (machine, options, request) = job(number);
        let line = match read::<JobRequest>(&request)?.plan() {
            Err(why) => json!({ "topology": machine, "options": options, "refused": why }),
            Ok(planned) => {
                let mut asked = Vec::new();
                for (name, details) in questions(number) {
                    if let Ok(answer) = planned.ask(&read(&with(&details, name))?) {
                        asked.push(json!([name, details, value(&answer.json)?]));
                    }
                }
                for (name, details, question) in about_files(number, machine, &options, &request) {
                    if let Ok(answer) = read::<FileQuestion>(&with(&question, name))?.answer() {
                        asked.push(json!([name, details, value(&answer.json)?]));
                    }
                }
                json!({ "topology": machine, "options": options, "asked": asked })
            }
        };
        let _ = writeln!(lines, "{line}");
    }
    Ok(lines)
}

/// Questions about a planned job.
fn questions(number: u64) -> Vec<(&'static str, Value)> {
    let mut all = vec![
        (
            "cost",
            json!({ "collectives": ["all-reduce"], "sizes": [4096, 1 << 26] }),
        ),
        ("expect", json!({ "sizes": [1 << 30] })),
        ("engines", json!({ "size": [1 << 16], "type": "bf16" })),
        ("path", json!({ "from": "GPU0", "to": "GPU1" })),
        ("rank", json!({ "rank": 0 })),
    ];
    if number.is_multiple_of(LONG) {
        all.extend([
            ("bound", json!({})),
            ("settings", json!({})),
            ("what-if", json!({ "sizes": [1 << 20] })),
            ("tune", json!({ "sizes": [1 << 15, 1 << 30] })),
            (
                "simulate",
                json!({ "collective": "all-reduce", "size": 1 << 20 }),
            ),
        ]);
    }
    all
}

/// Questions about files: their name, what Python gets, and the question.
fn about_files(
    number: u64,
    machine: &str,
    options: &Value,
    request: &Value,
) -> Vec<(&'static str, Value, Value)> {
    let file = json!({ "name": machine });
    let set = json!({ "file": file, "set": request["set"] });
    let mut all = vec![
        ("matrix", json!({}), json!({ "file": file })),
        ("doctor", json!({}), json!({ "job": set })),
    ];
    if number.is_multiple_of(LONG) {
        let (mut other, mut other_options) = (request.clone(), options.clone());
        other["hosts"] = json!(4);
        other_options["hosts"] = json!(4);
        let [table, log, calls] = [("table", TABLE), ("log", LOG), ("calls", CALLS)]
            .map(|(name, text)| json!({ "name": name, "text": text }));
        let hosts = request["hosts"].as_u64().unwrap_or(1);
        let fabric = format!("[leaf]\nof = {:?}\n", vec![0; hosts as usize]);
        all.extend([
            (
                "difference",
                other_options,
                json!({ "job": request, "other": other }),
            ),
            (
                "results",
                table.clone(),
                json!({ "file": table, "job": request }),
            ),
            (
                "log",
                log.clone(),
                json!({
                    "file": log,
                    "job": { "file": { "name": "dgx-h100" }, "set": [["NCCL_ALGO", "Tree"]] },
                    "hosts": 1,
                }),
            ),
            (
                "step",
                json!({ "text": CALLS, "fabric": fabric }),
                json!({
                    "files": [calls], "job": request, "orders": 20,
                    "fabric": { "name": "fabric", "text": fabric },
                }),
            ),
            (
                "diagnose",
                json!({ "files": { "a.log": LOG, "b.log": WATCHDOG, "c.json": RECORDER } }),
                json!({ "files": [
                    { "name": "a.log", "text": LOG },
                    { "name": "b.log", "text": WATCHDOG },
                    { "name": "c.json", "text": RECORDER },
                ] }),
            ),
        ]);
    }
    all
}

fn with(details: &Value, name: &str) -> Value {
    let mut question = details.clone();
    question["ask"] = json!(name);
    question
}

fn read<T: serde::de::DeserializeOwned>(value: &Value) -> Result<T, String> {
    serde_json::from_value(value.clone()).map_err(|why| format!("{value}: {why}"))
}

fn value(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|why| why.to_string())
}
