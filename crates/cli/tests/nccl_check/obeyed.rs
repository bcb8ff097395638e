//! NCCL's libraries with the tuner plug-in: each entry of a table is obeyed, and no table does any
//! harm.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::{Completion, Failed};
use nccl_binary::job::{HostAnswer, Job, JobHost};
use nccl_binary::log;
use nccl_binary::message::{Network, Request};
use plan::cost::TunedOperation;
use plan::{Algorithm, CostTable};
use planner::cost::profile::{CostProfile, PerAlgorithm};
use planner::{EqualHosts, NcclVersion, Settings};
use program::{Collective, Protocol};
use records::nccl_log::compare::Answer;
use topology::xml::Document;
use tuner_plugin::abi::ConstantsV5;
use tuner_plugin::table::{Choice, Communicator, Table};
use tuner_plugin::{LIBRARY, LIBRARY_FILE, TABLE_FILE, VARIABLE};

use crate::{check, library, not_fetched, repository};

/// Deadline of a job.
const DEADLINE: Duration = Duration::from_secs(120);

/// Bytes of the smallest message; each next one is twice as long.
const SMALLEST: u64 = 4096;

/// Different sizes. Each has an entry of its own for each collective.
const SIZES: u32 = 16;

/// A job.
pub(crate) struct Sample {
    pub name: &'static str,
    pub machine: &'static str,
    pub hosts: u32,
}

/// The jobs whose tables are tried. The first is part of every test run.
pub(crate) const SAMPLES: [Sample; 6] = [
    Sample {
        name: "dgx_h100",
        machine: "dgx-h100",
        hosts: 1,
    },
    Sample {
        name: "dgx_h100_2_hosts",
        machine: "dgx-h100",
        hosts: 2,
    },
    Sample {
        name: "dgx_a100_2_hosts",
        machine: "dgx-a100",
        hosts: 2,
    },
    Sample {
        name: "dgx_1v",
        machine: "dgx-1v",
        hosts: 1,
    },
    Sample {
        name: "dgx_b200",
        machine: "dgx-b200",
        hosts: 1,
    },
    Sample {
        name: "gh200_4_hosts",
        machine: "gh200",
        hosts: 4,
    },
];

/// A folder with the plug-in.
pub(crate) fn folder() -> Result<tempfile::TempDir, Failed> {
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join(LIBRARY_FILE), LIBRARY)?;
    Ok(folder)
}

/// The topology of a machine of the repository.
pub(crate) fn document(machine: &str) -> Result<Document, Failed> {
    let file = repository()
        .join("topologies")
        .join(machine)
        .join("topology.xml");
    let bytes = fs::read(&file)?;
    Ok(topology::xml::parse(machine, &bytes)?)
}

/// The job that NCCL is asked about.
pub(crate) fn job(
    document: &Document,
    hosts: u32,
    library: PathBuf,
    tuner: Option<PathBuf>,
) -> Job {
    let (complete, _) = nccl_binary::machine::complete(document);
    let gpus = planner::gpu_devices(document).len() as u32;
    let host = |number: u32| JobHost {
        topology: topology::xml::write(&complete),
        ranks: (number * gpus..).take(gpus as usize).collect(),
        variables: Vec::new(),
    };
    Job {
        program: PathBuf::from(env!("CARGO_BIN_EXE_topo")),
        arguments: vec!["nccl-host".into()],
        request: Request {
            tuner,
            ..Request::of(library)
        },
        hosts: (0..hosts).map(host).collect(),
        deadline: DEADLINE,
    }
}

/// The plan's costs of a job.
fn costs(document: Document, hosts: u32, version: NcclVersion) -> Result<CostTable, Failed> {
    let (complete, _) = nccl_binary::machine::complete(&document);
    let job = planner::Job {
        physical_ports: true,
        ..planner::Job::of(vec![EqualHosts {
            name: "machine".to_owned(),
            document: Arc::new(complete),
            edits: Vec::new(),
            count: hosts,
        }])
    };
    Ok(planner::plan(&job, &Settings::with_variables(version, Vec::new()))?.costs)
}

/// A table with an entry for each collective and size: every algorithm and protocol that NCCL
/// considers in turn, with its own channels or one to all of them.
fn table(costs: &CostTable) -> Table {
    let mut communicator = Communicator {
        nodes: costs.job.nodes.into(),
        ranks: costs.job.ranks.into(),
        ..Communicator::default()
    };
    for collective in Collective::TUNED {
        for turn in 0..SIZES {
            let bytes = SMALLEST << turn;
            let candidates = costs.candidates(&TunedOperation::new(collective, bytes));
            let ((algorithm, protocol), _) = candidates[turn as usize % candidates.len()];
            let channels = turn.checked_rem(4).filter(|it| *it > 0);
            communicator.choices.push(Choice {
                collective: collective as u8,
                least: bytes / 2 + 1,
                most: bytes,
                algorithm: algorithm as u8,
                protocol: protocol as u8,
                channels: channels.and_then(|it| u8::try_from(it).ok()),
                chunk: None,
            });
        }
    }
    Table {
        communicators: vec![communicator],
    }
}

/// By collective and bytes, channels of each operation, from lines such as
/// `AllReduce: 1024 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..1}`.
fn channels(answers: &[HostAnswer], ranks: u64) -> BTreeMap<(Collective, u64), u64> {
    let lines = answers.iter().flat_map(|it| &it.log);
    let read = |line: &String| {
        let (before, after) = line.split_once(" Bytes -> Algo ")?;
        let (name, bytes) = before.rsplit_once(": ")?;
        let collective: Collective = name.rsplit(' ').next()?.parse().ok()?;
        let (_, range) = after.split_once("={")?;
        let (low, high) = range.split_once('}')?.0.split_once("..")?;
        let (low, high): (u64, u64) = (low.parse().ok()?, high.parse().ok()?);
        let pieces = match collective {
            Collective::AllGather | Collective::ReduceScatter => ranks,
            _ => 1,
        };
        Some((
            (collective, bytes.parse::<u64>().ok()? * pieces),
            high + 1 - low,
        ))
    };
    lines.filter_map(read).collect()
}

/// All sizes of the table, bytes.
fn sizes() -> Vec<u64> {
    (0..SIZES).map(|turn| SMALLEST << turn).collect()
}

fn taken(choice: &Choice) -> Option<(Algorithm, Protocol)> {
    let algorithm = Algorithm::ALL.get(usize::from(choice.algorithm))?;
    let protocol = Protocol::ALL.get(usize::from(choice.protocol))?;
    Some((*algorithm, *protocol))
}

/// Asks NCCL with a table, and compares each operation with its entry.
pub(crate) fn each_entry(version: &str, sample: &Sample) -> Result<Completion, Failed> {
    let Some(library) = library(version) else {
        return not_fetched(version);
    };
    let minor = version.rsplit_once('.').map_or(version, |it| it.0);
    let document = document(sample.machine)?;
    let costs = costs(document.clone(), sample.hosts, minor.parse()?)?;
    let table = table(&costs);
    let folder = folder()?;
    fs::write(folder.path().join(TABLE_FILE), table.to_text())?;
    let tuner = folder.path().join(LIBRARY_FILE);
    let mut job = job(&document, sample.hosts, library, Some(tuner));
    job.request.sizes = sizes();
    let answers = job.run()?;
    let answer = log::read(&answers);
    check(
        answer.refusal.is_none() && answer.failures.is_empty(),
        || {
            format!(
                "{:?} {:?} {:?}",
                answer.refusal, answer.failures, answer.warnings
            )
        },
    )?;
    let channels = channels(&answers, costs.job.ranks.into());
    let mut compared = 0;
    for choice in &table.communicators[0].choices {
        let collective = Collective::TUNED[usize::from(choice.collective)];
        // Whole numbers for each rank, so sizes may be a little smaller.
        let those = |it: &&(Collective, u64)| {
            it.0 == collective && (choice.least..=choice.most).contains(&it.1)
        };
        let Some(of) = answer.choices.keys().find(those) else {
            return Err(format!("{choice:?}: NCCL says nothing of it").into());
        };
        let said = answer.choices.get(of).copied();
        check(said == taken(choice), || {
            format!("{choice:?}: NCCL takes {said:?}")
        })?;
        let count = channels.get(of).copied().unwrap_or(0);
        let wanted = choice.channels.filter(|_| choice.algorithm < 2);
        if let Some(wanted) = wanted.map(u64::from) {
            // Small messages take fewer.
            let is_obeyed = count <= wanted && (choice.least < 1 << 22 || count == wanted);
            check(is_obeyed, || {
                format!("{choice:?}: NCCL takes {count} channels")
            })?;
        }
        compared += 1;
    }
    let expected = Collective::TUNED.len() * SIZES as usize;
    check(compared == expected, || format!("{compared} of {expected}"))?;
    Ok(Completion::Completed)
}

/// Tables that cannot be used: what the file holds, `None` for no file.
fn bad_tables() -> [(&'static str, Option<Vec<u8>>); 8] {
    let good = "topo-tuner 1\ncommunicator nodes 1 ranks 2\nchoose all-reduce 0 max ring ll\nend\n";
    let of = |text: String| Some(text.into_bytes());
    [
        ("absent", None),
        ("empty", Some(Vec::new())),
        ("truncated", of(good.replace("end\n", ""))),
        (
            "binary",
            Some((0..4096_u32).map(|it| (it * 37 % 251) as u8).collect()),
        ),
        (
            "another version",
            of(good.replace("topo-tuner 1", "topo-tuner 2")),
        ),
        ("another job", of(good.replace("ranks 2", "ranks 3"))),
        ("no sizes", of(good.replace("0 max", "7 8"))),
        ("what NCCL lacks", of(good.replace("ring ll", "pat simple"))),
    ]
}

/// NCCL chooses as without the plug-in, and says once for each rank why.
pub(crate) fn bad_tables_are_harmless(version: &str) -> Result<Completion, Failed> {
    let Some(library) = library(version) else {
        return not_fetched(version);
    };
    let document = document("workstation-2gpu-nvlink")?;
    let ask = |variables: Vec<(String, String)>, tuner: Option<PathBuf>| {
        let mut job = job(&document, 1, library.clone(), tuner);
        job.request.sizes = vec![1 << 14, 1 << 20, 1 << 26];
        // The machine has no ports, and 2.28 does not survive a net plug-in without devices.
        job.request.network = Network::Socket;
        job.request.variables = variables;
        job.run().map(|answers| (log::read(&answers), answers))
    };
    let (without, _) = ask(Vec::new(), None)?;
    let folder = folder()?;
    let ask_with = |name: &str, file: &Path| -> Result<(), Failed> {
        let variables = vec![(VARIABLE.to_owned(), file.display().to_string())];
        let (with, answers) = ask(variables, Some(folder.path().join(LIBRARY_FILE)))?;
        is_harmless(&without, &with).map_err(|why| Failed::from(format!("{name}: {why}")))?;
        let lines = answers.iter().flat_map(|it| &it.log);
        let lines: Vec<&String> = lines
            .filter(|it| it.contains("NCCL's own choice"))
            .collect();
        check(lines.len() == 2, || {
            format!("{name}: two ranks say {lines:?}")
        })
    };
    for (name, bytes) in bad_tables() {
        let file = folder.path().join(name);
        if let Some(bytes) = bytes {
            fs::write(&file, bytes)?;
        }
        ask_with(name, &file)?;
    }
    ask_with("a folder", folder.path())?;
    ask_with("a device", Path::new("/dev/zero"))?;
    Ok(Completion::Completed)
}

fn is_harmless(without: &Answer, with: &Answer) -> Result<(), String> {
    if with.refusal.is_some() || !with.failures.is_empty() {
        return Err(format!("{:?} {:?}", with.refusal, with.failures));
    }
    match with.choices == without.choices && !with.choices.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "{:?} instead of {:?}",
            with.choices, without.choices
        )),
    }
}

/// A tuner plug-in is told the constants that the plan has for the version, and no others.
pub(crate) fn constants(version: &str) -> Result<Completion, Failed> {
    let Some(library) = library(version) else {
        return not_fetched(version);
    };
    let minor = version.rsplit_once('.').map_or(version, |it| it.0);
    let minor: NcclVersion = minor.parse()?;
    let profile = CostProfile::of(minor);
    let per_algorithm = |of: &PerAlgorithm| {
        let all = Algorithm::ALL.into_iter();
        let each = all.flat_map(|algorithm| Protocol::ALL.map(|it| of.of(algorithm, it)));
        each.collect::<Vec<f64>>()
    };
    let latency = &profile.hardware_latency_us;
    let latencies = [
        &profile.base_latency_us,
        &latency.nvlink,
        &latency.pci,
        &latency.net,
    ];
    let limits = &profile.bandwidth_limits_gbps;
    let limits = [
        &limits.ll,
        &limits.ring_ll128_channel,
        &limits.tree_ll128_channel,
        &limits.tree_channel,
        &limits.nvls_tree_channel,
    ];
    let limits = limits.map(|it| [it.volta, it.ampere, it.hopper, it.blackwell].concat());
    // 2.27 asks for version 4, which has none. 2.31 asks before it fills them in.
    let planned = match minor {
        NcclVersion::V2_27 => Vec::new(),
        NcclVersion::V2_31 => vec![0.0; ConstantsV5::NUMBERS],
        _ => [latencies.map(per_algorithm).concat(), limits.concat()].concat(),
    };
    let mut job = job(&document("workstation-2gpu-nvlink")?, 1, library, None);
    // As for the tables.
    job.request.network = Network::Socket;
    for answer in job.run()? {
        let told = &answer.report.tuner_constants;
        let differ = told.iter().zip(&planned).enumerate();
        let differ: Vec<_> = differ
            .filter(|(_, (told, planned))| told != planned)
            .collect();
        check(told.len() == planned.len() && differ.is_empty(), || {
            format!("{} of {} numbers; {differ:?}", told.len(), planned.len())
        })?;
    }
    Ok(Completion::Completed)
}
