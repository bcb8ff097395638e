//! Collectives by every algorithm, type and operation, each element checked.

use crate::parts::Cases;
use crate::report::{Outcome, Section};
use crate::test::Test;
use crate::{Part, child};

/// Longest time of one part, s.
const DEADLINE_S: u64 = 180;

/// The words of pages about cases.
const NOTE: &str = "Collectives by every algorithm, type and operation, drawn at random; each element was checked.";

/// Cases with a GPU for each rank, and those of NVLS.
pub fn several_gpus(test: &Test<'_>) -> Section {
    let found = test.machine.gpus.len() as u32;
    let several = test.options.ranks.iter().copied().filter(|gpus| *gpus > 1);
    let checks = several.flat_map(|gpus| {
        [(Part::Each, ""), (Part::Nvls, ", NVLS")].map(|(part, what)| {
            let name = format!("{gpus} GPUs{what}");
            let missing = match part {
                _ if gpus > found => Err(format!("this machine has {found} GPUs")),
                Part::Nvls => test.multicast(gpus),
                _ => Ok(()),
            };
            if let Err(why) = missing {
                return test.left_out(&name, &why);
            }
            test.check(&name, DEADLINE_S, |deadline| {
                let command = test.part(part, gpus);
                Ok(of_cases(child::json(command, deadline)?))
            })
        })
    });
    Section {
        title: "Correctness on several GPUs".to_owned(),
        note: NOTE.to_owned(),
        checks: checks.collect(),
        figures: Vec::new(),
    }
}

/// The outcome of cases.
fn of_cases(cases: Cases) -> Outcome {
    match cases.problem {
        Some(problem) => Outcome::Failed(problem),
        None => Outcome::Right(format!("{} cases", cases.cases)),
    }
}

/// Cases with all ranks on one GPU.
pub fn one_gpu(test: &Test<'_>) -> Section {
    let checks = test.options.ranks.iter().map(|ranks| {
        test.check(&format!("{ranks} ranks on GPU 0"), DEADLINE_S, |deadline| {
            let part = test.part(Part::Shared, *ranks);
            Ok(of_cases(child::json(part, deadline)?))
        })
    });
    Section {
        title: "Correctness on one GPU".to_owned(),
        note: NOTE.to_owned(),
        checks: checks.collect(),
        figures: Vec::new(),
    }
}
