//! Execution plans of MSCCL++.

use anyhow::{Context, Result};
use export::mscclpp::execution_plan;
use plan::Plan;
use program::lower::{ProgramRequest, lower};
use program::verify::verify;
use program::{Channels, Collective, Program, Schedule, Transfer};

use super::folder::Folder;
use super::json::Kind;
use crate::output;

/// Least slots of a FIFO in any protocol. A ring needs two: it receives and sends in one step.
const FIFO_SLOTS: u32 = 2;

/// What is tried: the plan's rings, and every GPU with every other.
const TRIED: [(Collective, Schedule, Transfer); 6] = [
    (Collective::AllReduce, Schedule::Ring, Transfer::Fifo),
    (
        Collective::AllReduce,
        Schedule::TwoPhaseMesh,
        Transfer::Direct,
    ),
    (Collective::AllGather, Schedule::Ring, Transfer::Fifo),
    (Collective::AllGather, Schedule::Mesh, Transfer::Direct),
    (Collective::ReduceScatter, Schedule::Ring, Transfer::Fifo),
    (Collective::ReduceScatter, Schedule::Mesh, Transfer::Direct),
];

/// Writes those that MSCCL++ can express.
pub fn write(plan: &Plan, folder: &mut Folder) -> Result<()> {
    let nodes = plan.costs.as_ref().map_or(1, |it| it.job.nodes);
    let why = match (nodes, plan.rank_count()) {
        (2.., _) => format!(
            "the job has {nodes} nodes, and the memory channels of MSCCL++ join the GPUs of one"
        ),
        (_, ..2) => "one rank exchanges nothing".to_owned(),
        _ => return write_of_node(plan, folder),
    };
    folder.leave_out("execution plans of MSCCL++".to_owned(), why);
    Ok(())
}

fn write_of_node(plan: &Plan, folder: &mut Folder) -> Result<()> {
    let channels = plan.expansion()?.program_channels()?;
    for (collective, schedule, transfer) in TRIED {
        let name = format!("mscclpp-{}-{schedule}", collective.command_name());
        match text(&name, collective, schedule, transfer, &channels)? {
            Ok(text) => {
                folder.write(&format!("{name}.json"), Kind::Execution, text.as_bytes())?;
            }
            Err(why) => folder.leave_out(format!("{name}.json"), why),
        }
    }
    Ok(())
}

/// The text of a plan, or why MSCCL++ cannot express it.
fn text(
    name: &str,
    collective: Collective,
    schedule: Schedule,
    transfer: Transfer,
    channels: &Channels,
) -> Result<Result<String, String>> {
    let written = lower(&ProgramRequest {
        collective,
        schedule,
        transfer,
        root: 0,
        in_place: false,
        channels,
    });
    let programs = match written {
        Ok(programs) => programs,
        Err(error) => return Ok(Err(error.to_string())),
    };
    let proved =
        verify(programs, FIFO_SLOTS).context("the programs are wrong, which is a bug in topo")?;
    let programs: Vec<&Program> = proved.iter().map(|it| it.program()).collect();
    match execution_plan(name, &programs) {
        Ok(plan) => Ok(Ok(output::json(&plan)?)),
        Err(error) => Ok(Err(error.to_string())),
    }
}
