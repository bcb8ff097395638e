//! The causes of the time of a chain of events.

use crate::model::LinkKind;
use crate::units::Time;

/// A reason why time passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// Before the first step: the launch, and the delays of ranks.
    Start,
    /// From the end of a transfer until the receiver sees it.
    Latency,
    /// Local reductions and copies.
    Work,
    /// NVLink.
    NvLink,
    /// PCI Express and the inside of hosts.
    Pci,
    /// Ports of NICs.
    Nic,
    /// Links between switches.
    Fabric,
}

impl Cause {
    /// All causes.
    pub const ALL: [Self; 7] = [
        Self::Start,
        Self::Latency,
        Self::Work,
        Self::NvLink,
        Self::Pci,
        Self::Nic,
        Self::Fabric,
    ];

    /// The cause of a transfer that a link of this kind limits.
    pub const fn of(kind: LinkKind) -> Self {
        match kind {
            LinkKind::NvLink => Self::NvLink,
            LinkKind::Pci => Self::Pci,
            LinkKind::Nic => Self::Nic,
            LinkKind::Fabric => Self::Fabric,
            LinkKind::Rank => Self::Work,
        }
    }
}

/// The times of a chain of events by cause. Their sum is the time of its last event.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Path {
    times: [u64; Cause::ALL.len()],
    shared: u64,
}

impl Path {
    /// The time that a cause took.
    pub fn of(&self, cause: Cause) -> Time {
        Time(self.times[cause as usize])
    }

    /// The time of the last event.
    pub fn total(&self) -> Time {
        Time(self.times.iter().sum())
    }

    /// The part of the transfers' time that they would not have taken alone on their links.
    pub const fn shared(&self) -> Time {
        Time(self.shared)
    }

    /// The path with more of that part.
    #[must_use]
    pub const fn and_shared(mut self, time: Time) -> Self {
        self.shared += time.0;
        self
    }

    /// The path with another event.
    #[must_use]
    pub fn and(mut self, cause: Cause, time: Time) -> Self {
        self.times[cause as usize] += time.0;
        self
    }
}
