//! A plan as files that NCCL obeys.
//!
//! In reading order: this file, `graphs` (NCCL's graph files), `choices` (the choice for each
//! size), `csv` (the same for NVIDIA's example of a tuner plug-in), `configuration`, `crossovers`,
//! `howto`, [`json`].

mod choices;
mod configuration;
mod crossovers;
mod csv;
mod graphs;
mod howto;
pub mod json;

use std::borrow::Cow;
use std::path::Path;

use plan::cost::Calls;
use plan::ranges;
use plan::{CostTable, Plan};
use topology::xml::Document;
use tuner_plugin::table::Communicator;
use tuner_plugin::{LIBRARY, LIBRARY_FILE, TABLE_FILE};

use crate::gpus::Gpus;
use crate::report;
pub use configuration::{FILE as CONFIGURATION_FILE, written_with};
pub use crossovers::{Crossovers, CrossoversReport, LARGEST};
pub use json::{ExportReport, Kind, LeftOut, WrittenFile};

/// Most GPUs of a machine whose sets can all be exported.
pub const MOST_GPUS: usize = 8;

/// A set of GPUs and its plan.
#[derive(Debug)]
pub struct PlannedSet {
    /// The job's name, in one line.
    pub name: String,
    /// The GPUs of each host in rank order, such as `0-3,6`.
    pub gpus: String,
    /// The plan.
    pub plan: Plan,
    /// Other costs than the plan's, which decide about algorithms and protocols.
    pub choices: Option<CostTable>,
    /// NCCL searches these graphs itself, so that `nccl.conf` names no graph file.
    pub searches: bool,
}

/// A file of an export.
#[derive(Debug)]
pub struct ExportFile {
    /// Its name in the folder.
    pub name: String,
    /// Its purpose.
    pub kind: Kind,
    /// Its bytes.
    pub content: Cow<'static, [u8]>,
    /// The GPUs of each host for which it is, such as `0-3,6`.
    pub gpus: Option<String>,
    /// Only ranks on these GPUs read it: the network joins them with the others of the set.
    pub readers: Option<String>,
}

/// The files of an export.
#[derive(Debug, Default)]
pub struct Export {
    /// The files.
    pub files: Vec<ExportFile>,
    /// Parts that cannot be exported.
    pub left_out: Vec<LeftOut>,
}

/// Why nothing can be exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// There is no set of GPUs.
    #[error("there is no set of GPUs to export; expected at least two GPUs")]
    NoSet,
}

/// A machine has too many sets of GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{gpus} GPUs have too many sets; expected at most {MOST_GPUS} GPUs")]
pub struct TooManySets {
    /// GPUs of the machine.
    pub gpus: usize,
}

/// All sets of at least two GPUs of a machine, the largest first.
///
/// # Errors
/// The machine has more than [`MOST_GPUS`] GPUs.
pub fn subsets(document: &Document) -> Result<Vec<Gpus>, TooManySets> {
    let gpus = planner::gpu_devices(document);
    if gpus.len() > MOST_GPUS {
        return Err(TooManySets { gpus: gpus.len() });
    }
    let mut sets: Vec<Vec<i32>> = (0_u32..1 << gpus.len())
        .map(|bits| {
            let has = |at: &usize| bits & (1 << at) != 0;
            (0..gpus.len()).filter(has).map(|at| gpus[at]).collect()
        })
        .filter(|set: &Vec<i32>| set.len() >= 2)
        .collect();
    sets.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
    Ok(sets.iter().map(|set| Gpus::of(set)).collect())
}

/// The files for sets of GPUs, the job's own set first. `folder`: the absolute path from which NCCL
/// will read them. `channels`: choices name channels, too. `calls`: the type and operation that
/// choices are for.
///
/// # Errors
/// There is no set.
pub fn export(
    sets: &[PlannedSet],
    folder: &Path,
    channels: bool,
    calls: Calls,
) -> Result<Export, ExportError> {
    let first = sets.first().ok_or(ExportError::NoSet)?;
    let mut made = Export::default();
    made.add_graphs(sets);
    let active = match made.files.as_slice() {
        [one] if !first.searches => Some(one.name.clone()),
        _ => None,
    };
    made.add_choices(sets, channels, calls);
    for name in configuration::left_out(&first.plan) {
        let why = "topo knows no decision of a plan that it changes";
        made.leave_out(format!("{name} in nccl.conf"), why.to_owned());
    }
    let text = howto::text(first, folder, &made.files);
    made.add("README.md", Kind::Readme, text);
    // The last one, so that it never names a file that is not there.
    let text = configuration::text(first, folder, active.as_deref(), &made.files);
    made.add(CONFIGURATION_FILE, Kind::Configuration, text);
    Ok(made)
}

impl PlannedSet {
    /// The set of a plan's GPUs. `name`: the job's name, in one line.
    pub fn new(name: String, plan: Plan) -> Self {
        let first = plan.machines.first();
        let gpus = first.iter().flat_map(|machine| &machine.gpus);
        let devices: Vec<i32> = gpus.map(|gpu| gpu.dev).collect();
        Self {
            name,
            gpus: ranges(&devices, ","),
            plan,
            choices: None,
            searches: false,
        }
    }

    /// The choices for the set. The plug-in knows the set by NCCL's own costs of rings: they are
    /// the plan's.
    fn communicator(&self, channels: bool, calls: Calls) -> Option<Communicator> {
        let of = |costs| choices::communicator(costs, &self.gpus, channels, calls);
        let mut known = of(self.plan.costs.as_ref()?)?;
        if let Some(others) = &self.choices {
            known.choices = of(others)?.choices;
        }
        Some(known)
    }

    /// The GPUs as a part of a file's name.
    fn file_part(&self) -> String {
        self.gpus.replace(',', "_")
    }
}

impl Export {
    fn add(&mut self, name: &str, kind: Kind, text: String) {
        self.files.push(ExportFile {
            name: name.to_owned(),
            kind,
            content: Cow::Owned(text.into_bytes()),
            gpus: None,
            readers: None,
        });
    }

    fn leave_out(&mut self, what: String, why: String) {
        self.left_out.push(LeftOut { what, why });
    }

    /// Adds the graph files of all sets.
    fn add_graphs(&mut self, sets: &[PlannedSet]) {
        for set in sets {
            let files = match graphs::graph_files(&set.plan) {
                Ok(files) => files,
                Err(error) => {
                    let what = format!("graph file of GPUs {}", set.gpus);
                    self.leave_out(what, error.to_string());
                    continue;
                }
            };
            for file in files {
                let mut name = format!("graph-{}", set.file_part());
                if set.plan.machines.len() > 1 {
                    name.push_str(&format!("-machine{}", file.machine));
                }
                let readers = file.readers.map(|it| ranges(&it, ","));
                if let Some(readers) = &readers {
                    name.push_str(&format!("-for-{}", readers.replace(',', "_")));
                }
                name.push_str(".xml");
                self.files.push(ExportFile {
                    name,
                    kind: Kind::Graph,
                    content: Cow::Owned(file.text.into_bytes()),
                    gpus: Some(set.gpus.clone()),
                    readers,
                });
            }
        }
    }

    /// Adds the choices, the plug-in that reads them, and the file of NVIDIA's example.
    fn add_choices(&mut self, sets: &[PlannedSet], channels: bool, calls: Calls) {
        let mut communicators = Vec::new();
        for set in sets {
            match set.communicator(channels, calls) {
                Some(communicator) => communicators.push(communicator),
                None => self.leave_out(
                    format!("choices for GPUs {}", set.gpus),
                    "a plan of one rank, or without costs, has no choices".to_owned(),
                ),
            }
        }
        let table = choices::table(communicators);
        self.add(TABLE_FILE, Kind::Choices, table.to_text());
        match LIBRARY {
            [] => self.leave_out(
                LIBRARY_FILE.to_owned(),
                "this topo was built without it, for a platform that NCCL does not have".to_owned(),
            ),
            bytes => self.files.push(ExportFile {
                name: LIBRARY_FILE.to_owned(),
                kind: Kind::Plugin,
                content: Cow::Borrowed(bytes),
                gpus: None,
                readers: None,
            }),
        }
        self.add_csv("nccl_tuner.csv", csv::csv(&table));
        self.add_crossovers(sets, calls);
    }

    /// Adds the sizes at which kernels of inference servers hand over.
    fn add_crossovers(&mut self, sets: &[PlannedSet], calls: Calls) {
        let all: Vec<_> = sets.iter().map(|set| crossovers::of(set, calls)).collect();
        if let [Err(why), ..] = all[..]
            && all.iter().all(Result::is_err)
        {
            self.leave_out(crossovers::FILE.to_owned(), why.to_owned());
            return;
        }
        let report = CrossoversReport {
            sets: all.into_iter().flatten().collect(),
        };
        match report::json(&report) {
            Ok(text) => self.add(crossovers::FILE, Kind::Crossovers, text),
            Err(error) => self.leave_out(crossovers::FILE.to_owned(), error.to_string()),
        }
    }

    /// Adds a file that knows communicators by their size.
    fn add_csv(&mut self, name: &str, csv: csv::Csv) {
        self.add(name, Kind::Csv, csv.text);
        if let [first, rest @ ..] = csv.left_out.as_slice() {
            let what = match rest.len() {
                0 => format!("GPUs {first} in {name}"),
                more => format!("GPUs {first} and {more} other sets in {name}"),
            };
            let why = "this format cannot tell GPU sets of one size apart; the first is in it";
            self.leave_out(what, why.to_owned());
        }
    }
}
