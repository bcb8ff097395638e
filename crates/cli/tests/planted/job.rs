//! Runs the job of a kind, and writes its evidence as users have it.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use libtest_mimic::Failed;
use nccl_binary::plant::Plant;
use nccl_binary::scripted::job::ScriptedProcess;
use nccl_binary::scripted::{Evidence, ScriptedJob, Step};
use program::Collective;

use super::kind::{Kind, Rank};
use super::{PROCESS, library, repository};

/// For how long nothing is said in a job whose evidence is complete.
const PAUSE: Duration = Duration::from_secs(2);

/// Elements of a collective that gives no other number; NCCL's number of 32-bit floats, of a sum.
const ELEMENTS: u32 = 1024;
const FLOAT: i32 = 7;
const SUM: i32 = 0;

/// The file of a job's folder with the functions of which planted calls were made.
pub(crate) const PLANTED: &str = "planted.txt";

/// The folder and the file with NCCL's log: of each process all lines, of all together what NCCL
/// says at the level WARN.
pub(crate) const ALL_LINES: &str = "info";
pub(crate) const WARNINGS: &str = "warn.log";

/// Runs a job; its evidence is in the folder afterwards.
pub(crate) fn run(kind: &Kind, version: &str, folder: &Path) -> Result<(), Failed> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder)?;
    let scratch = tempfile::tempdir()?;
    let evidence = of(kind, version, scratch.path())?.run()?;
    write(&evidence, folder)
}

/// The job of a kind, which keeps what it shares in a folder.
pub(crate) fn of(kind: &Kind, version: &str, scratch: &Path) -> Result<ScriptedJob, Failed> {
    Ok(ScriptedJob {
        program: std::env::current_exe()?,
        arguments: vec![PROCESS.into()],
        network: kind.network.into(),
        nvlink_domain: kind.domain,
        peer_access: kind.peers,
        ids: kind.ids,
        processes: processes(kind, version, scratch)?,
        folder: scratch.to_owned(),
        text: kind.text.clone(),
        asks_ras: kind.ras || !kind.states.is_empty(),
        pause: PAUSE,
        deadline: Duration::from_secs(kind.deadline),
    })
}

fn processes(kind: &Kind, version: &str, scratch: &Path) -> Result<Vec<ScriptedProcess>, Failed> {
    let usual = Rank::default();
    let all = kind.hosts.iter().sum();
    let places = (0..).zip(&kind.hosts);
    let places = places.flat_map(|(host, gpus)| (0..*gpus).map(move |gpu| (host, gpu)));
    let process = |(rank, (host, gpu)): (u32, (u32, u32))| {
        let own = kind.rank.get(&rank.to_string()).unwrap_or(&usual);
        let version = own.version.as_deref().unwrap_or(version);
        let missing = || format!("NCCL {version} is not here; cargo xtask fetch nccl fetches it");
        let steps = own.steps.as_ref().unwrap_or(&kind.steps);
        let plants = kind.plant.iter().chain(&own.plant);
        let plants: Result<Vec<Plant>, String> = plants.map(|it| it.parse()).collect();
        let steps: Result<Vec<Step>, String> = steps.iter().map(|it| step(it, all)).collect();
        let mut topology = topology(&kind.machine)?;
        if let Some((from, to)) = &own.edit {
            topology = topology.replace(from, to);
        }
        let mut variables: Vec<(String, String)> = kind.set.clone().into_iter().collect();
        variables.extend(own.set.clone());
        let tools: BTreeMap<_, _> = kind.tools.iter().chain(&own.tools).collect();
        if !tools.is_empty() {
            let folder = scratch.join(format!("tools-{rank}"));
            fs::create_dir_all(&folder)?;
            for (name, script) in tools {
                let file = folder.join(name);
                fs::write(&file, format!("#!/bin/sh\n{script}"))?;
                fs::set_permissions(&file, Permissions::from_mode(0o755))?;
            }
            let path = format!("{}:/usr/bin:/bin", folder.display());
            variables.push(("PATH".to_owned(), path));
        }
        Ok(ScriptedProcess {
            library: library(version).ok_or_else(missing)?,
            host,
            topology,
            gpus: (own.gpu.unwrap_or(gpu), 1),
            steps: steps?,
            variables,
            plants: plants?,
            is_killed: own.killed,
        })
    };
    (0..).zip(places).map(process).collect()
}

fn topology(machine: &str) -> Result<String, Failed> {
    let file = repository()
        .join("topologies")
        .join(machine)
        .join("topology.xml");
    let document = topology::xml::parse(machine, &fs::read(&file)?)?;
    let (complete, _) = nccl_binary::machine::complete(&document);
    Ok(topology::xml::write(&complete))
}

/// Reads a step of a job with a number of ranks.
fn step(text: &str, all: u32) -> Result<Step, String> {
    let mut words = text.split_whitespace();
    let name = words.next().unwrap_or_default();
    let wrong = |_| format!("`{text}`: no number");
    let mut number = |default: u32| words.next().map_or(Ok(default), str::parse).map_err(wrong);
    let id = number(0)?;
    match name {
        "exit" => return Ok(Step::Exit),
        "pause" => return Ok(Step::Pause(id)),
        "stop" => return Ok(Step::Stop(id)),
        "destroy" => return Ok(Step::Destroy(id)),
        "repeat" => {
            let pause = Step::Pause(number(0)?);
            let rest: Vec<&str> = words.collect();
            return Ok(Step::Repeat(id, vec![step(&rest.join(" "), all)?, pause]));
        }
        "late" => {
            let rest: Vec<&str> = words.collect();
            return Ok(Step::Repeat(
                1,
                vec![Step::Pause(id), step(&rest.join(" "), all)?],
            ));
        }
        "make" => {
            let ranks = match words.next() {
                Some(list) => list.split(',').map(str::parse).collect::<Result<_, _>>(),
                None => Ok((0..all).collect()),
            };
            let ranks = ranks.map_err(wrong)?;
            return Ok(Step::Make { id, ranks });
        }
        _ => {}
    }
    let mut tuned = Collective::TUNED.into_iter();
    let collective = tuned.find(|it| it.command_name() == name);
    Ok(Step::Call {
        id,
        collective: collective.ok_or_else(|| format!("`{text}`: no such step"))?,
        elements: number(ELEMENTS)?,
        data_type: number(FLOAT as u32)? as i32,
        reduction: number(SUM as u32)? as i32,
    })
}

fn write(evidence: &Evidence, folder: &Path) -> Result<(), Failed> {
    let info = folder.join(ALL_LINES);
    fs::create_dir_all(&info)?;
    for (rank, log) in evidence.logs.iter().enumerate() {
        fs::write(info.join(format!("rank-{rank}.log")), log.join("\n") + "\n")?;
    }
    for (number, report) in evidence.ras.iter().enumerate() {
        for (kind, text) in [("txt", &report.text), ("json", &report.json)] {
            if let Some(text) = text {
                fs::write(info.join(format!("ras-{number}.{kind}")), text)?;
            }
        }
    }
    let lines = evidence.logs.iter().flatten();
    let warnings = lines.filter(|it| !it.contains(" NCCL INFO "));
    let warnings: Vec<&str> = warnings.map(String::as_str).collect();
    fs::write(folder.join(WARNINGS), warnings.join("\n") + "\n")?;
    fs::write(folder.join("ends.txt"), format!("{:#?}\n", evidence.ends))?;
    let mut planted = evidence.planted.join("\n");
    if evidence.ends.iter().all(|end| *end == Some(None)) {
        planted.push_str("\nended");
    }
    if !evidence.has_text {
        planted.push_str("\n-");
    }
    Ok(fs::write(folder.join(PLANTED), planted)?)
}
