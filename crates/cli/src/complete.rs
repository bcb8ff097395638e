//! `topo complete`: adds GPUs, NVLinks and NICs to files that leave them to NCCL.

use anyhow::{Result, bail};
use probe::complete::{self, Assumptions, Missing};
use topology::xml::{Document, Element, Tag};

use crate::arguments::machine::{AssumeArguments, CompleteArguments};
use crate::input::Machine;
use crate::output::Output;
use crate::render::ranges;

/// Most bus ids in a warning.
const NAMED: usize = 3;

pub fn run(arguments: &CompleteArguments, output: &mut Output) -> Result<()> {
    let machine = Machine::read(&arguments.file, output)?;
    let assumptions = arguments.assume.all();
    let missing = Missing::of(&machine.document);
    if assumptions == Assumptions::default() && !missing.is_empty() {
        bail!("{}", explain(&machine.document, &missing));
    }
    let (completed, left) = with_assumed(&machine.document, &arguments.assume)?;
    let explains = assumptions != Assumptions::default() || left.is_empty();
    if explains && completed.root.same_as(&machine.document.root) {
        output
            .warnings
            .push(nothing_added(&machine.document, &assumptions));
    }
    if !left.is_empty() {
        output.warnings.push(explain(&completed, &left));
    }
    output.write(
        topology::xml::write(&completed),
        arguments.output.as_deref(),
    )
}

/// The document with what the arguments assume, and what is still missing.
pub fn with_assumed(
    document: &Document,
    arguments: &AssumeArguments,
) -> Result<(Document, Missing)> {
    let assumptions = arguments.all();
    let completed = complete::complete(document, &assumptions);
    let there = complete::devices(&completed);
    let mut named = arguments
        .assume_nvlinks
        .iter()
        .flat_map(|link| link.between);
    if let Some(unknown) = named.find(|dev| !there.contains(dev)) {
        bail!(
            "--assume-nvlinks: {} has no GPU{unknown}; it has GPU {}",
            document.file,
            ranges(&there, ", ")
        );
    }
    let mut missing = Missing::of(&completed);
    let (_, kinds) = complete::without_links(&completed);
    if assumptions.gpu.is_some_and(|gpu| kinds.contains(&gpu.sm)) {
        // These GPUs are described, so those without NVLinks have none.
        missing.nvlinks.clear();
    }
    Ok((completed, missing))
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
        list(&missing.nvlinks, "GPU", "nvlink"),
    ];
    let lists: Vec<String> = lists.into_iter().flatten().collect();
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
    let (_, kinds) = complete::without_links(document);
    let known = kinds.iter().find_map(|sm| Assumptions::with_nvswitch(*sm));
    format!(
        "{} leaves to NCCL what it finds on the machine: {}; say what they are, such as {}, or name the machine with --assume {}",
        document.file,
        lists.join(", "),
        how.join(" "),
        known.map_or("h100-sxm", |(name, _)| name),
    )
}
