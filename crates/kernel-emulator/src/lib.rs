//! Runs the kernels (`/kernels`) on the processor, so that they are tested on machines without a GPU.
//!
//! The sources are those of the GPU, compiled by the host's C++ compiler. Each GPU thread is a fiber; one thread of this
//! process runs all blocks of a launch, in an order that a seed decides: with a seed other than 0, threads are starved for
//! a while, and others run after something was stored for which they wait. When nobody gets on any more, the launch fails
//! and says where the threads of each block are. Memory is the processor's, or one that keeps no more order than a GPU
//! promises ([`Emulator::with_weak_memory`]).
//!
//! [`Emulator`] is the [`Machine`]; [`communicators`] makes ranks on it. [`Bug`]s can be planted into the kernels, to see
//! whether tests find them.

mod native;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use executor::{Communicator, Error, Memory, Settings};
use kernel_bundle::layout::{Launch, MOST_PARTS};
use kernel_bundle::machine::Start;
use kernel_bundle::{Everywhere, Fleet, Kernel, Kernels, Lent, Machine, Options, Running};

/// A bug in the kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// None.
    None = 0,
    /// Workers say that a step is done before they move its data: a missing barrier before the posting.
    EarlyDone = 1,
    /// A sender does not wait for a free slot.
    NoCredit = 2,
    /// A receiver gives a slot back before it is read.
    EarlyCredit = 3,
    /// LL lines carry the flag of the step before.
    WrongFlag = 4,
    /// The waiter does not wait until the place that it fills is free again.
    NoFree = 5,
    /// A sender does not say what it posted.
    NoTail = 6,
    /// Signals of peers are not awaited.
    NoSignal = 7,
    /// The threads of a warp do not wait for the flag of their LL128 line.
    NoVote = 8,
    /// Old LL flags are not cleaned before the numbers of steps come round.
    NoCleaning = 9,
    /// Loads that acquire and stores that release do not: a weakened fence. On a processor that keeps the order of stores by
    /// itself only weak memory shows it, as the next four, or ThreadSanitizer.
    WeakFence = 10,
    /// Loads that acquire do not.
    NoAcquire = 11,
    /// Stores that release do not.
    NoRelease = 12,
    /// Who waits for an LL line looks at the flag of one half only.
    OneFlag = 13,
    /// The threads that store an LL128 line do not store it together.
    SplitLine = 14,
    /// Of several blocks that carry out a lane, only the first one's signals are awaited.
    OneShare = 15,
}

/// The processor as a machine for kernels.
#[derive(Debug)]
pub struct Emulator {
    seed: AtomicU64,
    bug: Bug,
    weak: bool,
}

impl Emulator {
    /// A machine whose launches run in orders that follow from a seed; with 0, in the plainest order.
    pub fn new(seed: u64, bug: Bug) -> Self {
        Self {
            seed: AtomicU64::new(seed),
            bug,
            weak: false,
        }
    }

    /// The same, with memory that keeps no more order than a GPU promises: what a block stores becomes visible to others
    /// late and in any order, and what it once loaded it may see again, unless a release and an acquire stand between. Only
    /// kernels that move, and those that reduce `i32` and `u8`, are compiled so.
    #[must_use]
    pub fn with_weak_memory(self) -> Self {
        Self { weak: true, ..self }
    }
}

/// Ranks on the emulator, one communicator each.
///
/// # Errors
/// There is no memory.
pub fn communicators(
    ranks: u32,
    settings: &Settings,
    emulator: Emulator,
    options: Options,
) -> Result<Vec<Communicator<Kernels<Emulator>>>, Error> {
    let fleet = Fleet::new(emulator, options, vec![0; ranks as usize]);
    Communicator::local(ranks, settings, |rank| {
        Kernels::new(Arc::clone(&fleet), rank)
    })
}

/// What a launch that has ended looks like: the emulator runs it when it is started.
#[derive(Debug)]
pub struct Ended;

impl Running for Ended {
    fn poll(&mut self) -> Result<bool, String> {
        Ok(true)
    }

    fn give_up(&mut self) {}

    fn time_us(&mut self) -> Option<f64> {
        None
    }
}

impl Machine for Emulator {
    type Block = native::Block;
    type Multicast = native::Multicast;
    type Running = Ended;

    fn name(&self) -> &'static str {
        "emulator"
    }

    fn allocate(&self, _device: u32, bytes: u64) -> Result<(native::Block, u64), String> {
        native::Block::new(bytes)
    }

    fn write(&self, _device: u32, address: u64, bytes: &[u8]) -> Result<(), String> {
        native::write(address, bytes);
        Ok(())
    }

    fn read(&self, _device: u32, address: u64, bytes: &mut [u8]) -> Result<(), String> {
        native::read(address, bytes);
        Ok(())
    }

    fn export(&self, _device: u32, _address: u64) -> Result<String, String> {
        Err("the emulator runs in one process; take ranks that are threads".to_owned())
    }

    fn import(&self, _device: u32, _word: &str) -> Result<u64, String> {
        Err("the emulator runs in one process; take ranks that are threads".to_owned())
    }

    fn multicast(
        &self,
        devices: &[u32],
        bytes: u64,
    ) -> Result<(native::Multicast, Vec<Everywhere>), String> {
        let multicast = native::Multicast::new(devices.len(), bytes)?;
        let ranks = multicast.addresses().map(|own| Everywhere {
            all: multicast.all(),
            own,
        });
        let ranks = ranks.collect();
        Ok((multicast, ranks))
    }

    fn lend(&self, _device: u32, memory: &Memory<'_>) -> Result<Lent<native::Block>, String> {
        Ok(Lent {
            input: memory.input().expose_provenance() as u64,
            output: memory.output().expose_provenance() as u64,
            staging: None,
        })
    }

    fn give_back(
        &self,
        _device: u32,
        _lent: Lent<native::Block>,
        _memory: &Memory<'_>,
    ) -> Result<(), String> {
        Ok(())
    }

    fn resident_blocks(&self, _device: u32, _kernel: Kernel, _threads: u32) -> Result<u32, String> {
        // No more than is pleasant to emulate.
        Ok(64)
    }

    fn start(&self, starts: &[Start<'_>], repeat: u32) -> Result<Ended, String> {
        for start in starts {
            let abort = 0_u32;
            let mut launch = Launch {
                abort: std::ptr::from_ref(&abort).expose_provenance() as u64,
                count: u32::try_from(start.parts.len()).unwrap_or(u32::MAX),
                ..Launch::default()
            };
            if start.parts.len() > MOST_PARTS {
                launch.more = start.parts.as_ptr().expose_provenance() as u64;
            } else {
                launch.parts[..start.parts.len()].copy_from_slice(start.parts);
            }
            for _ in 0..repeat {
                let seed = self.seed.load(Ordering::Relaxed);
                if seed != 0 {
                    // Every launch another order, the same in every run of the test.
                    self.seed
                        .store(seed.wrapping_add(1).max(1), Ordering::Relaxed);
                }
                let blocks = start.blocks();
                let variant = (self.bug, self.weak);
                native::emulate(start.kernel, variant, &launch, blocks, start.threads, seed)?;
            }
        }
        Ok(Ended)
    }
}
