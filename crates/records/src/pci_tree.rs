//! `lspci -t` and `lspci -tv`: the tree of bridges, without links, NUMA nodes, ACS and classes.
//!
//! A line continues the bus whose devices are in its column. Source of the format: the manual
//! page of lspci, and trees that it printed.

use std::ops::RangeInclusive;

use crate::pci::{Bus, Function, ids};
use crate::text::MOST;

/// Most buses inside each other.
const DEEPEST: usize = 64;

/// The functions of a tree, line by line.
#[derive(Debug, Default)]
pub(crate) struct TreeReader {
    pub(crate) functions: Vec<Function>,
    /// Buses that lines may continue, each with the column of its bracket.
    buses: Vec<(usize, Bus)>,
}

impl TreeReader {
    /// Reads a line. Returns `true` if it is one of a tree.
    pub(crate) fn line(&mut self, line: &str) -> bool {
        let Some(start) = line.find(|c: char| c != ' ' && c != '|') else {
            return false;
        };
        if !line[start..].starts_with(['-', '+', '\\']) {
            return false;
        }
        let (mut at, mut is_tree) = (start, false);
        while let Some(connector) = line[at..].find(|c| !matches!(c, '-' | '+' | '\\')) {
            at += connector;
            let Some((read, rest)) = self.item(at, &line[at..]) else {
                break;
            };
            is_tree = true;
            if let Some(name) = rest.strip_prefix("  ") {
                self.name(name);
                break;
            }
            at += read;
        }
        is_tree
    }

    /// A root bus such as `[0000:80]`, or a function such as `01.0` or `01.0-[02-05]`, in column
    /// `at`. Returns the bytes of it, and what follows.
    fn item<'t>(&mut self, at: usize, text: &'t str) -> Option<(usize, &'t str)> {
        let outer = self.buses.iter().rposition(|it| it.0 < at);
        if let Some(rest) = text.strip_prefix('[') {
            let (inside, rest) = rest.split_once(']')?;
            let (domain, bus) = inside.split_once(':')?;
            let bus = (
                number(domain, 4..=8)?,
                u8::try_from(number(bus, 2..=2)?).ok()?,
            );
            self.buses.clear();
            self.buses.push((at, bus));
            return Some((text.len() - rest.len(), rest));
        }
        let (slot, rest) = text.split_at_checked("01.0".len())?;
        let (device, function) = slot.split_once('.')?;
        number(device, 2..=2)?;
        number(function, 1..=1)?;
        let outer = outer?;
        let bus = self.buses[outer].1;
        self.buses.truncate(outer + 1);
        let (secondary, end) = match rest.strip_prefix("-[") {
            Some(rest) => {
                let (buses, end) = rest.split_once(']')?;
                let secondary = buses.split('-').next()?;
                let secondary = (bus.0, u8::try_from(number(secondary, 2..=2)?).ok()?);
                (Some(secondary), end)
            }
            None => (None, rest),
        };
        // A bridge to which the firmware gave no bus has dashes and no bracket.
        let is_bridge = secondary.is_some() || rest.starts_with('-');
        if let Some(secondary) = secondary.filter(|_| self.buses.len() < DEEPEST) {
            self.buses.push((at + slot.len() + 1, secondary));
        }
        if self.functions.len() < MOST {
            self.functions.push(Function {
                bus,
                slot: slot.to_owned(),
                kind: if is_bridge { "PCI bridge" } else { "" }.to_owned(),
                secondary,
                ..Function::default()
            });
        }
        Some((text.len() - end.len(), end))
    }

    /// The name of the last function.
    fn name(&mut self, name: &str) {
        let Some(function) = self.functions.last_mut().filter(|it| it.name.is_empty()) else {
            return;
        };
        function.name = name.trim().to_owned();
        function.ids = ids(&function.name);
        let is_on_root = self.buses.len() == 1;
        function.kind = match kind(function) {
            "" if is_on_root && function.slot == "00.0" => "Host bridge",
            kind => kind,
        }
        .to_owned();
    }
}

/// A hexadecimal number of this many digits.
fn number(text: &str, digits: RangeInclusive<usize>) -> Option<u32> {
    let fits = digits.contains(&text.len()) && text.bytes().all(|it| it.is_ascii_hexdigit());
    fits.then(|| u32::from_str_radix(text, 16).ok())?
}

/// The kind of a function by its name, in the words of `lspci`; empty if the name does not tell.
fn kind(function: &Function) -> &'static str {
    let name = function.name.as_str();
    let is_first = function.slot.ends_with(".0");
    let has = |words: &[&str]| words.iter().any(|it| name.contains(it));
    if name.contains("NVIDIA") {
        // 22a3: the NVSwitch of H100. Sound, USB and others of a board are further functions.
        return match function.gpu_kind() {
            _ if has(&["NVSwitch", "Device 22a3"]) => "Bridge",
            Some(_) if is_first && !has(&["Audio", "USB", "UCSI", "Bridge"]) => "3D controller",
            _ => "",
        };
    }
    // 1003 to 1027: ConnectX-3 to ConnectX-9.
    let is_known = matches!(function.ids.1, Some(0x1003..=0x1027));
    let is_port = (is_known || has(&["ConnectX", "BlueField"]))
        && !has(&["Management", "Bridge", "Switch", "DMA", "Crypto"]);
    if name.contains("Mellanox") && is_port {
        return "Infiniband controller";
    }
    if name.contains("Elastic Fabric Adapter") {
        return "Ethernet controller";
    }
    ""
}
