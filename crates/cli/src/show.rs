//! `topo show`: a machine as NCCL sees it, or one path through it.

use std::sync::Arc;

use anyhow::Result;
use planner::Settings;
use planner::explain::{self, NodeNames};
use topology::{NodeType, System};

use crate::arguments::ShowArguments;
use crate::device;
use crate::environment::Environment;
use crate::input::Machine;
use crate::output::Output;
use crate::render::{Look, document, path, settings, tree};

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
    let names = NodeNames::new(system);
    let head = look.title(&machine.name, &explain::machine(system));
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
    let names = NodeNames::new(&system);
    let find = |text: &String| device::find(&names, &machine.name, text);
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
    let answer = explain::path(&system, settings, &names, (from, to))?;
    if let Some(error) = &answer.refused {
        output.warnings.push(format!(
            "only the widest path is shown, because NCCL gives up on this machine: {error}"
        ));
    }
    Ok(path::answer(
        &format!("{} → {}", names.full(from), names.full(to)),
        &answer,
        look,
    ))
}
