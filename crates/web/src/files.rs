//! Files of jobs: logs and measurements.

use answers::log::LogReport;
use answers::report;
use answers::request::{File, JobRequest};
use answers::results::read::{no_measurement, read};
use answers::results::{Against, Notes, ResultsQuestion, ResultsReport, results};
use nccl_log::Collector;

/// The content of a log.
///
/// # Errors
/// It cannot be read.
pub fn log(name: &str, text: &str) -> Result<String, String> {
    let mut collector = Collector::default();
    let read = collector.read(name, text.as_bytes(), |_| {});
    read.map_err(|why| format!("{name}: {why}"))?;
    let report = LogReport::of(&collector.finish(), None);
    report::line(&report).map_err(|why| why.to_string())
}

/// Measurements of nccl-tests, rccl-tests or `topo run`, beside the prediction for a job.
///
/// # Errors
/// The file has no measurement.
pub fn measured(file: &File, job: &JobRequest) -> Result<String, String> {
    let text = file.text.as_deref().unwrap_or_default();
    let read = read(&file.name, text).map_err(|why| why.to_string())?;
    if read.tables.is_empty() {
        return Err(no_measurement(&file.name));
    }
    // What was measured is shown whatever the job is.
    let (question, why) = match question(job) {
        Ok(question) => (question, None),
        Err(why) => (ResultsQuestion::default(), Some(why)),
    };
    let mut results =
        results(read.tables, &question, &mut Notes::default()).map_err(|why| why.to_string())?;
    if let Some(why) = why {
        let tables = results.tables.iter_mut();
        tables.for_each(|it| it.notes.push(format!("not predicted: {why}")));
    }
    report::line(&ResultsReport::of(&results)).map_err(|why| why.to_string())
}

fn question(job: &JobRequest) -> Result<ResultsQuestion, String> {
    let (spec, _) = job.spec()?;
    Ok(ResultsQuestion {
        gpus: (!job.gpus.is_empty()).then(|| spec.gpus.clone()),
        against: Against::Machine(Box::new(spec)),
        nccl: job.version()?,
        set: job.set.clone(),
        tolerates: true,
        ..ResultsQuestion::default()
    })
}
