//! The NICs of a connection between hosts, and the rank whose proxy drives the sender's.

use std::fmt;
use std::sync::Arc;

use executor::Route;

/// The sender's NIC, and the rank whose proxy drives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SenderPort {
    /// The number of the NIC on its host.
    pub nic: u32,
    /// The rank whose proxy drives it: the sender, or with PXN the rank next to the NIC.
    pub proxy: u32,
    /// Whether the NIC reads the memory of the sender's GPU (GPUDirect RDMA).
    pub rdma: bool,
}

/// The receiver's NIC, which its own proxy drives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiverPort {
    /// The number of the NIC on its host.
    pub nic: u32,
    /// Whether the NIC writes the memory of the receiver's GPU.
    pub rdma: bool,
}

/// The NICs that a plan names for connections. Ranks are those of the plan.
pub trait Ports: fmt::Debug + Send + Sync {
    /// The sender's NIC; `None` if the plan names none.
    fn leaves(&self, from: u32, to: u32, channel: u16) -> Option<SenderPort>;

    /// The receiver's NIC; `None` if the plan names none.
    fn arrives(&self, from: u32, to: u32, channel: u16) -> Option<ReceiverPort>;
}

/// The ports of a communicator. Its ranks differ from the plan's after ranks were lost, or a split.
#[derive(Debug, Clone)]
pub(crate) struct CommunicatorPorts {
    pub ports: Option<Arc<dyn Ports>>,
    /// By rank: its rank in the plan.
    pub ranks: Vec<u32>,
}

impl CommunicatorPorts {
    fn ends(&self, route: &Route) -> Option<(&dyn Ports, u32, u32)> {
        let of = |rank: u32| self.ranks.get(rank as usize).copied();
        Some((self.ports.as_deref()?, of(route.from)?, of(route.to)?))
    }

    fn leaving(&self, route: &Route) -> Option<SenderPort> {
        let (ports, from, to) = self.ends(route)?;
        ports.leaves(from, to, route.channel)
    }

    /// The sender's NIC, from the plan or by channel, below `nics`.
    pub(crate) fn near(&self, route: &Route, nics: usize) -> usize {
        let named = self.leaving(route).map(|it| it.nic);
        number(named, route, nics)
    }

    fn arriving(&self, route: &Route) -> Option<ReceiverPort> {
        let (ports, from, to) = self.ends(route)?;
        ports.arrives(from, to, route.channel)
    }

    /// The receiver's NIC, from the plan or by channel, below `nics`.
    pub(crate) fn remote(&self, route: &Route, nics: usize) -> usize {
        let named = self.arriving(route).map(|it| it.nic);
        number(named, route, nics)
    }

    /// Whether the plan lets NICs read the sender's GPU and write the receiver's.
    pub(crate) fn device_ends(&self, route: &Route) -> (bool, bool) {
        (
            self.leaving(route).is_none_or(|it| it.rdma),
            self.arriving(route).is_none_or(|it| it.rdma),
        )
    }

    /// The rank that forwards a route, if the plan names another one than the sender and it was not
    /// lost.
    pub(crate) fn pxn_proxy(&self, route: &Route) -> Option<u32> {
        let proxy = self.leaving(route)?.proxy;
        let here = self.ranks.iter().position(|it| *it == proxy)? as u32;
        (here != route.from).then_some(here)
    }

    /// The ports of a new communicator; `ranks` are its members' ranks in this one.
    pub(crate) fn of(&self, ranks: impl Iterator<Item = u32>) -> Self {
        let planned = ranks.map(|rank| self.ranks.get(rank as usize).copied().unwrap_or(rank));
        Self {
            ports: self.ports.clone(),
            ranks: planned.collect(),
        }
    }
}

fn number(named: Option<u32>, route: &Route, nics: usize) -> usize {
    named.map_or(usize::from(route.channel), |it| it as usize) % nics.max(1)
}

#[cfg(test)]
mod tests {
    use program::Protocol;

    use super::*;

    #[derive(Debug)]
    struct Rails;

    impl Ports for Rails {
        fn leaves(&self, from: u32, to: u32, _: u16) -> Option<SenderPort> {
            let host = from / 4 * 4;
            Some(SenderPort {
                nic: to % 4,
                proxy: host + to % 4,
                rdma: to.is_multiple_of(4),
            })
        }

        fn arrives(&self, _: u32, to: u32, _: u16) -> Option<ReceiverPort> {
            Some(ReceiverPort {
                nic: to % 4,
                rdma: to % 4 == 1,
            })
        }
    }

    fn route(from: u32, to: u32, channel: u16) -> Route {
        Route {
            from,
            to,
            channel,
            port: 0,
            protocol: Protocol::Simple,
        }
    }

    #[test]
    fn ports_follow_ranks_that_are_left() {
        let all = CommunicatorPorts {
            ports: Some(Arc::new(Rails)),
            ranks: (0..8).collect(),
        };
        assert_eq!(all.pxn_proxy(&route(0, 6, 0)), Some(2));
        assert_eq!(all.pxn_proxy(&route(2, 6, 0)), None);
        assert_eq!(all.near(&route(0, 6, 0), 4), 2);
        assert_eq!(all.near(&route(0, 7, 0), 2), 1);
        assert_eq!(all.device_ends(&route(0, 4, 0)), (true, false));
        assert_eq!(all.device_ends(&route(0, 5, 0)), (false, true));
        // Ranks 1 and 2 are lost: 6 is now 4, and its rail has no proxy on the first host.
        let left = all.of([0, 3, 4, 5, 6, 7].into_iter());
        assert_eq!(left.pxn_proxy(&route(0, 4, 0)), None);
        assert_eq!(left.near(&route(0, 4, 0), 4), 2);
        assert_eq!(left.pxn_proxy(&route(0, 5, 0)), Some(1));
        assert_eq!(left.of([1, 5].into_iter()).ranks, [3, 7]);
    }

    #[test]
    fn without_a_plan_channels_use_nics_in_turn() {
        let none = CommunicatorPorts {
            ports: None,
            ranks: (0..2).collect(),
        };
        assert_eq!(none.near(&route(0, 1, 5), 4), 1);
        assert_eq!(none.remote(&route(0, 1, 6), 4), 2);
        assert_eq!(none.pxn_proxy(&route(0, 1, 0)), None);
        assert_eq!(none.device_ends(&route(0, 1, 0)), (true, true));
    }
}
