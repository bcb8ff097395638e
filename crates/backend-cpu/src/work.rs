//! The work of a collective: what each rank does, and how often it waits for others.

use executor::Choice;
use program::lower::BLOCKS_TOGETHER;
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
    /// Messages that are sent over the network and received.
    pub network_messages: f64,
    /// Bytes in them.
    pub network_bytes: f64,
}

/// The work of a collective.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Work {
    /// How often a rank waits, one wait after the other.
    pub rounds: f64,
    /// How often it waits for the network.
    pub network_rounds: f64,
    /// The work of the rank that has the most.
    pub most: Load,
    /// The work of all ranks together.
    pub all: Load,
}

impl Load {
    fn times(self, factor: f64) -> Self {
        self.with(Self::default(), factor)
    }

    /// This load several times, and another one.
    fn with(self, other: Self, factor: f64) -> Self {
        let sum = |own: f64, other: f64| own * factor + other;
        Self {
            messages: sum(self.messages, other.messages),
            message_bytes: sum(self.message_bytes, other.message_bytes),
            signals: sum(self.signals, other.signals),
            accesses: sum(self.accesses, other.accesses),
            copied: sum(self.copied, other.copied),
            reduced: sum(self.reduced, other.reduced),
            network_messages: sum(self.network_messages, other.network_messages),
            network_bytes: sum(self.network_bytes, other.network_bytes),
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

    /// The same load if so much of its messages goes over the network.
    fn over_network(self, share: f64) -> Self {
        Self {
            network_messages: self.messages * share,
            network_bytes: self.message_bytes * share,
            ..self
        }
    }
}

impl Work {
    fn new(rounds: f64, most: Load, all: Load) -> Self {
        Self {
            rounds,
            network_rounds: 0.0,
            most,
            all,
        }
    }

    /// The same work for each of `ranks` ranks.
    fn even(rounds: f64, most: Load, ranks: f64) -> Self {
        Self::new(rounds, most, most.times(ranks))
    }

    /// The same work if a share of all messages, and of the busiest rank's, goes over the network.
    fn over_network(self, most: f64, all: f64) -> Self {
        Self {
            network_rounds: self.rounds,
            most: self.most.over_network(most),
            all: self.all.over_network(all),
            ..self
        }
    }
}

/// The work of a collective of `bytes` bytes as [`executor::Request::bytes`] counts them, by so
/// many ranks on so many hosts; `None` for an algorithm that emulates what switches do, for a
/// forest, whose trees differ from plan to plan, and for a hierarchical one on one host.
pub fn work(
    collective: Collective,
    choice: &Choice,
    (ranks, hosts): (u32, u32),
    bytes: u64,
) -> Option<Work> {
    let one_host = hosts <= 1;
    let refused = choice.transfer == Transfer::Hierarchical && one_host;
    if matches!(choice.schedule, Schedule::Nvls | Schedule::Forest) || refused {
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
        Transfer::Direct => job.in_place(choice.schedule),
        Transfer::Staged => job.staged(choice.schedule),
        Transfer::Hierarchical => job.hierarchical(choice.schedule, f64::from(hosts)),
        Transfer::Fifo if one_host => job.through_fifos(choice.schedule),
        Transfer::Fifo => {
            let (ranks, hosts) = (f64::from(ranks), f64::from(hosts.min(ranks)));
            let most = match choice.schedule {
                // Of two neighbors in a ring or chain, one is on another host at its ends.
                Schedule::Ring | Schedule::ReduceBroadcast => (1.0, hosts / ranks),
                _ => {
                    let share = (ranks - ranks / hosts) / (ranks - 1.0).max(1.0);
                    (share, share)
                }
            };
            job.through_fifos(choice.schedule)
                .over_network(most.0, most.1)
        }
    })
}

/// About how many steps the programs of all ranks have together: proving them takes longer the more
/// there are.
pub fn steps(collective: Collective, choice: &Choice, (ranks, hosts): (u32, u32)) -> f64 {
    let between = |ranks: f64| match choice.schedule {
        Schedule::Tree if !matches!(collective, Collective::Gather | Collective::Scatter) => ranks,
        Schedule::Mesh | Schedule::Ring if collective.has_root() => ranks,
        Schedule::Leader if collective == Collective::AllReduce => ranks,
        Schedule::HalvingDoubling | Schedule::ReduceBroadcast => ranks * ranks.log2(),
        Schedule::RecursiveDoubling if collective == Collective::AllReduce => ranks * ranks.log2(),
        _ => ranks * ranks,
    };
    let (ranks, hosts) = (f64::from(ranks), f64::from(hosts));
    match choice.transfer {
        Transfer::Fifo | Transfer::Direct | Transfer::Staged => between(ranks),
        // Each block of a rank has its own steps.
        Transfer::Hierarchical if collective.splits_message() => hosts * ranks,
        Transfer::Hierarchical => ranks + between(hosts),
    }
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
                Work::new(1.0, all, all)
            }
            Schedule::Mesh if self.collective == Collective::SendRecv => {
                let most = Load::sent(1.0, b);
                Work::new(1.0, most, most)
            }
            Schedule::Mesh => even(1.0, Load::sent(peers, b).reducing(reduces(peers * b))),
            Schedule::TwoPhaseMesh => self.piecewise(2.0, 2.0 * peers, peers),
            Schedule::Ring if self.collective == AllReduce => {
                self.piecewise(2.0 * peers, 2.0 * peers, peers)
            }
            Schedule::Ring if self.collective.has_root() => {
                let most = Load::sent(1.0, b).reducing(reduces(b));
                Work::new(peers, most, most.times(peers))
            }
            Schedule::Ring => even(peers, Load::sent(peers, b).reducing(reduces(peers * b))),
            Schedule::ReduceBroadcast => {
                let most = Load::sent(2.0, m).reducing(m);
                Work::new(2.0 * peers, most, most.times(peers))
            }
            Schedule::Tree => self.tree(log, reduces(b)),
            Schedule::HalvingDoubling => {
                let extra = if n.log2().fract() > 0.0 { 2.0 } else { 0.0 };
                let rounds = 2.0 * log + extra;
                let sent = 2.0 * m * peers / n + extra * m;
                let load = Load::sent(rounds, sent / rounds.max(1.0)).reducing(m * peers / n);
                // Of a short message, only ranks on the way to its pieces send.
                let pieces = self.pieces();
                let all = Load {
                    messages: (2.0 * peers * pieces).min(n * rounds),
                    ..load.times(n)
                };
                Work::new(rounds, load, all)
            }
            Schedule::RecursiveDoubling if self.collective == AllReduce => {
                even(log, Load::sent(log, m).reducing(log * m))
            }
            Schedule::Bruck if self.collective == AllToAll => {
                even(log, Load::sent(log * n / 2.0, b))
            }
            _ => even(log, Load::sent(peers, b).reducing(reduces(peers * b))),
        }
    }

    /// Pieces with data, if each rank has one.
    fn pieces(&self) -> f64 {
        let lines = self.message / program::ALIGNMENT_BYTES as f64;
        lines.ceil().clamp(1.0, self.ranks)
    }

    /// Each rank sends and reduces pieces of the message.
    fn piecewise(&self, rounds: f64, sent: f64, reduced: f64) -> Work {
        let (n, m) = (self.ranks, self.message);
        let load = Load::sent(sent, m / n).reducing(reduced * m / n);
        // Pieces without data are not sent.
        let filled = self.pieces() / n;
        let most = Load {
            messages: load.messages * filled,
            ..load
        };
        Work::even(rounds, most, n)
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
        let (most, all) = (most.reducing(2.0 * reduced), all.reducing(peers * reduced));
        Work::new(rounds, most, all)
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
                return Work::new(2.0, most, all);
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

    /// Direct transfers that begin with a copy of what others need.
    fn staged(&self, schedule: Schedule) -> Work {
        use Collective::{AllGather, AllReduce, Broadcast, Reduce};
        let (n, m, b) = (self.ranks, self.message, self.block);
        let peers = n - 1.0;
        let copied = match (schedule, self.collective) {
            // What others reduce, the result, and what others reduced.
            (Schedule::TwoPhaseMesh, _) => m * (2.0 * peers + 1.0) / n,
            (_, AllReduce) => m,
            (_, Reduce) => m * (peers + 1.0) / n,
            (_, AllGather) => n * b,
            (_, Broadcast) => b,
            _ => 2.0 * peers * b,
        };
        let reduced = match self.collective {
            AllReduce if schedule == Schedule::Mesh => n * m,
            AllReduce | Reduce => m,
            Collective::ReduceScatter => n * b,
            _ => 0.0,
        };
        let two_phases = schedule == Schedule::TwoPhaseMesh || self.collective == Reduce;
        let rounds = if two_phases { 3.0 } else { 2.0 };
        let load = Load {
            signals: rounds * peers,
            accesses: rounds * n,
            copied,
            reduced,
            ..Load::default()
        };
        if self.collective.has_root() && self.collective != Reduce {
            let all = Load {
                copied: 2.0 * peers * b,
                ..load.times(2.0)
            };
            return Work::new(rounds, load, all);
        }
        Work::even(rounds, load, n)
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
        let all = Load {
            copied,
            reduced,
            ..most.times(self.leaders)
        };
        Work::new(2.0, most, all)
    }

    /// The leaders move and reduce what is on their hosts, and run an algorithm between them.
    fn hierarchical(&self, schedule: Schedule, hosts: f64) -> Work {
        use Collective::{AllGather, AllReduce, AllToAll, Broadcast, Reduce, ReduceScatter};
        let (m, local) = (self.message, self.ranks / hosts);
        // So many blocks, each a message of its own, replace a block between hosts.
        let (copies, message) = match self.collective {
            AllGather | ReduceScatter => (local, m),
            AllToAll => (local * local, m * local),
            _ => (1.0, m),
        };
        let between = Job {
            collective: self.collective,
            ranks: hosts,
            message,
            block: message / self.collective.blocks(hosts as u32).max(1) as f64,
            leaders: 1.0,
        };
        let between = between.through_fifos(schedule).over_network(1.0, 1.0);
        let (copied, reduced) = match self.collective {
            AllReduce => ((local - 1.0) * m, local * m),
            Reduce => (0.0, local * m),
            ReduceScatter => (m, local * m),
            Broadcast | AllGather => ((local - 1.0) * m, 0.0),
            _ => (0.0, 0.0),
        };
        let inside = Load {
            signals: 2.0 * (local - 1.0) * self.leaders,
            accesses: local * self.leaders,
            copied,
            reduced,
            ..Load::default()
        };
        // Several blocks leave in one message of the network.
        let several = |load: Load| Load {
            messages: load.messages * copies,
            network_messages: load.network_messages
                * (copies / f64::from(BLOCKS_TOGETHER)).max(1.0),
            ..load
        };
        let all = inside.with(several(between.all), hosts);
        Work {
            rounds: 2.0 + between.rounds,
            network_rounds: between.rounds,
            most: inside
                .with(several(between.most), 1.0)
                .times(1.0 / self.leaders),
            all,
        }
    }
}
