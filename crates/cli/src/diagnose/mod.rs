//! `topo diagnose`: why a job hangs or fails, from what is left of it.

mod input;
mod page;

use answers::diagnose::{CausesReport, DiagnoseReport};
use answers::report;
use anyhow::{Result, bail};
use diagnose::{Floor, Pile};

use crate::arguments::compare::TextOrJson;
use crate::arguments::diagnose::DiagnoseArguments;
use crate::environment::Environment;
use crate::output::Output;

pub(crate) fn run(
    arguments: &DiagnoseArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    let form = arguments.form.format();
    if arguments.list {
        output.text = match form {
            TextOrJson::Text => page::causes(environment.look()),
            TextOrJson::Json => report::json(&CausesReport::all())?,
        };
        return Ok(());
    }
    let mut pile = Pile::default();
    input::read(&arguments.files, &mut pile, environment, output)?;
    let diagnosis = pile.finish(&Floor);
    if let ([only], false) = (
        diagnosis.inputs.as_slice(),
        diagnosis.inputs.iter().any(|it| it.is_read),
    ) {
        bail!("{}: {}", only.name, only.kind);
    }
    output.differs = !diagnosis.verdicts.is_empty();
    output.text = match form {
        TextOrJson::Text => page::page(&diagnosis, environment.look()),
        TextOrJson::Json => report::json(&DiagnoseReport::of(&diagnosis))?,
    };
    Ok(())
}
