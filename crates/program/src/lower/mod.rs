//! Algorithms: functions that write programs.
//!
//! [`lower`] writes the programs of all ranks for one collective and algorithm, over given rings
//! and trees. [`crate::verify`] proves them, and binding gives them a message size.
//!
//! Every algorithm is a function of one rank and one channel. Within one turn the steps of all
//! ranks match. Steps that run concurrently are in lanes of their own.
//!
//! ```
//! use program::Collective;
//! use program::lower::{ProgramRequest, lower};
//! use program::{Channels, MessageSize, Schedule, Transfer};
//! use program::verify::verify;
//!
//! let channels = Channels::plain(4, 1)?;
//! let request = ProgramRequest {
//!     collective: Collective::AllReduce,
//!     schedule: Schedule::Mesh,
//!     transfer: Transfer::Fifo,
//!     root: 0,
//!     in_place: false,
//!     channels: &channels,
//! };
//! let programs = verify(lower(&request)?, 8)?;
//! let message = MessageSize { count: 2, element_bytes: 4, slot_bytes: 4096, piece_bytes: 0 };
//! let bound = programs[3].bind(&message)?;
//! // Send to three, receive from three: a single turn of two steps.
//! assert_eq!((bound.lanes[0].turns, bound.lanes[0].last.len()), (0, 2));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod all_reduce;
mod all_to_all;
mod direct;
mod forest;
mod gather_scatter;
mod halving;
mod hierarchical;
mod hierarchy;
mod leader;
mod lowering;
mod mesh;
mod multicast;
mod place;
mod placed_forest;
mod relay;
mod request;
mod ring;
mod send_recv;
mod staged;
mod tree;
mod trees;
mod write;

pub use hierarchical::BLOCKS_TOGETHER;
pub use lowering::{Likeness, Lowering};
pub use relay::{RELAY_PIECES, Relayed, relayed};
pub use request::ProgramRequest;
pub use send_recv::{SendRecv, send_recv};

use crate::{ChannelsError, Collective, Program, Schedule, Transfer};
use place::{ChannelLanes, ChannelMember};

/// Most ranks whose programs are written together. The programs of a ring grow with the square of
/// their number.
pub const MOST_RANKS: u32 = 4096;

/// Why programs cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LowerError {
    /// The algorithm does not implement the collective.
    #[error("{schedule} ({transfer}) is no algorithm for {collective}; expected one of {expected}")]
    Unserved {
        /// The collective.
        collective: Collective,
        /// The algorithm.
        schedule: Schedule,
        /// The transfer.
        transfer: Transfer,
        /// The algorithms of the collective.
        expected: String,
    },
    /// Too many ranks to write all programs at once.
    #[error(
        "the programs of {ranks} ranks cannot be written together; expected at most {MOST_RANKS} ranks"
    )]
    Ranks {
        /// Ranks of the communicator.
        ranks: u32,
    },
    /// The root is no rank, or the collective has none.
    #[error(
        "root {root} of {collective}: expected a rank below {ranks}, and 0 where there is no root"
    )]
    Root {
        /// The collective.
        collective: Collective,
        /// The root.
        root: u32,
        /// Ranks of the communicator.
        ranks: u32,
    },
    /// There are no trees for a forest.
    #[error(transparent)]
    Forest(#[from] ChannelsError),
    /// The hosts have different numbers of ranks.
    #[error(
        "{collective} by a hierarchical algorithm needs as many ranks on each host, and they have {fewest} to {most}; \
         take the transfer `fifo`"
    )]
    Uneven {
        /// The collective.
        collective: Collective,
        /// The fewest ranks of a host.
        fewest: u32,
        /// The most ranks of a host.
        most: u32,
    },
    /// In place, the collective would overwrite data that peers have yet to read.
    #[error(
        "{collective} by {schedule} cannot read the peers' buffers in place; take the transfer `fifo`, or two buffers"
    )]
    InPlace {
        /// The collective.
        collective: Collective,
        /// The algorithm.
        schedule: Schedule,
    },
    /// The transfer names ranks or channels that do not exist.
    #[error("a transfer from rank {from} to rank {to} over {channels} channels: {problem}")]
    Transfer {
        /// The sender.
        from: u32,
        /// The receiver.
        to: u32,
        /// How many channels.
        channels: usize,
        /// The fault.
        problem: &'static str,
    },
}

/// Writes the programs of all ranks, in rank order.
///
/// # Errors
/// The algorithm does not serve the collective, the root is no rank, this cannot be done in place,
/// or there are more than [`MOST_RANKS`] ranks.
pub fn lower(request: &ProgramRequest<'_>) -> Result<Vec<Program>, LowerError> {
    lower_all(request, |it| it)
}

/// Writes the programs of all ranks for buffers that are registered: they are at one place of a
/// window of all ranks, which a multicast reaches, and are not copied. Only NVLS has such programs;
/// those of other algorithms are the same as without.
///
/// # Errors
/// As [`lower`].
pub fn lower_registered(request: &ProgramRequest<'_>) -> Result<Vec<Program>, LowerError> {
    lower_all(request, Lowering::registered)
}

fn lower_all<'a>(
    request: &'a ProgramRequest<'a>,
    change: impl FnOnce(Lowering<'a>) -> Lowering<'a>,
) -> Result<Vec<Program>, LowerError> {
    let ranks = request.channels.ranks();
    if ranks > MOST_RANKS {
        return Err(LowerError::Ranks { ranks });
    }
    let lowering = change(Lowering::new(request)?);
    let mut programs: Vec<Program> = (0..ranks).map(|rank| lowering.program(rank)).collect();
    agree(&mut programs);
    Ok(programs)
}

/// Windows and scratch memory must have the same layout on all ranks.
fn agree(programs: &mut [Program]) {
    let fifo_pieces = programs.iter().map(fifo_pieces).max().unwrap_or(0);
    let scratch = programs.iter().map(|program| program.scratch_blocks);
    let scratch = scratch.max().unwrap_or(0);
    for program in programs {
        program.fifo_pieces = fifo_pieces;
        program.scratch_blocks = scratch;
    }
}

/// Most pieces in a FIFO slot.
fn fifo_pieces(program: &Program) -> u16 {
    let steps = program.lanes.iter().flat_map(|lane| &lane.body);
    let through = steps.filter(|step| step.operands().any(|operand| operand.is_fifo()));
    through.map(|step| step.pieces.count).max().unwrap_or(0)
}

fn check(request: &ProgramRequest<'_>) -> Result<(), LowerError> {
    let ProgramRequest {
        collective,
        schedule,
        transfer,
        root,
        ..
    } = *request;
    if collective == Collective::SendRecv || !schedule.serves(collective, transfer) {
        let names = Schedule::ALL.into_iter().filter_map(|schedule| {
            let serves = |it: &Transfer| {
                collective != Collective::SendRecv && schedule.serves(collective, *it)
            };
            let transfers = Transfer::ALL.into_iter().filter(serves);
            let transfers: Vec<&str> = transfers.map(Transfer::name).collect();
            (!transfers.is_empty()).then(|| format!("{schedule} ({})", transfers.join(" or ")))
        });
        let names: Vec<String> = names.collect();
        return Err(LowerError::Unserved {
            collective,
            schedule,
            transfer,
            expected: names.join(", "),
        });
    }
    let ranks = request.channels.ranks();
    if root >= ranks || (root > 0 && !collective.has_root()) {
        return Err(LowerError::Root {
            collective,
            root,
            ranks,
        });
    }
    if request.in_place
        && transfer.accesses_buffers()
        && collective == Collective::AllToAll
        && ranks > 1
    {
        return Err(LowerError::InPlace {
            collective,
            schedule,
        });
    }
    if transfer == Transfer::Hierarchical && collective.splits_message() {
        let (fewest, most) = request.channels.ranks_per_host();
        if fewest != most {
            return Err(LowerError::Uneven {
                collective,
                fewest,
                most,
            });
        }
    }
    Ok(())
}

/// The lanes of one rank and channel.
fn part(place: &ChannelMember<'_>) -> ChannelLanes {
    let request = place.request;
    if place.ranks() == 1 {
        return place.alone();
    }
    if let Some(hierarchy) = place.hierarchy {
        return hierarchical::hierarchical(place, hierarchy);
    }
    match (request.schedule, request.transfer) {
        (Schedule::Mesh, Transfer::Direct) => direct::mesh(place),
        (Schedule::TwoPhaseMesh, Transfer::Direct) => direct::two_phase(place),
        (Schedule::Mesh, Transfer::Staged) => staged::mesh(place),
        (Schedule::TwoPhaseMesh, Transfer::Staged) => staged::two_phase(place),
        (Schedule::Mesh, _) => mesh::mesh(place),
        (Schedule::TwoPhaseMesh, _) => mesh::two_phase(place),
        (Schedule::Ring, _) => ring::ring(place),
        (Schedule::Tree, _) => tree::tree(place),
        (Schedule::Forest, _) => forest::forest(place),
        (Schedule::ReduceBroadcast, _) => all_reduce::reduce_broadcast(place),
        (Schedule::HalvingDoubling, _) => all_reduce::halving_doubling(place),
        (Schedule::RecursiveHalving, _) => halving::reduce_scatter(place),
        (Schedule::RecursiveDoubling, _) => halving::doubling(place),
        (Schedule::Leader, _) => leader::leader(place),
        (Schedule::Nvls, _) if place.registered => multicast::registered(place),
        (Schedule::Nvls, _) => multicast::nvls(place),
        (Schedule::Bruck, _) => all_to_all::bruck(place),
    }
}
