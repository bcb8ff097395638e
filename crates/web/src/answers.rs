//! The answers.

use std::cell::RefCell;
use std::rc::Rc;

use answers::built_in;
use answers::file_question::{FileQuestion, difference};
use answers::report::Answered;
use answers::request::{JobRequest, PlannedJob};
use answers::step::picture::picture as step_picture;
use answers::step::request::StepRequest;
use pages::draw::plans;
use serde_json::{Value, json};

use crate::request::Request;

/// Answers a request.
///
/// # Errors
/// A sentence for the reader of the page.
pub fn answer(request: &Request) -> Result<String, String> {
    match request {
        Request::Machines => Ok(machines().to_string()),
        Request::Ask { job, question } => planned(job)?.ask(question)?.with_page(),
        Request::Files { question } => match &**question {
            FileQuestion::Difference { job, other } => with_pictures(job, other),
            FileQuestion::Step(request) => with_picture(request),
            question => question.answer()?.with_page(),
        },
    }
}

thread_local! {
    /// The job that was planned last: most questions are about it.
    static LAST: RefCell<Option<(JobRequest, Rc<PlannedJob>)>> = const { RefCell::new(None) };
}

fn planned(job: &JobRequest) -> Result<Rc<PlannedJob>, String> {
    let known = |last: &Option<(JobRequest, Rc<PlannedJob>)>| {
        let (of, planned) = last.as_ref()?;
        (of == job).then(|| Rc::clone(planned))
    };
    if let Some(planned) = LAST.with_borrow(known) {
        return Ok(planned);
    }
    let planned = Rc::new(job.plan()?);
    LAST.set(Some((job.clone(), Rc::clone(&planned))));
    Ok(planned)
}

fn machines() -> Value {
    let machines = built_in::MACHINES
        .iter()
        .map(|it| json!({ "name": it.name, "title": it.title, "summary": it.summary }));
    let versions = planner::NcclVersion::ALL.iter().map(ToString::to_string);
    json!({
        "machines": machines.collect::<Vec<_>>(),
        "versions": versions.collect::<Vec<_>>(),
    })
}

/// A step, as the program prices it, beside its picture.
fn with_picture(request: &StepRequest) -> Result<String, String> {
    let step = request.answer()?;
    let report = Answered::of(&step.answer)?.with_page()?;
    let picture = json!(step_picture(&step.answer, &step.workload, false));
    Ok(format!("{{\"report\":{report},\"picture\":{picture}}}"))
}

/// The differences, as the program says them, beside pictures of both with marks.
fn with_pictures(job: &JobRequest, other: &JobRequest) -> Result<String, String> {
    let jobs = [planned(job)?, Rc::new(other.plan()?)];
    let report = difference([job, other], [&jobs[0], &jobs[1]])?.with_page()?;
    let pictures = plans::beside([&jobs[0].planned, &jobs[1].planned], true)?;
    let pictures = json!(pictures);
    Ok(format!("{{\"report\":{report},\"pictures\":{pictures}}}"))
}
