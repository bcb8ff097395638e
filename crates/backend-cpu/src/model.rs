//! A model of the time of collectives on processors: what each rank does, how often it waits, and
//! how many ranks share a core. Its parameters are fitted to measured times.
//!
//! With a core for each rank, a wait takes the time in which a cache line travels. With fewer
//! cores, a rank that waits lets the others of its core run, and the time of a collective is the
//! work of all ranks divided by the cores.

use executor::Choice;
use program::{Collective, Protocol, Transfer};
use serde::{Deserialize, Serialize};

use crate::work::{Load, Work, work};

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
}

/// The number of parameters.
pub(crate) const PARAMETERS: usize = 12;

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
    };

    /// Predicted time of a collective of `bytes` bytes by ranks that share `cores` cores, µs;
    /// `None` for an algorithm without a model.
    pub fn time_us(
        &self,
        collective: Collective,
        choice: &Choice,
        (ranks, cores): (u32, u32),
        bytes: u64,
    ) -> Option<f64> {
        let Work { rounds, most, all } = work(collective, choice, ranks, bytes)?;
        let cores = f64::from(cores.clamp(1, ranks.max(1)));
        let share = f64::from(ranks) / cores;
        let wait = match share > 1.0 {
            true => self.switch_us * share,
            false => self.hop_us,
        };
        let most = self.load_us(choice.protocol, choice.transfer, &most);
        let all = self.load_us(choice.protocol, choice.transfer, &all);
        Some(rounds * wait + most.max(all / cores))
    }

    fn load_us(&self, protocol: Protocol, transfer: Transfer, load: &Load) -> f64 {
        // A GB/s is 1000 bytes/µs.
        let moved = |bytes: f64, gb_s: f64| bytes / (1e3 * gb_s);
        let reduced = moved(load.reduced, self.reduce_gb_s);
        if transfer == Transfer::Direct {
            return load.signals * self.signal_us
                + load.accesses * self.access_us
                + moved(load.copied, self.copy_gb_s)
                + reduced;
        }
        let of = |by: &ByProtocol| match protocol {
            Protocol::Ll => by.ll,
            Protocol::Ll128 => by.ll128,
            Protocol::Simple => by.simple,
        };
        let sent = moved(load.message_bytes, of(&self.message_gb_s));
        load.messages * of(&self.message_us) + sent + reduced
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
        ];
        let [mut found, rest @ ..] = all;
        for (at, parameter) in (1..).zip(rest) {
            if at == number {
                found = parameter;
            }
        }
        found
    }

    /// Whether all parameters are above 0.
    pub fn is_valid(&self) -> bool {
        let mut copy = *self;
        (0..PARAMETERS).all(|it| {
            let value = *copy.parameter(it);
            value.is_finite() && value > 0.0
        })
    }
}
