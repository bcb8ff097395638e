//! Collectives on memory of devices, which is given by its addresses.

use executor::{Communicator, Error, Memory, Request};

use crate::backend::Kernels;
use crate::driver::DeviceDriver;

/// Memory of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceMemory {
    /// Its address on the device.
    pub address: u64,
    /// Its length, bytes.
    pub bytes: u64,
}

/// What a communicator of devices runs on their memory.
pub trait RunOnDevice {
    /// Runs a request on memory of this rank's device, which nobody else uses meanwhile. An address
    /// that is none of the device's is a fault of the kernel, which ends the communicator.
    ///
    /// # Errors
    /// As [`Communicator::run`].
    fn run_on_device(
        &mut self,
        request: &Request,
        input: DeviceMemory,
        output: DeviceMemory,
    ) -> Result<(), Error>;
}

impl<M: DeviceDriver> RunOnDevice for Communicator<Kernels<M>> {
    fn run_on_device(
        &mut self,
        request: &Request,
        input: DeviceMemory,
        output: DeviceMemory,
    ) -> Result<(), Error> {
        let pointer =
            |it: DeviceMemory| std::ptr::with_exposed_provenance_mut::<u8>(it.address as usize);
        // SAFETY: only kernels access it, with the device's own checks of addresses.
        #[expect(unsafe_code, reason = "no slice describes memory of a device")]
        let memory = unsafe {
            Memory::at(
                pointer(input).cast_const(),
                input.bytes as usize,
                pointer(output),
                output.bytes as usize,
            )
        };
        self.run(request, memory, 0)
    }
}
