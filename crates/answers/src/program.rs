//! A rank's program.

use program::verify::VerifiedProgram;
use program::{Program, Transfer, by_name};
use serde::Serialize;

use crate::JsonSchema;
use crate::report::Report;

/// The steps of one rank for a collective, proved together with the programs of all other ranks.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ProgramReport<'p> {
    #[serde(flatten)]
    program: &'p Program,
    /// How data moves between ranks.
    #[serde(serialize_with = "by_name::serialize")]
    #[schemars(with = "String")]
    transfer: Transfer,
    /// Least slots of each FIFO for which the program is proved.
    fifo_slots: u32,
}

impl Report for ProgramReport<'_> {
    const FORMAT: &'static str = "topo-program";
    const VERSION: u32 = 1;
}

impl<'p> ProgramReport<'p> {
    /// The report of a program that was proved.
    pub fn of(verified: &'p VerifiedProgram, transfer: Transfer) -> Self {
        Self {
            program: verified.program(),
            transfer,
            fifo_slots: verified.fifo_slots(),
        }
    }
}
