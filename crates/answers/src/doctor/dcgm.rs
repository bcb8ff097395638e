//! Checks of what DCGM tests and watches.

use findings::{Check, Maturity, check};
use records::outputs::{MOST_BYTES, MOST_TESTS, Test, Verdict, dcgm_tests};

use super::DoctorReport;

/// How the ids of these checks begin.
const PREFIX: &str = "dcgm-";

impl DoctorReport {
    /// Adds a file that `dcgmi diag` or `dcgmi health -c` printed on the machine.
    ///
    /// # Errors
    /// No test is in it; a sentence.
    pub fn add_dcgm(&mut self, file: &str, bytes: &[u8]) -> Result<(), String> {
        if bytes.len() > MOST_BYTES {
            let most = MOST_BYTES >> 20;
            return Err(format!(
                "{file} is larger than {most} MiB; expected what dcgmi printed"
            ));
        }
        let tests = dcgm_tests(bytes);
        if tests.len() >= MOST_TESTS {
            return Err(format!(
                "{file}: {MOST_TESTS} tests of DCGM or more; expected fewer"
            ));
        }
        if tests.is_empty() {
            return Err(format!(
                "{file}: no test of DCGM; expected what `dcgmi diag`, `dcgmi diag -j` or `dcgmi health -c` printed"
            ));
        }
        self.checks.extend(tests.iter().map(|it| of_test(it, file)));
        Ok(())
    }

    /// Tests that did not pass, in words.
    pub(super) fn of_dcgm(&self) -> impl Iterator<Item = String> {
        let is_open = |it: &&Check| {
            matches!(
                it.verdict,
                check::Verdict::Fail | check::Verdict::Unknown(_)
            )
        };
        let tests = self.checks.iter().filter(|it| it.id.starts_with(PREFIX));
        tests
            .filter(is_open)
            .map(|it| format!("{}: {}", it.looked_at, it.reason()))
    }
}

fn of_test(test: &Test, file: &str) -> Check {
    let letters = test.name.chars().map(|it| it.to_ascii_lowercase());
    let words: String = letters
        .map(|it| if it.is_ascii_alphanumeric() { it } else { ' ' })
        .collect();
    let id = words.split_whitespace().collect::<Vec<_>>().join("-");
    let what = format!("DCGM's test {} in {file}", test.name);
    let proof = match test.name.ends_with("(health)") {
        true => "dcgmi health -c",
        false => "dcgmi diag",
    };
    let check =
        Check::new(format!("{PREFIX}{id}"), what, Maturity::Measured).expects("a pass", proof);
    let gpus = test.gpus.iter().map(|it| format!(" on GPU {it}"));
    let mut seen: String = gpus.collect::<Vec<_>>().join(",");
    if !test.why.is_empty() {
        seen += &format!(": {}", test.why.trim_end_matches('.'));
    }
    match test.verdict {
        Verdict::Passed => check,
        Verdict::Skipped => check.skipped("DCGM did not run it"),
        Verdict::Warned => check.unknown(format!("DCGM warns{seen}")),
        Verdict::Failed => check.judged(false, format!("it failed{seen}")),
    }
}
