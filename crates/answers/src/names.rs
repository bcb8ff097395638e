//! Names of jobs and collectives, and lists of names.

use plan::ranges;
use plan::{Plan, PlannedMachine};
use program::{Collective, Schedule, Transfer};

use crate::suggest;

/// Names beside the first of a list that is not cut.
const MORE: usize = 2;

/// Different names, or the first and how many more if there are many.
pub fn few<'a>(names: impl Iterator<Item = &'a str>, separator: &str) -> String {
    let mut different: Vec<&str> = Vec::new();
    for name in names {
        if !different.contains(&name) {
            different.push(name);
        }
    }
    match &different[..] {
        [first, rest @ ..] if rest.len() > MORE => format!("{first} and {} more", rest.len()),
        _ => different.join(separator),
    }
}

/// The machines of a job: `node1+node5`.
pub fn job(plan: &Plan) -> String {
    few(plan.machines.iter().map(|it| it.name.as_str()), "+")
}

/// Reads `all-reduce` or `AllReduce`.
///
/// # Errors
/// There is no such collective.
pub fn collective(text: &str) -> Result<Collective, String> {
    let plain = text.replace(['-', '_'], "");
    plain.parse().map_err(|_| {
        let names = Collective::ALL.map(Collective::command_name);
        let near = suggest::nearest(text, names.into_iter(), 1);
        format!(
            "`{text}` is not a collective{}; expected one of {}",
            suggest::question(&near).trim_end_matches('?'),
            names.join(", ")
        )
    })
}

/// Names that differ in one number only are one: `GPU0-7:NVSwitch`.
pub fn shorten(names: &[&str]) -> Vec<String> {
    let mut left: Vec<&str> = names.to_vec();
    let mut short = Vec::new();
    while let Some(&first) = left.first() {
        let mut best: Option<(&str, &str, Vec<i32>)> = None;
        for (front, back) in numbers(first) {
            let alike: Vec<i32> = left
                .iter()
                .filter_map(|name| between(name, front, back))
                .collect();
            if best
                .as_ref()
                .is_none_or(|(_, _, most)| alike.len() > most.len())
            {
                best = Some((front, back, alike));
            }
        }
        match best {
            Some((front, back, alike)) if alike.len() > 1 => {
                left.retain(|name| between(name, front, back).is_none());
                short.push(format!("{front}{}{back}", ranges(&alike, ",")));
            }
            _ => {
                left.remove(0);
                short.push(first.to_owned());
            }
        }
    }
    short
}

/// The text before and after each decimal number of a name. Bus ids have none.
fn numbers(name: &str) -> Vec<(&str, &str)> {
    if name.split('/').any(topology::BusId::is_well_formed) {
        return Vec::new();
    }
    let is_digit = |at: usize| name.as_bytes().get(at).is_some_and(u8::is_ascii_digit);
    let starts = (0..name.len()).filter(|at| is_digit(*at) && (*at == 0 || !is_digit(at - 1)));
    starts
        .map(|start| {
            let end = (start..name.len())
                .find(|at| !is_digit(*at))
                .unwrap_or(name.len());
            (&name[..start], &name[end..])
        })
        .collect()
}

/// The number between two texts, if that is all there is and is written as numbers are.
fn between(name: &str, front: &str, back: &str) -> Option<i32> {
    let digits = name.strip_prefix(front)?.strip_suffix(back)?;
    let number: i32 = digits.parse().ok()?;
    (number.to_string() == digits).then_some(number)
}

/// The algorithms of a collective, the most common first.
pub fn algorithms(collective: Collective) -> impl Iterator<Item = Schedule> {
    Schedule::ALL.into_iter().filter(move |schedule| {
        let serves = |transfer| schedule.serves(collective, transfer);
        Transfer::ALL.into_iter().any(serves)
    })
}

/// `GPU3`, or with its host where there are several.
pub fn gpu_name(machine: &PlannedMachine, gpu: u32) -> String {
    with_host(
        machine,
        host_of_gpu(machine, gpu),
        &format!("GPU{}", number_of_gpu(machine, gpu)),
    )
}

/// `NIC3`, or with its host where there are several.
pub fn net_name(machine: &PlannedMachine, net: i64) -> String {
    match machine.nics.iter().find(|nic| nic.id == net) {
        Some(nic) => with_host(machine, nic.host, &format!("NIC{}", nic.dev)),
        None => format!("net {net:#x}"),
    }
}

/// The host of a GPU within its machine.
pub fn host_of_gpu(machine: &PlannedMachine, gpu: u32) -> u32 {
    machine.gpus.get(gpu as usize).map_or(0, |gpu| gpu.host)
}

fn with_host(machine: &PlannedMachine, host: u32, name: &str) -> String {
    match machine.hosts {
        1 => name.to_owned(),
        _ => format!("host{host}/{name}"),
    }
}

/// The device number; the parts of a GPU that several ranks share are numbered: `3.0`, `3.1`.
pub fn number_of_gpu(machine: &PlannedMachine, gpu: u32) -> String {
    let Some(own) = machine.gpus.get(gpu as usize) else {
        return format!("?{gpu}");
    };
    let shared = machine.gpus.iter();
    let shared: Vec<u32> = shared
        .filter(|it| (it.host, it.dev) == (own.host, own.dev))
        .map(|it| it.rank)
        .collect();
    match shared.iter().position(|rank| *rank == own.rank) {
        Some(part) if shared.len() > 1 => format!("{}.{part}", own.dev),
        _ => own.dev.to_string(),
    }
}

/// The processors of an affinity mask (groups of hexadecimal words) as nvidia-smi lists them:
/// `0-63,128-191`.
pub fn processors(mask: &str) -> Option<String> {
    // The kernel writes leading zeros of a word only sometimes.
    let words = mask.split(',').map(|word| format!("{:0>8}", word.trim()));
    let digits = words.collect::<String>();
    let digits = digits.chars().rev().map(|digit| digit.to_digit(16));
    let digits: Vec<u32> = digits.collect::<Option<_>>()?;
    let set = |processor: &usize| digits[*processor / 4] >> (processor % 4) & 1 == 1;
    let processors: Vec<usize> = (0..digits.len() * 4).filter(set).collect();
    let runs = processors.chunk_by(|one, next| one + 1 == *next);
    let text = |run: &[usize]| match run {
        [first, .., last] => format!("{first}-{last}"),
        _ => run[0].to_string(),
    };
    (!processors.is_empty()).then(|| runs.map(text).collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_differ_in_a_number_are_one() {
        for (names, short) in [
            (&["GPU0", "GPU1", "GPU2", "GPU5"][..], "GPU0-2,5"),
            (&["mlx5_0", "mlx5_1", "mlx5_10"], "mlx5_0,1,10"),
            (
                &["GPU0:NVSwitch", "GPU1:NVSwitch", "GPU2:NVSwitch"],
                "GPU0-2:NVSwitch",
            ),
            (
                &["GPU0:GPU1", "GPU0:GPU3", "GPU2:GPU3"],
                "GPU0:GPU1,3 | GPU2:GPU3",
            ),
            (
                &["0000:15:01.0", "0000:25:01.0"],
                "0000:15:01.0 | 0000:25:01.0",
            ),
            (&["NVSwitch"], "NVSwitch"),
            (&["mlx5_00", "mlx5_1"], "mlx5_00 | mlx5_1"),
        ] {
            assert_eq!(shorten(names).join(" | "), short);
        }
    }

    #[test]
    fn masks_become_lists() {
        for (mask, list) in [
            ("0000ffff", Some("0-15")),
            ("ffff0000", Some("16-31")),
            ("ff,00000001", Some("0,32-39")),
            ("00000000,00000000", None),
            ("", None),
            ("nonsense", None),
        ] {
            assert_eq!(processors(mask).as_deref(), list, "{mask}");
        }
    }
}
