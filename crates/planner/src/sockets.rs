//! The network of a machine without network ports: NCCL's sockets.
//!
//! Source: NCCL's `ncclTopoFillNet`, which hangs a device without a PCI function under the first
//! CPU of the file, and the dumps of the binaries.

use std::sync::Arc;

use topology::join;
use topology::xml::{Document, Element, Tag, c_unsigned_hexadecimal};

use crate::job::{EqualHosts, HostEdit};

/// The port that NCCL makes of an interface whose speed the system does not tell: 10 Gb/s.
const INTERFACE: [(&str, &str); 8] = [
    ("name", "socket"),
    ("dev", "0"),
    ("latency", "0"),
    ("speed", "10000"),
    ("port", "0"),
    ("guid", "0x0"),
    ("maxconn", "65536"),
    ("gdr", "0"),
];

/// The topology of a host without ports with an interface. A file whose ports have failed gets
/// none.
pub(crate) fn with_interface(host: &EqualHosts) -> Option<Document> {
    let document = &host.document;
    let have_failed = host
        .edits
        .iter()
        .any(|edit| matches!(edit, HostEdit::Failure(failure) if failure.may_remove_ports()));
    let gpus: usize = join::gpus_by_host(document).into_iter().sum();
    if have_failed || gpus == 0 {
        return None;
    }
    let mut changed = Document {
        file: Arc::clone(&document.file),
        version: document.version,
        root: document.root.clone(),
        warnings: document.warnings.clone(),
    };
    let mut known = Vec::new();
    for cpu in &mut changed.root.children {
        let hash = cpu.get("host_hash").map_or(0, c_unsigned_hexadecimal);
        if cpu.tag == Tag::Cpu && !known.contains(&hash) {
            known.push(hash);
            add_to(cpu);
        }
    }
    Some(changed)
}

fn add_to(cpu: &mut Element) {
    let mut net = Element::new(Tag::Net);
    for (name, value) in INTERFACE {
        net.set(name, value);
    }
    match cpu.children.iter_mut().find(|it| it.tag == Tag::Nic) {
        Some(nic) => nic.children.push(net),
        None => {
            let mut nic = Element::new(Tag::Nic);
            nic.children.push(net);
            cpu.children.push(nic);
        }
    }
}
