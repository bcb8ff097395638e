//! Merges the trees of several ranks.

use topology::xml::Element;

/// Merges `other` into `tree`: equal elements become one, others are appended to their parent.
pub fn into(tree: &mut Element, other: Element) {
    if tree.children.is_empty() {
        tree.children = other.children;
        return;
    }
    for child in other.children {
        match tree.children.iter_mut().find(|known| same(known, &child)) {
            Some(known) => into_child(known, child),
            None => tree.children.push(child),
        }
    }
}

fn into_child(known: &mut Element, child: Element) {
    for grandchild in child.children {
        match known
            .children
            .iter_mut()
            .find(|other| same(other, &grandchild))
        {
            Some(other) => into_child(other, grandchild),
            None => known.children.push(grandchild),
        }
    }
}

/// Whether two elements have equal names and attributes, in any order.
fn same(one: &Element, other: &Element) -> bool {
    one.tag == other.tag
        && one.attributes.len() == other.attributes.len()
        && one
            .attributes
            .iter()
            .all(|attribute| other.get(&attribute.name) == Some(&attribute.value))
}
