//! Maps of guests' bus ids. An accepted map makes the guest's file.

use findings::guest::{BusIdMap, guest};
use topology::System;
use topology::xml::{Document, parse, write};

use crate::input::{Depth, below, checked, join, split};
use crate::jobs;

thread_local! {
    /// The hosts.
    static HOSTS: Vec<Document> = ["workstation-2gpu-nvlink", "pcie-8gpu-nonet", "dgx-h100"]
        .map(jobs::document)
        .to_vec();
}

/// Maps of some devices of each host.
pub fn seeds() -> Vec<Vec<u8>> {
    HOSTS.with(|hosts| {
        let seed = |(number, host): (usize, &Document)| {
            let text = write(host);
            let bus_ids = text.split("busid=\"").skip(1);
            let bus_ids = bus_ids.filter_map(|rest| rest.split('"').next());
            let lines = (1..).zip(bus_ids);
            let map: String = lines
                .map(|(line, bus_id)| format!("{bus_id} 0000:{line:02x}:00.0 # a device\n"))
                .collect();
            join(map.as_bytes(), &[number as u8])
        };
        hosts.iter().enumerate().map(seed).collect()
    })
}

/// Reads a map and makes a guest's file with it. The bytes after the first NUL name the host, or
/// are the file of another host.
///
/// # Panics
/// A made file reads back differently.
pub fn run(bytes: &[u8]) -> Depth {
    let (document, mut choices) = split(bytes);
    let text = String::from_utf8_lossy(document);
    let Some(map) = checked(BusIdMap::parse("map", &text)) else {
        return Depth::Outside;
    };
    HOSTS.with(|hosts| {
        let which = below(&mut choices, hosts.len() + 1);
        let own = match hosts.get(which) {
            Some(_) => None,
            None => parse("host.xml", choices.take_rest()).ok(),
        };
        let host = own.as_ref().unwrap_or(&hosts[which % hosts.len()]);
        let Some(made) = checked(guest(host, &map)) else {
            return Depth::Inside;
        };
        for document in [&made.file, &made.complete, &made.host] {
            let text = write(document);
            let again = parse("guest.xml", text.as_bytes()).expect("what was written can be read");
            assert!(document.root.same_as(&again.root), "{text}");
            let _ = System::from_document(document);
        }
        Depth::Accepted
    })
}
