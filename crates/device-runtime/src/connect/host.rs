//! SHM: connections in host memory that devices can access. The receiver allocates memory that
//! other processes map; each side registers it with its device.

use std::sync::Arc;

use executor::error::Error;
use rustc_hash::FxHashMap;
use shared_memory::{Handle, Mapping};

use super::Connector;
use super::p2p::ConnectionMemory;
use crate::driver::DeviceDriver;

/// Memory of other processes, with its address on the own device.
pub(super) type OpenedMemory = FxHashMap<Handle, u64>;

impl<M: DeviceDriver> Connector<'_, '_, M> {
    pub(super) fn memory(&self, source: shared_memory::Error) -> Error {
        Error::Memory {
            rank: self.rank(),
            cause: Arc::new(source),
        }
    }

    /// Registers host memory with the own device for the driver's lifetime. Returns its address.
    pub(super) fn register(&self, mapping: &Arc<Mapping>) -> Result<u64, Error> {
        let registered = self.shared.driver.register_host(self.device(), mapping);
        let (block, address) = registered.map_err(|why| self.failed(why))?;
        self.shared.keep(block, Some(Arc::clone(mapping)));
        Ok(address)
    }

    /// Allocates memory that other processes of this host can map.
    pub(super) fn share(&mut self, bytes: u64) -> Result<ConnectionMemory, Error> {
        let name = format!("device connections of rank {}", self.rank());
        let mapping = Mapping::shared(&name, bytes as usize);
        let mapping = Arc::new(mapping.map_err(|source| self.memory(source))?);
        let handle = mapping.handle().map_err(|source| self.memory(source))?;
        Ok(ConnectionMemory {
            address: self.register(&mapping)?,
            handle,
        })
    }

    /// Opens `bytes` bytes that a peer shares. Returns their address on the own device.
    pub(super) fn open_shared(&mut self, peer: u32, name: &str, bytes: u64) -> Result<u64, Error> {
        let (handle, offset): (Handle, u64) = self.hear(peer, name)?;
        let end = offset.checked_add(bytes);
        if end.is_none_or(|end| end > handle.bytes) {
            return Err(self.failed(format!(
                "rank {peer} offers `{name}` with {bytes} bytes at {offset} of memory of {} bytes",
                handle.bytes
            )));
        }
        if let Some(address) = self.known.opened.get(&handle) {
            return Ok(address + offset);
        }
        let mapping = Mapping::open(&handle).map_err(|source| self.memory(source))?;
        let address = self.register(&Arc::new(mapping))?;
        self.known.opened.insert(handle, address);
        Ok(address + offset)
    }
}
