//! RDMA devices: InfiniBand, RoCE and others.

use crate::JsonSchema;
use serde::Serialize;

use super::bus_id::is_bus_id;
use crate::sysfs::Sysfs;

/// The folder of RDMA devices.
const CLASS: &str = "sys/class/infiniband";

/// An RDMA device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Adapter {
    /// Its name.
    pub name: String,
    /// The PCI function behind it.
    pub bus_id: Option<String>,
    /// The board's guid, as the number that NCCL writes; `None` if it is no number.
    pub guid: Option<u64>,
    /// Its ports, by number.
    pub ports: Vec<RdmaPort>,
}

/// A port of an RDMA device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RdmaPort {
    /// Its number, from 1.
    pub number: i32,
    /// State, such as `4: ACTIVE`.
    pub state: String,
    /// State of the cable, such as `5: LinkUp`.
    pub cable: String,
    /// Link layer: `InfiniBand`, `Ethernet` or `Unspecified`.
    pub layer: String,
    /// Rate, Mb/s.
    pub rate: Option<i32>,
}

impl RdmaPort {
    /// Whether it carries data.
    pub fn is_active(&self) -> bool {
        self.state.contains("ACTIVE") && !self.state.contains("DEFER")
    }

    /// Whether NCCL's own transport supports its link layer.
    pub fn is_verbs(&self) -> bool {
        matches!(self.layer.as_str(), "InfiniBand" | "Ethernet")
    }
}

/// Reads all devices in the natural order of their names, the order of their creation.
pub fn read(sysfs: &Sysfs) -> Vec<Adapter> {
    let mut names = sysfs.names(CLASS);
    names.sort_by_cached_key(|name| natural(name));
    names.into_iter().map(|name| adapter(sysfs, name)).collect()
}

fn adapter(sysfs: &Sysfs, name: String) -> Adapter {
    let folder = format!("{CLASS}/{name}");
    // …/0000:19:00.0/infiniband/mlx5_0
    let target = sysfs.link(&folder);
    let function = target.as_deref().and_then(|path| path.rsplit('/').nth(2));
    // In some trees the class has folders instead of links; the device is inside.
    let inside = || {
        let device = sysfs.link(&format!("{folder}/device"))?;
        device.rsplit('/').next().map(str::to_owned)
    };
    let bus_id = function.map(str::to_owned).or_else(inside);
    let folder = target.unwrap_or(folder);
    let guid = sysfs.text(&format!("{folder}/sys_image_guid"));
    let mut ports: Vec<RdmaPort> = sysfs
        .names(&format!("{folder}/ports"))
        .iter()
        .filter(|number| sysfs.exists(&format!("{folder}/ports/{number}")))
        .filter_map(|number| Some(port(sysfs, &folder, number.parse().ok()?)))
        .collect();
    ports.sort_by_key(|port| port.number);
    Adapter {
        bus_id: bus_id.filter(|name| is_bus_id(name)),
        guid: guid.and_then(|text| nccl_guid(&text)),
        name,
        ports,
    }
}

fn port(sysfs: &Sysfs, folder: &str, number: i32) -> RdmaPort {
    let text = |name: &str| {
        sysfs
            .text(&format!("{folder}/ports/{number}/{name}"))
            .unwrap_or_default()
    };
    RdmaPort {
        number,
        state: text("state"),
        cable: text("phys_state"),
        layer: text("link_layer"),
        rate: rate(&text("rate")),
    }
}

/// Converts `200 Gb/sec (4X HDR)` to Mb/s.
fn rate(text: &str) -> Option<i32> {
    let (number, unit) = text.split_once(' ')?;
    let gigabits: f64 = number.parse().ok()?;
    let known = unit.starts_with("Gb/sec") && gigabits > 0.0 && gigabits < 1e6;
    known.then_some((gigabits * 1000.0).round() as i32)
}

/// NCCL prints the guid's bytes in the processor's order, so the first byte is the lowest.
fn nccl_guid(text: &str) -> Option<u64> {
    let digits: String = text.chars().filter(|c| *c != ':').collect();
    u64::from_str_radix(&digits, 16).ok().map(u64::swap_bytes)
}

/// Sort key that puts `mlx5_2` before `mlx5_10`.
pub fn natural(name: &str) -> Vec<(u64, String)> {
    let mut parts = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let word = rest
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(rest.len());
        let (text, tail) = rest.split_at(word);
        let digits = tail
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(tail.len());
        let (number, tail) = tail.split_at(digits);
        parts.push((0, text.to_owned()));
        parts.push((number.parse().unwrap_or(u64::MAX), String::new()));
        rest = tail;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates() {
        for (text, mbps) in [
            ("400 Gb/sec (4X NDR)", Some(400_000)),
            ("56 Gb/sec (4X FDR)", Some(56_000)),
            ("2.5 Gb/sec (1X SDR)", Some(2_500)),
            ("", None),
            ("lots", None),
            ("-1 Gb/sec", None),
            ("nan Gb/sec", None),
        ] {
            assert_eq!(rate(text), mbps, "{text}");
        }
    }

    #[test]
    fn guids_as_nccl_writes_them() {
        assert_eq!(
            nccl_guid("e8eb:d303:0055:ad78"),
            Some(0x78ad_5500_03d3_ebe8)
        );
        assert_eq!(nccl_guid("garbage"), None);
    }

    #[test]
    fn names_in_natural_order() {
        let mut names = ["mlx5_10", "mlx5_2", "mlx5_bond_0", "mlx4_0", "mlx5_0"];
        names.sort_by_cached_key(|name| natural(name));
        assert_eq!(
            names,
            ["mlx4_0", "mlx5_0", "mlx5_2", "mlx5_10", "mlx5_bond_0"]
        );
    }
}
