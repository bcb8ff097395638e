//! `topo gpu-test`: every check that needs GPUs, on one page.

use std::cell::RefCell;
use std::time::Duration;

use answers::report;
use anyhow::Result;
use bench::gpu_test::{TestOutput, parts};

use crate::arguments::compare::TextOrJson;
use crate::arguments::run::GpuTestArguments;
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
    driver::only_one(environment, Duration::from_secs(arguments.question.timeout))?;
    let question = &arguments.question;
    if let Some(part) = question.part {
        output.text = parts::run(part, question)?;
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
    let report = bench::gpu_test::run(question, shown)?;
    printed?;
    if form == TextOrJson::Json {
        output.text = report::json(&report)?;
    }
    output.differs = report.failed > 0;
    Ok(())
}
