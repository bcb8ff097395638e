//! Connections that ended because their rank may have finished or failed: that news may arrive
//! later.

use std::time::{Duration, Instant};

use bootstrap::socket::service::Alarm;

/// Longest delay between the end of a rank's connections and the news that it left or failed.
pub(crate) const NEWS_TIME: Duration = Duration::from_secs(2);

/// The same delay when the rank at the other end answers that nothing happened to it: its proxy may
/// not have reported the failure yet, or the rank that forwarded for it was killed.
const SETTLE_TIME: Duration = Duration::from_millis(500);

/// Longest sleep of a proxy thread that waits for such news.
pub(crate) const NEWS_LOOK: Duration = Duration::from_millis(10);

/// A connection that ended, or that broke on the side of the peer. The peer is asked whether
/// anything happened to it; if not, the connection itself is to blame.
pub(crate) struct EndedConnection<E> {
    /// The connection, and how it ended.
    pub what: E,
    since: Instant,
    asked: u32,
}

impl<E> EndedConnection<E> {
    /// Asks the peer.
    pub(crate) fn new(what: E, peer: u32, alarm: &Alarm) -> Self {
        Self {
            what,
            since: Instant::now(),
            asked: alarm.probe(peer),
        }
    }

    /// Returns `true` when the failure is to be reported.
    pub(crate) fn is_due(&self, alarm: &Alarm) -> bool {
        let since = self.since.elapsed();
        since >= NEWS_TIME || since >= SETTLE_TIME && alarm.answer(self.asked).is_some()
    }
}
