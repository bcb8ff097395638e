//! The root: members of the ring check in, and each hears the address of the next one. A member is
//! a rank, or a process of several ranks ([`Root::of_processes`]); the first of them names it.
//!
//! A job may have several roots, each for a group of ranks. The first rank of a group also checks
//! in with the previous group's root, whose last rank needs its address.

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
    come: u32,
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
            come: 0,
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
        self.ends.unwrap_or(self.timing.join)
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
        let mut lost = None;
        for entry in self.entries.iter_mut().flatten() {
            if entry.conn == conn {
                entry.open = false;
                if !entry.done {
                    let CheckIn { rank, place, .. } = &entry.check_in;
                    let what = format!("{place}: its connection to the root {ending}");
                    lost = Some(Failure::new(rank.saturating_mul(self.width), what));
                }
            }
        }
        if let Some(failure) = lost {
            self.fail(failure, now);
        }
    }

    /// Handles the passing of time.
    pub fn tick(&mut self, now: Duration) {
        if self.failure.is_some() || now < self.timing.join || self.is_finished(now) {
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
            None => self.agree(&new),
        };
        if let Err(failure) = agreed {
            self.send(conn, Message::Failed(Box::new(failure.clone())));
            self.fail(failure, now);
            return;
        }
        if !self.group.contains(&new.rank) {
            self.beyond = Some((new.ring, conn));
            let last = self.group.end - 1;
            self.answer(last);
            return;
        }
        let place = (new.rank - self.group.start) as usize;
        let rank = new.rank;
        self.entries[place] = Some(Entry {
            conn,
            check_in: new,
            done: false,
            open: true,
        });
        self.come += 1;
        self.answer(rank);
        let before = (rank + self.ranks - 1) % self.ranks;
        if before != rank && self.group.contains(&before) {
            self.answer(before);
        }
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
        let first = self.entries.iter().flatten().next();
        if let Some(Entry { check_in, .. }) = first
            && check_in.version != new.version
        {
            return fail(format!(
                "runs topo {}, but {} runs {}; give all hosts the same version",
                new.version, check_in.place, check_in.version
            ));
        }
        if let Some(before) = self.entry(new.rank) {
            return Err(Failure::new(
                self.first(new.rank),
                format!(
                    "two processes say that they are this rank: {}, and {}; give each a rank of its own",
                    before.check_in.place, new.place
                ),
            ));
        }
        Ok(())
    }

    /// Tells a rank the address of the next one, if both are known.
    fn answer(&mut self, rank: u32) {
        let Some(entry) = self.entry(rank) else {
            return;
        };
        let next = (rank + 1) % self.ranks;
        let ring = match self.group.contains(&next) {
            true => self.entry(next).map(|it| it.check_in.ring),
            false => self.beyond.map(|(ring, _)| ring),
        };
        let conn = entry.conn;
        if let Some(ring) = ring {
            self.send(conn, Message::Next(Box::new(ring)));
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
        let conns: Vec<Conn> = conns.chain(self.beyond.map(|(_, conn)| conn)).collect();
        for conn in conns {
            self.send(conn, Message::Failed(Box::new(failure.clone())));
        }
        self.failure = Some(failure);
        self.ends = Some(now + self.timing.linger);
    }
}
