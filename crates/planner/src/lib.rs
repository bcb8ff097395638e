//! Decides which channels a communicator uses on a machine, as NCCL 2.30 does.

pub mod artifact;
pub mod cluster;
pub mod connect;
pub mod cost;
pub mod error;
pub mod host;
pub mod request;
pub mod routing;
pub mod search;
pub mod settings;
pub mod view;

pub use cluster::{Cluster, ClusterPlan};
pub use connect::JobPlan;
pub use error::Error;
pub use host::{HostPlan, plan_host, plan_views};
pub use request::Request;
pub use routing::Routing;
pub use settings::Settings;
pub use view::View;
