//! The JSON of an execution plan.

use serde::{Deserialize, Serialize};

/// The kind of channels and accesses: through mapped memory.
pub const MEMORY: &str = "memory";

/// An execution plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExecutionPlan {
    /// Its name.
    pub name: String,
    /// The collective.
    pub collective: &'static str,
    /// `Simple`: data, then a signal.
    pub protocol: &'static str,
    /// Output and input are one buffer.
    pub inplace: bool,
    /// Scratch memory is shared by plans.
    pub reuse_resources: bool,
    /// The program of each rank.
    pub gpus: Vec<Gpu>,
    /// Threads of each thread block.
    pub num_threads_per_block: u32,
    /// Scratch memory is there twice.
    pub use_double_scratch_buffer: bool,
    /// The message is a multiple of this, bytes, and of the chunks.
    pub buffer_alignment: u32,
    /// Smallest message, bytes.
    pub min_message_size: u64,
    /// Largest message, bytes.
    pub max_message_size: u64,
}

/// The program of a rank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Gpu {
    /// The rank.
    pub id: u32,
    /// Chunks of the input.
    pub input_chunks: u32,
    /// Chunks of the output, as long as those of the input.
    pub output_chunks: u32,
    /// Chunks of scratch memory.
    pub scratch_chunks: u32,
    /// The thread blocks.
    pub threadblocks: Vec<Threadblock>,
    /// The channels of the rank, numbered in this order.
    pub channels: Vec<Channels>,
    /// Buffers of other ranks, numbered in this order.
    pub remote_buffers: Vec<RemoteBuffer>,
    /// Semaphores between thread blocks.
    pub semaphores: Vec<u32>,
}

/// Channels of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Channels {
    /// The kind.
    pub channel_type: &'static str,
    /// For each channel the rank at its other end. The n-th channels of two ranks to each other are
    /// one.
    pub connected_to: Vec<u32>,
}

/// A buffer of another rank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RemoteBuffer {
    /// The rank.
    pub rank: u32,
    /// Which buffer.
    #[serde(rename = "type")]
    pub kind: BufferType,
    /// How it is accessed.
    pub access_channel_types: Vec<&'static str>,
}

/// A buffer of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum BufferType {
    /// The input.
    #[serde(rename = "i")]
    Input,
    /// The output.
    #[serde(rename = "o")]
    Output,
    /// Scratch memory.
    #[serde(rename = "s")]
    Scratch,
}

/// A thread block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Threadblock {
    /// Its number.
    pub id: usize,
    /// Its operations, one after the other.
    pub ops: Vec<Op>,
    /// Which channels of the rank it uses. Operations number them in this order.
    pub channels: Vec<ChannelRefs>,
    /// Which remote buffers of the rank it uses. Operations number them in this order.
    pub remote_buffer_refs: Vec<RemoteBufferRefs>,
}

/// Channels of a thread block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChannelRefs {
    /// The kind.
    pub channel_type: &'static str,
    /// Numbers among the rank's channels.
    pub channel_ids: Vec<usize>,
}

/// Remote buffers of a thread block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RemoteBufferRefs {
    /// How they are accessed.
    pub access_channel_type: &'static str,
    /// Numbers among the rank's remote buffers.
    pub remote_buffer_ids: Vec<usize>,
}

/// An operation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Op {
    /// Its operation.
    pub name: &'static str,
    /// Channels that are signaled or awaited.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub channel_ids: Vec<usize>,
    /// The kind of channels and accesses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel_type: Option<&'static str>,
    /// The chunks that are read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub src_buff: Vec<Chunks>,
    /// The chunks that are written.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dst_buff: Vec<Chunks>,
    /// The reduction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reduce_op: Option<&'static str>,
}

/// Chunks of a buffer: the rank's own has a type, a remote one a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Chunks {
    /// The rank's own buffer.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<BufferType>,
    /// The number among the remote buffers of the thread block.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buffer_id: Option<usize>,
    /// The first chunk.
    pub index: u32,
    /// The number of chunks.
    pub size: u32,
}
