//! Probes fake machines, recorded trees and damaged ones.

mod common;
mod corpus;
mod damage;
mod findings;
mod machines;
mod recording;
