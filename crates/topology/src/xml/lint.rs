//! What NCCL silently makes of odd attributes.

use super::Document;
use crate::error::Warning;

/// Looks for attributes that mean something else to NCCL than they seem to say.
pub fn lint(_document: &Document) -> Vec<Warning> {
    Vec::new()
}
