//! The topology file that NCCL starts from: `NCCL_TOPO_FILE`, or the one that clouds put into
//! guests. The probe adds elements and keeps the file's values.

use topology::xml::{Document, Element, c_unsigned_hexadecimal};

use crate::privacy::Privacy;

/// Path of the file in guests, below the root.
pub const PLACE: &str = "var/run/nvidia-topologyd/virtualTopology.xml";

/// The same file if `var/run` is a link to `/run`, which a recording cannot follow.
pub const PLACE_BEHIND_LINK: &str = "run/nvidia-topologyd/virtualTopology.xml";

/// The file's name in messages.
pub(crate) const NAME: &str = "the topology file";

/// Parses the file, or returns why it cannot be parsed.
pub(crate) fn read(text: &str) -> Result<Element, String> {
    let document = topology::xml::parse(NAME, text.as_bytes());
    let mut root = document.map_err(|error| error.to_string())?.root;
    without_hosts(&mut root);
    Ok(root)
}

/// Removes host hashes, because NCCL computes its own.
fn without_hosts(element: &mut Element) {
    element
        .attributes
        .retain(|attribute| attribute.name != "host_hash");
    element.children.iter_mut().for_each(without_hosts);
}

/// The text without identifiers of the machine; empty if it is no topology.
pub(crate) fn hidden(text: &str, privacy: &mut Privacy) -> String {
    let Ok(mut root) = read(text) else {
        return String::new();
    };
    hide(&mut root, privacy);
    topology::xml::write(&Document::from_root(NAME, root))
}

fn hide(element: &mut Element, privacy: &mut Privacy) {
    if let Some(guid) = element.get("guid").map(c_unsigned_hexadecimal) {
        let hidden = privacy.guid(&format!("{guid:016x}")).replace(':', "");
        element.set("guid", format!("{:#x}", c_unsigned_hexadecimal(&hidden)));
    }
    if let Some(name) = element.get("name").map(str::to_owned) {
        element.set("name", privacy.name(&name));
    }
    element
        .children
        .iter_mut()
        .for_each(|child| hide(child, privacy));
}
