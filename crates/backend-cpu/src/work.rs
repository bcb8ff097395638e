//! The work of a collective: what each rank does, and how often it waits for others.

use executor::Choice;
use program::{Collective, Schedule, Transfer};

/// The work of one rank, or of several together.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Load {
    /// Slots that are sent through FIFOs and received, if each message fits in one.
    pub messages: f64,
    /// Bytes in them.
    pub message_bytes: f64,
    /// Signals that are sent, with the bells that they ring.
    pub signals: f64,
    /// Buffers that are read or written in place, each once per step.
    pub accesses: f64,
    /// Bytes that are copied from buffer to buffer.
    pub copied: f64,
    /// Bytes that are read to be reduced.
    pub reduced: f64,
}

/// The work of a collective.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Work {
    /// How often a rank waits, one wait after the other.
    pub rounds: f64,
    /// The work of the rank that has the most.
    pub most: Load,
    /// The work of all ranks together.
    pub all: Load,
}

impl Load {
    fn times(self, factor: f64) -> Self {
        Self {
            messages: self.messages * factor,
            message_bytes: self.message_bytes * factor,
            signals: self.signals * factor,
            accesses: self.accesses * factor,
            copied: self.copied * factor,
            reduced: self.reduced * factor,
        }
    }

    fn sent(messages: f64, bytes: f64) -> Self {
        Self {
            messages,
            message_bytes: messages * bytes,
            ..Self::default()
        }
    }

    fn reducing(self, reduced: f64) -> Self {
        Self { reduced, ..self }
    }
}

impl Work {
    /// The same work for each of `ranks` ranks.
    fn even(rounds: f64, most: Load, ranks: f64) -> Self {
        let all = most.times(ranks);
        Self { rounds, most, all }
    }
}

/// The work of a collective of `bytes` bytes as [`executor::Request::bytes`] counts them; `None`
/// for an algorithm that emulates what switches do.
pub fn work(collective: Collective, choice: &Choice, ranks: u32, bytes: u64) -> Option<Work> {
    if choice.schedule == Schedule::Nvls {
        return None;
    }
    let job = Job {
        collective,
        ranks: f64::from(ranks),
        message: bytes as f64,
        block: bytes as f64 / collective.blocks(ranks).max(1) as f64,
        leaders: f64::from(choice.channels.max(1)),
    };
    Some(match choice.transfer {
        Transfer::Fifo => job.through_fifos(choice.schedule),
        Transfer::Direct => job.in_place(choice.schedule),
        Transfer::Hierarchical => return None,
    })
}

/// A collective, as numbers to calculate with.
struct Job {
    collective: Collective,
    ranks: f64,
    /// Bytes of the message.
    message: f64,
    /// Bytes of a block of it.
    block: f64,
    leaders: f64,
}

impl Job {
    fn through_fifos(&self, schedule: Schedule) -> Work {
        use Collective::{AllReduce, AllToAll};
        let (n, m, b) = (self.ranks, self.message, self.block);
        let (peers, log) = (n - 1.0, n.log2().ceil());
        let reduces = |bytes: f64| match self.collective.reduces() {
            true => bytes,
            false => 0.0,
        };
        let even = |rounds, load| Work::even(rounds, load, n);
        match schedule {
            Schedule::Mesh if self.collective.has_root() => {
                let all = Load::sent(peers, b).reducing(reduces(peers * b));
                let (rounds, most) = (1.0, all);
                Work { rounds, most, all }
            }
            Schedule::Mesh if self.collective == Collective::SendRecv => {
                let most = Load::sent(1.0, b);
                let (rounds, all) = (1.0, most);
                Work { rounds, most, all }
            }
            Schedule::Mesh => even(1.0, Load::sent(peers, b).reducing(reduces(peers * b))),
            Schedule::TwoPhaseMesh => {
                let load = Load::sent(2.0 * peers, m / n).reducing(peers * m / n);
                even(2.0, load)
            }
            Schedule::Ring if self.collective == AllReduce => {
                let load = Load::sent(2.0 * peers, m / n).reducing(peers * m / n);
                even(2.0 * peers, load)
            }
            Schedule::Ring if self.collective.has_root() => {
                let most = Load::sent(1.0, b).reducing(reduces(b));
                Work {
                    rounds: peers,
                    most,
                    all: most.times(peers),
                }
            }
            Schedule::Ring => even(peers, Load::sent(peers, b).reducing(reduces(peers * b))),
            Schedule::ReduceBroadcast => {
                let most = Load::sent(2.0, m).reducing(m);
                let (rounds, all) = (2.0 * peers, most.times(peers));
                Work { rounds, most, all }
            }
            Schedule::Tree => self.tree(log, reduces(b)),
            Schedule::HalvingDoubling => {
                let extra = if n.log2().fract() > 0.0 { 2.0 } else { 0.0 };
                let messages = 2.0 * log + extra;
                let sent = 2.0 * m * peers / n + extra * m;
                let load = Load::sent(messages, sent / messages.max(1.0)).reducing(m * peers / n);
                even(messages, load)
            }
            Schedule::Bruck if self.collective == AllToAll => {
                even(log, Load::sent(log * n / 2.0, b))
            }
            _ => even(log, Load::sent(peers, b).reducing(reduces(peers * b))),
        }
    }

    /// Two children and a parent for each rank.
    fn tree(&self, log: f64, reduced: f64) -> Work {
        let b = self.block;
        let peers = self.ranks - 1.0;
        let (rounds, most, all) = match self.collective {
            Collective::AllReduce => (2.0 * log, Load::sent(3.0, b), Load::sent(2.0 * peers, b)),
            // Each block goes from rank to rank up to the root, or down from it.
            Collective::Gather | Collective::Scatter => {
                (log, Load::sent(peers, b), Load::sent(peers * log / 2.0, b))
            }
            _ => (log, Load::sent(2.0, b), Load::sent(peers, b)),
        };
        Work {
            rounds,
            most: most.reducing(2.0 * reduced),
            all: all.reducing(peers * reduced),
        }
    }

    fn in_place(&self, schedule: Schedule) -> Work {
        use Collective::{AllGather, AllReduce, AllToAll, Reduce, ReduceScatter};
        let (n, m, b) = (self.ranks, self.message, self.block);
        // Each rank signals each other one that its buffers may be used, and that it used theirs.
        let load = Load {
            signals: 2.0 * (n - 1.0),
            accesses: n,
            ..Load::default()
        };
        let (copied, reduced, accesses) = match (schedule, self.collective) {
            (Schedule::Leader, collective) => return self.led(collective),
            (Schedule::TwoPhaseMesh, _) => (m, m, 2.0 * n),
            (_, AllReduce) => (0.0, n * m, n),
            (_, ReduceScatter) => (0.0, n * b, n),
            (_, AllGather | AllToAll) => (n * b, 0.0, n),
            (_, Reduce) => (0.0, m, n),
            _ => {
                let most = Load { copied: b, ..load };
                let all = Load {
                    copied: n * b,
                    ..load.times(2.0)
                };
                let rounds = 2.0;
                return Work { rounds, most, all };
            }
        };
        let load = Load {
            copied,
            reduced,
            accesses,
            ..load
        };
        Work::even(2.0, load, n)
    }

    /// The leaders do everything.
    fn led(&self, collective: Collective) -> Work {
        let (n, m, b) = (self.ranks, self.message, self.block);
        let (copied, reduced, accesses) = match collective {
            Collective::AllReduce => (n * m, n * m, 2.0 * n),
            Collective::ReduceScatter => (0.0, n * n * b, n * n),
            Collective::AllGather => (n * n * b, 0.0, n * n),
            _ => (n * n * b, 0.0, 2.0 * n * n),
        };
        let signals = 2.0 * (n - 1.0);
        let most = Load {
            signals,
            accesses,
            copied: copied / self.leaders,
            reduced: reduced / self.leaders,
            ..Load::default()
        };
        Work {
            rounds: 2.0,
            most,
            all: Load {
                copied,
                reduced,
                ..most.times(self.leaders)
            },
        }
    }
}
