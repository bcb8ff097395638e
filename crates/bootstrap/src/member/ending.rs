//! The end of a job: ranks report failures and that they are done.

use super::{Member, Purpose};
use crate::failure::Failure;
use crate::info::Table;
use crate::machine::Action;
use crate::message::{Conn, Message};

impl<T: Table> Member<T> {
    /// Makes the job fail, and tells everyone.
    pub fn fail(&mut self, failure: Failure) {
        self.fail_as(failure, None);
    }

    /// As [`Self::fail`], for a failure that came from a neighbor, which is not told again.
    pub(super) fn fail_as(&mut self, failure: Failure, from_next: Option<bool>) {
        if self.failure.is_some() {
            return;
        }
        let message = || Message::Failed(Box::new(failure.clone()));
        self.tell_ring(from_next, message);
        for other in &self.others {
            // Around the ring the report may take longer than these connections last.
            let hears = matches!(
                other.purpose,
                Purpose::Root(_) | Purpose::Peer(_) | Purpose::Asker(_)
            );
            if hears && other.open {
                let (conn, message) = (other.conn, message());
                self.actions.push_back(Action::Send { conn, message });
            }
        }
        self.failure = Some(failure);
        self.early.iter_mut().for_each(Vec::clear);
    }

    /// The last rank of this process is about to leave, and closes connections first.
    pub fn finish(&mut self) {
        self.finishing = true;
    }

    /// A rank of this process is done: the others need not wait for it, and its end is no failure.
    pub fn leave(&mut self, rank: u32) {
        // Around the ring the report may take longer than these connections last.
        for other in &self.others {
            if other.open && matches!(other.purpose, Purpose::Peer(_) | Purpose::Asker(_)) {
                let (conn, message) = (other.conn, Message::Left(rank));
                self.actions.push_back(Action::Send { conn, message });
            }
        }
        self.note_left(rank, None);
    }

    pub(super) fn note_left(&mut self, rank: u32, from_next: Option<bool>) {
        if self.left.is_empty() {
            self.left = vec![false; (self.place.ranks * self.place.width) as usize];
        }
        let Some(left) = self.left.get_mut(rank as usize) else {
            return;
        };
        if std::mem::replace(left, true) {
            return;
        }
        self.gone += 1;
        self.tell_ring(from_next, || Message::Left(rank));
    }

    /// Sends a message to both neighbors, but not back to the one that it came from.
    fn tell_ring(&mut self, from_next: Option<bool>, message: impl Fn() -> Message<T::Block>) {
        for (side, of_next) in [(&self.next, true), (&self.previous, false)] {
            if let Some(side) = side.as_ref().filter(|it| it.open)
                && from_next != Some(of_next)
            {
                let (conn, message) = (side.conn, message());
                self.actions.push_back(Action::Send { conn, message });
            }
        }
    }

    /// Tells a neighbor that joins the ring late about an earlier failure.
    pub(super) fn pass_failure_on(&mut self, conn: Conn) {
        if let Some(failure) = self.failure.clone() {
            self.send(conn, Message::Failed(Box::new(failure)));
        }
    }
}
