//! Names of jobs and collectives, and lists of names.

use plan::Plan;
use planner::explain::ranges;
use program::Collective;

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
}
