//! `topo show --machines`: the machines that commands take by name.

use answers::built_in::{MACHINES, MachinesReport};
use answers::report;
use anyhow::Result;

use crate::arguments::compare::{FormArguments, TextOrJson};
use crate::environment::Environment;
use crate::output::Output;
use pages::Table;

/// Below the list.
const FOOT: &str = "\
topo plan NAME plans one, where no file has that name. All are models constructed from public facts, none is
a recording; topo show --machines --json says what is special about each, its facts with their sources, and what
is assumed.
";

pub(crate) fn run(
    form: FormArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    output.text = match form.format() {
        TextOrJson::Text => {
            let look = environment.look();
            let mut columns = Table::new(["name", "machine"]);
            for machine in MACHINES {
                let texts = [machine.name, machine.title];
                columns.row(texts.map(str::to_owned).to_vec());
            }
            format!("{}\n{FOOT}", columns.text(look))
        }
        TextOrJson::Json => report::json(&MachinesReport::ALL)?,
    };
    Ok(())
}
