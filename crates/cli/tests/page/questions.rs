//! Questions about drawn jobs, asked the program and the page's code: the answers are equal.

use std::path::Path;
use std::process::Command;

use answers::bound::BoundQuestion;
use answers::communicators::MemoryQuestion;
use answers::cost::CostQuestion;
use answers::engines::EnginesQuestion;
use answers::expect::ExpectQuestion;
use answers::simulate::SimulateQuestion;
use answers::tune::TuneQuestion;
use answers::what_if::WhatIfQuestion;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use super::inputs::{CALLS, LOG, TABLE};

/// Some answers take long: every sixteenth job is asked for them.
const LONG: usize = 16;

/// Settings that change decisions.
const SETTINGS: [(&str, &str); 8] = [
    ("NCCL_ALGO", "Ring"),
    ("NCCL_PROTO", "Simple"),
    ("NCCL_P2P_LEVEL", "PIX"),
    ("NCCL_NET_GDR_LEVEL", "SYS"),
    ("NCCL_CROSS_NIC", "1"),
    ("NCCL_MIN_NCHANNELS", "4"),
    ("NCCL_NVLS_ENABLE", "0"),
    ("NCCL_NTHREADS", "256"),
];

/// Failures; not every machine has the devices.
const FAILURES: [&str; 4] = ["GPU1", "NIC0", "GPU0:GPU1", "NIC1"];

/// A job, without its machine.
#[derive(Debug, Clone)]
struct Drawn {
    hosts: u32,
    /// None: all.
    gpus: Vec<i64>,
    set: Vec<(&'static str, &'static str)>,
    nccl: String,
    without: Vec<&'static str>,
    rank_order: &'static str,
    net_merge: &'static str,
    collnet: bool,
    as_is: bool,
    engine: Option<&'static str>,
    collectives: Vec<&'static str>,
}

fn drawn_jobs() -> impl Strategy<Value = Drawn> {
    let versions: Vec<String> = planner::NcclVersion::ALL
        .iter()
        .map(ToString::to_string)
        .collect();
    let gpus = prop_oneof![
        2 => Just(Vec::new()),
        1 => subsequence((0..8).collect::<Vec<i64>>(), 1..8).prop_shuffle(),
    ];
    let without = prop_oneof![
        3 => Just(Vec::new()),
        1 => subsequence(FAILURES.to_vec(), 1..3),
    ];
    let collectives = ["all-reduce", "broadcast", "all-gather", "reduce-scatter"];
    let preparation = prop_oneof![
        3 => Just(("host", "ib", false, false)),
        2 => (
            select(vec!["host", "round-robin"]),
            select(vec!["ib", "off"]),
            any::<bool>(),
            any::<bool>(),
        ),
    ];
    let drawn = (
        1..4_u32,
        gpus,
        subsequence(SETTINGS.to_vec(), 0..3),
        select(versions),
        without,
        preparation,
        subsequence(collectives.to_vec(), 1..3),
        select(vec![None, None, Some("sglang"), Some("vllm")]),
    );
    drawn.prop_map(
        |(hosts, gpus, set, nccl, without, preparation, collectives, engine)| {
            let (rank_order, net_merge, collnet, as_is) = preparation;
            Drawn {
                hosts,
                gpus,
                set,
                nccl,
                without,
                rank_order,
                net_merge,
                collnet,
                as_is,
                engine,
                collectives,
            }
        },
    )
}

/// The output of the program, or `None` where it refuses.
fn program(arguments: &[String], name: &str) -> Option<Value> {
    let output = Command::new(env!("CARGO_BIN_EXE_topo"))
        .args(arguments)
        .output()
        .expect("the program was built");
    // The page knows a file by its name only.
    let file = super::repository().join("topologies").join(name);
    let file = file.join("topology.xml").display().to_string();
    let text = String::from_utf8_lossy(&output.stdout).replace(&file, name);
    // Doctor ends with 1 if it finds something.
    serde_json::from_str(&text).ok()
}

/// The answer of the page's code, or `None` where it refuses.
fn page(request: &Value) -> Option<Value> {
    let answer = web::answer(request.to_string().as_bytes());
    let answer: Value = serde_json::from_str(&answer).expect("answers are JSON");
    // Differences have pictures beside what the program says.
    let mut answer = answer.get("report").unwrap_or(&answer).clone();
    // The program shows it as text.
    answer.as_object_mut().map(|it| it.remove("page"));
    answer.get("error").is_none().then_some(answer)
}

impl Drawn {
    fn job(&self, name: &str, text: &str) -> Value {
        json!({
            "file": { "name": name, "text": text },
            "hosts": self.hosts,
            "gpus": self.gpus,
            "nccl": self.nccl,
            "set": self.set,
            "without": self.without,
            "rank_order": self.rank_order,
            "net_merge": self.net_merge,
            "collnet": self.collnet,
            "as_is": self.as_is,
            "engine": self.engine,
        })
    }

    /// Whether the files are prepared as they are without options.
    fn is_plain(&self) -> bool {
        let plain = ("host", "ib", false, false);
        let own = (self.rank_order, self.net_merge, self.collnet, self.as_is);
        own == plain && self.engine.is_none()
    }

    fn arguments(&self, command: &str, name: &str) -> Vec<String> {
        let machine = super::repository().join("topologies").join(name);
        let mut arguments = vec![command.to_owned(), machine.display().to_string()];
        let mut add = |name: &str, value: String| arguments.extend([name.to_owned(), value]);
        add("--nccl", self.nccl.clone());
        for (variable, value) in &self.set {
            add("--set", format!("{variable}={value}"));
        }
        if ["show", "doctor", "diff"].contains(&command) {
            return arguments;
        }
        if let Some(engine) = self.engine {
            add("--engine", engine.to_owned());
        }
        add("--hosts", self.hosts.to_string());
        if !self.gpus.is_empty() {
            let gpus: Vec<String> = self.gpus.iter().map(ToString::to_string).collect();
            add("--gpus", gpus.join(","));
        }
        for failure in &self.without {
            add("--without", (*failure).to_owned());
        }
        if !self.is_plain() {
            add("--rank-order", self.rank_order.to_owned());
            add("--net-merge", self.net_merge.to_owned());
            let flags = [("--collnet", self.collnet), ("--as-is", self.as_is)];
            let given = flags.iter().filter(|(_, given)| *given);
            arguments.extend(given.map(|(flag, _)| (*flag).to_owned()));
        }
        arguments
    }
}

/// A question about files.
fn files(question: Value) -> Value {
    json!({ "do": "files", "question": question })
}

/// Questions that name all their fields, each with the command and the options that ask the same,
/// and the options that the question has.
fn every_field() -> Vec<(Value, &'static str, &'static str, clap::Command)> {
    fn options<T: clap::Args>() -> clap::Command {
        T::augment_args(clap::Command::new("all"))
    }
    vec![
        (
            json!({
                "ask": "cost", "collectives": ["all", "all-to-all"], "sizes": ["1K..1M", 3000], "factor": 4,
                "type": "bf16", "op": "avg", "calls": 2, "window": "local",
                "algorithms": ["ring", "tree"], "protocols": ["simple"], "table": true, "in_place": true,
            }),
            "cost",
            "--collective all,all-to-all --sizes 1K..1M,3000 --factor 4 --type bf16 --op avg --calls 2 \
             --window local --algorithm ring,tree --protocol simple --table --in-place",
            options::<CostQuestion>(),
        ),
        (
            json!({
                "ask": "memory", "collectives": ["all-reduce"], "sizes": ["1M"], "factor": 2,
                "type": "f16", "op": "max", "calls": 3, "window": "symmetric",
                "groups": ["2", "1:2"], "peers": true, "gpu_memory": 1 << 30, "in_place": true,
            }),
            "cost --memory",
            "--collective all-reduce --sizes 1M --factor 2 --type f16 --op max --calls 3 \
             --window symmetric --groups 2,1:2 --peers --gpu-memory 1G --in-place",
            options::<MemoryQuestion>().mut_args(|it| match it.get_id().as_str() {
                // The program refuses them beside --memory, and JSON has no such fields.
                "table" | "algorithm" | "protocol" => it.hide(true),
                _ => it,
            }),
        ),
        (
            json!({ "ask": "bound", "collective": "all-gather", "links": "all", "rails": true }),
            "bound",
            "--collective all-gather --links all --rails",
            options::<BoundQuestion>(),
        ),
        (
            json!({ "ask": "expect", "collectives": ["AllGather"], "sizes": ["64M..1G"] }),
            "expect",
            "--collective all-gather --sizes 64M..1G",
            options::<ExpectQuestion>(),
        ),
        (
            json!({
                "ask": "engines", "engine_version": "0.30.0", "engine_set": [["VLLM_SKIP_P2P_CHECK", "0"]],
                "size": ["64K"], "type": "bf16", "width": 4096, "mode": "eager",
                "peer_access": "granted", "no_multicast": true, "not_linux": true,
            }),
            "engines",
            "--engine-version 0.30.0 --engine-set VLLM_SKIP_P2P_CHECK=0 --size 64K --type bf16 \
             --width 4096 --mode eager --peer-access granted --no-multicast --not-linux",
            options::<EnginesQuestion>(),
        ),
        (
            json!({
                "ask": "simulate", "collective": "broadcast", "size": 100_000, "algorithm": "ring",
                "protocol": "ll", "transfer": "fifo", "channels": 2, "type": "f64", "root": 1,
                "every_rank": true,
            }),
            "simulate",
            "--collective broadcast --size 100000 --algorithm ring --protocol ll --transfer fifo \
             --channels 2 --type f64 --root 1 --every-rank",
            options::<SimulateQuestion>(),
        ),
        (
            json!({ "ask": "what-if", "only": ["nvlink"], "sizes": ["1M", "1G"], "bound": true }),
            "what-if",
            "--only nvlink --sizes 1M,1G --bound",
            options::<WhatIfQuestion>(),
        ),
        (
            json!({ "ask": "tune", "collectives": ["reduce"], "sizes": ["1M"], "from": 4096 }),
            "tune",
            "--collective reduce --sizes 1M --from 4K",
            options::<TuneQuestion>(),
        ),
    ]
}

/// The questions of [`every_field`] name every option that they have.
pub(crate) fn every_field_is_asked() -> Result<(), String> {
    for (question, command, given, has) in every_field() {
        let given: Vec<&str> = given.split(' ').collect();
        let fields = question.as_object().map_or(0, serde_json::Map::len);
        let options = has.get_arguments().filter(|it| !it.is_hide_set());
        let options: Vec<String> = options
            .filter_map(|it| Some(format!("--{}", it.get_long()?)))
            .collect();
        let lacking = options.iter().find(|it| !given.contains(&it.as_str()));
        if lacking.is_some() || fields != options.len() + 1 {
            return Err(format!("{command}: {lacking:?}, {fields} fields of JSON"));
        }
    }
    Ok(())
}

/// The questions about one job, each with the arguments that ask the program.
fn questions(drawn: &Drawn, name: &str, job: &Value, asks_long: bool) -> Vec<(Value, Vec<String>)> {
    let about = |question: Value| json!({ "do": "ask", "job": job, "question": question });
    let ask = |command: &str, more: &[&str]| {
        let mut arguments = drawn.arguments(command, name);
        arguments.extend(more.iter().map(|it| (*it).to_owned()));
        arguments.push("--json".to_owned());
        arguments
    };
    let mut cost = Vec::new();
    for collective in &drawn.collectives {
        cost.extend(["--collective", collective]);
    }
    let mut all = vec![(
        about(json!({ "ask": "cost", "collectives": drawn.collectives })),
        ask("cost", &cost),
    )];
    all.push((about(json!({ "ask": "expect" })), ask("expect", &[])));
    all.push((about(json!({ "ask": "engines" })), ask("engines", &[])));
    if asks_long {
        all.push((about(json!({ "ask": "tune" })), ask("tune", &[])));
        all.push((about(json!({ "ask": "bound" })), ask("bound", &[])));
        // A last host that differs.
        let mut unequal = job.clone();
        unequal["others"] = json!([{ "name": "dgx-a100" }]);
        let mut arguments = ask("cost", &cost);
        let at = arguments.iter().position(|it| it == "--hosts");
        let at = at.expect("a job has hosts");
        arguments.drain(at..at + 2);
        let mut machines = vec![arguments[1].clone(); drawn.hosts as usize];
        machines.push("dgx-a100".to_owned());
        arguments.splice(1..2, machines);
        let cost = json!({ "ask": "cost", "collectives": drawn.collectives });
        all.push((
            json!({ "do": "ask", "job": unequal, "question": cost }),
            arguments,
        ));
        all.push((
            about(json!({ "ask": "what-if", "sizes": [1 << 20] })),
            ask("what-if", &["--sizes", "1M"]),
        ));
        all.push((
            about(json!({ "ask": "settings" })),
            ask("plan", &["--check-settings"]),
        ));
        for (question, command, given, _) in every_field() {
            let mut words = command.split(' ');
            let command = words.next().unwrap_or_default();
            let given: Vec<&str> = words.chain(given.split(' ')).collect();
            all.push((about(question), ask(command, &given)));
        }
    }
    // Paths and findings are those of the machine as it is.
    if drawn.hosts == 1 && drawn.gpus.is_empty() && drawn.without.is_empty() && drawn.is_plain() {
        all.push((
            files(json!({ "ask": "doctor", "job": job })),
            ask("doctor", &[]),
        ));
        let machine = super::repository().join("topologies").join(name);
        let machine = machine.display().to_string();
        all.push((
            files(json!({ "ask": "matrix", "file": job["file"] })),
            ["matrix", &machine, "--json"].map(str::to_owned).to_vec(),
        ));
        let mut other = job.clone();
        other["without"] = json!(["GPU1"]);
        all.push((
            files(json!({ "ask": "difference", "job": job, "other": other })),
            ask("diff", &["--without-b", "GPU1"]),
        ));
        let overview = page(&about(json!({ "ask": "overview" })));
        if let Some([from, to]) = overview.as_ref().and_then(|it| ends(it, job)) {
            all.push((
                about(json!({ "ask": "path", "from": from, "to": to })),
                ask("show", &["--path", from, to]),
            ));
        }
    }
    all
}

/// The first two devices of a plan, if the file has the same.
fn ends<'a>(overview: &'a Value, job: &Value) -> Option<[&'a str; 2]> {
    let text = job["file"]["text"].as_str().unwrap_or_default();
    let devices = overview["devices"].as_array()?;
    let names: Vec<&str> = devices.iter().filter_map(Value::as_str).collect();
    // GPUs that are reached only over the network are left out of the plan, and of its paths.
    let gpus = names.iter().filter(|name| name.starts_with("GPU")).count();
    let ends = [*names.first()?, *names.get(1)?];
    // Ports that NCCL merges are devices of the plan, and not of the file.
    let number = |it: &&str| it.strip_prefix("NIC").and_then(|it| it.parse().ok());
    let most: Option<usize> = ends.iter().filter_map(number).max();
    let are_in_file = most.is_none_or(|most| most < text.matches("<net ").count());
    (gpus == text.matches("<gpu ").count() && are_in_file).then_some(ends)
}

/// Measurements, a log and a step, with the arguments that ask the program about each.
fn of_files(
    drawn: &Drawn,
    name: &str,
    job: &Value,
    folder: &Path,
) -> Result<Vec<(Value, Vec<String>)>, String> {
    let file = |name: &str, text: &str| -> Result<String, String> {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(|why| why.to_string())?;
        Ok(path.display().to_string())
    };
    let log = file("nccl.log", LOG)?;
    let mut all = vec![(
        files(json!({ "ask": "log", "file": { "name": log, "text": LOG } })),
        ["log", &log, "--json"].map(str::to_owned).to_vec(),
    )];
    let compared = json!({
        "ask": "log", "file": { "name": log, "text": LOG }, "hosts": 1,
        "job": { "file": { "name": "dgx-h100" }, "nccl": "2.28", "set": [["NCCL_ALGO", "Tree"]] },
    });
    let given = "--topology dgx-h100 --hosts 1 --nccl 2.28 --set NCCL_ALGO=Tree --json";
    let given = given.split(' ').map(str::to_owned);
    let logged = ["log", &log].map(str::to_owned).into_iter();
    all.push((files(compared), logged.chain(given).collect()));
    all.push((
        files(
            json!({ "ask": "diagnose", "files": [{ "name": log, "text": LOG }], "events": true }),
        ),
        ["diagnose", &log, "--json", "--events"]
            .map(str::to_owned)
            .to_vec(),
    ));
    let calls = file("calls.csv", CALLS)?;
    // What an engine sets is a warning of the program, and a note of the page.
    let plain = Drawn {
        engine: None,
        ..drawn.clone()
    };
    let mut arguments = plain.arguments("step", name);
    arguments.splice(1..1, [calls.clone(), "--cluster".to_owned()]);
    arguments.push("--json".to_owned());
    let mut job = job.clone();
    job.as_object_mut().map(|it| it.remove("engine"));
    let step = json!({ "ask": "step", "files": [{ "name": calls, "text": CALLS }], "job": job });
    all.push((files(step), arguments));
    // Elsewhere failures are no part of the job.
    if drawn.without.is_empty() && drawn.is_plain() {
        let table = file("all_reduce.log", TABLE)?;
        let mut arguments = drawn.arguments("results", name);
        arguments.insert(1, table.clone());
        arguments.insert(2, "--topology".to_owned());
        arguments.push("--json".to_owned());
        let measured = json!({ "name": table, "text": TABLE });
        all.push((
            files(json!({ "ask": "results", "file": measured, "job": job })),
            arguments,
        ));
    }
    Ok(all)
}

/// Draws this number of jobs and asks about them.
pub(crate) fn answers_of_the_program(jobs: usize) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|why| why.to_string())?;
    let machines = super::topologies();
    let mut runner = TestRunner::deterministic();
    let strategy = (select(machines), drawn_jobs());
    let (mut answered, mut refused) = (0, 0);
    for number in 0..jobs {
        let drawn = strategy
            .new_tree(&mut runner)
            .map_err(|why| why.to_string())?;
        let ((name, text), drawn) = drawn.current();
        let job = drawn.job(&name, &text);
        let mut asked = questions(&drawn, &name, &job, number % LONG == 0);
        if number % LONG == 0 {
            asked.extend(of_files(&drawn, &name, &job, folder.path())?);
        }
        for (request, arguments) in asked {
            match (program(&arguments, &name), page(&request)) {
                (None, None) => refused += 1,
                // The page shows what was measured also where nothing is predicted.
                (None, Some(page)) if page.to_string().contains("not predicted: ") => refused += 1,
                (program, page) if program == page => answered += 1,
                (program, page) => {
                    let shown =
                        |it: Option<Value>| it.map_or("refuses".to_owned(), |it| it.to_string());
                    return Err(format!(
                        "topo {}\nprogram: {}\npage: {}",
                        arguments.join(" "),
                        shown(program),
                        shown(page)
                    ));
                }
            }
        }
    }
    if answered < jobs {
        return Err(format!(
            "{answered} answers and {refused} refusals: too few answers"
        ));
    }
    Ok(())
}
