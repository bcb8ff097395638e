//! All-reduces of engines, by cases outside the repository: each machine is written as nvidia-smi
//! prints it.

use std::path::Path;
use std::process::{Command, Stdio};

use libtest_mimic::{Failed, Trial};
use serde_json::Value;

/// Most GPUs of a case.
const MOST: u64 = 16;

/// A trial for each line of `cases.jsonl`.
pub(crate) fn list(folder: &Path) -> Vec<Trial> {
    let text = std::fs::read_to_string(folder.join("cases.jsonl")).unwrap_or_default();
    let cases = text.lines().filter(|it| !it.trim().is_empty());
    let mut trials: Vec<Trial> = cases
        .map(|line| {
            let case: Value = serde_json::from_str(line).unwrap_or_default();
            let name = case["id"].as_str().unwrap_or("unreadable").to_owned();
            Trial::test(format!("engines::{name}"), move || asked(&case))
        })
        .collect();
    let count = trials.len();
    trials.push(Trial::test(
        "engines::there_are_cases",
        move || match count {
            0 => Err(Failed::from("no case in cases.jsonl")),
            _ => Ok(()),
        },
    ));
    trials
}

/// What nvidia-smi prints of the machine: names, the matrix, and the one of peer access.
fn listing(machine: &Value) -> Option<String> {
    let text = |name: &str| machine[name].as_str().unwrap_or_default();
    let gpus = machine["gpus"]
        .as_u64()
        .filter(|it| (1..=MOST).contains(it))?;
    let (links, gpu) = (text("links"), text("gpu"));
    let numbers = (0..gpus).map(|it| it.to_string()).collect::<Vec<_>>();
    let all = numbers.join(",");
    let header: String = (0..gpus).map(|it| format!("\tGPU{it}")).collect();
    let joined = |one: u64, other: u64| match links {
        _ if links.contains("all pairs") || links == "NVLink bridge" => true,
        _ => links.contains(&format!("{}-{}", one.min(other), one.max(other))),
    };
    let row = |one: u64, cell: &dyn Fn(u64) -> &'static str| {
        let cells = (0..gpus).map(|other| if other == one { " X " } else { cell(other) });
        format!("GPU{one}\t{}", cells.collect::<Vec<_>>().join("\t"))
    };
    let link = match links.contains("NVSwitch") {
        true => "NV18",
        false => "NV4",
    };
    let matrix = (0..gpus).map(|one| {
        let cell = |other| if joined(one, other) { link } else { "PHB" };
        format!("{}\t0-31\t0\t\tN/A\n", row(one, &cell))
    });
    let granted = match text("peer_access").starts_with("none") {
        true => "CNS",
        false => "OK",
    };
    let peers = (0..gpus).map(|one| row(one, &|_| granted) + "\n");
    Some(format!(
        "GPU {all}: NVIDIA {gpu}\n\n{header}\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n{}\n{header}\n{}",
        matrix.collect::<String>(),
        peers.collect::<String>()
    ))
}

fn arguments(case: &Value) -> Vec<String> {
    let machine = &case["machine"];
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let mut all = vec!["engines".to_owned(), "-".to_owned(), "--json".to_owned()];
    let mut add = |name: &str, value: &str| all.extend([name.to_owned(), value.to_owned()]);
    let program = match case["program"].as_str() {
        Some("MSCCL++") => "mscclpp".to_owned(),
        program => program.unwrap_or_default().to_lowercase(),
    };
    add("--engine", &program);
    add("--engine-version", &text(&case["version"]));
    add("--size", &text(&case["message_bytes"]));
    add("--type", &text(&case["dtype"]).replace("fp", "f"));
    if let Some(mode @ ("graph" | "eager")) = case["mode"].as_str() {
        add("--mode", mode);
    }
    let peers = text(&machine["peer_access"]);
    let how = match peers.as_str() {
        lost if lost.contains("writes are lost") => Some("writes-lost"),
        fails if fails.contains("IPC open fails") => Some("ipc-fails"),
        _ => None,
    };
    if let Some(how) = how {
        add("--peer-access", how);
    }
    if let Some((_, width)) = case["shape"].as_str().and_then(|it| it.split_once(" x ")) {
        add("--width", width);
    }
    for (name, value) in case["settings"].as_object().into_iter().flatten() {
        let set = match name.as_str() {
            "build" => text(value),
            name => format!("{name}={}", text(value)),
        };
        all.push(format!("--engine-set={set}"));
    }
    let flags = [
        ("--no-multicast", machine["multicast"] == false),
        ("--not-linux", machine["os"] == "Windows"),
    ];
    let given = flags.iter().filter(|it| it.1);
    all.extend(given.map(|it| it.0.to_owned()));
    all
}

/// The program says the method and the kernel of a case.
fn asked(case: &Value) -> Result<(), Failed> {
    let listing = listing(&case["machine"]).ok_or("the machine of the case is not known")?;
    let arguments = arguments(case);
    let mut child = Command::new(env!("CARGO_BIN_EXE_topo"))
        .args(&arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    if let Some(mut input) = child.stdin.take() {
        std::io::Write::write_all(&mut input, listing.as_bytes())?;
    }
    let output = child.wait_with_output()?;
    let refused = String::from_utf8_lossy(&output.stderr).into_owned();
    let answer: Value = serde_json::from_slice(&output.stdout)
        .map_err(|why| format!("{arguments:?}: {why}: {refused}"))?;
    let engine = &answer["engines"][0];
    let outcomes = engine["outcomes"].as_array().ok_or("no outcome")?;
    let [outcome] = &outcomes[..] else {
        return Err(format!("{} outcomes: {}", outcomes.len(), answer["assumptions"]).into());
    };
    let expected = &case["expected"];
    let kernel = expected["kernel"].as_str();
    let hangs = kernel.is_some_and(|it| it.contains("hangs"));
    let kernel = kernel.map(|it| it.trim_end_matches(" (hangs)"));
    for message in outcome["messages"].as_array().into_iter().flatten() {
        let says_it_hangs = message["hazard"]
            .as_str()
            .is_some_and(|it| it.contains("hangs"));
        let agrees = message["method"] == expected["method"]
            && (kernel.is_none() || message["kernel"].as_str() == kernel)
            && (!hangs || says_it_hangs);
        if !agrees {
            return Err(format!("{message}, expected {expected}: {}", case["why"]).into());
        }
    }
    match outcome["messages"].as_array().is_none_or(Vec::is_empty) {
        true => Err("no message".into()),
        false => Ok(()),
    }
}
