//! The topology file that NCCL begins with: of `NCCL_TOPO_FILE`, or the one that clouds put into their guests. What the
//! machine tells is added to it; what it says already stays.

use topology::xml::{Document, Element, c_unsigned_hexadecimal};

use crate::privacy::Privacy;

/// Where guests have the file, below the root.
pub const PLACE: &str = "var/run/nvidia-topologyd/virtualTopology.xml";

/// The same where `var/run` is a link to `/run`, which leads out of a root that is not the machine's own.
pub const PLACE_BEHIND_LINK: &str = "run/nvidia-topologyd/virtualTopology.xml";

/// What the file is called in messages.
pub(crate) const NAME: &str = "the topology file";

/// The elements of the file; or why there are none.
pub(crate) fn read(text: &str) -> Result<Element, String> {
    let document = topology::xml::parse(NAME, text.as_bytes());
    let mut root = document.map_err(|error| error.to_string())?.root;
    without_hosts(&mut root);
    Ok(root)
}

/// NCCL computes the hash of the host itself.
fn without_hosts(element: &mut Element) {
    element
        .attributes
        .retain(|attribute| attribute.name != "host_hash");
    element.children.iter_mut().for_each(without_hosts);
}

/// The text without what identifies the machine. What is no topology is nobody's business.
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
