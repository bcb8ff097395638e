//! Checks of a job's remains.

use findings::causes::Certainty;
use findings::{Check, Maturity};

use crate::verdict::{FirstError, Input, UNRECOGNIZED, Verdict, ranks};

/// Most inputs that a check names.
const MOST_NAMES: usize = 4;

/// The causes that the evidence names, then the inputs that name none.
pub(crate) fn checks(
    inputs: &[Input],
    verdicts: &[Verdict],
    first_error: Option<&FirstError>,
) -> Vec<Check> {
    let mut checks: Vec<Check> = verdicts.iter().map(of_verdict).collect();
    if let (true, Some(error)) = (verdicts.is_empty(), first_error) {
        let line = &error.line;
        let check = Check::new("first-error", &line.input, Maturity::Modelled);
        let check = check.expects("no error", "topo diagnose");
        checks.push(check.unknown(format!("no cause explains the error: {}", line.text)));
    }
    let mut kinds: Vec<(&Input, Vec<&str>)> = Vec::new();
    let is_evidence = |it: &Input| {
        let mut lines = verdicts.iter().flat_map(|it| &it.lines);
        lines.any(|line| line.input == it.name)
    };
    for it in inputs.iter().filter(|it| !it.is_read || !is_evidence(it)) {
        let is_alike = |known: &Input| (known.is_read, &known.kind) == (it.is_read, &it.kind);
        match kinds.iter_mut().find(|known| is_alike(known.0)) {
            Some(known) => known.1.push(&it.name),
            None => kinds.push((it, vec![&it.name])),
        }
    }
    // Why one cannot be read says more than that nothing in another is recognized.
    kinds.sort_by_key(|it| it.0.is_read);
    checks.extend(kinds.into_iter().map(|(input, names)| {
        let shown = names[..names.len().min(MOST_NAMES)].join(", ");
        let more = match names.len().saturating_sub(MOST_NAMES) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let check = Check::new("input", format!("{shown}{more}"), Maturity::Modelled);
        let check = check.expects("nothing that names a cause", "topo diagnose");
        match input.is_read {
            true if input.kind.starts_with(UNRECOGNIZED) => {
                check.unknown(format!("nothing in it is recognized: {}", input.kind))
            }
            true => check.judged(true, &input.kind),
            false => check.unknown(&input.kind),
        }
    }));
    checks
}

fn of_verdict(it: &Verdict) -> Check {
    let mut places = it.hosts.clone();
    if !it.ranks.is_empty() {
        places.insert(0, ranks(&it.ranks));
    }
    places.extend(it.devices.iter().take(MOST_NAMES).cloned());
    if places.is_empty() {
        places.push("the job".to_owned());
    }
    let maturity = match it.certainty {
        Certainty::Possible => Maturity::Guessed,
        Certainty::Proved | Certainty::Likely => Maturity::Modelled,
    };
    Check::new(it.cause.id, places.join(", "), maturity)
        .expects(it.cause.excluded, it.cause.proof)
        .judged(false, &it.what)
}
