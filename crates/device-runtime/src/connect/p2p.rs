//! P2P: memory of the receiver's device that the sender's device accesses. Ranks of one process
//! exchange addresses; processes export and open memory (IPC).

use executor::error::Error;

use super::Connector;
use crate::driver::DeviceDriver;

/// Memory for new connections.
pub(super) struct ConnectionMemory {
    /// The address on the own device.
    pub address: u64,
    /// The handle that peers open, if they do not use the address.
    pub handle: Option<String>,
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

    /// The text with which peers find memory of the own device: an address or an exported handle.
    pub(super) fn word(&self, address: u64, alone: bool) -> Result<String, Error> {
        if alone {
            return Ok(format!("{address:x}"));
        }
        let exported = self.shared.driver.export(self.device(), address);
        exported.map_err(|why| self.failed(why))
    }

    /// Fetches and opens `bytes` bytes that a peer offers. Returns their address.
    pub(super) fn fetch_address(
        &mut self,
        peer: u32,
        name: &str,
        bytes: u64,
    ) -> Result<u64, Error> {
        let offer = self.own.bootstrap.fetch(peer, name, self.own.longest)?;
        if self.known.peers.is_local(peer) {
            let address = u64::from_str_radix(&offer.text, 16);
            return address.map_err(|_| {
                self.failed(format!("rank {peer} offers `{name}` in an unknown form"))
            });
        }
        let imported = self.shared.driver.import(self.device(), &offer.text, bytes);
        imported.map_err(|why| self.failed(format!("memory of rank {peer}: {why}")))
    }
}
