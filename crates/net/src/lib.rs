//! Ranks on several hosts: they meet over sockets, those on one host share memory, and FIFOs between hosts are carried by
//! proxies over TCP, or by an NCCL net plug-in ([`fabric`]).
//!
//! [`Hosts::join`] meets the other ranks by a unique id and gives the [`Bootstrap`](executor::bootstrap::Bootstrap) of a
//! communicator. The engine and the backend see FIFOs of their own process only; a thread per NIC ([`proxy`]) takes
//! slots from them and brings what comes.
//!
//! In reading order: [`host`], [`hosts`], [`ports`], [`proxy`], [`fabric`], `carrier`, [`regroup`] with its `late_joins`.

mod carrier;
pub mod fabric;
pub mod host;
pub mod hosts;
mod late_joins;
pub mod ports;
pub mod proxy;
mod reach;
pub mod regroup;

use bootstrap::socket::service::Alarm;
pub use fabric::choose::Loaded;
pub use host::Host;
pub use hosts::{Hosts, Options};
pub use net_plugin::Wanted as WantedPlugin;
pub use ports::{Arriving, Leaving, Ports};
pub use reach::Reached;
pub use regroup::Survivor;

/// How long the news that a rank is done, or why it failed, may take after its connections ended.
const NEWS_TIME: std::time::Duration = std::time::Duration::from_secs(2);

/// How long it may take where the rank at the other end answers that nothing happened to it. Its proxy may not have reported
/// the failure yet, or a third rank, which forwarded for it, was killed.
const SETTLE_TIME: std::time::Duration = std::time::Duration::from_millis(500);

/// The longest sleep of a thread that awaits such news.
const NEWS_LOOK: std::time::Duration = std::time::Duration::from_millis(10);

/// A connection that ended, when the rank at its other end may be done, or have given up because of another one.
///
/// The news of either may come a little later than the end of the connection. So the rank is asked: if it lives and nothing
/// happened to it, the connection was cut.
struct Over<E> {
    what: E,
    since: std::time::Instant,
    asked: u32,
}

impl<E> Over<E> {
    fn new(what: E, peer: u32, alarm: &Alarm) -> Self {
        Self {
            what,
            since: std::time::Instant::now(),
            asked: alarm.probe(peer),
        }
    }

    /// Whether it is to be told now.
    fn is_due(&self, alarm: &Alarm) -> bool {
        let since = self.since.elapsed();
        since >= NEWS_TIME || since >= SETTLE_TIME && alarm.answer(self.asked).is_some()
    }
}
