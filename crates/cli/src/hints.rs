//! Advice on an error or a finding of a library, in the commands of this program.

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::Path;

use answers::fabric::FabricQuestion;
use answers::recognize::{Part, Use};
use answers::simulate::SimulateError;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use findings::{Remedy, Rule};
use plan::certificate::CertificateError;
use planner::cost::CostProfile;
use simulator::FabricError;

/// Bytes of a file that are looked at for the command that reads it.
const MOST_SEARCHED: usize = 1 << 20;

/// Bytes of the largest file that is read for this.
const MOST_READ: u64 = 64 << 20;

/// The advice on an error, if a command of this program helps.
pub(crate) fn of(error: &anyhow::Error) -> Option<&'static str> {
    error.chain().find_map(|cause| {
        if let Some(plan::Error::NotAPlan { .. }) = cause.downcast_ref() {
            Some("make one with `topo plan`")
        } else if let Some(CertificateError::NotACertificate { .. }) = cause.downcast_ref() {
            Some("make one with `topo bound FILE --certificate FILE`")
        } else if let Some(probe::record::RecordError::NoRecording(_)) = cause.downcast_ref() {
            Some("make one with `topo probe --record DIR`")
        } else if let Some(SimulateError::Fabric(FabricError::Cables)) = cause.downcast_ref() {
            Some("`topo simulate --network-only` says which rings and trees they connect")
        } else {
            None
        }
    })
}

/// Options of commands that read other files than machines.
const MODES: [&str; 3] = ["--results", "--network-only", "--log"];

/// A command that reads a file, and what it does with it.
struct Reader {
    /// Its words: the command, and the options of its mode; none of files that several read.
    words: &'static str,
    /// The advice.
    advice: String,
}

impl Reader {
    fn new(words: &'static str, advice: &str) -> Option<Self> {
        Some(Self {
            words,
            advice: advice.to_owned(),
        })
    }
}

/// The command that reads a file which describes no machine, if there is one.
pub(crate) fn other_command(file: &str, bytes: &[u8]) -> Option<String> {
    let reader = reader(file, bytes)?;
    (reader.words != "plan").then_some(reader.advice)
}

/// The advice on an error about a file of the command line, if another command reads that file.
pub(crate) fn of_files(said: &str, arguments: &[OsString]) -> Option<String> {
    if said.contains("`topo ") {
        return None;
    }
    let is_used = |word: &str| arguments.iter().any(|it| it == word);
    let names = |file: &&str| {
        let stem = Path::new(file).file_stem().and_then(|it| it.to_str());
        let begins = |it: &str| said.starts_with(it) && said[it.len()..].starts_with(' ');
        (names_file(said, file) || stem.is_some_and(begins)) && Path::new(file).is_file()
    };
    // Values of options are what the command asks for.
    let inputs = arguments
        .windows(2)
        .filter_map(|pair| match pair[0].to_str() {
            Some(it) if it.starts_with("--") && !it.contains('=') && !MODES.contains(&it) => None,
            _ => pair[1].to_str(),
        });
    let file = inputs.into_iter().find(names)?;
    let bytes = files::read(Path::new(file), MOST_READ).ok()?;
    let reader = reader(file, &bytes)?;
    let is_known = match reader.words {
        "plan" => {
            let others = MODES.iter().chain(&["diagnose", "step"]);
            !others.into_iter().any(|it| is_used(it))
        }
        "diagnose" => is_used("diagnose"),
        "diagnose FILE" => is_used("diagnose") && !is_used("--log"),
        // The error says that it is a plan.
        "" => {
            let says = said.contains("is a plan") || said.contains("the plan ");
            says && !said.ends_with("of its machines; expected topology files")
        }
        words => words.split(' ').all(is_used),
    };
    (!is_known).then_some(reader.advice)
}

/// Whether an error names a file: not as a part of a word.
fn names_file(said: &str, file: &str) -> bool {
    let is_part = |it: Option<char>| it.is_some_and(|it| it.is_alphanumeric() || it == '/');
    said.match_indices(file).any(|(at, _)| {
        let before = said[..at].chars().next_back();
        !is_part(before) && !is_part(said[at + file.len()..].chars().next())
    })
}

fn reader(file: &str, bytes: &[u8]) -> Option<Reader> {
    let head = &bytes[..bytes.len().min(MOST_SEARCHED)];
    let text = String::from_utf8_lossy(head).into_owned();
    let start = text.trim_start();
    if start.starts_with('{') && text.contains(&format!("\"{}\"", plan::Plan::FORMAT)) {
        let advice = "`topo plan FILE`, `topo show FILE`, `topo cost FILE` and `topo diff FILE` read this plan";
        return Reader::new("", advice);
    }
    if start.starts_with('{') && plan::certificate::Certificate::from_json(&text).is_ok() {
        return Reader::new(
            "bound --check",
            "`topo bound --check FILE` checks these proofs",
        );
    }
    if start.starts_with("<graphs") {
        let advice = "`topo plan TOPOLOGY --set NCCL_GRAPH_FILE=FILE` plans with this graph file";
        return Reader::new("", advice);
    }
    if CostProfile::from_toml(file, &text).is_ok() {
        let advice = "`topo cost TOPOLOGY --profile FILE` predicts with this cost profile";
        return Reader::new("cost --profile", advice);
    }
    let question = FabricQuestion {
        file: file.to_owned(),
        text,
        ..FabricQuestion::default()
    };
    if answers::fabric::fabric(&question).is_ok() {
        let advice = "`topo simulate --network-only FILE` reads these switches";
        return Reader::new("simulate --network-only", advice);
    }
    let part = Part::of(file, head);
    let is_for = |it| part.uses.contains(&it);
    match part.kind.as_str() {
        _ if is_for(Use::Results) => {
            let advice = "`topo expect --results FILE` shows these measurements";
            Reader::new("expect --results", advice)
        }
        _ if is_for(Use::Step) => Reader::new("step", "`topo step FILE` reads this workload"),
        _ if is_for(Use::Listing) => None,
        _ if is_for(Use::Machine) => Reader::new("plan", "`topo plan FILE` plans this machine"),
        kind if part.fails || is_for(Use::Log) || !kind.starts_with("text") => Reader::new(
            "diagnose",
            &format!("`topo diagnose FILE` reads it ({kind})"),
        ),
        _ => None,
    }
}

/// Commands that take a machine by its name.
const OF_MACHINES: [&str; 9] = [
    "bound", "cost", "engines", "expect", "export", "plan", "show", "simulate", "tune",
];

/// Adds an example to a mistake in the command line, if a command that takes machines has no file.
pub(crate) fn of_usage(said: &mut clap::Error, command: Option<&str>) {
    let lacks_file = said.kind() == ErrorKind::MissingRequiredArgument
        && matches!(said.get(ContextKind::InvalidArg), Some(ContextValue::Strings(names))
            if names.iter().any(|name| name.starts_with("<FILE")));
    let Some(command) = command.filter(|it| lacks_file && OF_MACHINES.contains(it)) else {
        return;
    };
    let tips = [
        format!(
            "`topo {command} dgx-h100` takes a machine that topo knows; `topo show --machines` lists them"
        ),
        "`topo probe > topology.xml` writes the file of this machine".to_owned(),
    ];
    let tips = tips.map(Into::into).to_vec();
    said.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
}

/// The advice about a rule, with the command that writes a file without the fault.
pub(crate) fn advice(rule: Rule) -> Cow<'static, str> {
    let command = match rule.remedy() {
        None => return rule.advice().into(),
        Some(Remedy::Probe) => "topo probe",
        Some(Remedy::Complete) => "topo complete FILE",
        Some(Remedy::Guest) => "topo vm",
    };
    format!("{} (`{command}`)", rule.advice()).into()
}
