//! Execution plans of MSCCL++: what its executor does for a collective, as JSON.
//!
//! A lane of a program becomes a thread block, and the whole message is one turn. A FIFO becomes
//! scratch memory at the receiver, a place for each message, with a signal for "it is there" and
//! one, at the start, for "the place is free". Everything else has a counterpart: signals and waits
//! are those of memory channels, direct access is a remote buffer.
//!
//! Source of the format: MSCCL++'s `execution_plan.cc` and its page on the DSL.
//!
//! In reading order: [`format`](mod@format) (the JSON), `connections`, `layout` (where pieces are),
//! `block` (the operations of a lane).

mod block;
mod connections;
pub mod format;
mod layout;

use program::{Collective, Program};
use thiserror::Error;

use block::Writer;
use connections::Connections;
use format::{Channels, ExecutionPlan, Gpu, RemoteBuffer};
use layout::Layout;

/// Most operations of a thread block (`MAX_OPERATION`).
const MOST_OPERATIONS: usize = 64;

/// Most memory channels, and most remote buffers, of a thread block (`MAX_CHANNEL`).
const MOST_CHANNELS: usize = 16;

/// Most channels of an operation (`MAX_CHANNEL_PER_OPERATION`).
const MOST_PER_OPERATION: usize = 8;

/// Bytes to which messages are aligned.
const ALIGNMENT: u32 = 16;

/// Why MSCCL++ cannot express a program.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NotExpressed {
    /// There is no such collective.
    #[error("MSCCL++ has no plans for {0}")]
    Collective(Collective),
    /// Ranks take no part.
    #[error("{0} of {1} ranks take part; expected all")]
    Ranks(usize, u32),
    /// Channels have different shares.
    #[error("its channels carry different shares of the message; expected equal ones")]
    Shares,
    /// A switch reduces.
    #[error("it reduces in NVSwitches, whose memory MSCCL++ binds itself")]
    Multicast,
    /// A rank reads a peer's memory to another place.
    #[error("rank {0} copies from a peer's memory to another place; MSCCL++'s get keeps places")]
    Get(u32),
    /// A thread block has too many of something.
    #[error("rank {rank} needs {count} {what} in one thread block; MSCCL++ has at most {most}")]
    TooMany {
        /// The rank.
        rank: u32,
        /// How many.
        count: usize,
        /// Of what.
        what: &'static str,
        /// At most.
        most: usize,
    },
}

/// MSCCL++'s name of a collective.
const fn collective_name(collective: Collective) -> Option<&'static str> {
    match collective {
        Collective::AllReduce => Some("allreduce"),
        Collective::AllGather => Some("allgather"),
        Collective::ReduceScatter => Some("reducescatter"),
        _ => None,
    }
}

/// Writes the execution plan of a collective, from the proved programs of all ranks in rank order.
///
/// Reductions are sums.
///
/// # Errors
/// MSCCL++ cannot express it.
pub fn execution_plan(name: &str, programs: &[&Program]) -> Result<ExecutionPlan, NotExpressed> {
    let Some(first) = programs.first() else {
        return Err(NotExpressed::Ranks(0, 0));
    };
    let collective = collective_name(first.collective);
    let collective = collective.ok_or(NotExpressed::Collective(first.collective))?;
    let are_all = (0..).zip(programs).all(|(rank, it)| it.rank == rank);
    if programs.len() != first.ranks as usize || !are_all {
        return Err(NotExpressed::Ranks(programs.len(), first.ranks));
    }
    if first.shares.windows(2).any(|pair| pair[0] != pair[1]) {
        return Err(NotExpressed::Shares);
    }
    let connections = Connections::of(programs);
    let gpus = programs.iter().map(|program| gpu(program, &connections));
    Ok(ExecutionPlan {
        name: name.to_owned(),
        collective,
        protocol: "Simple",
        inplace: first.in_place,
        reuse_resources: false,
        gpus: gpus.collect::<Result<_, _>>()?,
        num_threads_per_block: 1024,
        use_double_scratch_buffer: false,
        buffer_alignment: ALIGNMENT,
        min_message_size: 0,
        max_message_size: u64::MAX,
    })
}

fn gpu(program: &Program, connections: &Connections) -> Result<Gpu, NotExpressed> {
    let mut layout = Layout::of(program, connections);
    let mut buffers: Vec<RemoteBuffer> = Vec::new();
    let mut threadblocks = Vec::new();
    for (id, lane) in program.lanes.iter().enumerate() {
        let writer = Writer::new(program, connections, &mut layout, &mut buffers);
        threadblocks.push(writer.threadblock(id, lane)?);
    }
    let [input_chunks, output_chunks] = layout.caller_chunks();
    Ok(Gpu {
        id: program.rank,
        input_chunks,
        output_chunks,
        scratch_chunks: layout.scratch_chunks(),
        threadblocks,
        channels: vec![Channels {
            channel_type: "memory",
            connected_to: connections.peers(program.rank),
        }],
        remote_buffers: buffers,
        semaphores: Vec::new(),
    })
}
