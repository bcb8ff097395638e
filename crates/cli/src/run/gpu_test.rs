//! `topo gpu-test`: every check that needs GPUs, on one page.

use std::cell::RefCell;
use std::time::Duration;

use answers::report;
use anyhow::Result;
use bench::gpu_test::{Part, Subject, TestOptions, TestOutput, parts};

use crate::arguments::compare::TextOrJson;
use crate::arguments::run::{GpuTestArguments, GpuTestPart, GpuTestSection};
use crate::environment::Environment;
use crate::exit;
use crate::output::Output;
use crate::progress::Progress;
use crate::run::driver;

/// Runs the test, or one part of it.
///
/// # Errors
/// There is no GPU, or a file cannot be written.
pub(crate) fn run(
    arguments: &GpuTestArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    driver::only_one(environment, Duration::from_secs(arguments.timeout))?;
    let options = TestOptions {
        ranks: arguments.ranks.clone(),
        only: arguments.only.iter().map(|it| subject(*it)).collect(),
        matching: arguments.matching.clone(),
        cases: arguments.cases,
        end: arguments.end,
        limit: Duration::from_secs(60 * arguments.minutes),
        timeout: Duration::from_secs(arguments.timeout),
        warm: Duration::from_millis(arguments.warm),
        nccl: arguments.nccl_library.clone(),
        folder: arguments.output.clone(),
    };
    if let Some(part) = arguments.part {
        output.text = parts::run(self::part(part), &options)?;
        return Ok(());
    }
    let form = arguments.form.format();
    let progress = RefCell::new(None);
    let mut printed = Ok(());
    let shown = TestOutput {
        page: &mut |text| {
            if form == TextOrJson::Text {
                text.clone_into(&mut output.text);
                let done = exit::print_now(output);
                if printed.is_ok() {
                    printed = done;
                }
            }
        },
        running: &|what| {
            drop(progress.replace(what.map(|what| Progress::new(environment, what))));
        },
    };
    let report = bench::gpu_test::run(&options, shown)?;
    printed?;
    if form == TextOrJson::Json {
        output.text = report::json(&report)?;
    }
    output.differs = report.failed > 0;
    Ok(())
}

const fn subject(section: GpuTestSection) -> Subject {
    match section {
        GpuTestSection::Correctness => Subject::Correctness,
        GpuTestSection::Transports => Subject::Transports,
        GpuTestSection::Bandwidth => Subject::Bandwidth,
        GpuTestSection::OneGpu => Subject::OneGpu,
        GpuTestSection::Silicon => Subject::Silicon,
        GpuTestSection::Sanitizer => Subject::Sanitizer,
    }
}

const fn part(part: GpuTestPart) -> Part {
    match part {
        GpuTestPart::Machine => Part::Machine,
        GpuTestPart::Shared => Part::Shared,
        GpuTestPart::Each => Part::Each,
        GpuTestPart::Nvls => Part::Nvls,
        GpuTestPart::Copy => Part::Copy,
        GpuTestPart::OneGpu => Part::OneGpu,
        GpuTestPart::Nccl => Part::Nccl,
        GpuTestPart::Launch => Part::Launch,
        GpuTestPart::Queue => Part::Queue,
        GpuTestPart::Overlap => Part::Overlap,
        GpuTestPart::Lines => Part::Lines,
        GpuTestPart::Messages => Part::Messages,
        GpuTestPart::Captures => Part::Captures,
        GpuTestPart::Clock => Part::Clock,
        GpuTestPart::Mappings => Part::Mappings,
    }
}
