//! Files of other people's machines, if they are there: the program shows or refuses each of them.

mod engines;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use testkit::elsewhere::{self, files};
use topology::xml::Element;

/// The exit status of every error.
const REFUSED: i32 = 2;

fn main() -> std::process::ExitCode {
    let arguments = Arguments::from_args();
    let not_run = |name: &str, why: String| {
        vec![Trial::ignorable_test(name, move || {
            Ok(Completion::ignored_with(format!("not run: {why}")))
        })]
    };
    let mut tests = match elsewhere::corpus() {
        Ok(corpus) => list(&corpus),
        Err(why) => not_run("corpus::files", why),
    };
    tests.extend(match elsewhere::engines() {
        Ok(folder) => engines::list(&folder),
        Err(why) => not_run("engines::cases", why),
    });
    libtest_mimic::run(&arguments, tests).exit_code()
}

fn list(corpus: &Path) -> Vec<Trial> {
    let mut tests = Vec::new();
    for folder in ["nccl", "rccl"] {
        for file in files(&corpus.join(folder), "xml").unwrap_or_default() {
            let name = format!(
                "{folder}::{}",
                file.file_name().unwrap_or_default().to_string_lossy()
            );
            tests.push(Trial::test(name, move || topology(&file)));
        }
    }
    for file in files(&corpus.join("graphs"), "xml").unwrap_or_default() {
        let name = format!(
            "graphs::{}",
            file.file_name().unwrap_or_default().to_string_lossy()
        );
        tests.push(Trial::test(name, move || graph(&file)));
    }
    for (name, assume) in VENDOR_FILES {
        let file = corpus.join(format!("nccl/{name}.xml"));
        tests.push(Trial::ignorable_test(
            format!("vendor::{name}"),
            move || vendor(name, &file, assume),
        ));
    }
    for extension in ["log", "txt"] {
        for file in files(&corpus.join("logs"), extension).unwrap_or_default() {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            tests.push(Trial::test(format!("logs::{name}"), move || log(&file)));
        }
    }
    for (name, topology, assume, most) in LOGS_AND_PLANS {
        let [file, topology] = [format!("logs/{name}.log"), format!("nccl/{topology}.xml")];
        let [file, topology] = [corpus.join(file), corpus.join(topology)];
        let name = format!("planned::{name}");
        tests.push(Trial::test(name, move || {
            planned(&file, &topology, assume, most)
        }));
    }
    for (name, cause) in EVIDENCE {
        let file = corpus.join(format!("evidence/logs/{name}.log"));
        tests.push(Trial::ignorable_test(
            format!("evidence::{name}"),
            move || diagnosed(&file, cause),
        ));
    }
    for (name, cluster) in TRACES {
        let file = corpus.join(format!("evidence/traces/{name}"));
        tests.push(Trial::ignorable_test(
            format!("traces::{name}"),
            move || traced(&file, cluster),
        ));
    }
    for (name, machine) in MATRICES {
        let file = corpus.join(format!("smi-topo/{name}.txt"));
        tests.push(Trial::ignorable_test(
            format!("matrix::{name}"),
            move || matrix(&file, machine),
        ));
    }
    tests
}

/// Logs of failures, with the cause that their threads found; none: nobody found one.
const EVIDENCE: [(&str, Option<&str>); 7] = [
    (
        "nccl1610-two-collectives-out-of-order-watchdog",
        Some("group-order"),
    ),
    ("nccl1730-ras-healthy-but-timeout", Some("rank-missing")),
    ("nccl2077-nvls-slots", Some("nvls-slots")),
    ("nccl2160-xml-nodes", Some("xml-nodes")),
    ("nccl2385-uneven-ranks", Some("uneven-pat")),
    ("ncclTests350-a100pcie-2node-nccl2.16.5", None),
    ("vllm58179-nccl231-no-algorithm", Some("no-algorithm")),
];

/// Workloads of other people, with a cluster of as many ranks: traces of HolisticTraceAnalysis
/// and PARAM, and SimAI's workload.
const TRACES: [(&str, &[&str]); 3] = [
    ("nccl_data.json.gz", &["dgx-a100", "--gpus", "0,1"]),
    ("resnet_2gpu_et.json.gz", &["dgx-a100", "--gpus", "0,1"]),
    (
        "simai_workload_analytical.txt",
        &["dgx-h100", "--hosts", "1152"],
    ),
];

/// Files of vendors, with the assumptions for which NCCL's answers were computed.
const VENDOR_FILES: [(&str, &[&str]); 12] = [
    (
        "azure-ndv2-topo",
        &["--assume-gpu", "sm=70", "--assume-nic", "speed=200000"],
    ),
    ("azure-ndv4-topo", &["--assume", "a100-sxm"]),
    ("azure-nhc-ndv4-topo", &["--assume", "a100-sxm"]),
    ("azure-ndv5-topo", &["--assume", "h100-sxm"]),
    (
        "aws-p4d-24xl-topo",
        &["--assume", "a100-sxm", "--assume-nic", "speed=100000"],
    ),
    (
        "aws-p4d-24xl-topo-v538adb",
        &["--assume", "a100-sxm", "--assume-nic", "speed=100000"],
    ),
    (
        "aws-p4de-24xl-topo",
        &["--assume", "a100-sxm", "--assume-nic", "speed=100000"],
    ),
    (
        "oci-topo-flattened",
        &["--assume", "a100-sxm", "--assume-nic", "speed=100000"],
    ),
    (
        "oci-topo-flattened-b4",
        &["--assume", "a100-sxm", "--assume-nic", "speed=100000"],
    ),
    ("nebius-h100-v1", &["--assume", "h100-sxm"]),
    ("mlperf-dgxa100-bert", &["--assume", "a100-sxm"]),
    ("mlperf-dgxa100-minimal-v0.7", &["--assume", "a100-sxm"]),
];

/// Matrices that nvidia-smi drew, with a machine of `topologies/` that is wired alike.
const MATRICES: [(&str, &str); 5] = [
    ("a100-8gpu-NV12", "dgx-a100"),
    ("h100-8gpu-NV18", "dgx-h100"),
    ("hgx-8gpu-NV18-10nic-node-pix", "dgx-h100"),
    ("8x4090-2switch-1nic", "pcie-8gpu-switch-per-socket"),
    ("workstation-2gpu-PHB", "workstation-2gpu"),
];

/// Logs with the topology file of their machine, and how many values differ at most. Versions
/// before 2.27 are compared with the plan of 2.27.
const LOGS_AND_PLANS: [(&str, &str, &[&str], usize); 8] = [
    (
        "timez-2xA100pcie-nccl2.27.7",
        "timez-2xA100pcie-nvl-normal",
        &[],
        0,
    ),
    (
        "timez-2xA100pcie-fault-nccl2.27.7",
        "timez-2xA100pcie-mergednic-fault",
        &[],
        0,
    ),
    ("yccl-test", "yccl-topo", &[], 0),
    ("yccl-test_peer", "yccl-topo", &[], 0),
    ("yccl-buffer32_ring_1G", "yccl-topo", &[], 0),
    (
        "ncclissue-2node-2xA100pcie-roce-nccl2.30.4.excerpt",
        "ncclissue-2xA100pcie-roce-ubuntu2",
        &[],
        0,
    ),
    (
        "aws-slurm-104",
        "aws-p4d-24xl-topo",
        &["--assume", "a100-sxm", "--assume-nic", "speed=100000"],
        4,
    ),
    (
        "nebius-h100-2node-mlperf-sd",
        "nebius-h100-v1",
        &["--assume", "h100-sxm"],
        16,
    ),
];

fn json_of(file: &Path, arguments: &[&str]) -> Result<serde_json::Value, Failed> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_topo"));
    command
        .args(["diagnose", "--log"])
        .arg(file)
        .arg("--json")
        .args(arguments);
    let output = command.output()?;
    if !matches!(output.status.code(), Some(0 | 1)) {
        return Err(Failed::from(String::from_utf8(output.stderr)?));
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Every ring, tree and channel is read, and hardly a line is unknown.
fn log(file: &Path) -> Result<(), Failed> {
    let log = json_of(file, &[])?;
    let lines = |name: &str| log["lines"][name].as_u64().unwrap_or(u64::MAX);
    let unknown = lines("unknown");
    if lines("broken_channels") > 0 || unknown > lines("all") / 100 {
        return Err(Failed::from(format!(
            "{}\n{}",
            log["lines"], log["unknown"]
        )));
    }
    Ok(())
}

/// Compares the log with the plan.
fn planned(file: &Path, topology: &Path, assume: &[&str], most: usize) -> Result<(), Failed> {
    let topology = topology.to_string_lossy();
    let arguments: Vec<&str> = ["--topology", &topology]
        .into_iter()
        .chain(assume.iter().copied())
        .collect();
    let log = json_of(file, &arguments)?;
    let fields = log["comparison"]["fields"].as_array();
    let differences = fields.into_iter().flatten();
    let differences = differences.filter_map(|field| field["differences"].as_array());
    let differences: Vec<_> = differences.flatten().collect();
    if differences.len() > most || fields.is_none_or(Vec::is_empty) {
        return Err(Failed::from(format!(
            "{} values differ: {differences:?}",
            differences.len()
        )));
    }
    Ok(())
}

/// `topo complete` writes the golden topology.
fn vendor(name: &str, file: &Path, assume: &[&str]) -> Result<Completion, Failed> {
    let golden = match elsewhere::golden() {
        Ok(golden) => golden,
        Err(why) => return Ok(Completion::ignored_with(format!("not run: {why}"))),
    };
    let output = Command::new(env!("CARGO_BIN_EXE_topo"))
        .arg("complete")
        .arg(file)
        .args(assume)
        .output()?;
    if !output.status.success() {
        return Err(Failed::from(String::from_utf8(output.stderr)?));
    }
    let expected = std::fs::read(golden.join(format!("topologies/{name}.xml")))?;
    let (expected, found) = (plain(&expected)?, plain(&output.stdout)?);
    match expected
        .lines()
        .zip(found.lines())
        .find(|(expected, found)| expected != found)
    {
        None if expected == found => Ok(Completion::Completed),
        different => Err(Failed::from(format!("{different:?}"))),
    }
}

/// A topology without attributes that no option adds; attributes are in the order of their names.
fn plain(text: &[u8]) -> Result<String, Failed> {
    fn simplify(element: &mut Element) {
        let said = |name: &str| !matches!(name, "host_hash" | "latency" | "coll");
        element.attributes.retain(|attribute| said(&attribute.name));
        element.attributes.sort_by(|a, b| a.name.cmp(&b.name));
        element.children.iter_mut().for_each(simplify);
    }
    let mut document =
        topology::xml::parse("file", text).map_err(|error| Failed::from(error.to_string()))?;
    simplify(&mut document.root);
    Ok(topology::xml::write(&document))
}

/// `topo show --matrix` agrees with nvidia-smi about each pair of GPUs.
fn matrix(file: &Path, machine: &str) -> Result<Completion, Failed> {
    let machine = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../topologies")
        .join(machine);
    let output = Command::new(env!("CARGO_BIN_EXE_topo"))
        .args(["show", "--matrix"])
        .arg(machine)
        .env("COLUMNS", "400")
        .output()?;
    let gpus = |text: &str| -> Vec<Vec<String>> {
        let rows = text.lines().map(|line| {
            line.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        });
        let rows: Vec<Vec<String>> = rows
            .filter(|row| row.len() > 2 && row[0].starts_with("GPU") && !row[1].starts_with("GPU"))
            .collect();
        let count = rows.len();
        rows.into_iter()
            .map(|row| row.into_iter().skip(1).take(count).collect())
            .collect()
    };
    let (expected, found) = (
        gpus(&std::fs::read_to_string(file)?),
        gpus(&String::from_utf8(output.stdout)?),
    );
    if expected.is_empty() || expected != found {
        return Err(Failed::from(format!(
            "expected {expected:?}\nfound {found:?}"
        )));
    }
    Ok(Completion::Completed)
}

/// `show` and `plan` end with an answer, or with one error that names the file or a device.
fn topology(file: &PathBuf) -> Result<(), Failed> {
    for arguments in [
        &["show"][..],
        &["plan"],
        &["plan", "--hosts", "2"],
        &["plan", "--format", "json"],
    ] {
        check(
            Command::new(env!("CARGO_BIN_EXE_topo"))
                .args(arguments)
                .arg(file),
        )?;
    }
    Ok(())
}

/// A graph file of another machine is taken or refused.
fn graph(file: &PathBuf) -> Result<(), Failed> {
    let machine = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../topologies/dgx-h100");
    check(
        Command::new(env!("CARGO_BIN_EXE_topo"))
            .arg("plan")
            .arg(machine)
            .env("NCCL_GRAPH_FILE", file),
    )
}

fn check(command: &mut Command) -> Result<(), Failed> {
    let output = command.stdin(Stdio::null()).output()?;
    let (out, err) = (
        String::from_utf8(output.stdout)?,
        String::from_utf8(output.stderr)?,
    );
    let errors: Vec<&str> = err
        .lines()
        .filter(|line| line.starts_with("error: "))
        .collect();
    let well = match output.status.code() {
        Some(0) => errors.is_empty() && !out.is_empty(),
        // A sentence: what is wrong, where, and what was expected or what to do.
        Some(REFUSED) => {
            out.is_empty() && matches!(errors.as_slice(), [error] if error.split(' ').count() > 8)
        }
        _ => false,
    };
    let odd = err
        .lines()
        .find(|line| !line.starts_with("warning: ") && !line.starts_with("error: "));
    if well && odd.is_none() {
        return Ok(());
    }
    Err(Failed::from(format!(
        "{command:?}: {:?}\n{err}",
        output.status
    )))
}

/// `topo step` reads a workload and prices each of its calls.
fn traced(file: &Path, cluster: &[&str]) -> Result<Completion, Failed> {
    if !file.is_file() {
        return Ok(Completion::ignored_with(format!(
            "not run: there is no {}",
            file.display()
        )));
    }
    let mut program = Command::new(env!("CARGO_BIN_EXE_topo"));
    program.arg("step").arg(file).args(["--json", "--cluster"]);
    let output = program.args(cluster).output()?;
    if !output.status.success() {
        return Err(Failed::from(String::from_utf8(output.stderr)?));
    }
    let report: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let calls = report["calls"].as_array().map_or(&[][..], Vec::as_slice);
    let is_priced = |call: &serde_json::Value| call["time_us"].as_f64().is_some_and(|it| it > 0.0);
    let notes = report["notes"].to_string();
    match !calls.is_empty() && calls.iter().all(is_priced) && !notes.contains("left out") {
        true => Ok(Completion::Completed),
        false => Err(format!("a call has no price or is left out:\n{report:#}").into()),
    }
}

/// Diagnoses a log: the first verdict is its cause, or one of several possible ones is.
fn diagnosed(file: &Path, cause: Option<&str>) -> Result<Completion, Failed> {
    if !file.is_file() {
        return Ok(Completion::ignored_with(format!(
            "not run: there is no {}",
            file.display()
        )));
    }
    let program = Command::new(env!("CARGO_BIN_EXE_topo"));
    let output = { program }
        .args(["diagnose", "--json"])
        .arg(file)
        .output()?;
    let report: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let verdicts = report["verdicts"].as_array().map_or(&[][..], Vec::as_slice);
    let is_sure = |verdict: &serde_json::Value| verdict["certainty"] != "possible";
    let most = match verdicts.first() {
        Some(first) if !is_sure(first) => verdicts.len(),
        _ => 1,
    };
    let causes = verdicts.iter().take(most);
    let found: Vec<_> = causes.filter_map(|it| it["cause"].as_str()).collect();
    let agrees = match cause {
        Some(cause) => found.contains(&cause),
        None => found.is_empty(),
    };
    match agrees {
        true => Ok(Completion::Completed),
        false => Err(format!("found {found:?}, expected {cause:?}:\n{report:#}").into()),
    }
}
