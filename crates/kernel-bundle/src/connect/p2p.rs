//! P2P: memory of the receiver's device, which the sender's device accesses. Ranks of one process tell each other addresses;
//! processes export their memory and open that of others (IPC).

use executor::error::Error;

use super::Connector;
use crate::machine::DeviceDriver;

/// Memory of new connections.
pub(super) struct Made {
    /// Its address for the own device.
    pub address: u64,
    /// By what others open it, if it is not named by its address.
    pub handle: Option<String>,
}

impl<M: DeviceDriver> Connector<'_, '_, M> {
    /// Memory of the own device that stays as long as the machine; of other processes too, unless it is the own one's
    /// business alone.
    pub(super) fn allocate(&mut self, bytes: u64, alone: bool) -> Result<u64, Error> {
        let (machine, device) = (&self.process_ranks.machine, self.device());
        let allocated = match alone {
            true => machine.allocate(device, bytes),
            false => machine.allocate_for_peers(device, bytes),
        };
        let (block, address) = allocated.map_err(|why| self.failed(why))?;
        self.process_ranks.keep(block, None);
        Ok(address)
    }

    pub(super) fn device_memory(&mut self, bytes: u64, alone: bool) -> Result<Made, Error> {
        Ok(Made {
            address: self.allocate(bytes, alone)?,
            handle: None,
        })
    }

    /// How others name memory of the own device.
    pub(super) fn word(&self, address: u64, alone: bool) -> Result<String, Error> {
        if alone {
            return Ok(format!("{address:x}"));
        }
        let exported = self.process_ranks.machine.export(self.device(), address);
        exported.map_err(|why| self.failed(why))
    }

    /// Where memory of so many bytes is that a peer offers.
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
        let imported = self
            .process_ranks
            .machine
            .import(self.device(), &offer.text, bytes);
        imported.map_err(|why| self.failed(format!("memory of rank {peer}: {why}")))
    }
}
