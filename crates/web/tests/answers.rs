//! Answers to the page that must be those of the program.

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::DeflateEncoder;
use rawzip::{CompressionMethod, ZipArchiveWriter};
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

/// A tar archive of one file, and its name.
fn archive(name: &str, text: &str) -> Vec<u8> {
    let mut head = [0_u8; 512];
    head[..name.len()].copy_from_slice(name.as_bytes());
    head[124..135].copy_from_slice(format!("{:011o}", text.len()).as_bytes());
    head[148..156].fill(b' ');
    head[156] = b'0';
    head[257..265].copy_from_slice(b"ustar\x0000");
    let sum: u32 = head.iter().map(|it| u32::from(*it)).sum();
    head[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    let mut bytes = head.to_vec();
    bytes.extend(text.as_bytes());
    bytes.resize(bytes.len().next_multiple_of(512) + 1024, 0);
    bytes
}

/// A zip archive of one file.
fn zip(name: &str, text: &str) -> Vec<u8> {
    let mut archive = ZipArchiveWriter::new(Vec::new());
    let file = archive
        .new_file(name)
        .compression_method(CompressionMethod::DEFLATE);
    let (mut entry, config) = file.start().unwrap();
    let mut packing = config.wrap(DeflateEncoder::new(&mut entry, Compression::default()));
    packing.write_all(text.as_bytes()).unwrap();
    let (packing, descriptor) = packing.finish().unwrap();
    packing.finish().unwrap();
    entry.finish(descriptor).unwrap();
    archive.finish().unwrap()
}

#[test]
fn files_of_any_kind_are_diagnosed_together() {
    let line = "graph/xml.h: NCCL WARN Error : too many XML nodes (max 256)\n";
    let packed = STANDARD.encode(archive("logs/job.log", line));
    let files = json!([
        { "name": "all.tar", "base64": packed },
        { "name": "note.txt", "text": "nothing" },
        { "name": "cut.zip", "base64": STANDARD.encode(b"PK\x03\x04") },
        { "name": "more.zip", "base64": STANDARD.encode(zip("b.log", line)) },
    ]);
    let answer = ask(&json!({ "do": "files", "question": { "ask": "diagnose", "files": files } }));
    assert_eq!(answer["verdicts"][0]["cause"], "xml-nodes", "{answer}");
    let evidence = &answer["verdicts"][0]["evidence"][0];
    assert_eq!(evidence["input"], "all.tar: logs/job.log");
    assert_eq!(evidence["line"], 1);
    let inputs = answer["inputs"].as_array().unwrap();
    let read: Vec<_> = inputs.iter().map(|it| it["read"] == true).collect();
    assert_eq!(read, [true, true, false, true], "{answer}");
    let evidence = answer["verdicts"][0]["evidence"].as_array().unwrap();
    assert!(evidence.iter().any(|it| it["input"] == "more.zip: b.log"));
    let damaged = json!([{ "name": "x", "base64": "no!" }]);
    let answer =
        ask(&json!({ "do": "files", "question": { "ask": "diagnose", "files": damaged } }));
    assert!(
        answer["error"]
            .as_str()
            .unwrap()
            .starts_with("x: no base64"),
        "{answer}"
    );
}
