//! The choices of algorithm, transfer, protocol and channels that serve a request.

use executor::backend::CommunicatorShape;
use executor::{BufferAccess, Choice, Request};
use program::{Collective, Protocol, Reduction};
use program::{Schedule, Transfer};

use crate::model::Prediction;
use crate::profile::STAGED_PIECE_BYTES;
use crate::work::{steps, work};

/// A choice for a request, with its expected time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ExplainedChoice {
    /// The choice.
    pub choice: Choice,
    /// Its expected time, µs.
    pub time_us: f64,
    /// The parts of the time, if the model predicts it; `None` if it was measured.
    pub parts: Option<Prediction>,
    /// Slots and signals that all ranks send; `None` for an algorithm without a model.
    pub messages: Option<f64>,
}

/// Slots and signals that all ranks send.
pub(crate) fn messages(
    collective: Collective,
    choice: &Choice,
    shape: CommunicatorShape,
    bytes: u64,
) -> Option<f64> {
    let all = work(collective, choice, (shape.ranks, shape.hosts), bytes)?.all;
    Some(all.messages + all.signals)
}

/// The choices to compare for a request: those that serve, can be the fastest, and have a model (a
/// forest's time is that of its plan), without those with long proofs if any has a short one.
pub(crate) fn compared(request: &Request, shape: CommunicatorShape) -> Vec<Choice> {
    let collective = request.collective;
    let leaders = u16::try_from(shape.crowd.cores).unwrap_or(u16::MAX);
    let leaders = leaders.clamp(1, shape.channels.max(1));
    let choices = all_choices(collective).flat_map(|choice| {
        // More channels only help an algorithm that leaves ranks without work.
        let by_leaders =
            choice.schedule == Schedule::Leader || choice.transfer == Transfer::Hierarchical;
        let several = by_leaders && leaders > 1;
        let several = several.then_some(Choice {
            channels: leaders,
            ..choice
        });
        [choice].into_iter().chain(several)
    });
    let hosts = (shape.ranks, shape.hosts);
    let serving = |it: &Choice| {
        serves(request, it, shape) && pays(it, shape) && work(collective, it, hosts, 1).is_some()
    };
    let mut all: Vec<Choice> = choices.filter(serving).collect();
    // The processes of a machine prove at the same time.
    let processes = match shape.one_process {
        true => 1.0,
        false => f64::from(shape.crowd.ranks) / f64::from(shape.crowd.cores.max(1)),
    };
    let steps = |it: &Choice| steps(collective, it, hosts);
    let fewest = all.iter().map(steps).fold(f64::INFINITY, f64::min);
    let most = STEPS_A_SECOND / processes.max(1.0);
    let most = most.max(MANY_STEPS).max(fewest);
    all.retain(|it| steps(it) <= most);
    all
}

/// Whether a choice can carry out a request.
pub fn serves(request: &Request, choice: &Choice, shape: CommunicatorShape) -> bool {
    let collective = request.collective;
    let reaches = match choice.transfer {
        Transfer::Fifo => true,
        it if it.accesses_buffers() && shape.buffers == BufferAccess::Refused => false,
        Transfer::Direct | Transfer::Staged => shape.hosts == 1,
        Transfer::Hierarchical => shape.even_hosts || !collective.splits_message(),
    };
    if !reaches || !choice.schedule.serves(collective, choice.transfer) {
        return false;
    }
    // A direct transfer reads its sources in shape: it cannot multiply them first, they must not be
    // overwritten during the transfer, and the peers of a group have no buffer tables.
    let multiplies = collective.reduces() && request.reduction == Reduction::PreMultipliedSum;
    let overwritten = collective == Collective::AllToAll
        && request.in_place
        && shape.ranks > 1
        && choice.transfer.accesses_buffers();
    choice.transfer == Transfer::Fifo
        || !(multiplies || overwritten || collective == Collective::SendRecv)
}

/// Whether a choice can be the fastest: copies to scratch memory only pay where peers cannot map
/// the buffers.
pub fn pays(choice: &Choice, shape: CommunicatorShape) -> bool {
    choice.transfer != Transfer::Staged || shape.buffers != BufferAccess::Mapped
}

/// All choices for a request, each with one channel.
pub fn choices(request: &Request, shape: CommunicatorShape) -> Vec<Choice> {
    let all = all_choices(request.collective);
    all.filter(|choice| serves(request, choice, shape))
        .collect()
}

/// All choices for a collective, each with one channel.
fn all_choices(collective: Collective) -> impl Iterator<Item = Choice> {
    let choices = Schedule::ALL.into_iter().flat_map(|schedule| {
        Transfer::ALL.into_iter().flat_map(move |transfer| {
            // A transfer without a protocol is listed once.
            let protocols = Protocol::ALL.into_iter();
            let once =
                protocols.filter(move |it| transfer.has_protocol() || *it == Protocol::Simple);
            once.map(move |protocol| Choice {
                schedule,
                transfer,
                protocol,
                channels: 1,
                piece_bytes: match transfer {
                    Transfer::Staged => STAGED_PIECE_BYTES,
                    _ => 0,
                },
            })
        })
    });
    choices.filter(move |choice| choice.schedule.serves(collective, choice.transfer))
}

/// Steps of programs that one core proves in a second.
const STEPS_A_SECOND: f64 = 50_000.0;

/// Steps of programs that are always proved: those of a mesh of 32 ranks.
const MANY_STEPS: f64 = 1024.0;
