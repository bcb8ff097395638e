//! `topo complete`: adds GPUs, NVLinks and NICs to files that leave them to NCCL.

use std::sync::Arc;

use answers::assume::{self, AssumeError, Incomplete};
use anyhow::{Result, anyhow, bail};
use findings::complete::{self, Assumptions};
use topology::xml::{Document, Element, Tag};

use crate::arguments::machine::CompleteArguments;
use crate::input;
use crate::output::Output;
use crate::render::ranges;

pub(crate) fn run(arguments: &CompleteArguments, output: &mut Output) -> Result<()> {
    let machine = input::machine(&arguments.file, output)?;
    let assumptions = arguments.assume.all();
    let completed = assume::completed(&machine.document, &assumptions);
    let (completed, left) = completed.map_err(|error| in_words(&error))?;
    if let (true, Some(incomplete)) = (assumptions == Assumptions::default(), &left) {
        bail!("{}", explain(incomplete));
    }
    let explains = assumptions != Assumptions::default() || left.is_none();
    if explains && completed.root.same_as(&machine.document.root) {
        output
            .warnings
            .push(nothing_added(&machine.document, &assumptions));
    }
    output.warnings.extend(left.as_ref().map(explain));
    output.write(
        topology::xml::write(&completed),
        arguments.output.as_deref(),
    )
}

/// A document with what is assumed of it.
pub(crate) fn assumed(document: &Arc<Document>, assume: &Assumptions) -> Result<Arc<Document>> {
    match assume::completed(document, assume) {
        Ok((completed, _)) => Ok(completed),
        Err(error) => Err(in_words(&error)),
    }
}

/// An assumption that does not fit a file, with the option that makes it.
pub(crate) fn in_words(error: &AssumeError) -> anyhow::Error {
    let text = error.to_string();
    let rest = text.split_once(": ").map_or("", |(_, rest)| rest);
    anyhow!("--assume-nvlinks: {rest}")
}

/// Why a file stays as it is.
fn nothing_added(document: &Document, assumptions: &Assumptions) -> String {
    fn without_class(element: &Element) -> usize {
        let own = element.tag == Tag::Pci && element.get("class").is_none();
        usize::from(own) + element.children.iter().map(without_class).sum::<usize>()
    }
    let (unlinked, kinds) = complete::without_links(document);
    let other = assumptions.gpu.filter(|gpu| !kinds.contains(&gpu.sm));
    let why = match without_class(&document.root) {
        0 if unlinked > 0 && other.is_some() => format!(
            "every GPU and NIC in it has its element, and the GPUs without NVLinks have sm {}, not sm {}",
            ranges(&kinds, ", "),
            other.map_or(0, |gpu| gpu.sm)
        ),
        0 if complete::devices(document).is_empty() => {
            "it has no GPU, and no PCI function of the class of GPUs".to_owned()
        }
        0 => "every GPU and NIC in it has its element".to_owned(),
        functions => format!(
            "{} in it {} no class, so nobody can tell GPUs and NICs from switches",
            crate::render::count(functions, "PCI function"),
            if functions == 1 { "has" } else { "have" }
        ),
    };
    format!("{}: nothing was added: {why}", document.file)
}

/// The lack of a file, and the options that fill it.
pub(crate) fn explain(incomplete: &Incomplete) -> String {
    let missing = &incomplete.missing;
    let mut how = Vec::new();
    if !missing.gpus.is_empty() {
        how.push("--assume-gpu sm=90,nvswitch-links=18");
    }
    if !missing.nics.is_empty() {
        how.push("--assume-nic speed=400000");
    }
    if !missing.nvlinks.is_empty() {
        how.push("--assume-nvlinks GPU0:GPU1=12 (without any: --assume-gpu sm=90)");
    }
    format!(
        "{incomplete}, such as {}, or name the machine with --assume {}",
        how.join(" "),
        incomplete.like
    )
}
