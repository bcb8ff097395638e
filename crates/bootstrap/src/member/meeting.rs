//! Meeting: the root tells each rank the next one's address, and the ring closes.

use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;

use super::{Again, Meeting, Member, Other, Place, Purpose, Side, Stage};
use crate::failure::Failure;
use crate::info::Table;
use crate::link::Kind;
use crate::machine::{Action, group, root_of};
use crate::message::{CheckIn, Conn, Message};

impl<T: Table> Member<T> {
    /// The roots' addresses; none if the next rank was known from the beginning.
    pub(super) fn roots(&self) -> &[SocketAddr] {
        match &self.place.meeting {
            Meeting::Roots(roots) => roots,
            Meeting::Known(_) => &[],
        }
    }

    /// The index of this rank's root.
    pub(super) fn own_root(&self) -> usize {
        let Place { rank, ranks, .. } = self.place;
        root_of(ranks, self.roots().len() as u32, rank) as usize
    }

    /// The ranks of a root. The first of them has the root in its process.
    pub(super) fn group_of(&self, root: usize) -> Range<u32> {
        group(self.place.ranks, self.roots().len() as u32, root as u32)
    }

    /// Whether it is connected to a root.
    pub(super) fn has_a_root(&self) -> bool {
        let open = |it: &Other| matches!(it.purpose, Purpose::Root(_)) && it.open;
        self.others.iter().any(open)
    }

    pub(super) fn go_to_roots(&mut self) {
        self.stage = Stage::Meeting;
        let (own, count) = (self.own_root(), self.roots().len());
        self.go_to_root(own);
        if self.group_of(own).start == self.place.rank && count > 1 {
            self.go_to_root((own + count - 1) % count);
        }
    }

    pub(super) fn go_to_root(&mut self, index: usize) {
        let to = self.roots()[index];
        let conn = self.connect(to, Kind::Root);
        self.other(conn, Purpose::Root(index), false);
    }

    /// This rank, as it checks in with a root.
    pub(super) fn check_in(&self) -> Message<T::Block> {
        Message::CheckIn(Box::new(CheckIn {
            rank: self.place.rank,
            ranks: self.place.ranks,
            roots: self.roots().len() as u32,
            version: self.place.version.clone(),
            place: self.place.name.clone(),
            ring: self.place.listens,
        }))
    }

    pub(super) fn connect_next(&mut self, to: SocketAddr) {
        self.next_listens = Some(to);
        if self.next.is_none() {
            let conn = self.connect(to, Kind::Ring);
            self.next = Some(Side {
                conn,
                open: false,
                heard: Duration::ZERO,
                said: Duration::ZERO,
            });
        }
    }

    pub(super) fn take_previous(&mut self, conn: Conn, rank: u32, now: Duration) {
        let before = self.neighbor(false);
        if rank != before || self.previous.is_some() {
            let what = format!(
                "it says that it comes before rank {} in the ring, but that is rank {}{}",
                self.first(self.place.rank),
                self.first(before),
                if rank == before {
                    ", which is there already"
                } else {
                    ""
                }
            );
            let rank = self.first(rank);
            self.fail_as(Failure { rank, what }, None);
            return;
        }
        self.previous = Some(Side {
            conn,
            open: true,
            heard: now,
            said: now,
        });
        self.pass_failure_on(conn);
        self.begin_telling();
    }

    pub(super) fn begin_telling(&mut self) {
        let open = |side: &Option<Side>| side.as_ref().is_some_and(|it| it.open);
        let closed = open(&self.next) && open(&self.previous);
        if !closed || self.stage != Stage::Meeting || self.failure.is_some() {
            return;
        }
        self.stage = Stage::Telling;
        let is_root = |it: &mut Other| matches!(it.purpose, Purpose::Root(_));
        let roots: Vec<Other> = self.others.extract_if(.., is_root).collect();
        for Other { conn, open, .. } in roots {
            if open {
                self.send(conn, Message::Done);
            }
            self.actions.push_back(Action::Close { conn });
        }
        self.retry
            .retain(|(_, again)| !matches!(again, Again::Root(_)));
        let own = self.own.clone();
        self.begin_exchange(own);
    }
}
