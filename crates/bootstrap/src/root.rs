//! The root: members of the ring check in, and each hears the address of the next one. A member is
//! a rank, or a process of several ranks ([`Root::of_processes`]); the first of them names it.
//!
//! A job may have several roots, each for a group of ranks. The first rank of a group also checks
//! in with the previous group's root, whose last rank needs its address.
//!
//! The root tells the addresses when all have checked in. Until then, a process that was started
//! again takes the place of its predecessor.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::time::Duration;

use crate::failure::Failure;
use crate::link::LinkError;
use crate::machine::{Action, Ending, Timing, group};
use crate::message::{CheckIn, Conn, Message};

/// Most ranks that a message lists.
const MOST_NAMED: usize = 8;

#[derive(Debug)]
struct Entry {
    conn: Conn,
    check_in: CheckIn,
    done: bool,
    open: bool,
}

/// A process with the rank of another one whose connection is still open. The end of that
/// connection may be in transit.
#[derive(Debug)]
struct Rival {
    conn: Conn,
    check_in: CheckIn,
    /// How long the root waits for that end.
    until: Duration,
}

/// A root.
#[derive(Debug)]
pub struct Root<B> {
    group: Range<u32>,
    ranks: u32,
    roots: u32,
    /// Ranks of each member.
    width: u32,
    timing: Timing,
    entries: Vec<Option<Entry>>,
    /// Address of the next group's first rank, if there are several groups.
    beyond: Option<(SocketAddr, Conn)>,
    rivals: Vec<Rival>,
    /// Ranks whose connection ended before the addresses were told, and when the root abandons
    /// them.
    lost: Vec<(Duration, Failure)>,
    /// Ranks that have checked in and are not lost.
    present: u32,
    /// Whether the addresses were told.
    told: bool,
    done: u32,
    failure: Option<Failure>,
    ends: Option<Duration>,
    /// The last connection that was turned away and may have been a rank, for messages.
    refused: Option<String>,
    conns: u32,
    actions: VecDeque<Action<B>>,
}

impl<B> Root<B> {
    /// The root of one group of ranks.
    pub fn new(ranks: u32, roots: u32, index: u32, timing: Timing) -> Self {
        let group = group(ranks, roots, index);
        Self {
            entries: group.clone().map(|_| None).collect(),
            group,
            ranks,
            roots,
            width: 1,
            timing,
            beyond: None,
            rivals: Vec::new(),
            lost: Vec::new(),
            present: 0,
            told: false,
            done: 0,
            failure: None,
            ends: None,
            refused: None,
            conns: 0,
            actions: VecDeque::new(),
        }
    }

    /// The same for processes of `width` ranks each, which only changes how messages name them.
    #[must_use]
    pub fn of_processes(self, width: u32) -> Self {
        Self { width, ..self }
    }

    /// The first rank of a member, which names it in messages.
    const fn first(&self, member: u32) -> u32 {
        member.saturating_mul(self.width)
    }

    /// The next action.
    pub fn poll_action(&mut self) -> Option<Action<B>> {
        self.actions.pop_front()
    }

    /// Whether it can end.
    pub fn is_finished(&self, now: Duration) -> bool {
        self.done as usize == self.entries.len() || self.ends.is_some_and(|ends| now >= ends)
    }

    /// When [`Self::tick`] must be called if nothing else happens.
    pub fn next_deadline(&self) -> Duration {
        let rivals = self.rivals.iter().map(|it| it.until);
        let lost = self.lost.iter().map(|(until, _)| *until);
        let earlier = || rivals.chain(lost).min();
        let ends = self.ends.or_else(earlier);
        ends.unwrap_or(self.timing.join)
    }

    /// The failure of the job, if it failed.
    pub const fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// Adds a connection, whose other side knows the token.
    pub fn accepted(&mut self) -> Conn {
        self.conns += 1;
        Conn(self.conns - 1)
    }

    /// Notes that a connection was turned away that may have been a rank's.
    pub fn turned_away(&mut self, from: IpAddr, why: &LinkError) {
        self.refused = Some(format!("; {from} was turned away: {why}"));
    }

    /// Handles a message.
    pub fn received(&mut self, conn: Conn, message: Message<B>, now: Duration) {
        match message {
            Message::CheckIn(check_in) => self.check_in(conn, *check_in, now),
            Message::Done => {
                let entry = self.entries.iter_mut().flatten();
                for entry in entry.filter(|it| it.conn == conn && !it.done) {
                    entry.done = true;
                    self.done += 1;
                }
            }
            Message::Failed(failure) => self.fail(*failure, now),
            _ => {
                let what = "it sent a message that is not for roots".to_owned();
                let rank = self.rank_of(conn);
                self.fail(Failure { rank, what }, now);
            }
        }
    }

    /// Handles the end of a connection.
    pub fn closed(&mut self, conn: Conn, ending: &Ending, now: Duration) {
        self.rivals.retain(|it| it.conn != conn);
        self.beyond.take_if(|(_, it)| *it == conn && !self.told);
        let mut entries = self.entries.iter_mut().flatten();
        let Some(entry) = entries.find(|it| it.conn == conn && it.open) else {
            // It may have been a rival, whose end the others waited for.
            self.tell();
            return;
        };
        entry.open = false;
        if entry.done {
            return;
        }
        let CheckIn { rank, place, .. } = &entry.check_in;
        let rank = *rank;
        let mut failure = Failure::new(
            rank.saturating_mul(self.width),
            format!("{place}: its connection to the root {ending} before all ranks had met"),
        );
        if self.told || matches!(ending, Ending::Distrusted(_)) {
            failure.what.push_str("; start all ranks again");
            self.fail(failure, now);
            return;
        }
        failure.what.push_str(", and no process took its place");
        let until = (now + self.timing.silence).min(self.timing.join);
        self.lost.push((until, failure));
        self.present -= 1;
        if let Some(at) = self.rivals.iter().position(|it| it.check_in.rank == rank) {
            let Rival { conn, check_in, .. } = self.rivals.remove(at);
            self.check_in(conn, check_in, now);
        }
    }

    /// Handles the passing of time.
    pub fn tick(&mut self, now: Duration) {
        if self.failure.is_some() || self.is_finished(now) {
            return;
        }
        if let Some(rival) = self.rivals.iter().find(|it| now >= it.until) {
            let failure = self.two_processes(&rival.check_in);
            self.fail(failure, now);
            return;
        }
        if let Some((_, failure)) = self.lost.iter().find(|(until, _)| now >= *until) {
            let failure = failure.clone();
            self.fail(failure, now);
            return;
        }
        if now < self.timing.join {
            return;
        }
        let missing: Vec<u32> = self
            .group
            .clone()
            .zip(&self.entries)
            .filter(|(_, entry)| entry.is_none())
            .map(|(rank, _)| self.first(rank))
            .collect();
        let seconds = self.timing.join.as_secs_f32();
        let mut failure = match missing.as_slice() {
            [] if self.beyond.is_none() && self.roots > 1 => Failure::new(
                self.first(self.group.end % self.ranks),
                format!("it did not come within {seconds} s"),
            ),
            [] => {
                let late = self.entries.iter().flatten().find(|it| !it.done);
                let Some(late) = late else { return };
                Failure::new(
                    self.first(late.check_in.rank),
                    format!(
                        "{} came, but the ring was not closed within {seconds} s",
                        late.check_in.place
                    ),
                )
            }
            [only] => Failure::new(*only, format!("it did not come within {seconds} s")),
            [first, more @ ..] => {
                let named: Vec<String> = more.iter().take(MOST_NAMED).map(u32::to_string).collect();
                let dots = if more.len() > MOST_NAMED { ", …" } else { "" };
                Failure::new(
                    *first,
                    format!(
                        "it did not come within {seconds} s, and {} more did not: {}{dots}",
                        more.len(),
                        named.join(", ")
                    ),
                )
            }
        };
        failure.what.extend(self.refused.take());
        self.fail(failure, now);
        // The time to meet is over, so no late rank is waited for. The failure must only arrive.
        self.ends = Some(now + self.timing.retry);
    }

    fn rank_of(&self, conn: Conn) -> u32 {
        let entries = self.entries.iter().flatten();
        let mut found = entries.filter(|entry| entry.conn == conn);
        let found = found.next();
        found.map_or(u32::MAX, |entry| self.first(entry.check_in.rank))
    }

    fn check_in(&mut self, conn: Conn, new: CheckIn, now: Duration) {
        // A late rank hears of an earlier failure at once.
        let agreed = match &self.failure {
            Some(failure) => Err(failure.clone()),
            None if self.told && self.group.contains(&new.rank) => Err(self.two_processes(&new)),
            None => self.agree(&new),
        };
        if let Err(failure) = agreed {
            self.send(conn, Message::Failed(Box::new(failure.clone())));
            self.fail(failure, now);
            return;
        }
        let rank = new.rank;
        if !self.group.contains(&rank) {
            self.beyond = Some((new.ring, conn));
        } else if self.entry(rank).is_some_and(|before| before.open) {
            self.rivals.push(Rival {
                conn,
                check_in: new,
                until: (now + self.timing.retry).min(self.timing.join),
            });
            return;
        } else {
            let first = self.first(rank);
            self.lost.retain(|(_, failure)| failure.rank != first);
            self.entries[(rank - self.group.start) as usize] = Some(Entry {
                conn,
                check_in: new,
                done: false,
                open: true,
            });
            self.present += 1;
        }
        self.tell();
    }

    /// Checks that a rank belongs to the same job as the earlier ones.
    fn agree(&self, new: &CheckIn) -> Result<(), Failure> {
        let fail = |what: String| {
            let what = format!("{} {what}", new.place);
            Err(Failure::new(self.first(new.rank), what))
        };
        if (new.ranks, new.roots) != (self.ranks, self.roots) {
            return fail(format!(
                "says that there are {} ranks and {} roots, but the root knows of {} and {}; give all ranks the same",
                self.first(new.ranks),
                new.roots,
                self.first(self.ranks),
                self.roots
            ));
        }
        let beyond = self.group.end % self.ranks;
        if !self.group.contains(&new.rank) && new.rank != beyond {
            let Range { start, end } = self.group;
            let start = self.first(start);
            return fail(format!(
                "came to the root of the ranks {start} to {}; give all ranks the same id",
                self.first(end) - 1
            ));
        }
        let first = self.entries.iter().flatten().find(|it| it.open);
        if let Some(Entry { check_in, .. }) = first
            && check_in.version != new.version
        {
            return fail(format!(
                "runs topo {}, but {} runs {}; give all hosts the same version",
                new.version, check_in.place, check_in.version
            ));
        }
        Ok(())
    }

    /// The failure that a process has the rank of another one.
    fn two_processes(&self, new: &CheckIn) -> Failure {
        let before = self.entry(new.rank);
        let before = before.map_or("", |before| &before.check_in.place);
        Failure::new(
            self.first(new.rank),
            format!(
                "two processes say that they are this rank: {before}, and {}; give each a rank of its own",
                new.place
            ),
        )
    }

    /// Tells each rank the address of the next one, once all are known.
    fn tell(&mut self) {
        let known = self.roots == 1 || self.beyond.is_some();
        let all_here = self.present as usize == self.entries.len() && self.rivals.is_empty();
        if self.told || !known || !all_here || self.failure.is_some() {
            return;
        }
        self.told = true;
        let entries = self.entries.iter().flatten();
        let all: Vec<(Conn, SocketAddr)> = entries.map(|it| (it.conn, it.check_in.ring)).collect();
        let beyond = self.beyond.map(|(ring, _)| ring);
        let nexts = all.iter().skip(1).map(|(_, ring)| *ring);
        let last = beyond.or(all.first().map(|(_, ring)| *ring));
        for ((conn, _), next) in all.iter().zip(nexts.chain(last)) {
            self.send(*conn, Message::Next(Box::new(next)));
        }
    }

    /// The entry of a rank, if it belongs to this root and has checked in.
    fn entry(&self, rank: u32) -> Option<&Entry> {
        let place = rank.checked_sub(self.group.start)?;
        self.entries.get(place as usize)?.as_ref()
    }

    fn send(&mut self, conn: Conn, message: Message<B>) {
        self.actions.push_back(Action::Send { conn, message });
    }

    fn fail(&mut self, failure: Failure, now: Duration) {
        if self.failure.is_some() {
            return;
        }
        let open = self.entries.iter().flatten().filter(|entry| entry.open);
        let conns = open.map(|entry| entry.conn);
        let rivals = self.rivals.iter().map(|it| it.conn);
        let beyond = self.beyond.map(|(_, conn)| conn);
        let conns: Vec<Conn> = conns.chain(rivals).chain(beyond).collect();
        for conn in conns {
            self.send(conn, Message::Failed(Box::new(failure.clone())));
        }
        self.failure = Some(failure);
        self.ends = Some(now + self.timing.linger);
    }
}
