//! An NVLink domain of several hosts (MNNVL) as one topology document.

use topology::xml::{Document, Tag};

/// Joins the documents of the hosts of an NVLink domain, in order. Each host's `<cpu>` elements get
/// a `host_hash` of their own (1, 2, …), because equal hosts often share one file. All GPUs connect
/// to one NVSwitch node. `None` without hosts.
pub fn nvlink_domain<'a>(hosts: impl IntoIterator<Item = &'a Document>) -> Option<Document> {
    let mut domain: Option<Document> = None;
    for (host, document) in hosts.into_iter().enumerate() {
        let mut cpus: Vec<_> = document.root.children.clone();
        for cpu in cpus.iter_mut().filter(|child| child.tag == Tag::Cpu) {
            cpu.set("host_hash", format!("{:#x}", host + 1));
        }
        match &mut domain {
            Some(domain) => domain.root.children.append(&mut cpus),
            None => {
                let mut first = document.clone();
                first.root.children = cpus;
                domain = Some(first);
            }
        }
    }
    domain
}
