//! Attributes that NCCL silently misreads, and the consequence for the plan.
//!
//! NCCL refuses hardly any attribute: invalid numbers are 0, unknown link speeds are PCIe Gen3,
//! NVLinks without a target are dropped. The plan is then made for a different machine.

mod devices;
mod numbers;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::notes::{Notes, excerpt};
use super::{Document, Element, Tag, c_int, c_unsigned_hexadecimal, names};
use crate::BusId;
use crate::error::{Position, Warning};

/// Warns about attributes that NCCL reads differently than written.
///
/// Missing required attributes are errors of building a System instead.
pub fn lint(document: &Document) -> Vec<Warning> {
    let mut lint = Lint::new(&document.file, document.version);
    lint.element(&document.root, None);
    lint.nvlink_targets();
    lint.notes.into_warnings()
}

/// A host, by its hash.
type Host = u64;

/// The state of the checks.
struct Lint<'d> {
    file: &'d Arc<str>,
    version: i32,
    notes: Notes,
    host: Host,
    bus_ids: BTreeMap<(Host, BusId), Position>,
    gpu_bus_ids: BTreeMap<(Host, BusId), ()>,
    gpu_devs: BTreeMap<(Host, i32), Position>,
    ranks: BTreeMap<(Host, i32), Position>,
    net_devs: BTreeMap<(Host, i32), Position>,
    nvlinks: Vec<(Host, &'d Element)>,
}

impl<'d> Lint<'d> {
    fn new(file: &'d Arc<str>, version: i32) -> Self {
        Self {
            file,
            version,
            notes: Notes::default(),
            host: 0,
            bus_ids: BTreeMap::new(),
            gpu_bus_ids: BTreeMap::new(),
            gpu_devs: BTreeMap::new(),
            ranks: BTreeMap::new(),
            net_devs: BTreeMap::new(),
            nvlinks: Vec::new(),
        }
    }

    /// Adds a warning about an attribute or an element.
    fn warn(
        &mut self,
        kind: &'static str,
        detail: &str,
        element: &Element,
        attribute: Option<&str>,
        message: impl FnOnce() -> String,
    ) {
        self.notes.add(
            kind,
            detail,
            || element.place(self.file, attribute),
            message,
        );
    }

    fn element(&mut self, element: &'d Element, parent: Option<&'d Element>) {
        self.attributes(element);
        match element.tag {
            Tag::Cpu => self.cpu(element),
            Tag::Pci => self.pci(element),
            Tag::Gpu => self.gpu(element, parent),
            Tag::Net => self.net(element),
            Tag::Nvlink => self.nvlink(element),
            Tag::Pcilink => self.bus_id(element, "target"),
            Tag::C2c => self.count(element, "bw"),
            Tag::System | Tag::Nic | Tag::Xgmi => {}
        }
        if matches!(element.tag, Tag::Nvlink | Tag::C2c | Tag::Xgmi) {
            self.count(element, "count");
        }
        for child in &element.children {
            self.element(child, Some(element));
        }
    }

    /// Checks every attribute for the kind of value it should have.
    fn attributes(&mut self, element: &Element) {
        for attribute in &element.attributes {
            let (name, text) = (&*attribute.name, &*attribute.value);
            if !names::reads(element.tag, name) {
                self.warn(
                    "unread",
                    &format!("{} {name}", element.tag.name()),
                    element,
                    Some(name),
                    || {
                        format!(
                            "NCCL does not read this attribute of <{}>",
                            element.tag.name()
                        )
                    },
                );
            } else if names::is_integer(element.tag, name) {
                self.integer(element, name, text);
            } else if names::is_hexadecimal(element.tag, name) {
                self.hexadecimal(element, name, text);
            } else if name == "latency" {
                self.float(element, name, text);
            }
        }
    }

    fn cpu(&mut self, cpu: &Element) {
        self.host = cpu.get("host_hash").map_or(0, c_unsigned_hexadecimal);
    }

    /// The position of an earlier element with the same key.
    fn first<K: Ord>(
        seen: &mut BTreeMap<K, Position>,
        key: K,
        element: &Element,
    ) -> Option<Position> {
        match seen.entry(key) {
            std::collections::btree_map::Entry::Occupied(first) => Some(*first.get()),
            std::collections::btree_map::Entry::Vacant(free) => {
                free.insert(element.position);
                None
            }
        }
    }

    /// Warns about a bus id that does not look like one.
    fn bus_id(&mut self, element: &Element, attribute: &'static str) {
        let Some(text) = element.get(attribute) else {
            return;
        };
        if !BusId::is_well_formed(text) {
            self.warn("bus id", text, element, Some(attribute), || {
                format!(
                    "{} is not a bus id of the form dddd:bb:dd.f: NCCL reads it as {}",
                    excerpt(text),
                    BusId::parse(text)
                )
            });
        }
    }

    /// Warns about a link without bandwidth.
    fn count(&mut self, element: &Element, attribute: &'static str) {
        let Some(text) = element.get(attribute) else {
            return;
        };
        let value = c_int(text);
        if value <= 0 {
            self.warn("count", text, element, Some(attribute), || {
                format!(
                    "NCCL reads {value} here, so this link has {} bandwidth",
                    if value < 0 { "a negative" } else { "no" }
                )
            });
        }
    }
}

/// The place of an earlier element, for a message.
fn at(position: Position) -> String {
    match position.line {
        0 => "elsewhere".to_owned(),
        line => format!("at line {line}"),
    }
}
