//! Compares two topologies of one machine and reports unexplained differences.

use topology::xml::{Attribute, Document, Element};

/// Attributes that a probe cannot know, that NCCL computes whenever it reads a file, or that only
/// some versions write (docs/probing.md).
const EXPLAINED: [&str; 7] = [
    "host_hash",
    "maxconn",
    "mlopart",
    "latency",
    "net",
    "rail",
    "plane",
];

/// Attributes that name an element among its siblings.
const NAMES: [&str; 5] = ["numaid", "busid", "target", "name", "dev"];

/// The differences with their places, one line each.
pub(super) fn compare(ours: &Document, theirs: &Document) -> Vec<String> {
    let mut different = Vec::new();
    elements(&ours.root, &theirs.root, "system", &mut different);
    different
}

/// An element's name among its siblings.
fn name(element: &Element) -> String {
    let known = NAMES.iter().find_map(|name| element.get(name));
    format!("{} {}", element.tag.name(), known.unwrap_or_default())
        .trim_end()
        .to_owned()
}

/// The attributes that must be equal.
fn told(element: &Element) -> impl Iterator<Item = &Attribute> {
    let attributes = element.attributes.iter();
    attributes.filter(|attribute| !EXPLAINED.contains(&&*attribute.name))
}

fn elements(ours: &Element, theirs: &Element, at: &str, different: &mut Vec<String>) {
    for attribute in told(theirs) {
        let (name, value) = (&attribute.name, &attribute.value);
        match ours.get(name) {
            Some(own) if own == value => {}
            // Versions before 2.30 write 0 for a device at a root bus, and plan with 16.
            Some(own) if name == "link_width" && own == "16" && value == "0" => {}
            Some(own) => different.push(format!("{at}: {name}=\"{own}\", NCCL has \"{value}\"")),
            None => different.push(format!("{at}: no {name}, NCCL has \"{value}\"")),
        }
    }
    for own in told(ours).filter(|own| theirs.get(&own.name).is_none()) {
        let (name, value) = (&own.name, &own.value);
        different.push(format!("{at}: {name}=\"{value}\", NCCL has none"));
    }
    let names = |element: &Element| element.children.iter().map(name).collect::<Vec<_>>();
    let (own, other) = (names(ours), names(theirs));
    for child in &ours.children {
        if !other.contains(&name(child)) {
            different.push(format!("{at}: {}, NCCL has none", name(child)));
        }
    }
    for child in &theirs.children {
        match ours
            .children
            .iter()
            .find(|known| name(known) == name(child))
        {
            Some(known) => elements(known, child, &format!("{at} › {}", name(child)), different),
            None => different.push(format!("{at}: no {}, NCCL has one", name(child))),
        }
    }
    // The order decides ties.
    let common = |names: &[String], others: &[String]| {
        let kept = names.iter().filter(|name| others.contains(name));
        kept.cloned().collect::<Vec<_>>()
    };
    if common(&own, &other) != common(&other, &own) {
        different.push(format!(
            "{at}: in the order {}, NCCL has {}",
            own.join(", "),
            other.join(", ")
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::Machine;

    fn differences(change: impl Fn(&str) -> String) -> Vec<String> {
        let document = Machine::named("dgx-h100").unwrap().document().unwrap();
        let text = topology::xml::write(&document);
        let changed = change(&text);
        assert_ne!(changed, text);
        compare(
            &document,
            &topology::xml::parse("changed", changed.as_bytes()).unwrap(),
        )
    }

    #[test]
    fn every_difference_is_told() {
        let slower = differences(|text| text.replacen("speed=\"400000\"", "speed=\"200000\"", 1));
        assert!(
            slower.len() == 1 && slower[0].ends_with("speed=\"400000\", NCCL has \"200000\""),
            "{slower:?}"
        );
        let unplugged = differences(|text| {
            let (before, rest) = text.split_once("<gpu ").unwrap();
            format!("{before}{}", rest.split_once("</gpu>").unwrap().1)
        });
        assert!(
            unplugged[0].ends_with("gpu 0, NCCL has none"),
            "{unplugged:?}"
        );
        let renamed = differences(|text| text.replacen("name=\"mlx5_0\"", "name=\"mlx5_9\"", 1));
        assert_eq!(renamed.len(), 2, "{renamed:?}");
    }

    #[test]
    fn what_is_explained_is_not_told() {
        let told = differences(|text| text.replacen("maxconn=\"", "maxconn=\"1", 1));
        assert_eq!(told, Vec::<String>::new());
    }
}
