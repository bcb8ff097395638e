//! Execution plans of MSCCL++.

use export::mscclpp::execution_plan;
use plan::Plan;
use program::lower::{ProgramRequest, lower};
use program::verify::verify;
use program::{Channels, Collective, Program, Schedule, Transfer};

use super::{Export, ExportError, Kind};

/// Least slots of a FIFO in any protocol. A ring needs two: it receives and sends in one step.
const FIFO_SLOTS: u32 = 2;

/// The transfers that are tried: the plan's rings, and every GPU with every other.
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

/// Adds those that MSCCL++ can express.
pub(super) fn add(plan: &Plan, made: &mut Export) -> Result<(), ExportError> {
    let nodes = plan.costs.as_ref().map_or(1, |it| it.job.nodes);
    let why = match (nodes, plan.rank_count()) {
        (2.., _) => format!(
            "the job has {nodes} nodes, and the memory channels of MSCCL++ join the GPUs of one"
        ),
        (_, ..2) => "one rank exchanges nothing".to_owned(),
        _ => return add_of_node(plan, made),
    };
    made.leave_out("execution plans of MSCCL++".to_owned(), why);
    Ok(())
}

fn add_of_node(plan: &Plan, made: &mut Export) -> Result<(), ExportError> {
    let channels = plan.expansion()?.program_channels()?;
    for (collective, schedule, transfer) in TRIED {
        let name = format!("mscclpp-{}-{schedule}", collective.command_name());
        match text(&name, collective, schedule, transfer, &channels)? {
            Ok(text) => made.add(&format!("{name}.json"), Kind::Execution, text),
            Err(why) => made.leave_out(format!("{name}.json"), why),
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
) -> Result<Result<String, String>, ExportError> {
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
    let proved = verify(programs, FIFO_SLOTS)?;
    let programs: Vec<&Program> = proved.iter().map(|it| it.program()).collect();
    match execution_plan(name, &programs) {
        Ok(plan) => Ok(Ok(serde_json::to_string_pretty(&plan)? + "\n")),
        Err(error) => Ok(Err(error.to_string())),
    }
}
