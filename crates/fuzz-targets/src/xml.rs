//! Topology files. An accepted file is written, read again and used.

use findings::complete::{Assumptions, MissingParts, complete, without_links};
use findings::of_document;
use topology::edit::Edit;
use topology::edit::failures::failures;
use topology::xml::{Document, Element, parse, write};
use topology::{PathTable, System};

use crate::input::{self, Depth, checked};

/// Most elements of a document that is used after it was read and written.
const MOST_ELEMENTS: usize = 200;

/// Most nodes of a machine whose paths are computed, in cubic time.
const MOST_NODES: usize = 100;

/// Most device failures that are tried.
const MOST_FAILURES: usize = 8;

/// Every small topology file.
pub fn seeds() -> Vec<Vec<u8>> {
    input::topologies(16 << 10)
}

/// Reads a topology file.
///
/// # Panics
/// A written document cannot be read, or reads back differently.
pub fn run(bytes: &[u8]) -> Depth {
    let Some(document) = checked(parse("fuzz.xml", bytes)) else {
        return Depth::Outside;
    };
    for warning in &document.warnings {
        let _ = warning.to_string();
    }
    let text = write(&document);
    let again = parse("again.xml", text.as_bytes()).expect("what was written can be read");
    assert!(
        document.root.same_as(&again.root),
        "reading changed what was written:\n{text}"
    );
    assert_eq!(document.version, again.version);
    if count(&document.root) > MOST_ELEMENTS {
        return Depth::Inside;
    }
    use_document(&document);
    let system = checked(System::from_document(&document)).inspect(use_system);
    Depth::accepted_if(system.is_some(), Depth::Inside)
}

fn count(element: &Element) -> usize {
    1 + element.children.iter().map(count).sum::<usize>()
}

/// Checks and completes the document, and lets its devices fail.
fn use_document(document: &Document) {
    for finding in of_document(document) {
        let _ = (
            finding.effect.now(document),
            finding.effect.mended(document),
        );
        let _ = serde_json::to_string(&finding).expect("a finding can be written");
    }
    let _ = MissingParts::of(document).is_empty();
    let assumed = Assumptions::preset("h100-sxm").expect("a preset");
    let completed = complete(document, &assumed);
    let missing = MissingParts::of(&completed);
    assert!(
        missing.gpus.is_empty() && missing.nics.is_empty(),
        "something is missing after it was completed"
    );
    let (_, without_links) = without_links(&completed);
    assert!(
        !without_links.contains(&90),
        "a GPU of the preset's kind has no NVLinks"
    );
    for failure in failures(document).iter().take(MOST_FAILURES) {
        let edit: &Edit = &failure.edit;
        checked(edit.apply(document));
    }
}

fn use_system(system: &System) {
    if system.node_count() > MOST_NODES {
        return;
    }
    for through_gpus in [false, true] {
        let _ = PathTable::compute(system, through_gpus);
    }
}
