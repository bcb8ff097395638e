//! `topo rank`: what one rank of a planned job does.

use anyhow::Result;

use crate::arguments::RankArguments;
use crate::environment::Environment;
use crate::input;
use crate::output::{Output, RankFormat};
use crate::render::{Look, rank};

/// Reads a plan and says what a rank does.
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
        RankFormat::Json => serde_json::to_string_pretty(&view)? + "\n",
        RankFormat::Text => {
            let look = Look {
                width: environment.width,
                colour: environment.colour,
            };
            rank::page(&plan, &expansion, &view, look)
        }
    };
    Ok(())
}
