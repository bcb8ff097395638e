//! `nvidia-smi -q` and `nvidia-smi -q -x`: the condition of each GPU.

use crate::text::{MOST, has, trim_start};

/// How deep sections are followed.
const MOST_DEPTH: usize = 16;

/// The condition of a GPU.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Condition {
    /// Its bus id as NCCL writes it.
    pub bus_id: String,
    /// Its name.
    pub name: String,
    /// Lanes of its PCI link now.
    pub width: Option<u32>,
    /// Lanes that the GPU and its slot have.
    pub most_width: Option<u32>,
    /// Generation of PCI Express that the GPU and its slot have.
    pub most_generation: Option<u32>,
    /// Why its clocks are lowered now, other than idleness and limits that were set.
    pub slowed: Vec<&'static str>,
    /// Errors of its memory since the driver was loaded that could not be corrected.
    pub errors: u64,
    /// Rows or pages of its memory wait for a reset to be replaced.
    pub is_remap_pending: bool,
    /// Rows of its memory cannot be replaced any more.
    pub has_remap_failed: bool,
    /// The state and status of the NVLink fabric, where they are not those of one that works.
    pub fabric: Option<String>,
    /// The fabric reports lower bandwidth for this GPU.
    pub is_fabric_degraded: bool,
    /// The NVLink cluster and the clique in it.
    pub clique: Option<(String, String)>,
    /// It is partitioned.
    pub is_partitioned: bool,
    /// What the driver asks for, such as `Reset`.
    pub recovery: Option<String>,
}

/// The GPUs of a text, line by line.
#[derive(Debug, Default)]
pub(crate) struct ConditionReader {
    pub(crate) gpus: Vec<Condition>,
    /// The text of `nvidia-smi -q` began, so indented lines are its fields.
    is_text: bool,
    /// Open sections: how far they are indented, and their names.
    sections: Vec<(usize, String)>,
    /// An element was opened, and nothing closed since.
    is_opened: bool,
}

impl ConditionReader {
    pub(crate) fn line(&mut self, line: &str) {
        if trim_start(line).starts_with('<') {
            self.elements(line);
        } else if has(line, "=NVSMI LOG=") || line.starts_with("Attached GPUs ") {
            self.is_text = true;
        } else if self.is_text {
            self.field(line);
        }
    }

    /// The elements of a line of XML.
    fn elements(&mut self, line: &str) {
        let mut rest = line;
        while let Some((text, tag)) = rest.split_once('<') {
            let Some((tag, after)) = tag.split_once('>') else {
                return;
            };
            rest = after;
            let name = tag.split([' ', '/']).find(|it| !it.is_empty());
            let name = name.unwrap_or_default();
            if tag.starts_with('/') {
                let mut inner = None;
                if let Some(at) = self.sections.iter().rposition(|it| it.1 == name) {
                    self.sections.truncate(at + 1);
                    inner = self.sections.pop();
                }
                if inner.is_some() && self.is_opened {
                    self.set(name, text.trim());
                }
                self.is_opened = false;
            } else if !tag.starts_with(['?', '!']) && !tag.ends_with('/') {
                if name == "gpu" {
                    let id = tag.split('"').nth(1).unwrap_or_default();
                    self.begin(id);
                }
                self.open(0, name);
                self.is_opened = true;
            }
        }
    }

    /// A line of text: a GPU, a section or a field.
    fn field(&mut self, line: &str) {
        if let Some(id) = line.strip_prefix("GPU ") {
            self.sections.clear();
            self.begin(id.trim());
            return;
        }
        let depth = line.len() - line.trim_start().len();
        let (name, value) = match line.split_once(" : ") {
            Some((name, value)) => (name.trim(), Some(value.trim())),
            None => (line.trim(), None),
        };
        if name.is_empty() {
            return;
        }
        while self.sections.last().is_some_and(|it| it.0 >= depth) {
            self.sections.pop();
        }
        if let Some(value) = value {
            self.set(name, value);
        }
        self.open(depth, name);
    }

    fn open(&mut self, depth: usize, name: &str) {
        if self.sections.len() < MOST_DEPTH {
            self.sections.push((depth, name.chars().take(64).collect()));
        }
    }

    fn begin(&mut self, id: &str) {
        if let Some(bus_id) = bus_id(id).filter(|_| self.gpus.len() < MOST) {
            self.gpus.push(Condition {
                bus_id,
                ..Condition::default()
            });
        }
    }

    /// Notes a field of the last GPU.
    fn set(&mut self, name: &str, value: &str) {
        let section = self.sections.last().map_or("", |it| it.1.as_str());
        let Some(gpu) = self.gpus.last_mut() else {
            return;
        };
        let lanes = || {
            value
                .trim_end_matches('x')
                .parse()
                .ok()
                .filter(|it| (1..=64).contains(it))
        };
        let slowed = match name.strip_prefix("clocks_event_reason_") {
            Some(reason) => reason,
            None => name.strip_prefix("clocks_throttle_reason_").unwrap_or(name),
        };
        let slowed = match slowed {
            "hw_slowdown" | "HW Slowdown" => Some("hardware"),
            "hw_thermal_slowdown" | "HW Thermal Slowdown" => Some("heat, by the hardware"),
            "hw_power_brake_slowdown" | "HW Power Brake Slowdown" => Some("the power brake"),
            "sw_thermal_slowdown" | "SW Thermal Slowdown" => Some("heat, by the driver"),
            _ => None,
        };
        if let Some(why) = slowed {
            if value == "Active" && !gpu.slowed.contains(&why) {
                gpu.slowed.push(why);
            }
            return;
        }
        match (section, name) {
            (_, "product_name" | "Product Name") => {
                gpu.name = value.chars().take(80).collect();
            }
            (_, "current_link_width") | ("Link Width", "Current") => gpu.width = lanes(),
            (_, "max_link_width") | ("Link Width", "Max") => gpu.most_width = lanes(),
            (_, "max_link_gen") | ("PCIe Generation", "Max") => {
                gpu.most_generation = value.parse().ok().filter(|it| (1..=7).contains(it));
            }
            ("volatile" | "Volatile", _) if name.to_lowercase().contains("uncorrectable") => {
                gpu.errors = gpu.errors.saturating_add(value.parse().unwrap_or(0));
            }
            (_, "remapped_row_pending" | "pending_retirement" | "pending_blacklist")
            | ("Remapped Rows", "Pending")
            | ("Retired Pages", "Pending Page Blacklist") => gpu.is_remap_pending |= value == "Yes",
            (_, "remapped_row_failure") | ("Remapped Rows", "Remapping Failure Occurred") => {
                gpu.has_remap_failed |= value == "Yes";
            }
            ("fabric" | "Fabric", "state" | "State") => {
                let works = ["Completed", "N/A", "Not Supported"].contains(&value);
                gpu.fabric = (!works).then(|| value.chars().take(40).collect());
            }
            ("fabric" | "Fabric", "status" | "Status")
                if !["Success", "N/A", "Not Supported", ""].contains(&value) =>
            {
                gpu.fabric
                    .get_or_insert_with(|| value.chars().take(40).collect());
            }
            ("fabric" | "Fabric", "clusterUuid" | "ClusterUUID" | "Cluster UUID") => {
                gpu.clique.get_or_insert_default().0 = value.chars().take(40).collect();
            }
            ("fabric" | "Fabric", "cliqueId" | "CliqueId" | "Clique ID") => {
                gpu.clique.get_or_insert_default().1 = value.chars().take(40).collect();
            }
            ("health" | "Health", "bandwidth" | "Bandwidth") => {
                gpu.is_fabric_degraded = value == "Degraded";
            }
            (_, "current_mig") | ("MIG Mode", "Current") => gpu.is_partitioned = value == "Enabled",
            (_, "gpu_recovery_action" | "GPU Recovery Action") => {
                let asks = !["None", "N/A"].contains(&value);
                gpu.recovery = asks.then(|| value.chars().take(40).collect());
            }
            _ => {}
        }
    }
}

/// `00000000:1B:00.0` as NCCL writes it.
pub(crate) fn bus_id(text: &str) -> Option<String> {
    let (domain, rest) = text.split_once(':')?;
    let domain = u32::from_str_radix(domain, 16).ok()?;
    let like = |(own, known): (char, char)| match known {
        '0' => own.is_ascii_hexdigit(),
        _ => own == known,
    };
    let fits = rest.len() == "00:00.0".len() && rest.chars().zip("00:00.0".chars()).all(like);
    fits.then(|| format!("{domain:04x}:{}", rest.to_lowercase()))
}
