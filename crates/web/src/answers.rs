//! The answers.

use std::cell::RefCell;
use std::rc::Rc;

use answers::built_in;
use answers::overview::picture;
use answers::request::{JobRequest, PlannedJob};
use plan::compare;
use plan::cost::doubling;
use planner::explain::NodeNames;
use serde_json::{Value, json};

use crate::request::Request;
use crate::{doctor, log, results};

/// Sizes whose choices are compared: 1 KiB to 4 GiB.
const SIZES: (u64, u64) = (1 << 10, 4 << 30);

/// Most values of plans that are listed as different.
const MOST_FACTS: usize = 400;

/// Answers a request.
///
/// # Errors
/// A sentence for the reader of the page.
pub fn answer(request: &Request) -> Result<String, String> {
    match request {
        Request::Machines => Ok(machines().to_string()),
        Request::Ask { job, question } => planned(job)?.ask(question),
        Request::Difference { job, other } => difference(job, other).map(|it| it.to_string()),
        Request::Doctor { job } => doctor::answer(job),
        Request::Results { file, job } => results::answer(file, job).map(|it| it.to_string()),
        Request::Log { name, text } => log::answer(name, text).map(|it| it.to_string()),
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

fn difference(request: &JobRequest, other: &JobRequest) -> Result<Value, String> {
    let made = [request.plan()?, other.plan()?];
    let plans = [made[0].planned.plan(), made[1].planned.plan()];
    let sizes: Vec<u64> = doubling(SIZES.0, SIZES.1).collect();
    let found = compare::compare(&plans[0], &plans[1], &sizes).map_err(|why| why.to_string())?;
    let hosts = [made[0].host()?, made[1].host()?];
    let names = hosts.map(|host| NodeNames::new(host.view.system()));
    let marks = [
        draw::differences::marks(&names[0], &names[1], "gone"),
        draw::differences::marks(&names[1], &names[0], "new"),
    ];
    let mut pictures = Vec::new();
    for number in [0, 1] {
        pictures.push(picture(&made[number], hosts[number], None, &marks[number])?);
    }
    Ok(json!({
        "equal": found.is_empty(),
        "names": [made[0].planned.name(), made[1].planned.name()],
        "pictures": pictures,
        "facts": found.facts.iter().take(MOST_FACTS).collect::<Vec<_>>(),
        "choices": found.choices.iter().take(MOST_FACTS).collect::<Vec<_>>(),
    }))
}
