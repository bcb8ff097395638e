//! `topo export`: a plan as files that NCCL obeys.

mod configuration;
mod execution;
mod folder;
mod howto;
pub mod json;
mod page;
mod sets;

use anyhow::{Result, bail};
use export::{choices, csv, graphs};
use tuner_plugin::{LIBRARY, LIBRARY_FILE, TABLE_FILE};

use crate::arguments::compare::TextOrJson;
use crate::arguments::export::ExportArguments;
use crate::environment::Environment;
use crate::output::Output;
use crate::render;
use answers::report;
use folder::Folder;
use json::Kind;
use sets::PlannedSet;

pub fn run(
    arguments: &ExportArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    let sets = sets::planned(arguments, environment, output)?;
    let Some(first) = sets.first() else {
        bail!("there is no set of GPUs to export; expected at least two GPUs");
    };
    let mut folder = Folder::open(&arguments.dir)?;
    let graphs = write_graphs(&sets, &mut folder)?;
    write_choices(&sets, arguments.channels, &mut folder)?;
    execution::write(&first.plan, &mut folder)?;
    let active = match graphs.as_slice() {
        [one] => Some(one.as_str()),
        _ => None,
    };
    for name in configuration::left_out(&first.plan) {
        let why = "topo knows no decision of a plan that it changes";
        folder.leave_out(format!("{name} in nccl.conf"), why.to_owned());
    }
    let text = configuration::text(first, folder.path(), active);
    folder.write("nccl.conf", Kind::Configuration, text.as_bytes())?;
    let text = howto::text(first, &folder);
    folder.write("README.md", Kind::Readme, text.as_bytes())?;
    let done = folder.finish(&first.name, &first.plan);
    output.text = match arguments.form.format() {
        TextOrJson::Text => page::page(&done, environment.look()),
        TextOrJson::Json => report::json(&done)?,
    };
    Ok(())
}

/// Writes the graph files of all sets, and returns their names.
fn write_graphs(sets: &[PlannedSet], folder: &mut Folder) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for set in sets {
        let files = match graphs::graph_files(&set.plan) {
            Ok(files) => files,
            Err(error) => {
                let what = format!("graph file of GPUs {}", set.gpus);
                folder.leave_out(what, error.to_string());
                continue;
            }
        };
        for file in files {
            let mut name = format!("graph-{}", set.file_part());
            if set.plan.machines.len() > 1 {
                name.push_str(&format!("-machine{}", file.machine));
            }
            let readers = file.readers.map(|it| render::ranges(&it, ","));
            if let Some(readers) = &readers {
                name.push_str(&format!("-for-{}", readers.replace(',', "_")));
            }
            name.push_str(".xml");
            folder.write_graph(&name, &set.gpus, readers, &file.text)?;
            names.push(name);
        }
    }
    Ok(names)
}

/// Writes the choices, the plug-in that reads them, and the file of NVIDIA's example.
fn write_choices(sets: &[PlannedSet], channels: bool, folder: &mut Folder) -> Result<()> {
    let mut communicators = Vec::new();
    for set in sets {
        let costs = set.plan.costs.as_ref();
        match costs.and_then(|it| choices::communicator(it, &set.gpus, channels)) {
            Some(communicator) => communicators.push(communicator),
            None => folder.leave_out(
                format!("choices for GPUs {}", set.gpus),
                "a plan of one rank, or without costs, has no choices".to_owned(),
            ),
        }
    }
    let table = choices::table(communicators);
    let text = table.to_text();
    folder.write(TABLE_FILE, Kind::Choices, text.as_bytes())?;
    match LIBRARY {
        [] => folder.leave_out(
            LIBRARY_FILE.to_owned(),
            "this topo was built without it, for a platform that NCCL does not have".to_owned(),
        ),
        bytes => folder.write(LIBRARY_FILE, Kind::Plugin, bytes)?,
    }
    let csv = csv::csv(&table);
    folder.write("nccl_tuner.csv", Kind::Csv, csv.text.as_bytes())?;
    if let [first, rest @ ..] = csv.left_out.as_slice() {
        let what = match rest.len() {
            0 => format!("GPUs {first} in nccl_tuner.csv"),
            more => format!("GPUs {first} and {more} other sets in nccl_tuner.csv"),
        };
        let why = "this format cannot tell GPU sets of one size apart; the first is in it";
        folder.leave_out(what, why.to_owned());
    }
    Ok(())
}
