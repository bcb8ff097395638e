//! Inputs of any kind: recognized, read, and joined.

mod text;

use std::io::{BufRead, Read, Result};

use findings::causes::{self, Certainty};
use findings::facts::Meaning;
use memchr::memmem;
use records::evidence::{Recorders, ras, recorder};
use records::nccl_log::utf16::Decoded;
use records::nccl_log::{Collector, Log};
use records::{Listings, Machine, bandwidth, outputs};
use topology::xml::{Document, Limits};

use crate::beside::{self, Beside};
use crate::cliques::Cliques;
use crate::collectives::Collectives;
use crate::events::{At, Events};
use crate::job_facts::JobFacts;
use crate::late::Late;
use crate::listing::Places;
use crate::machine_files::MachineFiles;
use crate::outputs::Stacks;
use crate::predict::Predict;
use crate::runs::Run;
use crate::timeouts::Timeouts;
use crate::verdict::{Diagnosis, Input, Line, Missing, Verdict, name_alternatives, sort};
use crate::words::Hits;
use crate::{checks, gpus, listing, paths, recorders, reports, runs, settings, start};

/// Most inputs that are listed.
const MOST_INPUTS: usize = 1 << 14;

/// Most sentences of what an input says.
const MOST_SAID: usize = 16;

/// Most ranks of all reports of RAS together.
const MOST_LATE: usize = 1 << 14;

/// What was read.
#[derive(Debug, Default)]
pub struct Pile {
    inputs: Vec<Input>,
    /// What the input that is read says.
    says: Vec<String>,
    hits: Hits,
    events: Events,
    pub(crate) collectives: Collectives,
    log: Collector,
    timeouts: Timeouts,
    reports: Vec<(String, ras::Report)>,
    recorders: Recorders,
    late: Late,
    places: Places,
    cliques: Cliques,
    files: MachineFiles,
    runs: Vec<Run>,
    stacks: Stacks,
    /// A listing or a topology file has adapters of Amazon's.
    has_efa: bool,
    /// Inputs with bridges alone (`lspci -tv`), unless another one has links.
    trees: Trees,
    /// The first machine; listings count if there is no topology file.
    machine: Option<(bool, Document)>,
    /// Threads that help to parse lines.
    helpers: usize,
}

/// Trees of bridges without links.
#[derive(Debug, Default)]
struct Trees {
    /// The first of them.
    first: Option<String>,
    has_links: bool,
}

/// What an input is.
enum Kind {
    Recorder,
    Ras,
    Bandwidths,
    Tests,
    Topology,
    Graph,
    Text,
}

impl Kind {
    /// By the first bytes.
    fn of(first: &[u8]) -> Self {
        let has = |words: &str| memmem::find(first, words.as_bytes()).is_some();
        match first {
            [0x80, 0..=5, ..] | [b'}', b'q', ..] | [b'(', b'd', b'p', ..] => Self::Recorder,
            _ if is_xml(first) && has("<system") => Self::Topology,
            _ if is_xml(first) && has("<graphs") => Self::Graph,
            _ if !recorder::is_json(first) => Self::Text,
            _ if has("\"pg_config\"") || has("\"profiling_name\"") || has("\"pg_status\"") => {
                Self::Recorder
            }
            _ if has("\"communicators_count\"") => Self::Ras,
            _ if has("\"nvbandwidth\"") => Self::Bandwidths,
            _ if has("\"DCGM GPU Diagnostic\"") || has("\"DCGM Diagnostic\"") => Self::Tests,
            _ => Self::Text,
        }
    }
}

impl Pile {
    /// One that reads with the help of at most so many threads, which end before it returns.
    pub fn with_helpers(helpers: usize) -> Self {
        Self {
            helpers,
            ..Self::default()
        }
    }

    /// Tells all events of what is read from now on, too.
    pub fn tell_events(&mut self) {
        self.events.told = Some(Vec::new());
    }

    /// Reads an input. `progress` is called now and then with the bytes that were read.
    ///
    /// # Errors
    /// The stream cannot be read.
    pub fn read(
        &mut self,
        name: &str,
        stream: impl BufRead,
        mut progress: impl FnMut(u64),
    ) -> Result<()> {
        self.read_any(name, &mut Decoded::new(stream), &mut progress)
    }

    /// As [`read`](Self::read). Compiled here, whatever the caller is optimized for.
    fn read_any(
        &mut self,
        name: &str,
        stream: &mut dyn BufRead,
        progress: &mut dyn FnMut(u64),
    ) -> Result<()> {
        let (kind, is_read) = match Kind::of(stream.fill_buf()?) {
            Kind::Recorder => self.recorder(name, stream)?,
            Kind::Ras => self.report(name, stream)?,
            Kind::Bandwidths => self.bandwidths(name, stream)?,
            Kind::Tests => self.tests(name, stream)?,
            Kind::Topology => self.topology(name, stream)?,
            Kind::Graph => self.graph(name, stream)?,
            Kind::Text => self.text(name, stream, progress)?,
        };
        self.note(name, kind, is_read);
        Ok(())
    }

    /// Notes an input that was not read, and why.
    pub fn skip(&mut self, name: &str, why: &str) {
        self.note(name, why.to_owned(), false);
    }

    fn note(&mut self, name: &str, kind: String, is_read: bool) {
        let mut says = std::mem::take(&mut self.says);
        says.truncate(MOST_SAID);
        if self.inputs.len() < MOST_INPUTS {
            self.inputs.push(Input {
                name: name.to_owned(),
                kind,
                is_read,
                says,
            });
        }
    }

    fn recorder(&mut self, name: &str, stream: &mut dyn BufRead) -> Result<(String, bool)> {
        let Some(bytes) = whole(stream, recorder::MOST_BYTES)? else {
            return Ok((too_large(recorder::MOST_BYTES), false));
        };
        Ok(match self.recorders.read(name, &bytes) {
            Ok(()) => {
                self.says.extend(recorders::says(&self.recorders));
                ("flight recorder".to_owned(), true)
            }
            Err(error) => (error.to_string(), false),
        })
    }

    fn report(&mut self, name: &str, stream: &mut dyn BufRead) -> Result<(String, bool)> {
        let Some(bytes) = whole(stream, ras::MOST_BYTES)? else {
            return Ok((too_large(ras::MOST_BYTES), false));
        };
        Ok(match ras::json(&bytes) {
            Ok(report) => (self.keep(name, report).to_owned(), true),
            Err(error) => (error.to_string(), false),
        })
    }

    fn topology(&mut self, name: &str, stream: &mut dyn BufRead) -> Result<(String, bool)> {
        let most = Limits::default().bytes;
        let Some(bytes) = whole(stream, most)? else {
            return Ok((too_large(most), false));
        };
        Ok(match records::machine(name, &bytes) {
            Ok(machine) => {
                self.files.topology(name, &machine.document);
                if self.machine.as_ref().is_none_or(|it| !it.0) {
                    self.machine = Some((true, machine.document));
                }
                ("topology".to_owned(), true)
            }
            Err(error) => (error.to_string(), false),
        })
    }

    fn graph(&mut self, name: &str, stream: &mut dyn BufRead) -> Result<(String, bool)> {
        let most = Limits::default().bytes;
        let Some(bytes) = whole(stream, most)? else {
            return Ok((too_large(most), false));
        };
        Ok(match self.files.graph(name, &bytes) {
            Ok(()) => ("graphs of NCCL".to_owned(), true),
            Err(why) => (why, false),
        })
    }

    /// The machine of the first topology file, or else of the first listing that gives one.
    pub fn machine(&self) -> Option<&Document> {
        self.machine.as_ref().map(|it| &it.1)
    }

    fn bandwidths(&mut self, name: &str, stream: &mut dyn BufRead) -> Result<(String, bool)> {
        let Some(bytes) = whole(stream, bandwidth::MOST_BYTES)? else {
            return Ok((too_large(bandwidth::MOST_BYTES), false));
        };
        Ok(match bandwidth::json(&bytes) {
            Ok(all) => {
                self.places.measured(name, all);
                ("bandwidths that nvbandwidth measured".to_owned(), true)
            }
            Err(error) => (format!("no results of nvbandwidth: {error}"), false),
        })
    }

    fn tests(&mut self, name: &str, stream: &mut dyn BufRead) -> Result<(String, bool)> {
        let Some(bytes) = whole(stream, outputs::MOST_BYTES)? else {
            return Ok((too_large(outputs::MOST_BYTES), false));
        };
        Ok(match outputs::json(&bytes) {
            Ok(tests) => {
                let mut facts = Listings::default();
                facts.outputs.tests = tests;
                self.listing(name, &facts);
                ("tests of DCGM".to_owned(), true)
            }
            Err(error) => (format!("no tests of DCGM: {error}"), false),
        })
    }

    /// Keeps a report, while there is room for its ranks. Returns what it is.
    fn keep(&mut self, name: &str, report: ras::Report) -> &'static str {
        let late: usize = self.reports.iter().map(|it| it.1.late).sum();
        if late + report.late > MOST_LATE {
            return "RAS report, left out because all have too many ranks";
        }
        self.says.extend(reports::says(&report));
        self.reports.push((name.to_owned(), report));
        "RAS report"
    }

    /// Keeps what listings of a machine show.
    fn listing(&mut self, name: &str, facts: &Listings) {
        for it in listing::shown(name, facts) {
            let line = Line::new(name, None, &it.text);
            let meaning = Meaning::of(it.cause, it.certainty);
            self.hits.add(meaning, &At::default(), it.devices, line);
        }
        self.says.extend(listing::notes(facts));
        self.places.add(name, facts);
        for gpu in &facts.conditions {
            self.cliques.listed(name, gpu);
        }
        self.has_efa |= listing::has_efa(facts);
        if facts.is_tree {
            self.trees.first.get_or_insert_with(|| name.to_owned());
        }
        self.trees.has_links |= facts.pci.iter().any(|it| it.status.is_some());
        if self.machine.is_none()
            && let Ok(machine) = Machine::of(name, facts)
        {
            self.machine = Some((false, machine.document));
        }
    }

    /// What happened.
    pub fn finish(mut self, predict: &dyn Predict) -> Diagnosis {
        for (it, line) in self.places.shown() {
            let meaning = Meaning::of(it.cause, it.certainty);
            self.hits.add(meaning, &At::default(), it.devices, line);
        }
        let log: Log = std::mem::take(&mut self.log).finish();
        let is_hang = !self.timeouts.is_empty();
        let is_unlimited = self.events.is_unlimited;
        let beside = Beside::of(&log, self.machine(), is_hang, self.has_efa, is_unlimited);
        let beside = beside::verdicts(&mut self.hits, &beside);
        let mut verdicts: Vec<Verdict> = std::mem::take(&mut self.hits).verdicts().collect();
        verdicts.extend(beside);
        verdicts.extend(runs::verdicts(&self.runs));
        verdicts.extend(std::mem::take(&mut self.cliques).verdict(&log));
        verdicts.extend(std::mem::take(&mut self.collectives).verdicts(&log, is_hang));
        let mut missing: Vec<Missing> = Vec::new();
        let hosts = settings::hosts(&log);
        let by_recorders = recorders::verdicts(&self.recorders, &hosts, is_hang);
        let is_sure = |it: &Verdict| it.certainty != Certainty::Possible;
        let explained = by_recorders.verdicts.iter().any(is_sure);
        let is_first = by_recorders.verdicts.is_empty();
        let mut waits = by_recorders.waits;
        verdicts.extend(by_recorders.verdicts);
        missing.extend(by_recorders.missing);
        if !explained {
            let (found, lacks) = self.timeouts.verdicts(&self.reports, &log, &hosts, predict);
            // A call that waits says less than recorders do, a rank that it names says more.
            let says_more = |it: &Verdict| is_first || !it.ranks.is_empty();
            verdicts.extend(found.into_iter().filter(says_more));
            missing.extend(lacks);
        }
        let (found, lacks) = reports::verdicts(&self.reports, is_hang, &log);
        verdicts.extend(found);
        missing.extend(lacks);
        let (found, lacks) = self.late.verdicts();
        verdicts.extend(found);
        missing.extend(lacks);
        // Where a rank is named by better evidence, the log adds nothing.
        let is_named = verdicts.iter().any(|it| !it.ranks.is_empty());
        let found = of_runs(&log, is_named, &mut verdicts);
        missing.extend(found.missing);
        if waits.is_empty() {
            waits = found.waits;
        }
        self.add_consequences(&mut verdicts, &log, is_hang);
        // They are often given for the sake of prices.
        if verdicts.is_empty() {
            let machine = self.machine.as_ref().map(|it| &it.1);
            let (found, lacks) = self.files.verdicts(machine);
            verdicts.extend(found);
            missing.extend(lacks);
        }
        gpus::newer(&log, &mut verdicts);
        verdicts.iter_mut().for_each(|it| it.name_run(&log));
        let events = self.events.told.take();
        let (mut first_error, unknown) = self.events.finish();
        let fails = |it: &Verdict| it.first.is_some() && !causes::rank(it.cause).slows;
        let has_failed = is_hang || first_error.is_some() || verdicts.iter().any(fails);
        sort(&mut verdicts, has_failed);
        name_alternatives(&mut verdicts);
        self.stacks.add_to(&mut verdicts);
        first_error.iter_mut().for_each(|it| it.name_rank(&log));
        verdicts.iter_mut().for_each(|it| it.name_ranks(&log));
        if verdicts.is_empty() && missing.is_empty() {
            missing.extend(self.places.missing());
        }
        if verdicts.is_empty() && missing.is_empty() {
            missing.push(nothing(&log));
        }
        let tree = self.trees.first.filter(|_| !self.trees.has_links);
        missing.extend(tree.map(|it| no_links(&it)));
        Diagnosis {
            checks: checks::checks(&self.inputs, &verdicts, first_error.as_ref()),
            inputs: self.inputs,
            verdicts,
            missing,
            waits,
            first_error,
            unknown,
            ran: JobFacts::of(&log),
            oddities: log.odd(),
            events,
        }
    }

    /// Adds what follows from verdicts and settings together.
    fn add_consequences(&self, verdicts: &mut Vec<Verdict>, log: &Log, is_hang: bool) {
        let bind = verdicts.iter().find(|it| it.cause.id == "nvls-bind");
        // The fabric manager's faults have codes of their own.
        let is_fabric = verdicts.iter().any(|it| it.cause.id == "nvls-fabric");
        let slots = bind.filter(|_| !is_fabric);
        let slots = slots.and_then(|it| settings::slots(log, it));
        verdicts.extend(slots);
        let is_unreached = |it: &&Verdict| ["port-unreachable", "ib-rails"].contains(&it.cause.id);
        let unreached = verdicts.iter().find(is_unreached);
        let trees = unreached.and_then(|it| paths::trees(log, it));
        verdicts.extend(trees);
        if is_hang && self.timeouts.is_first() {
            verdicts.extend(paths::through_host(log, self.places.pair(), verdicts));
        }
    }
}

/// Adds what the log says of starts and settings, run by run; of starts unless a rank is named.
/// Returns what is missing and who waits.
fn of_runs(log: &Log, is_named: bool, verdicts: &mut Vec<Verdict>) -> start::Starts {
    let parts = log.parts();
    let parts = match parts.is_empty() {
        true => std::slice::from_ref(log),
        false => &parts,
    };
    let mut all = start::Starts::default();
    for (run, part) in parts.iter().enumerate() {
        let found = match is_named {
            true => start::Starts::default(),
            false => start::starts(part),
        };
        all.missing = all.missing.or(found.missing);
        if all.waits.is_empty() {
            all.waits = found.waits;
        }
        for mut it in found.verdicts.into_iter().chain(settings::verdicts(part)) {
            it.run = (parts.len() > 1).then_some(run);
            let is_it = |other: &Verdict| other.cause == it.cause && other.what == it.what;
            match verdicts.iter_mut().find(|other| is_it(other)) {
                Some(other) => other.run = None,
                None => verdicts.push(it),
            }
        }
    }
    all
}

/// What to give where nothing is named: what the inputs lack.
fn nothing(log: &Log) -> Missing {
    let log_of_info = "the log of all ranks with NCCL_DEBUG=INFO";
    let recorders = "all flight recorders of PyTorch (TORCH_NCCL_TRACE_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1)";
    let kernel = "the kernel's log of all hosts (`dmesg -T`)";
    let gives = match log.counts.recognized {
        0 => format!("{log_of_info}, {recorders}"),
        _ => format!("{recorders}, {kernel}, and the end of the logs of all ranks"),
    };
    Missing {
        what: "nothing in these inputs names a cause".to_owned(),
        how: format!("give {gives}"),
    }
}

/// What a tree of bridges lacks.
fn no_links(tree: &str) -> Missing {
    Missing {
        what: format!(
            "lanes and speeds of links, ACS and NUMA nodes, which the tree in {tree} does not have"
        ),
        how: "give the output of lspci -vv, run as root".to_owned(),
    }
}

/// Whether a text begins with an element.
fn is_xml(first: &[u8]) -> bool {
    first.iter().find(|it| !it.is_ascii_whitespace()) == Some(&b'<')
}

/// All bytes, or `None` if there are more than `most`.
fn whole(stream: &mut dyn BufRead, most: usize) -> Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    stream.take(most as u64 + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() <= most).then_some(bytes))
}

fn too_large(most: usize) -> String {
    format!("larger than {} MB, so it was not read", most >> 20)
}
