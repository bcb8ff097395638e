//! Pairs of blocks, one of which stores what the other one reads.

use std::sync::Arc;
use std::time::Duration;

use cudarc::driver::result;
use device_runtime::layout::LaunchPart;
use device_runtime::{DeviceDriver, LITMUS_PAIR_BYTES, LitmusKernel};
use shared_memory::Mapping;

use crate::error::words;
use crate::memory::{Block, Plain};

use super::Litmus;

/// Threads of a warp.
const WARP: u32 = 32;

/// The memory under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The GPU's.
    Gpu,
    /// The host's, registered with the GPU as that of the transport SHM.
    Host,
}

/// Memory under test.
pub(super) struct Memory {
    pub(super) address: u64,
    _block: Block,
}

/// The readers' observations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observed {
    /// Number of pairs.
    pub pairs: u32,
    /// Rounds of all pairs.
    pub rounds: u64,
    /// Wrong words of 8 bytes.
    pub wrong: u64,
    /// Mean time of a round, µs.
    pub round_us: f64,
}

impl Litmus<'_> {
    /// Zeroed memory.
    pub(super) fn memory(&self, place: Place, bytes: u64) -> Result<Memory, String> {
        let (block, address) = match place {
            Place::Gpu => self.cuda.allocate(0, bytes)?,
            Place::Host => {
                let mapping = Mapping::private("litmus", bytes as usize);
                let mapping = mapping.map_err(|error| error.to_string())?;
                self.cuda.register_host(0, &Arc::new(mapping))?
            }
        };
        Ok(Memory {
            address,
            _block: block,
        })
    }

    /// Lets a warp of each pair store lines for about `time`, while another warp polls them.
    /// `protocol` is a number of `kernels/arguments.h`.
    ///
    /// # Errors
    /// There is no memory, the driver refuses the launch, or the kernel failed.
    pub fn lines(
        &self,
        protocol: u32,
        place: Place,
        pairs: u32,
        time: Duration,
    ) -> Result<Observed, String> {
        self.pairs(LitmusKernel::Lines, (pairs, WARP), (protocol, place), time)
    }

    /// Lets all threads of a block of each pair store data, and one of them a counter behind it,
    /// for about `time`, while another block waits for the counter and reads.
    ///
    /// # Errors
    /// As [`Self::lines`].
    pub fn messages(&self, threads: u32, pairs: u32, time: Duration) -> Result<Observed, String> {
        let size = (pairs, threads);
        self.pairs(LitmusKernel::Messages, size, (0, Place::Gpu), time)
    }

    /// Runs `pairs` pairs, or as many as fit on the GPU at once.
    fn pairs(
        &self,
        kernel: LitmusKernel,
        (pairs, threads): (u32, u32),
        (protocol, place): (u32, Place),
        time: Duration,
    ) -> Result<Observed, String> {
        let function = self.module.function(kernel);
        let function = function.ok_or_else(|| format!("there is no kernel {kernel:?}"))?;
        // SAFETY: the function is of a module that is loaded.
        let most = unsafe {
            result::occupancy::max_active_block_per_multiprocessor(function, threads as i32, 0)
        };
        let most = u32::try_from(most.map_err(words)?).unwrap_or_default();
        let resident = most * self.device.properties.multiprocessors;
        let pairs = pairs.min(resident / 2);
        if pairs == 0 {
            return Err(format!(
                "GPU {} runs {resident} blocks of {threads} threads at a time; expected 2 at least",
                self.device.number
            ));
        }
        let blocks = 2 * pairs;
        let memory = self.memory(place, u64::from(pairs) * LITMUS_PAIR_BYTES)?;
        let wrong = Plain::new(&self.device, u64::from(blocks * threads) * 8)?;
        let results = Plain::new(&self.device, u64::from(blocks) * 16)?;
        let part = LaunchPart {
            buffers: [memory.address, wrong.address, results.address],
            launch: time.as_nanos() as u64,
            protocol,
            ..LaunchPart::default()
        };
        self.run(kernel, (blocks, threads), part, time)?;
        let wrong = self.all_numbers(&wrong)?;
        let results = self.all_numbers(&results)?;
        // The odd blocks read.
        let readers = || results.as_chunks::<4>().0.iter().map(|it| (it[2], it[3]));
        let round_us = |(rounds, ns): (u64, u64)| ns as f64 / rounds.max(1) as f64 / 1e3;
        Ok(Observed {
            pairs,
            rounds: readers().map(|(rounds, _)| rounds).sum(),
            wrong: wrong.iter().fold(0, |all, it| all.saturating_add(*it)),
            round_us: readers().map(round_us).sum::<f64>() / f64::from(pairs),
        })
    }

    fn all_numbers(&self, memory: &Plain) -> Result<Vec<u64>, String> {
        let mut bytes = vec![0; memory.bytes as usize];
        self.cuda.read(0, memory.address, &mut bytes)?;
        let words = bytes.as_chunks::<8>().0.iter();
        Ok(words.map(|word| u64::from_ne_bytes(*word)).collect())
    }
}
