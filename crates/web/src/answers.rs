//! The answers.

use std::cell::RefCell;
use std::rc::Rc;

use answers::diff::{DiffReport, diff};
use answers::overview::picture;
use answers::question::sizes;
use answers::request::{File, JobRequest, PlannedJob};
use answers::{built_in, report};
use planner::explain::NodeNames;
use serde_json::{Value, json};
use topology::differences::Inventory;

use crate::request::Request;
use crate::{doctor, files};

/// Answers a request.
///
/// # Errors
/// A sentence for the reader of the page.
pub fn answer(request: &Request) -> Result<String, String> {
    match request {
        Request::Machines => Ok(machines().to_string()),
        Request::Ask { job, question } => planned(job)?.ask(question),
        Request::Difference { job, other } => difference(job, other),
        Request::Doctor { job } => doctor::answer(job),
        Request::Results { file, job } => files::measured(file, job),
        Request::Log { name, text } => files::log(name, text),
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

/// The differences, as the program says them, beside pictures of both with marks.
fn difference(request: &JobRequest, other: &JobRequest) -> Result<String, String> {
    let jobs = [planned(request)?, Rc::new(other.plan()?)];
    let sides = jobs
        .each_ref()
        .map(|it| (it.planned.name(), it.planned.plan()));
    let [one, two] = sides.each_ref().map(|(name, plan)| (name.as_str(), *plan));
    let mut devices = Vec::new();
    // Edits are known anyway.
    if !request.is_edited() && !other.is_edited() {
        let [one, two] = [&request.file, &other.file].map(File::document);
        devices = Inventory::of(&one?).differences(&Inventory::of(&two?));
    }
    let answer = diff([one, two], devices, &sizes()).map_err(|why| why.to_string())?;
    let report = report::line(&DiffReport::of(answer)).map_err(|why| why.to_string())?;
    let hosts = [jobs[0].host()?, jobs[1].host()?];
    let names = hosts.map(|host| NodeNames::new(host.view.system()));
    let marks = [
        draw::differences::marks(&names[0], &names[1], "gone"),
        draw::differences::marks(&names[1], &names[0], "new"),
    ];
    let mut pictures = Vec::new();
    for number in [0, 1] {
        pictures.push(picture(&jobs[number], hosts[number], None, &marks[number])?);
    }
    let pictures = json!(pictures);
    Ok(format!("{{\"report\":{report},\"pictures\":{pictures}}}"))
}
