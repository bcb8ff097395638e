//! Advice on an error or a finding of a library, in the commands of this program.

use std::borrow::Cow;

use answers::fabric::FabricQuestion;
use answers::recognize::{Use, recognize};
use answers::request::Evidence;
use answers::simulate::SimulateError;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use findings::{Remedy, Rule};
use plan::certificate::CertificateError;
use simulator::FabricError;

/// Bytes of a file that are looked at for the command that reads it.
const MOST_SEARCHED: usize = 1 << 20;

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

/// The command that reads a file which describes no machine, if there is one.
pub(crate) fn other_command(file: &str, bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(MOST_SEARCHED)]).into_owned();
    let question = FabricQuestion {
        file: file.to_owned(),
        text: text.clone(),
        ..FabricQuestion::default()
    };
    if answers::fabric::fabric(&question).is_ok() {
        return Some("`topo simulate --network-only FILE` reads these switches".to_owned());
    }
    let evidence = Evidence {
        name: file.to_owned(),
        text: Some(text),
        base64: None,
    };
    let found = recognize(&[evidence]).ok()?;
    let part = found.parts.first()?;
    let is_for = |it| part.uses.contains(&it);
    Some(match part.kind.as_str() {
        _ if is_for(Use::Results) => {
            "`topo expect --results FILE` shows these measurements".to_owned()
        }
        _ if is_for(Use::Step) => "`topo step FILE` reads this workload".to_owned(),
        _ if is_for(Use::Machine) => return None,
        kind if part.fails || is_for(Use::Log) || !kind.starts_with("text") => {
            format!("`topo diagnose FILE` reads it ({kind})")
        }
        _ => return None,
    })
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
