//! The effects of settings: how many plans it takes to find them.

use answers::JobSpec;
use answers::request::JobRequest;
use answers::settings::{Verdict, settings};
use planner::settings::variables;
use planner::{NcclVersion, Settings};

/// The answer about a job of two built-in hosts with some variables, and the verdict on the last.
fn answer(given: impl IntoIterator<Item = (String, String)>) -> (usize, Verdict) {
    let (spec, _) = JobRequest::of("dgx-a100").spec().unwrap();
    let job = JobSpec { hosts: 2, ..spec }.job().unwrap().job;
    let given: Vec<(String, String)> = given.into_iter().collect();
    let last = given.last().map(|(name, _)| name.clone());
    let all = Settings::with_variables(NcclVersion::default(), given);
    let answer = settings("two".to_owned(), &job, &all).unwrap();
    let finding = (answer.findings.iter()).find(|it| it.names.first() == last.as_ref());
    (answer.plans, finding.unwrap().verdict)
}

fn variable(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

#[test]
fn values_that_are_the_default_take_no_plan() {
    let versions = NcclVersion::ALL.len() - 1;
    let (plans, verdict) = answer([variable("NCCL_CROSS_NIC", "2")]);
    assert_eq!((plans, verdict), (2 + versions, Verdict::NoEffect));
    let (plans, verdict) = answer([variable("NCCL_ALGO", "Ring")]);
    assert_eq!((plans, verdict), (3 + versions, Verdict::Decides));
}

#[test]
fn hundreds_of_entries_take_a_bounded_number_of_plans() {
    let every = variables()
        .filter(|(name, _)| !name.ends_with("_FILE"))
        .map(|(name, _)| variable(name, "1"));
    let repeated = (0..400).map(|number| variable("NCCL_CROSS_NIC", &(number % 3).to_string()));
    let (plans, _) = answer(every.chain(repeated).chain([variable("NCCL_ALGO", "Ring")]));
    assert!(plans <= 420, "{plans} plans");
}
