//! `topo complete`: adds GPUs and NICs to files that leave them to NCCL.

use anyhow::{Result, bail};
use probe::complete::{self, Assumptions, Missing};
use topology::xml::{Document, Element, Tag};

use crate::arguments::machine::CompleteArguments;
use crate::input::Machine;
use crate::output::Output;

/// Most bus ids in a warning.
const NAMED: usize = 3;

pub fn run(arguments: &CompleteArguments, output: &mut Output) -> Result<()> {
    let machine = Machine::read(&arguments.file, output)?;
    let assumptions = arguments.assume.all();
    let missing = Missing::of(&machine.document);
    if assumptions == Assumptions::default() && !missing.is_empty() {
        bail!("{}", explain(&machine.document, &missing));
    }
    let completed = complete::complete(&machine.document, &assumptions);
    if assumptions != Assumptions::default() && completed.root.same_as(&machine.document.root) {
        output.warnings.push(nothing_added(&machine.document));
    }
    let left = Missing::of(&completed);
    if !left.is_empty() {
        output.warnings.push(explain(&completed, &left));
    }
    output.write(
        topology::xml::write(&completed),
        arguments.output.as_deref(),
    )
}

/// Why a file stays as it is.
fn nothing_added(document: &Document) -> String {
    fn without_class(element: &Element) -> usize {
        let own = element.tag == Tag::Pci && element.get("class").is_none();
        usize::from(own) + element.children.iter().map(without_class).sum::<usize>()
    }
    let why = match without_class(&document.root) {
        0 => "every GPU and NIC in it has its element".to_owned(),
        functions => format!(
            "{} in it {} no class, so nobody can tell GPUs and NICs from switches",
            crate::render::count(functions, "PCI function"),
            if functions == 1 { "has" } else { "have" }
        ),
    };
    format!("{}: nothing was added: {why}", document.file)
}

/// What a file lacks, and how to say it.
pub fn explain(document: &Document, missing: &Missing) -> String {
    let list = |bus_ids: &[String], kind: &str, tag: &str| {
        let mut named: Vec<&str> = bus_ids.iter().take(NAMED).map(String::as_str).collect();
        if bus_ids.len() > NAMED {
            named.push("…");
        }
        (!bus_ids.is_empty()).then(|| {
            format!(
                "{} without <{tag}> ({})",
                crate::render::count(bus_ids.len(), kind),
                named.join(", ")
            )
        })
    };
    let lists = [
        list(&missing.gpus, "GPU", "gpu"),
        list(&missing.nics, "NIC", "net"),
    ];
    let lists: Vec<String> = lists.into_iter().flatten().collect();
    let mut how = Vec::new();
    if !missing.gpus.is_empty() {
        how.push("--assume-gpu sm=90,nvswitch-links=18");
    }
    if !missing.nics.is_empty() {
        how.push("--assume-nic speed=400000");
    }
    format!(
        "{} leaves to NCCL what it finds on the machine: {}; say what they are, such as {}, or name the machine with --assume h100-sxm",
        document.file,
        lists.join(", "),
        how.join(" "),
    )
}
