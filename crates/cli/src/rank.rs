//! `topo rank`: what one rank of a planned job does.

use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, bail};
use plan::Plan;

use crate::arguments::RankArguments;
use crate::environment::Environment;
use crate::output::{Output, RankFormat};
use crate::render::{Look, rank};

/// Reads a plan and says what a rank does.
pub fn run(
    arguments: &RankArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    let plan = read_plan(&arguments.plan)?;
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

/// Reads a plan from a file, or from standard input (`-`).
pub fn read_plan(file: &Path) -> Result<Plan> {
    let (label, text) = if file == Path::new("-") {
        let text = read_limited(std::io::stdin().lock());
        (
            "standard input".to_owned(),
            text.context("cannot read standard input")?,
        )
    } else {
        if file.is_dir() {
            bail!(
                "{} is a folder; expected a plan, as `topo plan -o` writes it",
                file.display()
            );
        }
        let text = std::fs::File::open(file).and_then(read_limited);
        let label = file.display().to_string();
        let text = text.with_context(|| format!("cannot read {label}"))?;
        (label, text)
    };
    let text = String::from_utf8(text)
        .ok()
        .with_context(|| format!("{label} is not a plan: it is not UTF-8 text"))?;
    Plan::from_json(&text).with_context(|| label)
}

/// Reads a little more than the largest plan at most.
fn read_limited(source: impl Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source
        .take(Plan::MAX_BYTES as u64 + 1)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}
