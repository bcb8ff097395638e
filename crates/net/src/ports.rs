//! Which NICs a connection between hosts takes, and whose proxy drives the sender's.

use std::fmt;
use std::sync::Arc;

use executor::Route;

/// A NIC by which something leaves a host, and the rank that drives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leaving {
    /// The number of the NIC on its host.
    pub nic: u32,
    /// The rank whose proxy carries: the sender itself, or with PXN the one beside the NIC.
    pub proxy: u32,
    /// Whether the NIC reads the memory of the sender's GPU (GPUDirect RDMA).
    pub rdma: bool,
}

/// A NIC by which something comes to a host. The receiver drives it itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arriving {
    /// The number of the NIC on its host.
    pub nic: u32,
    /// Whether the NIC writes the memory of the receiver's GPU.
    pub rdma: bool,
}

/// What a plan says of the NICs of connections. Ranks are those of the plan.
pub trait Ports: fmt::Debug + Send + Sync {
    /// By which NIC a connection leaves the sender's host; nothing if the plan names none.
    fn leaves(&self, from: u32, to: u32, channel: u16) -> Option<Leaving>;

    /// By which it comes to the receiver's host.
    fn arrives(&self, from: u32, to: u32, channel: u16) -> Option<Arriving>;
}

/// The ports of a communicator, whose ranks may be others than the plan's: some were lost, or it was split.
#[derive(Debug, Clone)]
pub(crate) struct Planned {
    pub ports: Option<Arc<dyn Ports>>,
    /// By rank: which it is in the plan.
    pub ranks: Vec<u32>,
}

impl Planned {
    fn ends(&self, route: &Route) -> Option<(&dyn Ports, u32, u32)> {
        let of = |rank: u32| self.ranks.get(rank as usize).copied();
        Some((self.ports.as_deref()?, of(route.from)?, of(route.to)?))
    }

    fn leaving(&self, route: &Route) -> Option<Leaving> {
        let (ports, from, to) = self.ends(route)?;
        ports.leaves(from, to, route.channel)
    }

    /// The sender's NIC: what the plan says, or the channel's number; counted round so many.
    pub fn near(&self, route: &Route, nics: usize) -> usize {
        let named = self.leaving(route).map(|it| it.nic);
        number(named, route, nics)
    }

    fn arriving(&self, route: &Route) -> Option<Arriving> {
        let (ports, from, to) = self.ends(route)?;
        ports.arrives(from, to, route.channel)
    }

    /// The receiver's NIC.
    pub fn remote(&self, route: &Route, nics: usize) -> usize {
        let named = self.arriving(route).map(|it| it.nic);
        number(named, route, nics)
    }

    /// Whether NICs read the sender's GPU and write the receiver's, as far as the plan says.
    pub fn device_ends(&self, route: &Route) -> (bool, bool) {
        (
            self.leaving(route).is_none_or(|it| it.rdma),
            self.arriving(route).is_none_or(|it| it.rdma),
        )
    }

    /// The rank of the communicator that carries what is sent by a route, if the plan names another one than the sender
    /// and it was not lost.
    pub fn carrier(&self, route: &Route) -> Option<u32> {
        let proxy = self.leaving(route)?.proxy;
        let here = self.ranks.iter().position(|it| *it == proxy)? as u32;
        (here != route.from).then_some(here)
    }

    /// By the new ranks of those that are left or together, the old ones: which they are in the plan.
    pub fn of(&self, ranks: impl Iterator<Item = u32>) -> Self {
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
        fn leaves(&self, from: u32, to: u32, _: u16) -> Option<Leaving> {
            let host = from / 4 * 4;
            Some(Leaving {
                nic: to % 4,
                proxy: host + to % 4,
                rdma: to.is_multiple_of(4),
            })
        }

        fn arrives(&self, _: u32, to: u32, _: u16) -> Option<Arriving> {
            Some(Arriving {
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
        let all = Planned {
            ports: Some(Arc::new(Rails)),
            ranks: (0..8).collect(),
        };
        assert_eq!(all.carrier(&route(0, 6, 0)), Some(2));
        assert_eq!(all.carrier(&route(2, 6, 0)), None);
        assert_eq!(all.near(&route(0, 6, 0), 4), 2);
        assert_eq!(all.near(&route(0, 7, 0), 2), 1);
        assert_eq!(all.device_ends(&route(0, 4, 0)), (true, false));
        assert_eq!(all.device_ends(&route(0, 5, 0)), (false, true));
        // Ranks 1 and 2 are lost: 6 is now 4, and its rail has no proxy on the first host.
        let left = all.of([0, 3, 4, 5, 6, 7].into_iter());
        assert_eq!(left.carrier(&route(0, 4, 0)), None);
        assert_eq!(left.near(&route(0, 4, 0), 4), 2);
        assert_eq!(left.carrier(&route(0, 5, 0)), Some(1));
        assert_eq!(left.of([1, 5].into_iter()).ranks, [3, 7]);
    }

    #[test]
    fn without_a_plan_channels_are_dealt_round() {
        let none = Planned {
            ports: None,
            ranks: (0..2).collect(),
        };
        assert_eq!(none.near(&route(0, 1, 5), 4), 1);
        assert_eq!(none.remote(&route(0, 1, 6), 4), 2);
        assert_eq!(none.carrier(&route(0, 1, 0)), None);
        assert_eq!(none.device_ends(&route(0, 1, 0)), (true, true));
    }
}
