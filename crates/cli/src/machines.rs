//! `topo machines`: the machines that commands take by name.

use answers::built_in::{MACHINES, MachinesReport};
use answers::report;
use anyhow::Result;

use crate::arguments::compare::{FormArguments, TextOrJson};
use crate::environment::Environment;
use crate::output::Output;
use crate::render::table::Columns;

pub(crate) fn run(
    form: FormArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
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
        TextOrJson::Json => report::json(&MachinesReport::ALL)?,
    };
    Ok(())
}
