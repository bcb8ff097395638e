//! The text of `lstopo`: PCI devices below bridges. Source of the format: hwloc's manual, and texts
//! that it printed. It names neither kinds of GPUs nor NVLinks.

use crate::condition::bus_id;
use crate::gpu::NamedGpu;
use crate::matrix::{self, Device, Matrix, Nearness};
use crate::said_link::SaidLink;
use crate::text::{is_device_name, is_one_of};

/// Objects of hwloc, besides caches.
const OBJECTS: &str = "Package Socket Die NUMANode Group0 Core PU HostBridge PCIBridge PCI PCI-dev \
    Bridge Block Net Network OpenFabrics CoProc GPU DMA Misc MemCache Storage";

/// Deepest indentation that is followed.
const DEEPEST: usize = 64;

/// Devices as they are nested, line by line.
#[derive(Debug, Default)]
pub(crate) struct LstopoReader {
    /// Open objects, from the machine on.
    open: Vec<Object>,
    /// Numbers of bridges so far.
    bridges: usize,
    devices: Vec<Nested>,
    /// A second machine has begun.
    is_over: bool,
}

#[derive(Debug)]
struct Object {
    indent: usize,
    /// Its number, if it is a bridge.
    bridge: Option<usize>,
    numa: Option<i32>,
}

#[derive(Debug)]
struct Nested {
    bus_id: String,
    /// Bridges above it, from the host bridge on.
    bridges: Vec<usize>,
    numa: Option<i32>,
    class: String,
    is_gpu: bool,
    /// Its name as an RDMA device.
    name: Option<String>,
}

impl LstopoReader {
    /// Reads a line. Returns `true` if it is one of lstopo.
    pub(crate) fn line(&mut self, line: &str) -> bool {
        let text = line.trim();
        let indent = line.len() - line.trim_start().len();
        if is_machine(text) {
            // Another machine is not joined with this one.
            self.is_over |= !self.devices.is_empty() || self.bridges > 0;
            self.open = vec![Object {
                indent,
                bridge: None,
                numa: None,
            }];
            return true;
        }
        let word = text.split([' ', '"', '(']).next().unwrap_or_default();
        // `GPU 0: NAME` is of nvidia-smi.
        let is_listed = text.starts_with("GPU ") && !text[4..].starts_with(['"', 'L']);
        if self.open.is_empty() || is_listed || !is_object(word) {
            return false;
        }
        if self.is_over {
            return true;
        }
        while self.open.last().is_some_and(|it| it.indent >= indent) {
            self.open.pop();
        }
        let Some(outer) = self.open.last_mut() else {
            return false;
        };
        let mut object = Object {
            indent,
            bridge: None,
            numa: None,
        };
        match word {
            "NUMANode" => {
                // Beside what is near it (version 2), or around it (version 1).
                object.numa = numa(text);
                outer.numa = outer.numa.or(object.numa);
            }
            "HostBridge" | "PCIBridge" => {
                self.bridges += 1;
                object.bridge = Some(self.bridges);
            }
            "PCI" | "PCI-dev" => self.device(text),
            // Graphics of processors and cards of others have a `renderD`, too.
            "CoProc" | "GPU" => self.name(|it| {
                it.is_gpu |= ["cuda", "nvml"].iter().any(|it| text.contains(it));
            }),
            "OpenFabrics" => {
                let name = text.split('"').nth(1).filter(|it| is_device_name(it));
                self.name(|it| it.name = name.map(str::to_owned));
            }
            _ => {}
        }
        if self.open.len() < DEEPEST {
            self.open.push(object);
        }
        true
    }

    /// `PCI 1a:00.0 (3D)`, or `PCI L#0 (busid=0000:1a:00.0 …)`.
    fn device(&mut self, text: &str) {
        let mut words = text.split([' ', '(', ')', '=']);
        let id = words.find_map(|it| bus_id(it).or_else(|| bus_id(&format!("0:{it}"))));
        let Some(bus_id) = id.filter(|_| self.devices.len() < matrix::MOST) else {
            return;
        };
        self.devices.push(Nested {
            bus_id,
            bridges: self.open.iter().filter_map(|it| it.bridge).collect(),
            numa: self.open.iter().rev().find_map(|it| it.numa),
            class: text.rsplit_once('(').map_or("", |it| it.1).to_owned(),
            is_gpu: text.ends_with("(3D)"),
            name: None,
        });
    }

    fn name(&mut self, note: impl FnOnce(&mut Nested)) {
        if let Some(last) = self.devices.last_mut() {
            note(last);
        }
    }

    /// The matrix of its GPUs and RDMA adapters, and the GPUs' bus ids; `None` without GPUs.
    pub(crate) fn finish(self) -> Option<(Matrix, Vec<NamedGpu>)> {
        let is_display = |it: &Nested| it.class.starts_with("VGA") || it.class.starts_with("3D");
        let is_gpu = |it: &&Nested| it.is_gpu && is_display(it);
        let mut gpus: Vec<&Nested> = self.devices.iter().filter(is_gpu).collect();
        gpus.sort_by_key(|it| &it.bus_id);
        let named = (0..).zip(&gpus).map(|(index, it)| NamedGpu {
            index,
            name: String::new(),
            bus_id: Some(it.bus_id.clone()),
            link: SaidLink::default(),
        });
        let named: Vec<NamedGpu> = named.collect();
        let count = gpus.len();
        let adapters = self.devices.iter().filter(|it| it.name.is_some());
        let all: Vec<&Nested> = gpus.into_iter().chain(adapters).collect();
        let devices = (0..).zip(&all).map(|(at, it)| Device {
            name: it.name.clone().unwrap_or_else(|| format!("GPU{at}")),
            gpu: (at < count as u32).then_some(at),
            processors: None,
            numa: it.numa,
        });
        let row = |one: usize| {
            let near = |other: usize| match one == other {
                true => Nearness::Itself,
                false => nearness(all[one], all[other]),
            };
            (0..all.len()).map(near).collect()
        };
        let matrix = Matrix {
            devices: devices.collect(),
            nearness: (0..all.len()).map(row).collect(),
            has_gpu_nodes: false,
            has_no_nvlinks: true,
        };
        (count > 0).then_some((matrix, named))
    }
}

/// `Machine (252GB total)`, or `Machine L#0 (…)`.
fn is_machine(text: &str) -> bool {
    let size = text.strip_prefix("Machine (");
    let size = size.is_some_and(|it| it.starts_with(|it: char| it.is_ascii_digit() || it == 'P'));
    size || text.starts_with("Machine L#0")
}

/// Whether an object of hwloc is called so.
fn is_object(word: &str) -> bool {
    let is_cache = || {
        let mut letters = word.chars();
        letters.next() == Some('L') && letters.next().is_some_and(|it| it.is_ascii_digit())
    };
    is_one_of(word, OBJECTS) || is_cache()
}

/// How near two devices are in nvidia-smi's words.
fn nearness(one: &Nested, other: &Nested) -> Nearness {
    let pairs = one.bridges.iter().zip(&other.bridges);
    let shared = pairs.take_while(|it| it.0 == it.1).count();
    let below = one.bridges.len().max(other.bridges.len()) - shared;
    match shared {
        0 if one.numa == other.numa => Nearness::Node,
        0 => Nearness::Sys,
        1 => Nearness::Phb,
        _ if below <= 1 => Nearness::Pix,
        _ => Nearness::Pxb,
    }
}

/// The number of `NUMANode L#0 (P#1 252GB)`.
fn numa(text: &str) -> Option<i32> {
    let number = text.split_once("P#")?.1;
    let end = number
        .find(|it: char| !it.is_ascii_digit())
        .unwrap_or(number.len());
    number[..end]
        .parse()
        .ok()
        .filter(|it| (0..1024).contains(it))
}
