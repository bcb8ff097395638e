//! `dcgmi diag` and `dcgmi health -c`: what DCGM tested and watches.

use serde::Deserialize;

use crate::evidence::bounded::{Few, Short};

/// Largest JSON of `dcgmi diag -j` that is read, bytes.
pub const MOST_BYTES: usize = 4 << 20;

/// Most tests that are kept.
pub const MOST_TESTS: usize = 1 << 12;

/// What a test found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// It did not run.
    Skipped,
    /// All is well.
    Passed,
    /// It warns.
    Warned,
    /// It failed.
    Failed,
}

impl Verdict {
    /// `Pass - All`, `Fail`; of a health report `Healthy`, `Warning`, `Failure`.
    fn read(text: &str) -> Option<Self> {
        let word = text.split([' ', '-']).next()?;
        Some(match word.to_ascii_lowercase().as_str() {
            "pass" | "passed" | "healthy" => Self::Passed,
            "fail" | "failed" | "failure" | "error" => Self::Failed,
            "warn" | "warning" => Self::Warned,
            "skip" | "skipped" | "not" | "notrun" => Self::Skipped,
            _ => return None,
        })
    }
}

/// A test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Test {
    /// Its name, such as `PCIe`.
    pub name: String,
    /// What it found.
    pub verdict: Verdict,
    /// GPUs on which it failed or warns, as DCGM numbers them.
    pub gpus: Vec<u32>,
    /// What it says of the failure.
    pub why: String,
}

/// What a health report writes before a device, and before what is wrong with it.
const PART: &str = "-> ";

/// The end of the name of what DCGM watches.
const WATCHED: &str = " (health)";

/// The name of a device in a health report, until a system of it is named.
const DEVICE: &str = "a device";

/// Reads a line of a table of `dcgmi`. Returns `true` if it is one.
pub(super) fn line(tests: &mut Vec<Test>, line: &str) -> bool {
    let Some(cells) = line
        .trim()
        .strip_prefix('|')
        .and_then(|it| it.strip_suffix('|'))
    else {
        return false;
    };
    let Some((name, result)) = cells.split_once('|') else {
        return false;
    };
    let (name, result) = (name.trim(), result.trim());
    if let (Some(part), Some(verdict)) = (name.strip_prefix(PART), Verdict::read(result)) {
        health(tests, part, verdict);
        return true;
    }
    match Verdict::read(result) {
        Some(verdict) if !name.is_empty() => {
            if tests.len() < MOST_TESTS {
                tests.push(Test {
                    name: name.chars().take(60).collect(),
                    verdict,
                    gpus: Vec::new(),
                    why: String::new(),
                });
            }
            return true;
        }
        _ => {}
    }
    let Some(test) = tests.last_mut() else {
        return false;
    };
    let numbered = result.strip_prefix("GPU").and_then(|it| it.split_once(':'));
    if let Some((gpu, verdict)) = numbered
        && let Some(verdict) = Verdict::read(verdict.trim())
    {
        if verdict >= Verdict::Warned && test.gpus.len() < MOST_TESTS {
            test.gpus.extend(gpu.trim().parse::<u32>());
        }
        return true;
    }
    let is_health = test.name.ends_with(WATCHED);
    let is_more = name.is_empty() && (is_health || !test.why.is_empty());
    if (is_more || name.starts_with("Warning")) && test.why.len() < 400 {
        let part = result.strip_prefix("Error: ").unwrap_or(result);
        test.why += if test.why.is_empty() { "" } else { " " };
        test.why.extend(part.chars().take(100));
        return true;
    }
    false
}

/// A device of a health report, or a system of the device above.
fn health(tests: &mut Vec<Test>, part: &str, verdict: Verdict) {
    let device: Option<u32> = part.parse().ok();
    let above = tests.last_mut();
    let gpus = match (device, &above) {
        (Some(device), _) => vec![device],
        (None, Some(above)) => above.gpus.clone(),
        (None, None) => Vec::new(),
    };
    let name: String = match device {
        Some(_) => DEVICE.to_owned(),
        None => part.chars().take(60).chain(WATCHED.chars()).collect(),
    };
    let why = String::new();
    let test = Test {
        name,
        verdict,
        gpus,
        why,
    };
    if let Some(above) = above.filter(|it| it.name == DEVICE) {
        *above = test;
    } else if tests.len() < MOST_TESTS {
        tests.push(test);
    }
}

/// The tests of a text of `dcgmi diag`, its JSON, or a text of `dcgmi health -c`; empty if it is
/// none of these.
pub fn read(bytes: &[u8]) -> Vec<Test> {
    if let Ok(tests) = json(bytes) {
        return tests;
    }
    let mut tests = Vec::new();
    for text in String::from_utf8_lossy(bytes).lines() {
        line(&mut tests, text);
    }
    tests
}

/// Reads the JSON of `dcgmi diag -j`.
///
/// # Errors
/// It is no such JSON.
pub fn json(bytes: &[u8]) -> serde_json::Result<Vec<Test>> {
    let report: RawReport = serde_json::from_slice(bytes)?;
    let categories = report.diagnostic.categories.0.into_iter();
    let all = categories.flat_map(|it| it.tests.0);
    let tests = all.take(MOST_TESTS).map(|it| {
        let mut test = Test {
            name: it.name.0,
            verdict: Verdict::Skipped,
            gpus: Vec::new(),
            why: String::new(),
        };
        // The summary is about all devices together.
        for result in it.results.0.into_iter().chain(it.test_summary) {
            // What no version is known to say is no pass.
            let verdict = Verdict::read(&result.status.0).unwrap_or(Verdict::Warned);
            test.verdict = test.verdict.max(verdict);
            if verdict >= Verdict::Warned {
                let gpu = result.gpu.or(result.entity);
                test.gpus.extend(gpu.and_then(|it| it.number()));
                let warning = result.warnings.0.into_iter().next();
                test.why = warning.map_or(test.why, |it| it.warning.0);
            }
        }
        test
    });
    Ok(tests.collect())
}

#[derive(Deserialize)]
struct RawReport {
    #[serde(rename = "DCGM GPU Diagnostic", alias = "DCGM Diagnostic")]
    diagnostic: RawDiagnostic,
}

#[derive(Deserialize)]
struct RawDiagnostic {
    #[serde(rename = "test_categories")]
    categories: Few<RawCategory, 64>,
}

#[derive(Deserialize)]
struct RawCategory {
    #[serde(default)]
    tests: Few<RawTest, MOST_TESTS>,
}

#[derive(Deserialize)]
struct RawTest {
    #[serde(default)]
    name: Short,
    #[serde(default)]
    results: Few<RawResult, 1024>,
    #[serde(default)]
    test_summary: Option<RawResult>,
}

#[derive(Deserialize)]
struct RawResult {
    #[serde(default)]
    status: Short,
    #[serde(default, rename = "gpu_id")]
    gpu: Option<RawNumber>,
    #[serde(default, rename = "entity_id")]
    entity: Option<RawNumber>,
    #[serde(default)]
    warnings: Few<RawWarning, 64>,
}

/// A number, or a text with one.
#[derive(Deserialize)]
#[serde(untagged)]
enum RawNumber {
    Number(u32),
    Text(Short),
}

impl RawNumber {
    fn number(&self) -> Option<u32> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Text(text) => text.0.parse().ok(),
        }
    }
}

#[derive(Deserialize)]
struct RawWarning {
    #[serde(default)]
    warning: Short,
}
