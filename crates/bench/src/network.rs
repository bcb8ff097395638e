//! The network between hosts: sockets, checksums, a net plug-in.

use anyhow::Result;
use net::PluginChoice;
use net_plugin::log::{Level, read_lines};
use serde::{Deserialize, Serialize};

/// How hosts are joined. Processes get it as JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NetworkOptions {
    /// Sockets of each connection.
    pub sockets: u16,
    /// Whether data has checksums.
    pub checksums: bool,
    /// Names of net plug-ins, as in `NCCL_NET_PLUGIN`; `None`: TCP.
    pub plugins: Option<String>,
    /// Lines of a plug-in's log that are printed: `NCCL_DEBUG`, in capitals.
    pub debug: String,
}

impl NetworkOptions {
    /// The plug-in. From now on `print` gets the lines of its log, at the level of `NCCL_DEBUG`.
    ///
    /// # Errors
    /// There are too many names, or one means a plug-in that is linked into the program.
    pub fn plugin(&self, print: fn(&str)) -> Result<PluginChoice> {
        match self.debug.as_str() {
            "WARN" => read_lines(Level::Warning, print),
            "INFO" => read_lines(Level::Information, print),
            "TRACE" => read_lines(Level::Trace, print),
            _ => {}
        }
        match &self.plugins {
            Some(names) => Ok(PluginChoice::parse(names)?),
            None => Ok(PluginChoice::Nothing),
        }
    }

    /// The network of a rehearsal, for people.
    pub fn in_rehearsal(&self) -> String {
        match &self.plugins {
            Some(names) => format!("by the net plug-in {names}"),
            None => "TCP by the loopback interface".to_owned(),
        }
    }
}
