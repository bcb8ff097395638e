//! `topo diagnose`: why a job hangs or fails, from what is left of it.

mod inputs;

use answers::Machine;
use answers::diagnose::{CausesReport, Prices, page};
use answers::report;
use anyhow::{Result, bail};
use diagnose::{Floor, Pile, Predict};

use crate::arguments::compare::TextOrJson;
use crate::arguments::diagnose::DiagnoseArguments;
use crate::environment::{Environment, helpers};
use crate::input;
use crate::output::Output;

pub(crate) fn run(
    arguments: &DiagnoseArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    let form = arguments.form.format();
    if arguments.list {
        output.text = match form {
            TextOrJson::Text => CausesReport::all().page().text(environment.look()),
            TextOrJson::Json => report::json(&CausesReport::all())?,
        };
        return Ok(());
    }
    arguments.outputs.refuse_overwriting(&arguments.files)?;
    let mut pile = Pile::with_helpers(helpers());
    match (arguments.events, form) {
        (true, TextOrJson::Text) => bail!("--events: expected --json, too"),
        (true, TextOrJson::Json) => pile.tell_events(),
        (false, _) => {}
    }
    inputs::read(&arguments.files, &mut pile, environment, output)?;
    let prices = machine(arguments, &pile, output)?.map(|it| Prices::of(it, arguments.hosts));
    let predict: &dyn Predict = match &prices {
        Some(prices) => prices,
        None => &Floor,
    };
    let diagnosis = pile.finish(predict);
    if let ([only], false) = (
        diagnosis.inputs.as_slice(),
        diagnosis.inputs.iter().any(|it| it.is_read),
    ) {
        bail!("{}: {}", only.name, only.kind);
    }
    arguments
        .outputs
        .judge("topo diagnose", &diagnosis.checks, output)?;
    output.text = match form {
        TextOrJson::Text => page(&diagnosis).text(environment.look()),
        TextOrJson::Json => report::json(&diagnosis)?,
    };
    Ok(())
}

/// The machine that is named, or the first one among the inputs.
fn machine(
    arguments: &DiagnoseArguments,
    pile: &Pile,
    output: &mut Output,
) -> Result<Option<Machine>> {
    if let Some(file) = &arguments.topology {
        let machine = input::machine(file, output)?;
        input::refuse_rccl(&machine)?;
        return Ok(Some(machine));
    }
    let document = pile.machine().filter(|it| !it.is_rccl());
    Ok(document.map(|it| Machine::new(&*it.file, it.clone())))
}
