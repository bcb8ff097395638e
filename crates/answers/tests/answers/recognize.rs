//! Kinds of files, and the questions that they answer.

use answers::file_question::FileQuestion;
use serde_json::{Value, json};

const MATRIX: &str = "\
\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID
GPU0\t X \tPHB\t0-15\t0\t\tN/A
GPU1\tPHB\t X \t0-15\t0\t\tN/A
";
const NAMES: &str = "\
GPU 0: NVIDIA GeForce RTX 3090 (UUID: GPU-0)
GPU 1: NVIDIA GeForce RTX 3090 (UUID: GPU-1)
";
const XID: &str = "[ 12.3] NVRM: Xid (PCI:0000:01:00): 79, pid=7, GPU has fallen off the bus.\n";
const LOG: &str = "node1:100:200 [0] NCCL INFO NCCL version 2.27.5+cuda12.9\n";
const TABLE: &str = "\
# nThread 1 nGpus 8 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20
#       size         count      type   redop    root     time   algbw   busbw #wrong
       65536         16384     float     sum      -1    36.20    1.81    3.17      0
";
const CALLS: &str = "group,collective,bytes,compute_us\nall=all,all-reduce,64M,100\n";
const SCRIPT: &str = "torchrun pretrain.py --num-layers 4 --hidden-size 1024\n";
const TRACE: &str = r#"{"schemaVersion": 1, "traceEvents": []}"#;
const TOPOLOGY: &str = r#"<system version="1"><cpu numaid="0" arch="x86_64"/></system>"#;

fn recognized(files: &[(&str, &str)]) -> Value {
    let files: Vec<Value> = files
        .iter()
        .map(|(name, text)| json!({ "name": name, "text": text }))
        .collect();
    of(&json!(files)).unwrap()
}

fn of(files: &Value) -> Result<Value, String> {
    let question = json!({ "ask": "recognize", "files": files });
    let question: FileQuestion = serde_json::from_value(question).map_err(|why| why.to_string())?;
    let answer = question.answer()?.json;
    serde_json::from_str(&answer).map_err(|why| why.to_string())
}

#[test]
fn each_file_opens_what_answers_it() {
    let matrix = ("topo.txt", MATRIX);
    let page = format!("It hangs:\n```\n{MATRIX}```\nand dmesg says\n{XID}");
    let quiet = format!("My rig:\n```\n{MATRIX}```\n{NAMES}");
    let long = format!("{LOG}{}", "a line of the job's own\n".repeat(100_000));
    let cases: [(&[(&str, &str)], &str); 18] = [
        (&[("t.xml", TOPOLOGY)], "machine"),
        (&[("broken.xml", "<system version=\"1\"><cpu")], "machine"),
        (&[("cut.txt", &MATRIX[..60])], "machine"),
        (&[matrix], "machine"),
        (&[matrix, ("names.txt", NAMES)], "machine"),
        (&[("rig.md", &quiet)], "machine"),
        (&[("issue.md", &page)], "diagnose"),
        (&[("names.txt", NAMES)], "diagnose"),
        (&[("dmesg", XID)], "diagnose"),
        (&[("job.log", LOG)], "diagnose"),
        (&[("job.log", &long)], "diagnose"),
        (&[("job.log", LOG), matrix], "diagnose"),
        (&[("all_reduce.txt", TABLE)], "results"),
        (&[("all_reduce.txt", TABLE), ("t.xml", TOPOLOGY)], "results"),
        (&[("calls.csv", CALLS)], "step"),
        (&[("train.sh", SCRIPT)], "step"),
        (&[("trace.json", TRACE)], "step"),
        (&[("nothing.txt", "")], "diagnose"),
    ];
    for (files, opens) in cases {
        let found = recognized(files);
        assert_eq!(found["opens"], opens, "{found}");
        assert_eq!(found["parts"].as_array().unwrap().len(), files.len());
    }
}

/// Words of the readers, and a file that is longer than what is looked at.
#[test]
fn a_part_says_what_it_is() {
    let kind = |text: &str| recognized(&[("it", text)])["parts"][0]["kind"].clone();
    assert_eq!(kind(LOG), "NCCL's log, 1 line");
    assert_eq!(kind(MATRIX), "listing of a machine, 3 lines");
    assert_eq!(kind(NAMES), "listing of a machine, 2 lines");
    assert_eq!(kind(TABLE), "measurements, 3 lines");
    assert_eq!(kind(CALLS), "workload, 2 lines");
    let long = format!("{LOG}{}", "x\n".repeat(1 << 20));
    let kind = kind(&long).to_string();
    assert!(
        kind.starts_with("\"NCCL's log, ") && kind.ends_with(" and more\""),
        "{kind}"
    );
}

/// Bytes that are no text, packed files, and questions that are none.
#[test]
fn other_bytes_are_evidence() {
    use std::io::Write;
    let packed = |text: &str| {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(text.as_bytes()).unwrap();
        packer.finish().unwrap()
    };
    let whole = packed(&LOG.repeat(1000));
    let half = &whole[..whole.len() / 2];
    let bytes: [(&[u8], &str, &str); 7] = [
        (b"\x80\x02}q\x00.", "diagnose", ""),
        (b"\xff\xfe\x00\x00\x00", "diagnose", ""),
        (b"PK\x03\x04rest", "diagnose", "archive"),
        (b"\x1f\x8b", "diagnose", ""),
        (&whole, "diagnose", "NCCL's log, 1000 lines"),
        (half, "diagnose", "NCCL's log"),
        (&packed(CALLS), "step", "workload"),
    ];
    for (bytes, opens, kind) in bytes {
        use base64::Engine;
        let text = base64::engine::general_purpose::STANDARD.encode(bytes);
        let found = of(&json!([{ "name": "it", "base64": text }])).unwrap();
        assert_eq!(found["opens"], opens, "{found}");
        assert!(
            found["parts"][0]["kind"].as_str().unwrap().contains(kind),
            "{found}"
        );
    }
    for (files, why) in [
        (
            json!([{ "name": "it" }]),
            "expected either `text` or `base64`",
        ),
        (json!([{ "name": "it", "base64": "!" }]), "no base64"),
        (json!([{ "name": "it", "text": 7 }]), "invalid type"),
    ] {
        let said = of(&files).unwrap_err();
        assert!(said.contains(why), "{said}");
    }
    assert_eq!(of(&json!([])).unwrap()["opens"], "diagnose");
}
