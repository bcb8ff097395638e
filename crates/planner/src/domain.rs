//! One NVLink domain over several hosts (MNNVL): its hosts' documents become one.

use topology::xml::{Document, Tag};

/// Joins the documents of the hosts of an NVLink domain, in order: every host's `<cpu>` elements, told apart by
/// `host_hash` (1, 2, …; what the files say is replaced, since equal hosts often share one file). `None` without hosts.
///
/// The GPUs of all hosts hang on the one NVSwitch node of the resulting system.
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
