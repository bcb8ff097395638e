//! NCCL's variables. With any values, a job is planned or refused with a reason.

use planner::Settings;
use planner::settings::variables;
use topology::xml::Document;

use crate::input::{Depth, below, flag, join, split};
use crate::jobs;

thread_local! {
    static MACHINES: Vec<Document> = ["workstation-2gpu-nvlink", "workstation-2gpu", "gh200", "random-00181"]
        .map(jobs::document)
        .to_vec();
}

/// Every variable, alone and together.
pub fn seeds() -> Vec<Vec<u8>> {
    let line = |(name, _): (&str, _)| format!("{name}=1\n");
    let all: String = variables().map(line).collect();
    let alone = variables().enumerate().map(|(number, variable)| {
        let choices = [(number % 4) as u8, 1, 1];
        join(line(variable).as_bytes(), &choices)
    });
    alone.chain([all.into_bytes()]).collect()
}

/// Reads variables, one `NAME=VALUE` per line, and plans with them.
///
/// # Panics
/// The plan contradicts itself.
pub fn run(bytes: &[u8]) -> Depth {
    let (document, mut choices) = split(bytes);
    let text = String::from_utf8_lossy(document);
    let given = text.lines().filter_map(|line| line.split_once('='));
    let given = given.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let settings = Settings::from_variables(given);
    for note in &settings.notes {
        let _ = (&note.name, &note.message);
    }
    let deciding = settings.deciding().count();
    let _ = settings.allow_nvlink_domains();
    MACHINES.with(|machines| {
        let machine = &machines[below(&mut choices, machines.len())];
        let hosts = 1 + below(&mut choices, 3) as u32;
        let collnet = flag(&mut choices);
        let planned = match jobs::planned(machine, hosts, collnet, &settings) {
            Ok(planned) => planned,
            Err(error @ (planner::Error::Plan(_) | planner::Error::Contradiction { .. })) => {
                panic!("{error}")
            }
            Err(_) => return Depth::Inside,
        };
        for note in &planned.notes {
            let _ = note.to_string();
        }
        Depth::accepted_if(deciding > 0, Depth::Outside)
    })
}
