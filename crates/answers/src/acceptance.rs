//! The acceptance run of a machine: what was found, measured and expected, in one report.

use std::path::PathBuf;
use std::sync::Arc;

use findings::check::{summary, verdict};
use findings::{Check, Maturity, check::Verdict};
use pages::{Page, Table, row};
use planner::Settings;
use program::Collective;
#[cfg(feature = "arguments")]
use program::size::parse as size;
use records::Measurements;
use records::results::inspector::Timed;
use serde::Serialize;
use topology::xml::Document;

use crate::bound::{BoundQuestion, BoundReport, bound_on};
use crate::doctor::DoctorReport;
use crate::job::{JobSpec, Machine};
use crate::measured::{MeasuredLinks, OnMeasured};
use crate::report::Report;
use crate::results::read::read;
use crate::results::{Against, Notes, ReadTable, ResultsQuestion, ResultsReport, results};
#[cfg(feature = "arguments")]
use crate::values::within;
use crate::{Args, JsonSchema};

/// The part that measures links.
pub const LINKS: &str = "links";

/// The collectives of an acceptance run.
pub const COLLECTIVES: [Collective; 3] = [
    Collective::AllReduce,
    Collective::AllGather,
    Collective::ReduceScatter,
];

/// What an acceptance run measures.
#[derive(Debug, Clone, Args)]
pub struct AcceptanceQuestion {
    /// The folder with the programs of nccl-tests (all_reduce_perf, …) [default: those of PATH]
    #[arg(long, value_name = "DIR")]
    pub tests: Option<PathBuf>,
    /// Largest size of collectives, bytes
    #[arg(short, long, value_name = "SIZE", default_value = "8G", value_parser = size)]
    pub end: u64,
    /// Longest time of each program, s
    #[arg(short = 'T', long, value_name = "S", default_value_t = 300, value_parser = within::<u64>(1..=86_400))]
    pub timeout: u64,
}

/// A program of the run.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ProgramRun {
    /// What it was to measure: a collective, or `links`.
    pub part: String,
    /// The command.
    pub command: String,
    /// Why it measured nothing; null if it ended well.
    pub failure: Option<String>,
    /// It failed because elements were wrong.
    pub is_wrong: bool,
    /// What it printed to standard output.
    #[serde(skip)]
    pub out: String,
    /// What it printed to standard error.
    #[serde(skip)]
    pub errors: String,
}

/// What is known before anything is measured.
#[derive(Debug)]
pub struct AcceptedMachine<'a> {
    /// The host's name.
    pub host: String,
    /// The version of `topo`.
    pub topo: &'static str,
    /// The version of NVIDIA's driver.
    pub driver: Option<String>,
    /// The machine.
    pub document: Arc<Document>,
    /// Its devices, as a page.
    pub page: Page,
    /// Its faults.
    pub doctor: DoctorReport,
    /// NCCL's settings in the environment.
    pub settings: &'a Settings,
    /// The collectives are another host's to judge.
    pub collectives_elsewhere: bool,
}

/// The report.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AcceptanceReport {
    /// The host's name.
    pub host: String,
    /// The version of `topo`.
    pub topo: &'static str,
    /// The version of NVIDIA's driver.
    pub driver: Option<String>,
    /// The version of NCCL that measured.
    pub nccl: Option<String>,
    /// pass, fail, or unknown.
    pub verdict: &'static str,
    /// All checks, also those of the parts.
    pub checks: Vec<Check>,
    /// The programs that measured, or were to measure.
    pub programs: Vec<ProgramRun>,
    /// The faults of the machine.
    pub doctor: DoctorReport,
    /// The collectives beside what is expected; null if none was measured.
    pub results: Option<ResultsReport>,
    /// The measured links, and what they allow; null if none was measured.
    pub links: Option<BoundReport>,
    /// The devices of the machine.
    #[serde(skip)]
    machine: Page,
}

impl ProgramRun {
    /// The tables that it printed.
    pub fn tables(&self) -> Vec<ReadTable> {
        let read = read(&self.command, &self.out, &mut Timed::default());
        read.map_or(Vec::new(), |it| it.tables)
    }
}

impl AcceptanceReport {
    /// Judges what programs printed.
    pub fn of(known: AcceptedMachine<'_>, programs: Vec<ProgramRun>) -> Self {
        let mut checks = known.doctor.checks.clone();
        for it in &programs {
            if let Some(why) = &it.failure {
                let check = Check::new(&it.part, &it.command, Maturity::Measured);
                checks.push(match it.is_wrong {
                    true => check.judged(false, why),
                    false => check.unknown(format!("{}: {why}", it.command)),
                });
            }
        }
        let machine = Machine::new(&*known.host, known.document);
        let check = |part: &str| Check::new(part, "what was measured", Maturity::Measured);
        let measures = programs.iter().any(|it| it.part != LINKS);
        if known.collectives_elsewhere {
            checks.push(check("collectives").skipped("the first host judges them"));
        } else if !measures {
            checks.push(check("collectives").unknown("no GPU measured a collective"));
        }
        let results = of_collectives(&machine, &programs);
        let links = of_links(machine, known.settings, &programs);
        let reasons = [
            ("collectives", results.as_ref().err()),
            (LINKS, links.as_ref().err()),
        ];
        let unknown = reasons
            .into_iter()
            .filter_map(|(part, why)| Some(check(part).unknown(why?)));
        checks.extend(unknown);
        let (results, links) = (results.ok().flatten(), links.ok().flatten());
        checks.extend(results.iter().flat_map(|it| it.checks.iter().cloned()));
        checks.extend(links.iter().flat_map(|it| it.checks.iter().cloned()));
        let mut tables = results.iter().flat_map(|it| &it.tables);
        Self {
            host: known.host,
            topo: known.topo,
            driver: known.driver,
            nccl: tables.find_map(|it| it.nccl.clone()),
            verdict: verdict(&checks).word(),
            checks,
            programs,
            doctor: known.doctor,
            results,
            links,
            machine: known.page,
        }
    }

    /// The page: the verdict and what it is made of, then the parts.
    pub fn page(&self) -> Page {
        let mut page = Page::new(format!("Acceptance of {}", self.host));
        page.field("verdict", self.verdict.to_uppercase());
        let versions = [
            ("topo", Some(self.topo)),
            ("driver", self.driver.as_deref()),
            ("nccl", self.nccl.as_deref()),
        ];
        for (name, version) in versions {
            page.field(name, version.unwrap_or("unknown"));
        }
        let open = |it: &&Check| matches!(it.verdict, Verdict::Fail | Verdict::Unknown(_));
        let mut open: Vec<&Check> = self.checks.iter().filter(open).collect();
        open.sort_by_key(|it| it.verdict != Verdict::Fail);
        if !open.is_empty() {
            let mut table = Table::new(["check", "verdict", "of", "why", "proof"]);
            for it in open {
                let (word, why) = (it.verdict.word(), it.reason());
                table.row(row![it.id, word, it.looked_at, why, it.proof]);
            }
            page.section("To mend or to clear", "").table(table);
        }
        page.section("", "").faint(summary(&self.checks));
        let mut table = Table::new(["measured", "by", "ended"]);
        for it in &self.programs {
            table.row(row![
                it.part,
                it.command,
                it.failure.as_deref().unwrap_or("well")
            ]);
        }
        if !table.is_empty() {
            page.section("Programs", "").table(table);
        }
        page.append(self.machine.clone());
        page.section("Findings", "of this machine");
        let parts = self.doctor.as_page().into_iter();
        let parts = parts.chain(self.results.iter().flat_map(ResultsReport::pages));
        for part in parts.chain(self.links.iter().map(BoundReport::page)) {
            page.append(part);
        }
        page
    }
}

impl Report for AcceptanceReport {
    const FORMAT: &'static str = "topo-acceptance";
    const VERSION: u32 = 1;
}

/// The measured collectives beside what is expected, or why nothing can be.
fn of_collectives(
    machine: &Machine,
    programs: &[ProgramRun],
) -> Result<Option<ResultsReport>, String> {
    let ended = |it: &&ProgramRun| it.part != LINKS && it.failure.is_none();
    let mut tables = Vec::new();
    for it in programs.iter().filter(ended) {
        tables.extend(it.tables());
    }
    if tables.is_empty() {
        return Ok(None);
    }
    let question = ResultsQuestion {
        against: Against::Machine(Box::new(JobSpec::of(machine.clone()))),
        accepts: true,
        ..ResultsQuestion::default()
    };
    let found = results(tables, &question, &mut Notes::default());
    found.map(Some).map_err(|why| why.to_string())
}

/// The measured links and what they allow, or why they cannot be judged.
fn of_links(
    machine: Machine,
    settings: &Settings,
    programs: &[ProgramRun],
) -> Result<Option<BoundReport>, String> {
    let Some(run) = programs
        .iter()
        .find(|it| it.part == LINKS && it.failure.is_none())
    else {
        return Ok(None);
    };
    let measured = Measurements::read(&run.command, run.out.as_bytes());
    let measured = measured.map_err(|why| why.to_string())?;
    let made = JobSpec::of(machine).job().map_err(|why| why.to_string())?;
    let planned = planner::plan(&made.job, settings).map_err(|why| why.to_string())?;
    let links = MeasuredLinks::of(&planned, &measured).map_err(|why| why.to_string())?;
    let links = OnMeasured::new(&planned, links, None).map_err(|why| why.to_string())?;
    let question = BoundQuestion {
        without_trees: true,
        ..BoundQuestion::default()
    };
    bound_on(&links, &question)
        .map(Some)
        .map_err(|why| why.to_string())
}
