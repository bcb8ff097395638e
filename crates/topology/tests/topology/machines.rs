//! Machines survive being written, and are written as NCCL writes them.

use proptest::prelude::*;
use testkit::{Expectation, Machine, random};
use topology::xml::{Document, parse, write};
use topology::{Link, Node, NodeId, System};

/// All that there is to a system.
type Parts = (Vec<Node>, Vec<(NodeId, NodeId, Link)>, Vec<u64>);

fn parts(document: &Document) -> Result<Parts, topology::Error> {
    let system = System::from_document(document)?;
    let nodes: Vec<NodeId> = (0..system.node_count())
        .map(|index| NodeId(index as u32))
        .collect();
    let links = nodes.iter().flat_map(|node| system.links(*node));
    let links = links.map(|link| {
        let (from, to) = system.ends(link);
        (from, to, system.link(link))
    });
    Ok((
        nodes
            .iter()
            .map(|node| system.node(*node).clone())
            .collect(),
        links.collect(),
        system.hosts().to_vec(),
    ))
}

fn check_written(document: &Document) -> Result<(), TestCaseError> {
    let text = write(document);
    let again = parse("again.xml", text.as_bytes())
        .map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
    prop_assert!(
        again
            .warnings
            .iter()
            .all(|warning| !warning.message.contains("refuses this file")),
        "{:?}",
        again.warnings
    );
    prop_assert_eq!(parts(document), parts(&again), "{}", text);
    prop_assert_eq!(write(&again), text);
    Ok(())
}

/// The rules of NCCL's reader: two spaces per level, one tag on a line, one space before each
/// attribute, double quotes, no tabs, at most 16 attributes.
fn check_form(text: &str) -> Result<(), TestCaseError> {
    let mut level = 0;
    for line in text.lines() {
        let tag = line.trim_start_matches(' ');
        level -= usize::from(tag.starts_with("</"));
        prop_assert_eq!(line.len() - tag.len(), 2 * level, "{}", line);
        prop_assert!(
            tag.starts_with('<') && tag.ends_with('>') && tag.matches('<').count() == 1,
            "{line}"
        );
        prop_assert!(
            !tag.contains('\t') && !tag.contains(" />") && !tag.contains(" >"),
            "{line}"
        );
        let outside_values: String = tag.split('"').step_by(2).collect();
        prop_assert!(!outside_values.contains("  "), "{line}");
        prop_assert!(outside_values.matches('=').count() <= 16, "{line}");
        level += usize::from(!tag.starts_with("</") && !tag.ends_with("/>"));
    }
    prop_assert_eq!(level, 0);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn random_machines_survive_being_written(document in random::machine()) {
        check_written(&document)?;
        check_form(&write(&document))?;
    }
}

#[test]
fn the_projects_machines_survive_being_written() {
    for machine in Machine::all().unwrap() {
        let document = machine.document().unwrap();
        let checked = check_written(&document).and_then(|()| check_form(&write(&document)));
        checked.unwrap_or_else(|error| panic!("{}: {error}", machine.name));
    }
}

/// The files that were written for the project have the form of NCCL's dump, to the byte.
#[test]
fn files_in_nccls_form_stay_as_they_are() {
    for machine in Machine::all().unwrap() {
        if machine.origin.expectation == Expectation::Blessed {
            let written = write(&machine.document().unwrap());
            let file = String::from_utf8(machine.bytes().unwrap()).unwrap();
            assert!(
                written == file,
                "{} is not in NCCL's form; expected:\n{written}",
                machine.name
            );
        }
    }
}
