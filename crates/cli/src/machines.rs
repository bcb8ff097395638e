//! `topo machines`: the machines that commands take by name.

use anyhow::Result;
use built_in::MACHINES;
use schemars::JsonSchema;
use serde::Serialize;

use crate::arguments::compare::{FormArguments, TextOrJson};
use crate::environment::Environment;
use crate::output::Output;
use crate::render::table::Columns;
use crate::report::{self, Report};

/// The machines that the program holds.
#[derive(Debug, Serialize, JsonSchema)]
pub struct MachinesReport {
    machines: Vec<MachineRow>,
}

/// A machine.
#[derive(Debug, Serialize, JsonSchema)]
struct MachineRow {
    /// Its name, which commands take instead of a file.
    name: &'static str,
    /// Its name for people.
    title: &'static str,
    /// What is special about it.
    summary: &'static str,
}

impl Report for MachinesReport {
    const FORMAT: &'static str = "topo-machines";
    const VERSION: u32 = 1;
}

pub fn run(form: FormArguments, environment: &Environment, output: &mut Output) -> Result<()> {
    output.text = match form.format() {
        TextOrJson::Text => {
            let look = environment.look();
            let mut columns = Columns::new(look, &["name", "machine"]);
            for machine in MACHINES {
                let texts = [machine.name, machine.title];
                columns.row(texts.map(str::to_owned).to_vec());
            }
            format!(
                "{}\ntopo plan NAME plans one, where no file has that name; topo machines --json says what is special about each\n",
                columns.finish()
            )
        }
        TextOrJson::Json => report::json(&MachinesReport {
            machines: MACHINES
                .iter()
                .map(|it| MachineRow {
                    name: it.name,
                    title: it.title,
                    summary: it.summary,
                })
                .collect(),
        })?,
    };
    Ok(())
}
