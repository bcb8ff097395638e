//! Graph files of sets of GPUs: all are written and read back, and NCCL's libraries follow them, or
//! handle the file of another set.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use libtest_mimic::{Completion, Failed};
use nccl_binary::job::Job;
use nccl_binary::log;
use nccl_binary::message::Network;
use plan::GraphKind;
use plan::nccl_graph::{GpuAddress, GraphFile};
use program::Collective;
use serde_json::Value;
use tuner_plugin::table::{Choice, RingCost, Table};
use tuner_plugin::{LIBRARY_FILE, TABLE_FILE};

use crate::obeyed::{self, document, job};
use crate::{check, library, not_fetched, repository};

/// The machine whose sets are tried: no two of its GPUs have the same links.
const MACHINE: &str = "dgx-1v";

/// How many sets of each size, from two GPUs on, NCCL's libraries are asked about.
const ASKED: [usize; 7] = [3, 3, 3, 3, 3, 4, 1];

/// All of them.
pub(crate) const ALL: usize = 20;

/// A graph file.
#[derive(Debug, Clone)]
struct Exported {
    /// The GPUs of the set.
    set: Vec<i32>,
    /// The GPUs whose ranks read it.
    readers: Vec<i32>,
    path: PathBuf,
}

/// A list such as `0-2,4`.
pub(crate) fn devices(list: &str) -> Result<Vec<i32>, Failed> {
    let mut devices = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        devices.extend(first.parse::<i32>()?..=last.parse()?);
    }
    Ok(devices)
}

/// `topo export` of all sets of at least two GPUs.
fn export(to: &Path, version: &str) -> Result<Vec<Exported>, Failed> {
    let minor = version.rsplit_once('.').map_or(version, |it| it.0);
    let done = Command::new(env!("CARGO_BIN_EXE_topo"))
        .current_dir(repository())
        .stdin(Stdio::null())
        .args(["export", "topologies/dgx-1v", "--all-subsets", "--json"])
        .args(["--nccl", minor, "--dir"])
        .arg(to)
        .output()?;
    check(done.status.success(), || {
        String::from_utf8_lossy(&done.stderr).into_owned()
    })?;
    let report: Value = serde_json::from_slice(&done.stdout)?;
    let files = report["files"].as_array().ok_or("no files")?;
    let graphs = files.iter().filter(|it| it["kind"] == "graph");
    graphs
        .map(|it| {
            let text = |key: &str| it[key].as_str();
            let gpus = text("gpus").ok_or("a graph file without GPUs")?;
            Ok(Exported {
                set: devices(gpus)?,
                readers: devices(text("readers").unwrap_or(gpus))?,
                path: to.join(text("file").ok_or("a file without a name")?),
            })
        })
        .collect()
}

/// Sets of every size whose GPUs are all searched together, spread over those that there are.
fn asked(exported: &[Exported]) -> Vec<Exported> {
    let mut asked = Vec::new();
    for (size, count) in (2..).zip(ASKED) {
        let of_size = exported.iter().filter(|it| it.set.len() == size);
        let of_size: Vec<&Exported> = of_size.filter(|it| it.readers == it.set).collect();
        let step = (of_size.len() / count).max(1);
        asked.extend(of_size.into_iter().step_by(step).take(count).cloned());
    }
    asked
}

fn addresses(set: &[i32]) -> Vec<GpuAddress> {
    let ranks = (0..).zip(set);
    ranks
        .map(|(rank, dev)| GpuAddress {
            rank,
            host: 0,
            dev: *dev,
        })
        .collect()
}

/// All sets of at least two GPUs have files with rings and trees over exactly these, and choices.
pub(crate) fn all_sets_are_written() -> Result<Completion, Failed> {
    let folder = tempfile::tempdir()?;
    let exported = export(folder.path(), "2.32.3")?;
    let mut covered: BTreeMap<Vec<i32>, Vec<i32>> = BTreeMap::new();
    for file in &exported {
        let name = file.path.display();
        let text = fs::read_to_string(&file.path)?;
        let graphs = GraphFile::parse("graph.xml", &text)?;
        for kind in [GraphKind::Ring, GraphKind::Tree] {
            let found = graphs.graph(kind, &addresses(&file.readers), true)?;
            check(found.warnings.is_empty(), || {
                format!("{name}: {:?}", found.warnings)
            })?;
            let graph = found.graph.ok_or_else(|| format!("{name}: no {kind}"))?;
            check(!graph.channels.is_empty(), || {
                format!("{name}: no channels")
            })?;
            for channel in &graph.channels {
                let mut ranks = channel.ranks.clone();
                ranks.sort_unstable();
                let all: Vec<i32> = (0..file.readers.len() as i32).collect();
                check(ranks == all, || format!("{name}: {:?}", channel.ranks))?;
            }
        }
        let of_set = covered.entry(file.set.clone()).or_default();
        of_set.extend(&file.readers);
    }
    for (set, readers) in &mut covered {
        readers.sort_unstable();
        check(set == readers, || {
            format!("{set:?} has files for {readers:?}")
        })?;
    }
    // Two to eight of eight GPUs.
    check(covered.len() == 247, || format!("{} sets", covered.len()))?;
    let table = fs::read_to_string(folder.path().join(TABLE_FILE))?;
    let table = Table::parse(&table)?;
    let named: usize = table.communicators.iter().map(|it| it.gpus.len()).sum();
    check(named == covered.len(), || {
        format!("{named} sets have choices")
    })?;
    let asked = asked(&exported).len();
    check(asked == ALL, || format!("{asked} sets can be asked about"))?;
    Ok(Completion::Completed)
}

/// The text of a graph file with all rings reversed, so that NCCL would not find them itself.
pub(crate) fn reversed(text: &str) -> String {
    let mut lines = Vec::new();
    let mut gpus: Vec<&str> = Vec::new();
    let mut is_ring = false;
    for line in text.lines() {
        if line.contains("<graph ") {
            is_ring = line.contains(" id=\"0\"");
        }
        match is_ring && line.contains("<gpu ") {
            true => gpus.push(line),
            false => {
                lines.extend(gpus.drain(..).rev());
                lines.push(line);
            }
        }
    }
    lines.join("\n") + "\n"
}

/// A ring from rank 0 on.
fn from_zero(ring: &[u32]) -> Vec<u32> {
    let start = ring.iter().position(|rank| *rank == 0).unwrap_or(0);
    let (end, begin) = ring.split_at(start);
    [begin, end].concat()
}

/// Asks NCCL about the GPUs of a set with a graph file.
fn with_graphs(library: PathBuf, set: &[i32], graphs: &Path) -> Result<Job, Failed> {
    let document = planner::with_gpus(&document(MACHINE)?, set);
    let mut job = job(&document, 1, library, None);
    job.request.variables = vec![("NCCL_GRAPH_FILE".to_owned(), graphs.display().to_string())];
    job.request.sizes = vec![1 << 20];
    // A port of the machine is not needed on one host.
    job.request.network = Network::Socket;
    Ok(job)
}

/// NCCL takes the rings of the file on all channels.
fn follows(library: PathBuf, exported: &Exported) -> Result<(), Failed> {
    let set = exported.set.as_slice();
    let name = format!("{set:?}");
    let text = reversed(&fs::read_to_string(&exported.path)?);
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("graph.xml");
    fs::write(&path, &text)?;
    let found =
        GraphFile::parse("graph.xml", &text)?.graph(GraphKind::Ring, &addresses(set), true)?;
    let graph = found.graph.ok_or("no rings")?;
    let answer = log::read(&with_graphs(library, set, &path)?.run()?);
    check(
        answer.refusal.is_none() && answer.failures.is_empty(),
        || format!("{name}: {:?} {:?}", answer.refusal, answer.warnings),
    )?;
    let expected: BTreeMap<u32, Vec<u32>> = (0..)
        .zip(graph.channels.iter().chain(&graph.channels))
        .map(|(channel, it)| {
            let ring: Vec<u32> = it.ranks.iter().map(|rank| *rank as u32).collect();
            (channel, from_zero(&ring))
        })
        .collect();
    check(!answer.rings.is_empty(), || format!("{name}: no rings"))?;
    for (channel, ring) in &answer.rings {
        let wanted = expected.get(channel);
        check(wanted == Some(&from_zero(ring)), || {
            format!("{name}: channel {channel} is {ring:?} instead of {wanted:?}")
        })?;
    }
    Ok(())
}

/// NCCL makes a communicator or refuses to; it neither crashes nor hangs.
fn is_handled(library: PathBuf, set: &[i32], of: &Exported) -> Result<String, Failed> {
    let answers = with_graphs(library, set, &of.path)?.run();
    let answers = answers.map_err(|why| format!("{set:?} with {of:?}: {why}"))?;
    let answer = log::read(&answers);
    Ok(answer
        .refusal
        .unwrap_or_else(|| "a communicator".to_owned()))
}

/// The files of the first `most` sets are followed, and each is handled for another set.
pub(crate) fn files_are_followed(version: &str, most: usize) -> Result<Completion, Failed> {
    let Some(library) = library(version) else {
        return not_fetched(version);
    };
    let folder = tempfile::tempdir()?;
    let mut asked = asked(&export(folder.path(), version)?);
    // The largest first: a ring of two is its own reverse.
    asked.reverse();
    asked.truncate(most);
    for (file, other) in asked.iter().zip(asked.iter().cycle().skip(most / 3 + 1)) {
        follows(library.clone(), file)?;
        let said = is_handled(library.clone(), &file.set, other)?;
        println!(
            "{version}: {:?} with the file of {:?}: {said}",
            file.set, other.set
        );
    }
    Ok(Completion::Completed)
}

/// All-reduces that a DGX-1V can run in any set, by the numbers of [`Choice`].
const TOLD: [(u8, u8); 4] = [(1, 0), (1, 2), (0, 0), (0, 2)];

/// Gives GPU sets of different costs different choices, and returns that of each set.
fn tell_apart(table: &mut Table) -> Result<BTreeMap<Vec<i32>, (u8, u8)>, Failed> {
    let mut kinds: Vec<(u64, Vec<RingCost>)> = Vec::new();
    let mut told = BTreeMap::new();
    for communicator in &mut table.communicators {
        let costs = &communicator.costs;
        let of_size = |it: &&(u64, Vec<RingCost>)| it.0 == communicator.ranks;
        let known = kinds.iter().filter(of_size).position(|it| it.1 == *costs);
        let number = known.unwrap_or_else(|| kinds.iter().filter(of_size).count());
        if known.is_none() {
            kinds.push((communicator.ranks, costs.clone()));
        }
        let (algorithm, protocol) = TOLD[number % TOLD.len()];
        communicator.choices = vec![Choice {
            collective: 4,
            least: 0,
            most: u64::MAX,
            algorithm,
            protocol,
            channels: None,
            chunk: None,
        }];
        for set in &communicator.gpus {
            told.insert(devices(set)?, (algorithm, protocol));
        }
    }
    Ok(told)
}

/// The plug-in takes the choices of the communicator's GPUs, though NCCL does not tell it which
/// they are.
pub(crate) fn sets_are_told_apart(version: &str, most: usize) -> Result<Completion, Failed> {
    let Some(library) = library(version) else {
        return not_fetched(version);
    };
    let folder = obeyed::folder()?;
    let mut asked = asked(&export(folder.path(), version)?);
    asked.sort_by_key(|it| it.set.len().abs_diff(4));
    asked.truncate(most);
    let file = folder.path().join(TABLE_FILE);
    let mut table = Table::parse(&fs::read_to_string(&file)?)?;
    let told = tell_apart(&mut table)?;
    fs::write(&file, table.to_text())?;
    for Exported { set, path, .. } in asked {
        let mut job = with_graphs(library.clone(), &set, &path)?;
        job.request.tuner = Some(folder.path().join(LIBRARY_FILE));
        // Some sets differ in latency alone, which does not show in longer messages.
        job.request.sizes = vec![1 << 12, 1 << 16, 1 << 20];
        let answer = log::read(&job.run()?);
        let wanted = told.get(&set);
        let mut count = 0;
        for ((collective, bytes), (algorithm, protocol)) in &answer.choices {
            if *collective == Collective::AllReduce {
                let said = (*algorithm as u8, *protocol as u8);
                check(wanted == Some(&said), || {
                    format!("{set:?}, {bytes} bytes: {algorithm}/{protocol}, not {wanted:?}")
                })?;
                count += 1;
            }
        }
        check(count == 3, || format!("{set:?}: {count} choices"))?;
    }
    Ok(Completion::Completed)
}
