//! `topo gen schema`: the schemas of all kinds of JSON.

use answers::suggest;
use anyhow::{Result, bail};

use crate::output::Output;

/// The name of a kind of JSON without `topo-`, and its schema.
type Kind = (&'static str, &'static str);

macro_rules! schemas {
    ($($name:literal)*) => {
        &[$(($name, include_str!(concat!("../../../docs/schemas/", $name, ".schema.json")))),*]
    };
}

const SCHEMAS: &[Kind] = schemas! {
    "acceptance"
    "bound"
    "causes"
    "certificate"
    "cost"
    "cost-beside"
    "custom-all-reduce"
    "diagnose"
    "diff"
    "doctor"
    "engines"
    "expect"
    "expect-beside"
    "experts"
    "export"
    "fabric"
    "gpu-test"
    "log"
    "machines"
    "matrix"
    "memory"
    "nccl-check"
    "pairs"
    "path"
    "plan"
    "probe"
    "program"
    "questions"
    "rank"
    "results"
    "run"
    "settings"
    "show"
    "simulate"
    "step"
    "step-beside"
    "tune"
    "watch"
    "what-if"
};

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
    (*schema).clone_into(&mut output.text);
    Ok(())
}

/// The published schemas are those of the types.
#[cfg(all(test, feature = "schema", target_os = "linux"))]
mod tests {
    use answers::acceptance::AcceptanceReport;
    use answers::bound::BoundReport;
    use answers::built_in::MachinesReport;
    use answers::communicators::MemoryReport;
    use answers::cost::CostReport;
    use answers::cost::beside::CostsBeside;
    use answers::diagnose::CausesReport;
    use answers::diff::DiffReport;
    use answers::doctor::DoctorReport;
    use answers::engines::EnginesReport;
    use answers::expect::ExpectReport;
    use answers::expect::beside::ExpectationsBeside;
    use answers::export::{CrossoversReport, ExportReport};
    use answers::fabric::FabricReport;
    use answers::log::LogReport;
    use answers::matrix::MatrixReport;
    use answers::path::PathReport;
    use answers::program::ProgramReport;
    use answers::rank::RankReport;
    use answers::report;
    use answers::results::ResultsReport;
    use answers::settings::SettingsReport;
    use answers::show::ShowReport;
    use answers::simulate::SimulateReport;
    use answers::simulate::experts::ExpertsReport;
    use answers::step::StepReport;
    use answers::step::beside::SideBySide;
    use answers::tune::TuneReport;
    use answers::what_if::WhatIfReport;

    use bench::cuda::pairs::PairsJson;
    use bench::gpu_test::report::GpuTestReport;
    use bench::json::RunJson;
    use nccl_binary::check::Check;

    use super::SCHEMAS;
    use crate::probing::ProbeReport;
    use crate::watch::WatchLine;

    /// The name of a kind of JSON, and what makes its schema.
    type Maker = (&'static str, fn() -> String);

    const MADE: &[Maker] = &[
        ("acceptance", report::schema::<AcceptanceReport>),
        ("bound", report::schema::<BoundReport>),
        ("causes", report::schema::<CausesReport>),
        ("certificate", plan::certificate::certificate_schema),
        ("cost", report::schema::<CostReport>),
        ("cost-beside", report::schema::<CostsBeside>),
        ("custom-all-reduce", report::schema::<CrossoversReport>),
        ("diagnose", report::schema::<diagnose::Diagnosis>),
        ("diff", report::schema::<DiffReport>),
        ("doctor", report::schema::<DoctorReport>),
        ("engines", report::schema::<EnginesReport>),
        ("expect", report::schema::<ExpectReport>),
        ("expect-beside", report::schema::<ExpectationsBeside>),
        ("experts", report::schema::<ExpertsReport>),
        ("export", report::schema::<ExportReport>),
        ("fabric", report::schema::<FabricReport>),
        ("gpu-test", report::schema::<GpuTestReport>),
        ("log", report::schema::<LogReport>),
        ("machines", report::schema::<MachinesReport>),
        ("matrix", report::schema::<MatrixReport>),
        ("memory", report::schema::<MemoryReport>),
        ("nccl-check", report::schema::<Check>),
        ("pairs", report::schema::<PairsJson>),
        ("path", report::schema::<PathReport>),
        ("plan", plan::schema),
        ("probe", report::schema::<ProbeReport<'static>>),
        ("program", report::schema::<ProgramReport>),
        ("questions", report::questions),
        ("rank", report::schema::<RankReport>),
        ("results", report::schema::<ResultsReport>),
        ("run", report::schema::<RunJson>),
        ("settings", report::schema::<SettingsReport>),
        ("show", report::schema::<ShowReport>),
        ("simulate", report::schema::<SimulateReport>),
        ("step", report::schema::<StepReport>),
        ("step-beside", report::schema::<SideBySide>),
        ("tune", report::schema::<TuneReport>),
        ("watch", report::schema::<WatchLine<'static>>),
        ("what-if", report::schema::<WhatIfReport>),
    ];

    #[test]
    fn published_schemas_are_up_to_date() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schemas");
        for (name, schema) in MADE {
            let path = format!("{folder}/{name}.schema.json");
            let schema = schema();
            if std::env::var_os("TOPO_BLESS").is_some() {
                std::fs::write(&path, &schema).unwrap();
            }
            assert!(
                std::fs::read_to_string(&path).unwrap_or_default() == schema,
                "{path} differs from the code; rewrite it with `TOPO_BLESS=1 cargo test -p topo --features schema schemas` and look at the diff"
            );
        }
        let made: Vec<&str> = MADE.iter().map(|(name, _)| *name).collect();
        let published: Vec<&str> = SCHEMAS.iter().map(|(name, _)| *name).collect();
        assert_eq!(made, published);
        let files = std::fs::read_dir(folder).unwrap().count();
        assert_eq!(
            files,
            made.len(),
            "a file of {folder} is no schema of the program"
        );
    }
}
