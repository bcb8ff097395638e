//! P2P: memory of the receiver's device that the sender's device accesses. Ranks of one process
//! exchange addresses; processes export and open memory (IPC).

use executor::error::Error;
use serde::{Deserialize, Serialize};
use shared_memory::Handle;

use super::Connector;
use crate::driver::DeviceDriver;

/// Memory for new connections.
pub(super) struct ConnectionMemory {
    /// The address on the own device.
    pub address: u64,
    /// The handle that peers open, if they do not use the address.
    pub handle: Option<Handle>,
}

/// How peers find memory of a device.
#[derive(Serialize, Deserialize)]
pub(super) enum OfferedAddress {
    /// Its address, for ranks of the process.
    Here(u64),
    /// What the driver of another process imports.
    Exported(String),
}

impl<M: DeviceDriver> Connector<'_, '_, M> {
    /// Allocates memory of the own device for the driver's lifetime. Other processes can open it
    /// unless `alone`.
    pub(super) fn allocate(&mut self, bytes: u64, alone: bool) -> Result<u64, Error> {
        let (driver, device) = (&self.shared.driver, self.device());
        let allocated = match alone {
            true => driver.allocate(device, bytes),
            false => driver.allocate_for_peers(device, bytes),
        };
        let (block, address) = allocated.map_err(|why| self.failed(why))?;
        self.shared.keep(block, None);
        Ok(address)
    }

    pub(super) fn device_memory(
        &mut self,
        bytes: u64,
        alone: bool,
    ) -> Result<ConnectionMemory, Error> {
        Ok(ConnectionMemory {
            address: self.allocate(bytes, alone)?,
            handle: None,
        })
    }

    /// How peers find memory of the own device.
    pub(super) fn offered(&self, address: u64, alone: bool) -> Result<OfferedAddress, Error> {
        if alone {
            return Ok(OfferedAddress::Here(address));
        }
        let exported = self.shared.driver.export(self.device(), address);
        let exported = exported.map_err(|why| self.failed(why))?;
        Ok(OfferedAddress::Exported(exported))
    }

    /// Fetches and opens `bytes` bytes that a peer offers. Returns their address.
    pub(super) fn fetch_address(
        &mut self,
        peer: u32,
        name: &str,
        bytes: u64,
    ) -> Result<u64, Error> {
        let word = match (self.hear(peer, name)?, self.known.peers.is_local(peer)) {
            (OfferedAddress::Here(address), true) => return Ok(address),
            (OfferedAddress::Exported(word), _) => word,
            (OfferedAddress::Here(_), false) => {
                return Err(self.failed(format!(
                    "rank {peer} offers `{name}` to ranks of another process or host than this one"
                )));
            }
        };
        let imported = self.shared.driver.import(self.device(), &word, bytes);
        imported.map_err(|why| self.failed(format!("memory of rank {peer}: {why}")))
    }
}
