//! Decides which channels a communicator uses on a machine, as NCCL 2.30 does.

pub mod error;
pub mod request;
pub mod routing;
pub mod settings;

pub use error::Error;
pub use request::Request;
pub use settings::Settings;
