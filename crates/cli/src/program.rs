//! `topo show --program`: what one rank does for a collective, step by step.

use answers::names::algorithms;
use answers::program::ProgramReport;
use answers::report;
use anyhow::{Context, Result, bail, ensure};
use plan::expand::Expansion;
use program::Collective;
use program::lower::{ProgramRequest, SendRecv, lower, send_recv};
use program::verify::verify;
use program::{Channels, Program, Transfer};

use crate::arguments::compare::TextOrJson;
use crate::arguments::program::ProgramArguments;
use crate::environment::Environment;
use crate::job;
use crate::output::Output;
use crate::render;
use crate::sources;

/// Least slots of a FIFO in any protocol. A ring needs two: it receives and sends in one step.
const FIFO_SLOTS: u32 = 2;

/// Bytes of a transfer for which the channels are shown.
const TRANSFER_BYTES: u64 = 1 << 20;

/// Writes the programs of all ranks, proves them, and prints one.
pub(crate) fn run(
    arguments: &ProgramArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    let (channels, expansion) = channels(arguments, environment, output)?;
    let ranks = channels.ranks();
    let rank = arguments.rank;
    ensure!(
        rank < ranks,
        "--rank {rank}: no such rank; expected one of 0 to {}",
        ranks - 1
    );
    let collective = arguments.collective;
    let schedule = match arguments.algorithm {
        None => algorithms(collective).next(),
        given => given,
    };
    // The first transfer that the algorithm supports.
    let transfer = arguments.transfer.unwrap_or_else(|| {
        let serves = |it: &Transfer| schedule.is_some_and(|of| of.serves(collective, *it));
        let found = Transfer::ALL.into_iter().find(serves);
        found.unwrap_or(Transfer::Fifo)
    });
    let programs = if collective == Collective::SendRecv {
        let to = arguments.to.unwrap_or((arguments.root + 1) % ranks);
        let planned = match &expansion {
            Some(expansion) => expansion.transfer_channels(arguments.root, to, TRANSFER_BYTES)?,
            None => (0..channels.count()).collect(),
        };
        send_recv(&SendRecv {
            ranks,
            from: arguments.root,
            to,
            channels: &planned,
            transfer,
            in_place: arguments.in_place,
        })?
    } else {
        if arguments.to.is_some() {
            bail!("--to is only for send-recv");
        }
        let schedule = schedule.context("no algorithm writes this collective")?;
        lower(&ProgramRequest {
            collective,
            schedule,
            transfer,
            root: arguments.root,
            in_place: arguments.in_place,
            channels: &channels,
        })?
    };
    let programs =
        verify(programs, FIFO_SLOTS).context("the programs are wrong, which is a bug in topo")?;
    let found = programs
        .iter()
        .find(|program| program.program().rank == rank);
    let Some(found) = found else {
        let taking: Vec<&Program> = programs.iter().map(|program| program.program()).collect();
        let names: Vec<String> = taking
            .iter()
            .map(|program| program.rank.to_string())
            .collect();
        bail!(
            "rank {rank} takes no part; expected one of {}",
            names.join(" ")
        );
    };
    output.text = match arguments.form.format() {
        TextOrJson::Text => {
            let look = environment.look();
            render::program::page(found, transfer, look).text(look)
        }
        TextOrJson::Json => report::json(&ProgramReport::of(found, transfer))?,
    };
    Ok(())
}

/// The channels of a plan, of a topology that is planned first, or of a plain machine.
fn channels(
    arguments: &ProgramArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<(Channels, Option<Expansion>)> {
    let limit = arguments.channels.map(|channels| channels as usize);
    if let Some(ranks) = arguments.ranks {
        return Ok((Channels::plain(ranks, limit.unwrap_or(1))?, None));
    }
    let plan = sources::read(&arguments.job, output)?
        .planned(|machines| job::plan_machines(machines, &arguments.job, environment, output))?;
    let expansion = plan.expansion()?;
    let channels = expansion.program_channels()?;
    let channels = match limit {
        Some(limit) => channels.take(limit),
        None => channels,
    };
    Ok((channels, Some(expansion.clone())))
}
