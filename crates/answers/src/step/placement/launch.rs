//! A placement as files of launchers.

use std::fmt::Write as _;

use super::Placement;

/// A file of a launcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchFile {
    /// Its name.
    pub name: &'static str,
    /// Its text.
    pub text: String,
}

/// Numbers of the GPUs in rank order. Those of a host begin behind the largest device number of the
/// host before.
pub(super) fn gpus(slots: &[u32], devices: &[i32]) -> Vec<u32> {
    let span = devices.last().map_or(1, |last| last.unsigned_abs() + 1);
    let numbers = slots.iter().map(|slot| {
        let (host, device) = place(*slot, devices);
        host * span + device.unsigned_abs()
    });
    numbers.collect()
}

/// The host of a slot, and the device number.
fn place(slot: u32, devices: &[i32]) -> (u32, i32) {
    let each = devices.len().max(1) as u32;
    let inside = devices.get((slot % each) as usize);
    (slot / each, inside.copied().unwrap_or(0))
}

impl Placement {
    /// Device numbers of each host in the order of its ranks.
    fn devices_by_host(&self) -> Vec<Vec<i32>> {
        let each = self.devices.len().max(1);
        let mut found = vec![Vec::new(); self.slots.len() / each];
        for slot in &self.slots {
            let (host, device) = place(*slot, &self.devices);
            if let Some(its) = found.get_mut(host as usize) {
                its.push(device);
            }
        }
        found
    }

    /// Device numbers in the order of a host's ranks, if they are those of all hosts.
    pub fn devices_of_all(&self) -> Option<Vec<i32>> {
        let mut hosts = self.devices_by_host().into_iter();
        let first = hosts.next()?;
        hosts.all(|it| it == first).then_some(first)
    }

    /// The files of launchers; `host` names hosts by number.
    pub fn files(&self, host: impl Fn(u32) -> String) -> Vec<LaunchFile> {
        let mut order = String::new();
        let numbers: Vec<String> = self.gpus.iter().map(u32::to_string).collect();
        let _ = writeln!(order, "{}", numbers.join(","));
        let (mut hosts, mut ranks) = (String::new(), String::new());
        let mut local = vec![0u32; self.slots.len() / self.devices.len().max(1)];
        for (rank, slot) in self.slots.iter().enumerate() {
            let (number, _) = place(*slot, &self.devices);
            let name = host(number);
            let _ = writeln!(hosts, "{name}");
            if let Some(local) = local.get_mut(number as usize) {
                let _ = writeln!(ranks, "rank {rank}={name} slot={local}");
                *local += 1;
            }
        }
        let by_host = self.devices_by_host();
        let list = |devices: &[i32]| {
            let numbers: Vec<String> = devices.iter().map(i32::to_string).collect();
            numbers.join(",")
        };
        let mut gpus = String::new();
        for (number, devices) in by_host.iter().enumerate() {
            let _ = writeln!(gpus, "{} {}", host(number as u32), list(devices));
        }
        let file = |name, text| LaunchFile { name, text };
        let mut files = vec![
            file("rank-order.txt", order),
            file("hosts.txt", hosts),
            file("rankfile", ranks),
            file("gpus.txt", gpus),
        ];
        if let Some(nodes) = self.nodes() {
            let mut text = String::new();
            for number in nodes {
                let _ = writeln!(text, "{}", host(number));
            }
            files.push(file("nodes.txt", text));
        }
        files
    }

    /// Hosts in the order of their ranks, if the ranks of each follow each other.
    fn nodes(&self) -> Option<Vec<u32>> {
        let nodes = self.slots.chunks(self.devices.len().max(1)).map(|slots| {
            let first = place(*slots.first()?, &self.devices).0;
            let is_one = slots.iter().all(|it| place(*it, &self.devices).0 == first);
            is_one.then_some(first)
        });
        nodes.collect()
    }
}
