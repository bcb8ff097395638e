//! `nvidia-smi topo -m`: how near devices are to each other.

use topology::Error;

use crate::error;
use crate::text::{has, is_device_name};

/// Most devices of a matrix.
pub(crate) const MOST: usize = 512;

/// GPUs of more than a desktop.
const MANY_GPUS: usize = 5;

/// Most NVLinks between two GPUs that are believed.
const MOST_LINKS: u32 = 64;

/// The nearness of two devices, from the nearest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Nearness {
    /// The device itself.
    Itself,
    /// This many NVLinks. How PCI joins them is not said.
    Nvlinks(u32),
    /// At most one PCI bridge.
    Pix,
    /// Several PCI bridges, no host bridge.
    Pxb,
    /// A host bridge.
    Phb,
    /// Host bridges of one NUMA node.
    Node,
    /// Two NUMA nodes.
    Sys,
    /// Nobody says: between two NICs without rows.
    Unknown,
}

impl Nearness {
    fn read(text: &str) -> Option<Self> {
        Some(match text {
            "X" => Self::Itself,
            "PIX" => Self::Pix,
            "PXB" => Self::Pxb,
            "PHB" => Self::Phb,
            "NODE" => Self::Node,
            "SYS" | "SOC" => Self::Sys,
            _ => {
                let count = text.strip_prefix("NV")?.parse().ok()?;
                (1..=MOST_LINKS).contains(&count).then_some(())?;
                Self::Nvlinks(count)
            }
        })
    }
}

/// A device of a matrix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// `GPU0`, or a NIC's name: that of the legend (`mlx5_0`), or else `NIC0`.
    pub name: String,
    /// The number of a GPU, as nvidia-smi counts.
    pub gpu: Option<u32>,
    /// Processors near it, such as `0-15,64-79`.
    pub processors: Option<String>,
    /// Its NUMA node.
    pub numa: Option<i32>,
}

/// A matrix of devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matrix {
    /// GPUs and NICs, in the order of columns.
    pub devices: Vec<Device>,
    /// Devices × devices.
    pub nearness: Vec<Vec<Nearness>>,
    /// GPUs have NUMA nodes of their own, as those of Grace have.
    pub has_gpu_nodes: bool,
    /// It was made of a listing that lists no NVLinks.
    pub has_no_nvlinks: bool,
}

impl Matrix {
    /// Whether it can show that a guest has no switches: many GPUs, and devices that meet at one
    /// host bridge. A server's cards without switches have host bridges of their own, a desktop has
    /// few.
    pub fn shows_guest(&self) -> bool {
        let gpus = self.devices.iter().filter(|it| it.gpu.is_some()).count();
        let has = |wanted: Nearness| self.nearness.iter().flatten().any(|it| *it == wanted);
        !self.has_no_nvlinks && gpus >= MANY_GPUS && has(Nearness::Phb) && !has(Nearness::Node)
    }

    /// Whether NVLinks join any two devices.
    pub fn has_nvlinks(&self) -> bool {
        self.most_nvlinks() > 0
    }

    /// Most NVLinks between two devices.
    pub fn most_nvlinks(&self) -> u32 {
        let count = |near: &Nearness| match near {
            Nearness::Nvlinks(count) => *count,
            _ => 0,
        };
        let all = self.nearness.iter().flatten();
        all.map(count).max().unwrap_or(0)
    }
}

/// The matrix of a text, line by line.
#[derive(Debug)]
pub(crate) struct MatrixReader<'f> {
    pub(crate) file: &'f str,
    names: Vec<String>,
    /// The line of the header.
    at: u32,
    rows: Vec<Row>,
    /// Names of the legend, such as `NIC0` and `mlx5_0`.
    legend: Vec<(String, String)>,
    seen_legend: bool,
    has_gpu_nodes: bool,
    /// The first device of a header below the matrix.
    other: Option<String>,
    /// Further matrices below this one.
    pub(crate) others: u32,
}

#[derive(Debug)]
struct Row {
    line: u32,
    nearness: Vec<Nearness>,
    processors: Option<String>,
    numa: Option<i32>,
}

impl<'f> MatrixReader<'f> {
    pub(crate) const fn new(file: &'f str) -> Self {
        Self {
            file,
            names: Vec::new(),
            at: 0,
            rows: Vec::new(),
            legend: Vec::new(),
            seen_legend: false,
            has_gpu_nodes: false,
            other: None,
            others: 0,
        }
    }

    /// Whether a line belongs to the matrix.
    pub(crate) fn line(&mut self, number: u32, line: &str) -> Result<bool, Error> {
        if self.names.is_empty() {
            self.names = header(line);
            self.at = number;
            return Ok(!self.names.is_empty());
        }
        if self.rows.len() < self.names.len() {
            return self.row(number, line);
        }
        self.count_others(line);
        self.seen_legend |= line.trim() == "NIC Legend:";
        let entry = line.trim().split_once(": ").filter(|_| self.seen_legend);
        if let Some((short, name)) = entry.filter(|(short, name)| {
            self.names.iter().any(|it| it == short) && is_device_name(name.trim())
        }) {
            self.legend.push((short.to_owned(), name.trim().to_owned()));
            return Ok(true);
        }
        Ok(false)
    }

    /// Counts further matrices: headers with a row below.
    fn count_others(&mut self, line: &str) {
        let mut cells = line.split_whitespace();
        let begins = cells
            .next()
            .is_some_and(|it| Some(it) == self.other.as_deref());
        if begins && cells.next().and_then(Nearness::read) == Some(Nearness::Itself) {
            self.others += 1;
            self.other = None;
        } else if let Some(first) = header(line).first() {
            self.other = Some(first.clone());
        }
    }

    /// Forgets a header: the rows below it are those of another matrix.
    pub(crate) fn forget_header(&mut self) {
        if self.rows.is_empty() {
            self.names.clear();
        }
    }

    fn row(&mut self, number: u32, line: &str) -> Result<bool, Error> {
        let mut cells = line.split_whitespace();
        let Some(label) = cells.next() else {
            return Ok(false);
        };
        let wanted = &self.names[self.rows.len()];
        if label != wanted {
            if self.rows.is_empty() {
                // Otherwise a text that only begins like a matrix.
                let is_wrapped = line.split_whitespace().all(|it| COLUMNS.contains(&it));
                if !is_wrapped {
                    self.names.clear();
                }
                return Ok(false);
            }
            return Err(error(
                self.file,
                number,
                "the matrix lacks a row",
                format!("a row of {label}"),
                format!("the row of {wanted}, in the order of columns"),
            ));
        }
        let mut nearness = Vec::with_capacity(self.names.len());
        for name in &self.names {
            let cell = cells.next().unwrap_or("nothing");
            nearness.push(Nearness::read(cell).ok_or_else(|| {
                error(
                    self.file,
                    number,
                    "a cell of the matrix cannot be read",
                    format!("{cell} in the row of {label}, column of {name}"),
                    "X, NV and a number of links, PIX, PXB, PHB, NODE or SYS",
                )
            })?);
        }
        let processors = cells
            .next()
            .filter(|it| it.starts_with(|c: char| c.is_ascii_digit()));
        let numa = cells
            .next()
            .and_then(|it| it.split(['-', ',']).next()?.parse().ok());
        self.has_gpu_nodes |=
            numa.is_some() && cells.next().is_some_and(|it| it.parse::<u32>().is_ok());
        self.rows.push(Row {
            line: number,
            nearness,
            processors: processors.map(str::to_owned),
            numa: numa.filter(|it: &i32| (0..1024).contains(it)),
        });
        Ok(true)
    }

    pub(crate) fn finish(mut self) -> Result<Option<Matrix>, Error> {
        if self.rows.is_empty() {
            return Ok(None);
        }
        self.add_nic_rows();
        if let Some(missing) = self.names.get(self.rows.len()) {
            return Err(error(
                self.file,
                self.at,
                "the matrix ends early",
                format!("{} of {} rows", self.rows.len(), self.names.len()),
                format!("the row of {missing} and all after it"),
            ));
        }
        self.check()?;
        let name = |name: &String| {
            let known = self.legend.iter().find(|(short, _)| short == name);
            known.map_or_else(|| name.clone(), |(_, name)| name.clone())
        };
        let devices = self
            .names
            .iter()
            .zip(&self.rows)
            .map(|(short, row)| Device {
                name: name(short),
                gpu: gpu_number(short),
                processors: row.processors.clone(),
                numa: row.numa,
            });
        Ok(Some(Matrix {
            devices: devices.collect(),
            nearness: self.rows.iter().map(|row| row.nearness.clone()).collect(),
            has_gpu_nodes: self.has_gpu_nodes,
            has_no_nvlinks: false,
        }))
    }

    /// Rows of NICs, which people leave out, from those of the GPUs.
    fn add_nic_rows(&mut self) {
        let gpus = self.rows.len();
        if self.names[gpus..]
            .iter()
            .any(|name| gpu_number(name).is_some())
        {
            return;
        }
        for own in gpus..self.names.len() {
            let to = |other: usize| match self.rows.get(other) {
                _ if own == other => Nearness::Itself,
                Some(row) if other < gpus => row.nearness[own],
                _ => Nearness::Unknown,
            };
            let row = Row {
                line: self.at,
                nearness: (0..self.names.len()).map(to).collect(),
                processors: None,
                numa: None,
            };
            self.rows.push(row);
        }
    }

    /// Devices are as near to each other from both sides, and a device is itself alone.
    fn check(&self) -> Result<(), Error> {
        for (one, row) in self.rows.iter().enumerate() {
            for (other, near) in row.nearness.iter().enumerate() {
                let back = self.rows[other].nearness[one];
                if *near != back || (one == other) != (*near == Nearness::Itself) {
                    let (one, other) = (&self.names[one], &self.names[other]);
                    return Err(error(
                        self.file,
                        row.line,
                        "the matrix contradicts itself",
                        format!("{near:?} from {one} to {other}, and {back:?} back"),
                        "the same in both rows, and X where a device meets itself",
                    ));
                }
            }
        }
        Ok(())
    }
}

/// The words of the columns behind devices, which a narrow window may wrap.
const COLUMNS: [&str; 5] = ["CPU", "Affinity", "NUMA", "GPU", "ID"];

/// The devices that a header names; empty if the line is none.
pub(crate) fn header(line: &str) -> Vec<String> {
    if !has(line, "GPU") {
        return Vec::new();
    }
    // People join it with the command.
    let line = line.rsplit_once("topo -m").map_or(line, |(_, rest)| rest);
    // The name of the last device may have no space before the next column.
    let devices = line.split("CPU Affinity").next().unwrap_or(line);
    let cells = devices.split_whitespace().take_while(|it| *it != "CPU");
    let names: Vec<String> = cells.map(str::to_owned).collect();
    let gpus = names
        .iter()
        .take_while(|name| gpu_number(name).is_some())
        .count();
    let distinct = |name: &String| names.iter().filter(|it| *it == name).count() == 1;
    let devices = names[gpus..].iter().all(|name| is_device_name(name));
    let fits = gpus > 0 && names.len() <= MOST && devices && names.iter().all(distinct);
    if fits { names } else { Vec::new() }
}

fn gpu_number(name: &str) -> Option<u32> {
    name.strip_prefix("GPU")?.parse().ok()
}
