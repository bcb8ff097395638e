//! Forwarding for another rank of the host (NCCL's PXN): a plan may name the proxy of another rank, whose
//! GPU is next to the NIC, for a connection.
//!
//! The sender makes the FIFO in memory that the other rank opens, connects to that rank's
//! [`HandoverSocket`], and hands the FIFO over ([`lend`]). The proxy thread of the NIC there takes it
//! ([`Served`]). The socket stays open: the sender wakes the thread through it, and tells that it is
//! done; its end tells the sender that everything was sent.

pub(crate) mod handover;
pub(crate) mod lend;
pub(crate) mod request;
pub(crate) mod served;

pub(crate) use handover::{HandoverSocket, Refusal, Taken, Woken};
pub(crate) use lend::{Lender, Lent};
pub(crate) use request::Request;
pub(crate) use served::Served;
