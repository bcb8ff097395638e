//! `topo rank`: what one rank of a planned job does.

use anyhow::Result;

use crate::arguments::RankArguments;
use crate::arguments::compare::TextOrJson;
use crate::environment::Environment;
use crate::input;
use crate::output::{self, Output};
use crate::render::rank;

pub fn run(
    arguments: &RankArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    let plan = input::plan(&arguments.plan)?;
    // `expand` would check again what reading has just checked.
    let expansion = plan::Expansion::of(&plan)?;
    let view = expansion.rank_view(arguments.rank)?;
    output.text = match arguments.format {
        TextOrJson::Json => output::json(&view)?,
        TextOrJson::Text => rank::page(&plan, &expansion, &view, environment.look()),
    };
    Ok(())
}
