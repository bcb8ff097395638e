//! The effects of settings: how many plans it takes to find them.

use answers::JobSpec;
use answers::request::JobRequest;
use answers::settings::{SettingsReport, Verdict, settings};
use planner::settings::variables;
use planner::{Job, NcclVersion, Settings};

type Variable = (String, String);

/// Two built-in hosts.
fn job() -> Job {
    let (spec, _) = JobRequest::of("dgx-a100").spec().unwrap();
    JobSpec { hosts: 2, ..spec }.job().unwrap().job
}

fn given(variables: impl IntoIterator<Item = Variable>) -> Settings {
    Settings::with_variables(NcclVersion::default(), variables)
}

fn answer(variables: impl IntoIterator<Item = Variable>) -> SettingsReport {
    settings(&job(), &given(variables)).unwrap()
}

fn variable(name: &str, value: &str) -> Variable {
    (name.to_owned(), value.to_owned())
}

#[test]
fn values_that_are_the_default_take_no_plan() {
    let versions = NcclVersion::ALL.len() - 1;
    for (name, value, plans, verdict) in [
        ("NCCL_CROSS_NIC", "2", 2, Verdict::NoEffect),
        ("NCCL_ALGO", "Ring", 3, Verdict::Decides),
    ] {
        let answer = answer([variable(name, value)]);
        assert_eq!(answer.plans, plans + versions, "{name}");
        assert_eq!(answer.findings[0].verdict, verdict, "{name}");
    }
}

/// Values of which NCCL dies are refusals, not only misread.
#[test]
fn deadly_values_are_refused() {
    for (value, verdict) in [("4095", Verdict::Refused), ("4096", Verdict::Decides)] {
        let answer = answer([variable("NCCL_BUFFSIZE", value)]);
        assert_eq!(answer.findings[0].verdict, verdict, "{value}");
        assert_eq!(!answer.fine, verdict == Verdict::Refused);
    }
}

#[test]
fn hundreds_of_entries_take_a_bounded_number_of_plans() {
    let job = job();
    let starts = |variable: &Variable| planner::plan(&job, &given([variable.clone()])).is_ok();
    let every = variables().filter(|(name, _)| !name.ends_with("_FILE"));
    let every: Vec<Variable> = every
        .filter_map(|(name, _)| {
            let values = ["1", "2", "0"].map(|value| variable(name, value));
            values.into_iter().find(starts)
        })
        .collect();
    let unknown = (0..400).map(|number| variable(&format!("NCCL_UNKNOWN_{number}"), "1"));
    let answer = answer(every.into_iter().chain(unknown));
    let hidden = answer.findings.iter();
    let hidden = hidden.filter(|it| it.verdict == Verdict::Hidden).count();
    // Without the limit each hidden setting would take up to 32 plans more.
    assert!(hidden > 2, "{:?}", answer.findings);
    assert!((100..=420).contains(&answer.plans), "{}", answer.plans);
}
