//! Calls of a communicator on memory of its rank's GPU.

use crate::communicator::comm::{Comm, check_tag};
use crate::communicator::error::{Code, Fault};
use crate::communicator::gpu::Gpu;
use crate::communicator::queue::Transfer;
use crate::communicator::request::Launch;

impl Comm {
    pub(crate) fn gpu(&self) -> Result<&Gpu, Fault> {
        let none = || {
            Fault::invalid(
                "the communicator has no GPU; all ranks join with TOPO_CUDA and the number of one",
            )
        };
        self.gpu.as_ref().ok_or_else(none)
    }

    /// Enqueues a collective on memory of this rank's GPU behind the work of its stream `stream`,
    /// the driver's handle, and before what the stream gets later. The first call of its kind and
    /// size waits for the other ranks and for collectives before it.
    ///
    /// # Errors
    /// The communicator has no GPU or has failed, or the stream or a buffer cannot be used.
    pub fn run_on(&self, launch: &Launch, stream: u64) -> Result<Code, Fault> {
        let calling = self.calling()?;
        Self::expect_no_group(&calling)?;
        self.gpu()?.enqueue(launch, stream)
    }

    /// Sends or receives on memory of this rank's GPU in the order of a stream, as
    /// [`Self::run_on`]: adds the transfer to the group, or enqueues it.
    ///
    /// # Errors
    /// As [`Self::run_on`]; or there is no such rank.
    pub fn transfer_on(&self, transfer: Transfer, stream: u64) -> Result<Code, Fault> {
        check_tag(&transfer)?;
        self.check_peer(&transfer)?;
        let gpu = self.gpu()?;
        let mut calling = self.calling()?;
        if let Some(group) = &mut *calling.group {
            group.push((transfer, Some(stream)));
            return Ok(Code::Ok);
        }
        gpu.enqueue_transfers(&[transfer], stream)
    }

    /// Enqueues transfers on memory of this rank's GPU, which run together in the order of a
    /// stream, as [`Self::run_on`].
    ///
    /// # Errors
    /// As [`Self::transfer_on`].
    pub fn run_group_on(&self, transfers: &[Transfer], stream: u64) -> Result<Code, Fault> {
        transfers.iter().try_for_each(|it| self.check_peer(it))?;
        let calling = self.calling()?;
        Self::expect_no_group(&calling)?;
        self.gpu()?.enqueue_transfers(transfers, stream)
    }

    /// Registers memory of this rank's GPU, by its address and bytes: collectives on it are reduced
    /// and stored by the switch where it is (NVLS). All ranks call it together, in the same order
    /// with collectives. Returns the window's number.
    ///
    /// # Errors
    /// The communicator has no GPU or has failed; or the memory cannot be registered, on all ranks
    /// alike.
    pub fn register(&self, address: u64, bytes: u64) -> Result<u32, Fault> {
        let calling = self.calling()?;
        Self::expect_no_group(&calling)?;
        self.gpu()?.register(address, bytes)
    }

    /// Ends a registration. All ranks do it in the same order.
    ///
    /// # Errors
    /// There is no such window; or as [`Self::register`].
    pub fn deregister(&self, window: u32) -> Result<Code, Fault> {
        let calling = self.calling()?;
        Self::expect_no_group(&calling)?;
        self.gpu()?.deregister(window).map(|()| Code::Ok)
    }

    /// Whether everything that [`Self::run_on`] and the others enqueued has ended. Any thread may
    /// ask.
    ///
    /// # Errors
    /// The communicator has no GPU or has failed.
    pub fn query(&self) -> Result<Code, Fault> {
        self.check_process()?;
        self.gpu()?.query()
    }
}
