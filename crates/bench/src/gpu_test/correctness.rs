//! Collectives by every algorithm, type and operation, each element checked.

use anyhow::Result;

use crate::gpu_test::page::Page;
use crate::gpu_test::parts::Cases;
use answers::gpu_test::Part;

/// Longest time of one part, s.
const DEADLINE_S: u64 = 180;

/// The words of pages about cases.
const NOTE: &str = "Collectives by every algorithm, type and operation, drawn at random; each element was checked.";

/// Cases with a GPU for each rank, and those of NVLS.
pub(crate) fn several_gpus(page: &mut Page<'_>) -> Result<()> {
    page.section("Correctness on several GPUs", NOTE);
    let found = page.test.machine.gpus.len() as u32;
    let options = page.test.options;
    for gpus in options.ranks.iter().copied().filter(|gpus| *gpus > 1) {
        for (part, what) in [(Part::Each, ""), (Part::Nvls, ", NVLS")] {
            let name = format!("{gpus} GPUs{what}");
            let missing = match part {
                _ if gpus > found => Err(format!("this machine has {found} GPUs")),
                Part::Nvls => page.test.multicast(gpus),
                _ => Ok(()),
            };
            match missing {
                Err(why) => page.leave_out(&name, &why)?,
                Ok(()) => of_cases(page, &name, part, gpus)?,
            }
        }
    }
    Ok(())
}

/// Cases with all ranks on one GPU.
pub(crate) fn one_gpu(page: &mut Page<'_>) -> Result<()> {
    page.section("Correctness on one GPU", NOTE);
    for ranks in &page.test.options.ranks {
        of_cases(
            page,
            &format!("{ranks} ranks on GPU 0"),
            Part::Shared,
            *ranks,
        )?;
    }
    Ok(())
}

/// Runs a part that runs cases.
fn of_cases(page: &mut Page<'_>, name: &str, part: Part, ranks: u32) -> Result<()> {
    page.check(name, DEADLINE_S, |test, deadline, _| {
        let cases: Cases = crate::child_process::json(test.part(part, ranks), deadline)?;
        Ok(cases.outcome())
    })
}
