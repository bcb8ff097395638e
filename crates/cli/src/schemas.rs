//! `topo schema`: the schemas of all kinds of JSON.

use anyhow::{Result, bail};

use crate::output::Output;
use crate::probing::ProbeReport;
use answers::bound::BoundReport;
use answers::built_in::MachinesReport;
use answers::communicators::MemoryReport;
use answers::cost::CostReport;
use answers::diagnose::{CausesReport, DiagnoseReport};
use answers::diff::DiffReport;
use answers::doctor::DoctorReport;
use answers::expect::ExpectReport;
use answers::export::{CollConfigs, CrossoversReport, ExportReport};
use answers::fabric::FabricReport;
use answers::log::LogReport;
use answers::matrix::MatrixReport;
use answers::path::PathReport;
use answers::program::ProgramReport;
use answers::rank::RankReport;
use answers::results::ResultsReport;
use answers::settings::SettingsReport;
use answers::show::ShowReport;
use answers::simulate::SimulateReport;
use answers::simulate::experts::ExpertsReport;
use answers::step::StepReport;
use answers::tune::TuneReport;
use answers::what_if::WhatIfReport;
use answers::{report, suggest};

use crate::linux;

/// The name of a kind of JSON without `topo-`, and its schema.
type Kind = (&'static str, fn() -> String);

const SCHEMAS: &[Kind] = &[
    ("bound", report::schema::<BoundReport>),
    ("causes", report::schema::<CausesReport>),
    ("certificate", plan::certificate::certificate_schema),
    ("coll-config", report::schema::<CollConfigs>),
    ("cost", report::schema::<CostReport>),
    ("custom-all-reduce", report::schema::<CrossoversReport>),
    ("diagnose", report::schema::<DiagnoseReport<'static>>),
    ("diff", report::schema::<DiffReport>),
    ("doctor", report::schema::<DoctorReport>),
    ("expect", report::schema::<ExpectReport>),
    ("experts", report::schema::<ExpertsReport>),
    ("export", report::schema::<ExportReport>),
    ("fabric", report::schema::<FabricReport>),
    ("gpu-test", linux::gpu_test_schema),
    ("log", report::schema::<LogReport>),
    ("machines", report::schema::<MachinesReport>),
    ("matrix", report::schema::<MatrixReport>),
    ("memory", report::schema::<MemoryReport>),
    ("nccl-check", linux::nccl_check_schema),
    ("pairs", linux::pairs_schema),
    ("path", report::schema::<PathReport>),
    ("plan", plan::schema),
    ("probe", report::schema::<ProbeReport<'static>>),
    ("program", report::schema::<ProgramReport>),
    ("rank", report::schema::<RankReport>),
    ("results", report::schema::<ResultsReport>),
    ("run", linux::run_schema),
    ("settings", report::schema::<SettingsReport>),
    ("show", report::schema::<ShowReport>),
    ("simulate", report::schema::<SimulateReport>),
    ("step", report::schema::<StepReport>),
    ("tune", report::schema::<TuneReport>),
    ("what-if", report::schema::<WhatIfReport>),
];

/// Prints the schema of a kind, or the names of all.
pub(crate) fn run(name: Option<&str>, output: &mut Output) -> Result<()> {
    let names = SCHEMAS.iter().map(|(name, _)| *name);
    let Some(name) = name else {
        output.text = names.map(|name| format!("{name}\n")).collect();
        return Ok(());
    };
    let Some((_, schema)) = SCHEMAS.iter().find(|(known, _)| *known == name) else {
        let near = suggest::nearest(name, names.clone(), 1);
        let names: Vec<&str> = names.collect();
        bail!(
            "there is no schema `{name}`{}; expected one of {}",
            suggest::question(&near),
            names.join(", ")
        );
    };
    output.text = schema();
    Ok(())
}
