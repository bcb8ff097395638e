//! `topo show`: a machine as NCCL sees it, or one path through it.

use std::sync::Arc;

use anyhow::Result;
use planner::{Routing, Settings};
use topology::{NodeType, PathTable, System};

use crate::arguments::ShowArguments;
use crate::device::Names;
use crate::environment::Environment;
use crate::input::Machine;
use crate::output::Output;
use crate::render::{Look, document, path, settings, summary, tree};
use crate::why;

pub fn run(
    arguments: &ShowArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    let machine = Machine::read(&arguments.file, output)?;
    let given = environment.settings(&arguments.variables, &mut output.warnings);
    output.warnings.extend(settings::warnings(&given));
    let look = environment.look();
    let system = machine.system(&given);
    output.text = match (&arguments.path, system) {
        (None, Ok(system)) => whole(&machine, &system, look),
        (None, Err(error)) => {
            // The file's tree helps to see why it is not a machine.
            if machine.document.root.children.is_empty() {
                return Err(error);
            }
            // For AMD's files, the reader has already warned.
            if !machine.is_rccl() {
                output.warnings.push(format!(
                    "only the file is shown, because no machine can be built from it: {error:#}"
                ));
            }
            let kind = if machine.is_rccl() {
                ", a topology of AMD's RCCL"
            } else {
                ""
            };
            format!(
                "{}{kind}\n\n{}",
                look.heading(&machine.name),
                document::tree(&machine.document, look)
            )
        }
        (Some(ends), system) => one_path(&machine, Arc::new(system?), given, ends, look, output)?,
    };
    Ok(())
}

fn whole(machine: &Machine, system: &System, look: Look) -> String {
    let names = Names::new(system);
    let head = look.title(&machine.name, &summary::machine(system));
    format!("{head}\n{}", tree::machine(system, &names, look))
}

fn one_path(
    machine: &Machine,
    system: Arc<System>,
    settings: Settings,
    ends: &[String],
    look: Look,
    output: &mut Output,
) -> Result<String> {
    let names = Names::new(&system);
    let find = |text: &String| names.find(&machine.name, text);
    let [from, to] = ends else {
        anyhow::bail!("--path takes two devices")
    };
    let (from, to) = (find(from)?, find(to)?);
    if system.kind(to) == NodeType::Pci {
        anyhow::bail!(
            "{} is a PCI switch: NCCL keeps no paths that end there; expected a GPU, a NIC or a CPU as the second device",
            names.label(to)
        );
    }
    let table = PathTable::compute(&system, !settings.nvb_disable).map_err(|link| {
        anyhow::anyhow!(
            "{} has a link to {}, but none leads back",
            names.label(link.from),
            names.label(link.to)
        )
    })?;
    // A file holds several hosts only when one NVLink domain joins them.
    let domain = system.hosts().len() > 1;
    let routing = match Routing::compute(Arc::clone(&system), Arc::new(settings), domain) {
        Ok(routing) => Some(routing),
        Err(error) => {
            output.warnings.push(format!(
                "only the widest path is shown, because NCCL gives up on this machine: {error}"
            ));
            None
        }
    };
    let answer = why::explain(&system, &table, routing.as_ref(), &names, (from, to));
    Ok(path::answer(
        &format!("{} → {}", names.full(from), names.full(to)),
        &answer,
        look,
    ))
}
