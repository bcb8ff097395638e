//! The reasons why a certificate is refused.

use super::Operation;

/// A certificate that proves nothing, with the place of the fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    /// The file is no certificate.
    #[error("this is not a certificate: {found}")]
    NotACertificate {
        /// The content of the file instead.
        found: String,
    },
    /// There is no bound.
    #[error("the certificate has no bound, so it proves nothing; expected at least one")]
    Empty,
    /// The file would be too large to be read again.
    #[error(
        "the certificate would have {bytes} bytes; files of at most {most} are read: prove fewer \
         collectives"
    )]
    TooLarge {
        /// Bytes of the file.
        bytes: u64,
        /// The limit.
        most: u64,
    },
    /// The sets of the proofs are too many for the links.
    #[error(
        "checking the proofs takes {steps} steps; at most {most} are taken: describe equal hosts by \
         one side"
    )]
    TooLong {
        /// Links and vertices that are looked at, over all sets.
        steps: u128,
        /// The limit.
        most: u128,
    },
    /// The capacity graph contradicts itself.
    #[error("the certificate's graph is refused at {at}: {problem}")]
    Graph {
        /// The part, as a path of fields.
        at: String,
        /// The fault.
        problem: String,
    },
    /// A proof does not hold.
    #[error("the proof of {operation} is refused: {problem}")]
    Proof {
        /// The operation.
        operation: Operation,
        /// The fault.
        problem: String,
    },
    /// The forest of an operation does not hold.
    #[error("the forest of {operation} is refused: {problem}")]
    Forest {
        /// The operation.
        operation: Operation,
        /// The fault.
        problem: String,
    },
}
