//! `--without` and `--degrade`: edits of the hosts of a job.

use anyhow::{Result, anyhow};
use topology::edit::{Edit, EditError};

use crate::input::Machine;
use crate::suggest;

/// Most names that are offered instead of an unknown one.
const OFFERED: usize = 3;

/// Makes the edits. One that names a host is made there alone, the others on every host that has the device. A file that
/// holds several hosts is edited as a whole: its hosts are those of the job.
pub fn apply(hosts: Vec<(Machine, u32)>, edits: &[Edit]) -> Result<Vec<(Machine, u32)>> {
    edits.iter().try_fold(hosts, one)
}

fn one(mut hosts: Vec<(Machine, u32)>, edit: &Edit) -> Result<Vec<(Machine, u32)>> {
    let is_domain = matches!(&hosts[..], [(machine, 1)] if machine.recorded_hosts() > 1);
    if let Some(host) = edit.host()
        && !is_domain
    {
        let count: u32 = hosts.iter().map(|(_, copies)| copies).sum();
        let at = split_off(&mut hosts, host).ok_or_else(|| {
            anyhow!(
                "{edit}: the job has no host {host}; expected 0 to {}",
                count - 1
            )
        })?;
        let (machine, _) = &mut hosts[at];
        let here = edit.clone().on_host(None);
        machine.document = here.apply(&machine.document).map_err(explain)?;
        machine.edits.push(option(&here));
        return Ok(hosts);
    }
    let (mut done, mut refusal) = (false, None);
    for (machine, _) in &mut hosts {
        match edit.apply(&machine.document) {
            Ok(document) => {
                machine.document = document;
                machine.edits.push(option(edit));
                done = true;
            }
            // Other hosts may have it.
            Err(error @ EditError::UnknownDevice { .. }) => refusal = refusal.or(Some(error)),
            Err(error) => return Err(explain(error)),
        }
    }
    match refusal {
        Some(error) if !done => Err(explain(error)),
        _ => Ok(hosts),
    }
}

/// Makes one host of the job an entry of its own; `None` if the job has no such host.
fn split_off(hosts: &mut Vec<(Machine, u32)>, wanted: u32) -> Option<usize> {
    let mut first = 0;
    let at = hosts.iter().position(|(_, copies)| {
        let inside = wanted - first < *copies;
        if !inside {
            first += copies;
        }
        inside
    })?;
    let (machine, copies) = hosts.remove(at);
    let before = wanted - first;
    let parts = [before, 1, copies - before - 1];
    let added = parts.into_iter().filter(|count| *count > 0);
    let added: Vec<_> = added.map(|count| (machine.clone(), count)).collect();
    hosts.splice(at..at, added);
    Some(at + usize::from(before > 0))
}

/// The option of the command line that asks for an edit.
pub fn option(edit: &Edit) -> String {
    let option = if edit.removes() {
        "--without"
    } else {
        "--degrade"
    };
    let text = edit.to_string();
    if text.contains(' ') {
        format!("{option} '{text}'")
    } else {
        format!("{option} {text}")
    }
}

/// The error with the nearest names.
fn explain(error: EditError) -> anyhow::Error {
    let near = match &error {
        EditError::UnknownDevice { name, known, .. } => {
            suggest::nearest(name, known.iter().map(String::as_str), OFFERED)
        }
        _ => Vec::new(),
    };
    let question = suggest::question(&near);
    let hint = match (&error, near.is_empty()) {
        (EditError::UnknownDevice { .. }, true) => "; `topo show` names those that there are",
        _ => "",
    };
    anyhow!("{error}{question}{hint}")
}
