//! `topo vm`: a guest's file from its host's.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use findings::guest::{BusIdMap, guest};
use plan::Graph;
use planner::{Job, Settings};
use topology::xml::Document;

use crate::arguments::machine::VmArguments;
use crate::environment::Environment;
use crate::input;
use crate::live::read_text;
use crate::output::Output;
use crate::render::count;

/// Makes the file, if NCCL plans the guest as it plans those devices of the host.
pub(crate) fn run(
    arguments: &VmArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    let host = input::machine(&arguments.host, output)?;
    let map = BusIdMap::parse(
        &arguments.map.display().to_string(),
        &read_text(&arguments.map)?,
    )?;
    let settings = environment.settings(&[], &arguments.variables, &mut output.warnings);
    let made = guest(&host.document, &map)?;
    let mut checked = Vec::new();
    let (devices, complete) = (Arc::new(made.host), Arc::new(made.complete));
    for hosts in [1, 2] {
        let on_host = graphs(&devices, hosts, &settings);
        let in_guest = graphs(&complete, hosts, &settings);
        match (on_host, in_guest) {
            (Ok(one), Ok(other)) if one == other => checked.push(hosts),
            // What NCCL refuses on the host it may refuse in the guest.
            (Err(_), Err(_)) => {}
            (Ok(_), Ok(_)) => bail!(
                "NCCL would plan {} of this guest otherwise than of the host's devices: the order of bus ids differs; \
                 give the guest bus ids in the order of the host's",
                count(hosts as usize, "machine")
            ),
            (Err(error), _) => {
                return Err(error).context("the host's devices alone cannot be planned");
            }
            (_, Err(error)) => return Err(error).context("the guest cannot be planned"),
        }
    }
    if checked.is_empty() {
        let error = graphs(&devices, 1, &settings).err();
        output.warnings.push(format!(
            "not checked: NCCL plans neither the host's devices nor the guest{}",
            error.map_or_else(String::new, |error| format!(" ({error:#})"))
        ));
    }
    let document = if arguments.devices {
        &complete
    } else {
        &made.file
    };
    output.write(topology::xml::write(document), arguments.output.as_deref())
}

fn graphs(document: &Arc<Document>, hosts: u32, settings: &Settings) -> Result<Vec<Graph>> {
    let planned = planner::plan(&Job::hosts(Arc::clone(document), hosts), settings)?;
    Ok(planned.node(0).graphs.clone())
}
