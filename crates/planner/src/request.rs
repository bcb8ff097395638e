//! What is to be planned.

use crate::settings::Settings;

/// A job: how many equal hosts, how they are joined, and NCCL's settings.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Hosts in the job, each like the machine that is planned. One NVLink domain counts as its hosts.
    pub hosts: u32,
    /// All hosts of the job form one NVLink domain (MNNVL).
    pub nvlink_domain: bool,
    /// A network that reduces (SHARP) and its plug-in are there.
    pub collnet: bool,
    /// NCCL's environment.
    pub settings: Settings,
}

impl Default for Request {
    fn default() -> Self {
        Self {
            hosts: 1,
            nvlink_domain: false,
            collnet: false,
            settings: Settings::default(),
        }
    }
}
