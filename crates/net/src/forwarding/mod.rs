//! Forwarding for another rank of the host (NCCL's PXN): a plan may name the proxy of another rank,
//! whose GPU is next to the NIC, for a connection.
//!
//! The sender makes the FIFO in memory that the other rank opens, connects to that rank's
//! [`HandoverSocket`], and hands the FIFO over ([`hand_over`]). The proxy thread of the NIC there
//! takes it ([`ForwardedFifo`]). The socket stays open: the sender wakes the thread through it, and
//! tells that it is done; its end tells the sender that everything was sent.

pub(crate) mod forwarded;
pub(crate) mod hand_over;
pub(crate) mod request;
pub(crate) mod socket;

pub(crate) use forwarded::ForwardedFifo;
pub(crate) use hand_over::{HandOver, HandOvers, event_of};
pub(crate) use request::Request;
pub(crate) use socket::{HandedOverFifo, HandoverSocket, Refusal, WakeDescriptor};
