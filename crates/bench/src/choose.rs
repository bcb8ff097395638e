//! The choice of algorithm, protocol, transfer and channels.

use anyhow::{Context, Result, bail};
use backend_cpu::{Cpu, choose};
use executor::backend::CommunicatorShape;
use executor::bootstrap::Crowd;
use executor::{BufferAccess, Choice, Communicator, Request};
use program::{Schedule, Transfer};

use crate::Spec;
use answers::names::algorithms;

/// The choice for a request within the limits of the run. All ranks choose the same.
pub fn choose(
    communicator: &mut Communicator<Cpu>,
    spec: &Spec,
    request: &Request,
) -> Result<Choice> {
    let shape = communicator.shape();
    communicator.set_choice(None);
    let usual = communicator.choice(request);
    let channels = match (spec.channels, &usual) {
        (Some(channels), _) => channels,
        (None, Ok(usual)) => usual.channels,
        (None, Err(_)) => 1,
    };
    let channels = channels.min(shape.channels);
    if spec.algorithm.is_none() && spec.transfer.is_none() && spec.protocol.is_none() {
        return Ok(Choice { channels, ..usual? });
    }
    // Among choices without a known time, the one most like the unrestricted choice.
    let usual = usual.ok();
    let unlike = |choice: &Choice| {
        usual.map(|usual| {
            (
                choice.transfer != usual.transfer,
                choice.protocol != usual.protocol,
                choice.schedule != usual.schedule,
            )
        })
    };
    let table = communicator.backend().table(request, shape);
    let bytes = request.bytes(shape.ranks);
    let mut best: Option<(f64, Choice)> = None;
    for choice in within_limits(spec, request, shape)? {
        let choice = Choice { channels, ..choice };
        let time = table.predict(&choice, bytes);
        let time = time.unwrap_or(f64::INFINITY);
        let better = best.is_none_or(|(least, kept)| {
            time < least || time == least && unlike(&choice) < unlike(&kept)
        });
        if better {
            best = Some((time, choice));
        }
    }
    let (_, choice) = best.context("no algorithm is left")?;
    Ok(choice)
}

/// Fails, before ranks are started on this machine, if no choice is within the limits of the
/// run.
pub fn check(spec: &Spec) -> Result<()> {
    let request = Request {
        collective: spec.collective,
        element: spec.element,
        reduction: spec.op,
        root: spec.root,
        to: 0,
        tag: 0,
        in_place: false,
        count: 1,
        choice: None,
    };
    let shape = CommunicatorShape {
        ranks: spec.ranks,
        one_process: !spec.processes,
        hosts: spec.hosts,
        even_hosts: spec.ranks.is_multiple_of(spec.hosts.max(1)),
        channels: 1,
        crowd: Crowd {
            ranks: spec.ranks,
            cores: 1,
        },
        buffers: BufferAccess::Mapped,
    };
    within_limits(spec, &request, shape).map(drop)
}

/// The choices for a request within the limits of the run, at least one, each with one
/// channel.
fn within_limits(spec: &Spec, request: &Request, shape: CommunicatorShape) -> Result<Vec<Choice>> {
    let (schedule, transfer) = (spec.algorithm, spec.transfer);
    let mut choices = choose::choices(request, shape);
    choices.retain(|choice| {
        schedule.is_none_or(|it| it == choice.schedule)
            && transfer.is_none_or(|it| it == choice.transfer)
            && match choice.transfer {
                it if !it.has_protocol() => spec.protocol.is_none(),
                _ => spec.protocol.is_none_or(|it| it == choice.protocol),
            }
    });
    if !choices.is_empty() {
        return Ok(choices);
    }
    let collective = spec.collective;
    let name = collective.command_name();
    let hierarchical = transfer == Some(Transfer::Hierarchical);
    if hierarchical && !shape.even_hosts && collective.splits_message() {
        bail!(
            "hierarchical algorithms for {name} need as many ranks on each host; expected another transfer"
        );
    }
    let all: Vec<&str> = algorithms(collective).map(Schedule::name).collect();
    bail!(
        "no algorithm for {name} fits the algorithm, transfer and protocol that were asked for; expected one of the \
         algorithms {}, with a protocol or, for mesh, two-phase-mesh, leader and nvls, with the direct transfer",
        all.join(", ")
    )
}
