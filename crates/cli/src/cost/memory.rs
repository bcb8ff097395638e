//! `topo cost --memory`: what communicators allocate.

use answers::communicators::{Communicator, Limit, MemoryAnswer, MemoryQuestion, MemoryReport};
use answers::report;
use anyhow::{Result, bail};
use planner::Job;
use planner::memory::Bytes;

use crate::arguments::compare::{CostArguments, TextOrJson};
use crate::environment::Environment;
use crate::job;
use crate::output::Output;
use crate::render::table::Columns;
use crate::render::{FIELD, Look, count, settings, trim_lines, version, wrap};
use crate::settings::read_settings;
use crate::sources::{self, Sources};

pub(super) fn run(
    arguments: &CostArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    let machines = match sources::read(&arguments.job, output)? {
        Sources::Plan(name, _) => {
            bail!(
                "{name} is a plan, which does not say how memory is allocated; expected topology files with --memory"
            );
        }
        Sources::Machines(machines) => machines,
    };
    let given = read_settings(&arguments.job.variables, environment, output)?;
    let job: Job = job::job(machines, &arguments.job, environment, output)?;
    let planned = job::plan_job(&job, &given, output)?;
    let question = MemoryQuestion {
        calls: super::question(arguments)?,
        peers: arguments.memory.peers,
        groups: arguments.memory.groups.clone(),
        room: arguments.memory.gpu_memory.unwrap_or(0),
    };
    let answer = answers::communicators::communicators(&job, &planned, &question)?;
    let look = environment.look();
    output.text = match arguments.form.format() {
        TextOrJson::Text => {
            let mut head = version::of_profile(&planned.plan().profile, look);
            head.push_str(&settings::of_plan(&planned.plan().settings, look));
            // Plans do not follow it, but memory does.
            let notes = crate::render::settings::warnings(&given);
            for note in notes.filter(|note| !note.starts_with("NCCL_CUMEM_ENABLE:")) {
                head.push_str(&look.notice(&wrap(&note, FIELD, FIELD, look.width)));
            }
            page(&answer, &head, look)
        }
        TextOrJson::Json => report::json(&MemoryReport::of(&answer))?,
    };
    Ok(())
}

fn page(answer: &MemoryAnswer, head: &str, look: Look) -> String {
    let mut text = format!("{}\n", look.heading(&answer.name));
    let size = format!(
        "{}, {}",
        count(answer.hosts as usize, "host"),
        count(answer.ranks as usize, "rank")
    );
    text.push_str(&look.field("job", &size));
    text.push_str(head);
    let allocates = match (
        answer.settings.virtual_memory,
        answer.settings.connects_late,
    ) {
        (true, true) => "in pages of 2 MiB; an algorithm connects when it is first taken",
        (true, false) => "in pages of 2 MiB; all algorithms connect at the start",
        (false, _) => "without virtual memory; all algorithms connect at the start",
    };
    text.push_str(&look.field("memory", allocates));
    for communicator in &answer.communicators {
        text.push_str(&section(communicator, look));
    }
    text.push_str(&look.section(
        "GPUs of the first host",
        "the sum of these communicators",
        &gpus(answer, look),
    ));
    text.push_str(&look.section("limits", "what runs out first", &limits(answer, look)));
    trim_lines(&text)
}

/// One communicator: memory by purpose and first call.
fn section(communicator: &Communicator, look: Look) -> String {
    let stages: Vec<_> = communicator.stages().collect();
    let mut headers = vec!["MiB on the GPU"];
    headers.extend(stages.iter().map(|stage| stage.name()));
    headers.extend(["sum", "on the host"]);
    let numbers: Vec<usize> = (1..headers.len()).collect();
    let mut table = Columns::new(look, &headers).right(&numbers);
    let mut add = |name: &str, of: &dyn Fn(usize) -> Bytes| {
        let parts: Vec<Bytes> = (0..stages.len()).map(of).collect();
        let mut cells = vec![name.to_owned()];
        cells.extend(parts.iter().map(|bytes| mebibytes(bytes.device)));
        let device = parts.iter().map(|bytes| bytes.device).sum();
        let host = parts.iter().map(|bytes| bytes.host).sum();
        cells.extend([mebibytes(device), mebibytes(host)]);
        table.row(cells);
    };
    for (purpose, by_stage) in communicator.table() {
        add(purpose.name(), &|at| {
            by_stage.get(&stages[at]).copied().unwrap_or_default()
        });
    }
    let most = &communicator.most;
    add("sum", &|at| most.total(|stage| stage == stages[at]));
    let [blocks, nvls, peers] = communicator.blocks;
    let connections: u32 = most.connections.values().sum();
    let objects: u32 = communicator.multicast_objects.values().sum();
    let sentence = format!(
        "{} are set up; kernels have at most {blocks} thread blocks, {nvls} for NVLS and {peers} for transfers. Rank \
         {} makes {} of connections. A node makes {}.",
        count(communicator.channels as usize, "channel"),
        communicator.rank,
        count(connections as usize, "end"),
        count(objects as usize, "multicast object"),
    );
    let body = table.finish() + &wrap(&sentence, "  ", "  ", look.width);
    look.section(
        &communicator.title(),
        "by purpose and first call, of the GPU that holds most",
        &body,
    )
}

fn gpus(answer: &MemoryAnswer, look: Look) -> String {
    let mut table =
        Columns::new(look, &["GPU", "MiB on the GPU", "MiB on the host"]).right(&[0, 1, 2]);
    for (gpu, bytes) in &answer.gpus {
        table.row(vec![
            gpu.to_string(),
            mebibytes(bytes.device),
            mebibytes(bytes.host),
        ]);
    }
    table.finish()
}

fn limits(answer: &MemoryAnswer, look: Look) -> String {
    let limits = answer.limits();
    if limits.is_empty() {
        let sentence = "Nothing that is known: --gpu-memory says what GPUs have.";
        return wrap(sentence, "  ", "  ", look.width);
    }
    let mut table = Columns::new(look, &["limit", "taken", "there are", "such sets that fit"])
        .right(&[1, 2, 3]);
    for limit in &limits {
        let shown = |value| match limit.name {
            "GPU memory" => format!("{} MiB", mebibytes(value)),
            _ => value.to_string(),
        };
        let times = Limit::times(limit).unwrap_or(0);
        table.row(vec![
            limit.name.to_owned(),
            shown(limit.taken),
            shown(limit.room),
            times.to_string(),
        ]);
    }
    table.finish()
}

/// Bytes as MiB, with a tenth where it matters.
fn mebibytes(bytes: u64) -> String {
    let value = bytes as f64 / f64::from(1 << 20);
    match value {
        0.0 => "–".to_owned(),
        _ if value < 10.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}
