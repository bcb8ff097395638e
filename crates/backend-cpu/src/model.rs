//! A model of the time of collectives on processors: what each rank does, how often it waits, and
//! how many ranks share a core. Its parameters are fitted to measured times.
//!
//! With a core for each rank, a wait takes the time in which a cache line travels. With fewer
//! cores, a rank that waits lets the others of its core run, and the time of a collective is the
//! work of all ranks divided by the cores.

use executor::backend::CommunicatorShape;
use executor::bootstrap::Crowd;
use executor::{BufferAccess, Choice};
use program::{Collective, Protocol};
use serde::{Deserialize, Serialize};

use crate::work::{Load, work};

/// One number for each protocol of FIFOs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ByProtocol {
    /// LL.
    pub ll: f64,
    /// LL128.
    pub ll128: f64,
    /// Simple.
    pub simple: f64,
}

/// The parameters: times in µs, rates in GB/s.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Model {
    /// Time of a wait if each rank has a core, µs.
    pub hop_us: f64,
    /// Time until another rank of the same core runs, µs.
    pub switch_us: f64,
    /// Time to send a slot and to receive it, besides its bytes, µs.
    pub message_us: ByProtocol,
    /// Rate of bytes through FIFOs, GB/s.
    pub message_gb_s: ByProtocol,
    /// Time to send a signal and to receive it, µs.
    pub signal_us: f64,
    /// Time to access another buffer, besides its bytes, µs.
    pub access_us: f64,
    /// Rate of copies, GB/s.
    pub copy_gb_s: f64,
    /// Rate at which operands are reduced, GB/s.
    pub reduce_gb_s: f64,
    /// Time of an access to memory of a caller in another process, besides its bytes, µs.
    #[serde(default = "usual_kernel_access")]
    pub kernel_access_us: f64,
    /// Rate at which the kernel copies such memory, GB/s.
    #[serde(default = "usual_kernel_rate")]
    pub kernel_gb_s: f64,
    /// Time until a message of another host has arrived, besides sending and receiving it, µs.
    pub network_hop_us: f64,
    /// Time to send a message to another host and to receive it, besides its bytes, µs.
    pub network_message_us: f64,
    /// Rate of bytes between hosts, GB/s.
    pub network_gb_s: f64,
}

const fn usual_kernel_access() -> f64 {
    Model::USUAL.kernel_access_us
}

const fn usual_kernel_rate() -> f64 {
    Model::USUAL.kernel_gb_s
}

/// A predicted time, in parts that follow each other, µs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    /// Waiting for other ranks.
    pub waits_us: f64,
    /// Sending and receiving slots and signals, besides their bytes.
    pub messages_us: f64,
    /// Moving and reducing bytes in memory.
    pub bytes_us: f64,
    /// Sending to other hosts and receiving from them.
    pub network_us: f64,
}

impl Prediction {
    /// The whole time, µs.
    pub const fn time_us(&self) -> f64 {
        self.waits_us + self.messages_us + self.bytes_us + self.network_us
    }

    pub(crate) fn times(self, factor: f64) -> Self {
        Self {
            waits_us: self.waits_us * factor,
            messages_us: self.messages_us * factor,
            bytes_us: self.bytes_us * factor,
            network_us: self.network_us * factor,
        }
    }
}

/// The number of parameters.
pub(crate) const PARAMETERS: usize = 17;

impl Model {
    /// Where a fit begins: the order of magnitude on the servers of the last ten years.
    pub const USUAL: Self = Self {
        hop_us: 0.15,
        switch_us: 1.5,
        message_us: ByProtocol {
            ll: 0.05,
            ll128: 0.05,
            simple: 0.05,
        },
        message_gb_s: ByProtocol {
            ll: 1.5,
            ll128: 4.0,
            simple: 8.0,
        },
        signal_us: 0.05,
        access_us: 0.02,
        copy_gb_s: 10.0,
        reduce_gb_s: 10.0,
        kernel_access_us: 0.5,
        kernel_gb_s: 5.0,
        network_hop_us: 15.0,
        network_message_us: 10.0,
        network_gb_s: 2.0,
    };

    /// Predicted time of a collective of `bytes` bytes, in parts; `None` for an algorithm without a
    /// model.
    pub fn predict(
        &self,
        collective: Collective,
        choice: &Choice,
        shape: &CommunicatorShape,
        bytes: u64,
    ) -> Option<Prediction> {
        let work = work(collective, choice, (shape.ranks, shape.hosts), bytes)?;
        let Crowd { ranks, cores } = shape.crowd;
        let cores = f64::from(cores.clamp(1, ranks.max(1)));
        let share = f64::from(ranks) / cores;
        // The machine's part of the work.
        let part = f64::from(ranks) / f64::from(shape.ranks.max(1));
        let switch = if share > 1.0 {
            self.switch_us * share
        } else {
            0.0
        };
        let wait = if share > 1.0 { switch } else { self.hop_us };
        let network_wait = self.network_hop_us + switch;
        let load = |load| self.load(choice, shape.buffers, load);
        let most = load(&work.most);
        let all = load(&work.all);
        let all = all.times(part / cores);
        let local_rounds = work.rounds - work.network_rounds;
        Some(Prediction {
            waits_us: local_rounds * wait + work.network_rounds * network_wait,
            ..if all.time_us() > most.time_us() {
                all
            } else {
                most
            }
        })
    }

    fn load(&self, choice: &Choice, buffers: BufferAccess, load: &Load) -> Prediction {
        // A GB/s is 1000 bytes/µs.
        let moved = |bytes: f64, gb_s: f64| bytes / (1e3 * gb_s);
        let of = |by: &ByProtocol| match choice.protocol {
            Protocol::Ll => by.ll,
            Protocol::Ll128 => by.ll128,
            Protocol::Simple => by.simple,
        };
        // What is accessed in place lies in another process, but for own operands.
        let by_kernel = match choice.transfer {
            it if !it.accesses_buffers() || buffers == BufferAccess::Mapped => 0.0,
            _ => {
                load.accesses * self.kernel_access_us
                    + moved(load.copied + load.reduced, self.kernel_gb_s)
            }
        };
        Prediction {
            waits_us: 0.0,
            messages_us: load.messages * of(&self.message_us)
                + load.signals * self.signal_us
                + load.accesses * self.access_us,
            bytes_us: moved(load.message_bytes, of(&self.message_gb_s))
                + moved(load.copied, self.copy_gb_s)
                + moved(load.reduced, self.reduce_gb_s)
                + by_kernel,
            network_us: load.network_messages * self.network_message_us
                + moved(load.network_bytes, self.network_gb_s),
        }
    }

    /// A parameter by its number, from 0.
    pub(crate) fn parameter(&mut self, number: usize) -> &mut f64 {
        let all: [&mut f64; PARAMETERS] = [
            &mut self.hop_us,
            &mut self.switch_us,
            &mut self.message_us.ll,
            &mut self.message_us.ll128,
            &mut self.message_us.simple,
            &mut self.message_gb_s.ll,
            &mut self.message_gb_s.ll128,
            &mut self.message_gb_s.simple,
            &mut self.signal_us,
            &mut self.access_us,
            &mut self.copy_gb_s,
            &mut self.reduce_gb_s,
            &mut self.kernel_access_us,
            &mut self.kernel_gb_s,
            &mut self.network_hop_us,
            &mut self.network_message_us,
            &mut self.network_gb_s,
        ];
        let [mut found, rest @ ..] = all;
        for (at, parameter) in (1..).zip(rest) {
            if at == number {
                found = parameter;
            }
        }
        found
    }

    /// All parameters, in the order of their numbers.
    pub(crate) fn parameters(&self) -> [f64; PARAMETERS] {
        let mut copy = *self;
        std::array::from_fn(|it| *copy.parameter(it))
    }

    /// Whether all parameters are above 0.
    pub fn is_valid(&self) -> bool {
        let parameters = self.parameters();
        parameters.iter().all(|it| it.is_finite() && *it > 0.0)
    }
}
