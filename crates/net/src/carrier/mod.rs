//! Carrying for another rank of the host (NCCL's PXN): a plan may name, for what a rank sends, the proxy of the rank beside
//! whose GPU the NIC is.
//!
//! The sender makes the FIFO in memory that the other rank opens, goes to that rank's [`HandoverSocket`], and hands it over
//! ([`lend`]). What takes it is the thread of the NIC there ([`Served`]). The connection between both stays: by it the
//! sender wakes the thread, and says that it is done; its end tells the sender that everything was sent.

pub(crate) mod handover;
pub(crate) mod lend;
pub(crate) mod request;
pub(crate) mod served;

pub(crate) use handover::{HandoverSocket, Refusal, Taken, Woken};
pub(crate) use lend::{Lender, Lent};
pub(crate) use request::Request;
pub(crate) use served::Served;
