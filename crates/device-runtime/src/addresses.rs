//! Collectives on memory of devices.

use executor::{Communicator, Error, Memory, Request};

use crate::backend::Kernels;
use crate::driver::DeviceDriver;

/// Memory of a device that its driver allocated.
pub struct DeviceBuffer<M: DeviceDriver> {
    _block: M::Block,
    address: u64,
    bytes: u64,
}

impl<M: DeviceDriver> DeviceBuffer<M> {
    /// Zeroed memory of a device.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn new(driver: &M, device: u32, bytes: u64) -> Result<Self, String> {
        Ok(Self::of(driver.allocate(device, bytes)?, bytes))
    }

    /// Memory of a device that other processes can open.
    ///
    /// # Errors
    /// There is not enough memory, or the device cannot share any.
    pub fn for_peers(driver: &M, device: u32, bytes: u64) -> Result<Self, String> {
        Ok(Self::of(driver.allocate_for_peers(device, bytes)?, bytes))
    }

    fn of((block, address): (M::Block, u64), bytes: u64) -> Self {
        Self {
            _block: block,
            address,
            bytes,
        }
    }

    /// Its address on the device.
    pub const fn address(&self) -> u64 {
        self.address
    }

    /// Its length, bytes.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// The runner of collectives on the memory of devices.
pub trait RunOnDevice<M: DeviceDriver> {
    /// Runs a request on the first bytes of buffers of this rank's device, which may be one.
    ///
    /// # Errors
    /// As [`Communicator::run`].
    fn run_on_device(
        &mut self,
        request: &Request,
        input: (&DeviceBuffer<M>, u64),
        output: (&DeviceBuffer<M>, u64),
    ) -> Result<(), Error>;
}

impl<M: DeviceDriver> RunOnDevice<M> for Communicator<Kernels<M>> {
    fn run_on_device(
        &mut self,
        request: &Request,
        input: (&DeviceBuffer<M>, u64),
        output: (&DeviceBuffer<M>, u64),
    ) -> Result<(), Error> {
        let pointer =
            |it: &DeviceBuffer<M>| std::ptr::with_exposed_provenance_mut::<u8>(it.address as usize);
        let bytes = |(buffer, bytes): (&DeviceBuffer<M>, u64)| bytes.min(buffer.bytes) as usize;
        // SAFETY: the driver allocated it, and the buffers are here until the run has ended.
        #[expect(unsafe_code, reason = "no slice describes memory of a device")]
        let memory = unsafe {
            Memory::at(
                pointer(input.0).cast_const(),
                bytes(input),
                pointer(output.0),
                bytes(output),
            )
        };
        self.run(request, memory, 0)
    }
}
