//! Names of a machine's GPUs and NICs, with their host where the machine has several.

pub use crate::head::{hosts_in_words, machines};
pub use crate::names::{gpu_name, net_name};
use crate::names::{host_of_gpu, number_of_gpu};
use plan::PlannedMachine;

use super::{Look, group, ranges, wrap};

/// `GPU0,2-7`, in an NVLink domain `host0/GPU0 host1/GPU0`.
pub fn gpu_names(machine: &PlannedMachine, gpus: &[u32]) -> String {
    if machine.hosts == 1 {
        let devs: Vec<i32> = gpus.iter().map(|gpu| gpu_number(machine, *gpu)).collect();
        return format!("GPU{}", ranges(&devs, ","));
    }
    let names: Vec<String> = gpus.iter().map(|gpu| gpu_name(machine, *gpu)).collect();
    names.join(" ")
}

/// A GPU in a list: its device number, or in an NVLink domain its rank in the machine.
pub fn gpu_number(machine: &PlannedMachine, gpu: u32) -> i32 {
    match machine.gpus.get(gpu as usize) {
        Some(found) if machine.hosts == 1 => found.dev,
        _ => gpu as i32,
    }
}

/// GPUs in order: `0 7 6 5`, and with hosts `host0-17: 0 1 2 3` if each of them has these GPUs in
/// this order.
pub fn order(machine: &PlannedMachine, gpus: &[i32]) -> String {
    let numbers = |gpus: &[i32]| -> String {
        let each: Vec<String> = gpus
            .iter()
            .map(|gpu| number_of_gpu(machine, *gpu as u32))
            .collect();
        each.join(" ")
    };
    if machine.hosts == 1 {
        return numbers(gpus);
    }
    let host = |gpu: &i32| host_of_gpu(machine, *gpu as u32);
    let visits = gpus.chunk_by(|one, next| host(one) == host(next));
    let visits: Vec<(u32, String)> = visits.map(|it| (host(&it[0]), numbers(it))).collect();
    equal_hosts(&visits).join("; ")
}

/// The pages of hosts in order with their numbers, equal ones once.
pub fn each_host(pages: impl Iterator<Item = (String, i32)>, look: Look) -> String {
    let groups = group(pages);
    let alone = groups.len() == 1;
    let parts = groups.into_iter().map(|(page, hosts): (String, Vec<i32>)| {
        let title = match (alone, &hosts[..]) {
            (_, [host]) => format!("inside host {host}"),
            (true, _) => format!("inside each of the {} hosts", hosts.len()),
            (false, _) => format!("inside each of hosts {}", ranges(&hosts, ",")),
        };
        format!("  {}\n{page}", look.faint(&title))
    });
    parts.collect::<Vec<_>>().join("\n")
}

/// The best connection of each GPU to GPUs of other hosts: cells with host and number of the GPU,
/// host by host.
pub fn between_hosts(
    cells: impl IntoIterator<Item = (String, (u32, String))>,
    look: Look,
) -> String {
    let groups = group(cells);
    if let [(cell, _)] = &groups[..] {
        let cell = look.nearness(cell);
        return format!("  between any two GPUs of different hosts  {cell}\n");
    }
    let mut text = String::from("  between GPUs of different hosts, the best of each GPU\n");
    for (cell, gpus) in groups {
        let visits = gpus.chunk_by(|one, next| one.0 == next.0).map(|gpus| {
            let numbers: Vec<&str> = gpus.iter().map(|(_, number)| number.as_str()).collect();
            (gpus[0].0, numbers.join(" "))
        });
        let gpus = equal_hosts(&visits.collect::<Vec<_>>()).join("; ");
        // The cell is colored, so its own length would mislead the wrapping.
        let blank = " ".repeat(cell.chars().count() + 6);
        let line = wrap(&gpus, &blank, &blank, look.width);
        text.push_str(&line.replacen(&blank, &format!("    {}  ", look.nearness(&cell)), 1));
    }
    text
}

/// Equal texts of hosts in a row: `host0-17: …`, or `host17-0: …` for a row backwards.
pub fn equal_hosts(visits: &[(u32, String)]) -> Vec<String> {
    let mut runs: Vec<(u32, u32, &str)> = Vec::new();
    for (host, text) in visits {
        match runs.last_mut() {
            Some((first, last, known))
                if *known == text
                    && last.abs_diff(*host) == 1
                    && (first == last || (*first < *last) == (*last < *host)) =>
            {
                *last = *host;
            }
            _ => runs.push((*host, *host, text)),
        }
    }
    let name = |(first, last, text): &(u32, u32, &str)| match first == last {
        true => format!("host{first}: {text}"),
        false => format!("host{first}-{last}: {text}"),
    };
    runs.iter().map(name).collect()
}
