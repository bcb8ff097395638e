//! `topo show --rank`: what one rank of a planned job does.

use answers::rank::RankReport;
use answers::report;
use anyhow::Result;

use crate::arguments::compare::TextOrJson;
use crate::arguments::rank::RankArguments;
use crate::environment::Environment;
use crate::input;
use crate::output::Output;
use crate::render::rank;

pub(crate) fn run(
    arguments: &RankArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    let plan = input::plan(&arguments.plan)?;
    let expansion = plan.expansion()?;
    let view = expansion.rank_view(arguments.rank)?;
    output.text = match arguments.form.format() {
        TextOrJson::Json => report::json(&RankReport {
            view,
            slow_hosts: plan.slow_hosts(),
        })?,
        TextOrJson::Text => rank::page(&plan, expansion, &view).text(environment.look()),
    };
    Ok(())
}
