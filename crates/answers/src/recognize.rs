//! Kinds of files, and the questions that they answer: of whatever a reader drops or pastes.

use std::io::Read;

use diagnose::{Floor, Pile, archive};
use findings::causes;
use records::Listings;
use records::results::inspector::Timed;
use serde::Serialize;

use crate::request::Evidence;
use crate::results;
use crate::step::request::unpacked;

/// Bytes at the beginning of a file that tell its kind.
const MOST_BYTES: u64 = 1 << 18;

/// What topology files have.
const TOPOLOGY: &str = "<system";

/// What a file is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Use {
    /// It is a machine: a topology file, or listings with the places of GPUs.
    Machine,
    /// It says something of a machine that another listing places.
    Listing,
    /// It has lines of NCCL.
    Log,
    /// It has tables of measurements.
    Results,
    /// It is the workload of a step.
    Step,
}

/// The question that files answer together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Opens {
    /// The plan of the machine.
    Machine,
    /// Measurements beside the prediction.
    Results,
    /// The communication of a step.
    Step,
    /// Why a job hangs, fails or is slow.
    Diagnose,
}

/// What a file is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Part {
    /// The file.
    pub name: String,
    /// What it is, in words.
    pub kind: String,
    /// What it is good for; nothing: only a diagnosis reads it.
    pub uses: Vec<Use>,
    /// Its beginning has the lines of a failure.
    pub fails: bool,
}

/// What files are together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Recognized {
    /// The question that they answer.
    pub opens: Opens,
    /// Each file.
    pub parts: Vec<Part>,
}

/// Recognizes files by their beginnings.
///
/// # Errors
/// A file has neither text nor bytes; a sentence.
pub fn recognize(files: &[Evidence]) -> Result<Recognized, String> {
    let parts = files.iter().map(|it| Ok(Part::of(&it.name, &it.bytes()?)));
    let parts = parts.collect::<Result<Vec<_>, String>>()?;
    let opens = opens(&parts);
    Ok(Recognized { opens, parts })
}

fn opens(parts: &[Part]) -> Opens {
    let are_all = |uses: &[Use]| parts.iter().all(|part| part.is_any(uses));
    let has_any = |it| parts.iter().any(|part| part.is_any(&[it]));
    let is_whole = !parts.iter().any(|it| it.fails);
    let of_machine = [Use::Machine, Use::Listing];
    if is_whole && !parts.is_empty() && are_all(&[Use::Step]) {
        Opens::Step
    } else if has_any(Use::Results) && are_all(&[&of_machine[..], &[Use::Results]].concat()) {
        Opens::Results
    } else if is_whole && has_any(Use::Machine) && !has_any(Use::Log) && are_all(&of_machine) {
        Opens::Machine
    } else {
        Opens::Diagnose
    }
}

impl Part {
    /// Recognizes a file by its beginning.
    pub fn of(name: &str, bytes: &[u8]) -> Self {
        let mut part = Self {
            name: name.to_owned(),
            kind: "archive".to_owned(),
            uses: Vec::new(),
            fails: false,
        };
        let mut head = Vec::new();
        let read = unpacked(bytes).take(MOST_BYTES).read_to_end(&mut head);
        if archive::is_zip(&head) || archive::is_tar(&head) {
            return part;
        }
        if let (Err(why), true) = (read, head.is_empty()) {
            part.kind = why.to_string();
            return part;
        }
        let is_cut = head.len() as u64 == MOST_BYTES;
        let is_workload = workload::is_one(&head);
        if let (true, Some(end)) = (is_cut, head.iter().rposition(|it| *it == b'\n')) {
            head.truncate(end);
        }
        part.read(&head);
        if is_workload {
            let lines = part.kind.strip_prefix("text, ").unwrap_or(&part.kind);
            part.kind = format!("workload, {lines}");
            part.uses.push(Use::Step);
        }
        if is_cut {
            part.kind.push_str(" and more");
        }
        part
    }

    /// Notes what a text is, as the readers of the program find it.
    fn read(&mut self, head: &[u8]) {
        let mut pile = Pile::default();
        let read = pile.read(&self.name, head, |_| {});
        let found = pile.finish(&Floor);
        self.kind = match (read, found.inputs.first()) {
            (Ok(()), Some(input)) => input.kind.clone(),
            (Err(why), _) => why.to_string(),
            (Ok(()), None) => String::new(),
        };
        let mut verdicts = found.verdicts.iter();
        self.fails = verdicts.any(|it| !causes::rank(it.cause).slows);
        let text = String::from_utf8_lossy(head);
        let tables = results::read::read(&self.name, &text, &mut Timed::default());
        let tables = tables.is_ok_and(|it| !it.tables.is_empty());
        let listings = Listings::read(&self.name, head);
        let is_listing = !matches!(listings, Ok(None));
        // One that is broken is meant as a machine, too: the plan says what is wrong with it.
        let is_broken = listings.is_err() || (!is_listing && text.contains(TOPOLOGY));
        let is_machine = is_broken || records::machine(&self.name, head).is_ok();
        self.uses = [
            (is_machine, Use::Machine),
            (is_listing, Use::Listing),
            (found.ran.is_some(), Use::Log),
            (tables, Use::Results),
        ]
        .into_iter()
        .filter_map(|(is, it)| is.then_some(it))
        .collect();
        if tables {
            let lines = self.kind.strip_prefix("text, ").unwrap_or(&self.kind);
            self.kind = format!("measurements, {lines}");
        }
    }

    fn is_any(&self, uses: &[Use]) -> bool {
        self.uses.iter().any(|it| uses.contains(it))
    }
}
