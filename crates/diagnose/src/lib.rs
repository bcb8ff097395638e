//! The reasons why a job hangs or fails, from what is left of it.
//!
//! ```
//! let line = "graph/xml.h: NCCL WARN Error : too many XML nodes (max 256)\n";
//! let mut pile = diagnose::Pile::default();
//! pile.read("job.log", line.as_bytes(), |_| {})?;
//! let diagnosis = pile.finish(&diagnose::Floor);
//! assert_eq!(diagnosis.verdicts[0].cause.id, "xml-nodes");
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! In reading order: [`verdict`] (what is found), `checks` (what was
//! checked), [`job_facts`] (what ran), [`predict`] (times),
//! [`pile`] (inputs, recognized and read), [`archive`] (files in archives), `words` (the causes
//! whose words are in a line), `process` (processes and their ranks), `events` (what lines say, and
//! who wrote them), `gpus` (libraries that are older than a GPU), `collectives` (calls of NCCL's
//! log, compared), `parts` (whether it may have any), `recorders` (ranks by their flight
//! recorders), `timeouts` (ranks by lines of the watchdog), `reports` (ranks by RAS), `start`
//! (ranks while a communicator is made), `timings` (how long that took), `settings` (what NCCL's
//! log says), `beside` (causes whose words count only beside other evidence), `paths` (paths that
//! carry nothing), `cliques` (NVLink fabrics), `runs` (runs of nccl-tests that differ in one
//! setting), `late` (a rank that is late again and again, by NCCL's Inspector), `listing` (what
//! `nvidia-smi`, `lspci` and measured bandwidths show), `machine_files` (topology files and graph
//! files by themselves), `outputs` (commands that advice asks for); [`watch`] (the state of a
//! job that still lives); [`redaction`] (names and secrets that are hidden), [`pack`] (files as an
//! archive).

pub mod archive;
mod beside;
mod checks;
mod cliques;
mod collectives;
mod events;
mod gpus;
pub mod job_facts;
mod late;
mod listing;
mod machine_files;
mod outputs;
pub mod pack;
mod parts;
mod paths;
pub mod pile;
pub mod predict;
mod process;
mod recorders;
pub mod redaction;
mod reports;
mod runs;
mod settings;
mod start;
mod timeouts;
mod timings;
pub mod verdict;
pub mod watch;
mod words;

#[cfg(not(feature = "schema"))]
use no_schema::JsonSchema;
#[cfg(feature = "schema")]
use schemars::JsonSchema;

pub use pile::Pile;
pub use predict::{Call, Floor, Predict};
pub use process::Process;
pub use verdict::{Alternative, Diagnosis, FirstError, Input, Line, Missing, Verdict, Wait};
