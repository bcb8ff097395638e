//! Exchanges: an all-gather around the ring.

use super::{Exchange, Member, Place, Stage};
use crate::failure::Failure;
use crate::info::Table;
use crate::message::Message;

impl<T: Table> Member<T> {
    /// Begins to send this rank's part to all others. All ranks begin the same exchanges in order,
    /// one at a time.
    pub fn begin_exchange(&mut self, own: T::Block) {
        let Place { rank, ranks, .. } = self.place;
        let number = self.exchanges;
        self.exchanges += 1;
        let mut parts = Vec::new();
        if number > 0 || ranks == 1 {
            parts = vec![None; ranks as usize];
            parts[rank as usize] = Some(own.clone());
        }
        self.exchange = Some(Exchange {
            number,
            from_previous: 0,
            from_next: 0,
            parts,
        });
        self.tell(false, number, rank, own.clone());
        if ranks > 2 {
            self.tell(true, number, rank, own);
        }
        for of_next in [false, true] {
            for (origin, block) in std::mem::take(&mut self.early[usize::from(of_next)]) {
                self.part(of_next, number, origin, block);
            }
        }
        self.finish_exchange();
    }

    /// Takes the parts of the last exchange by rank, once it is complete. Parts of the first
    /// exchange are in the table instead.
    pub fn take_exchanged(&mut self) -> Option<Vec<T::Block>> {
        self.finished.take()
    }

    #[inline]
    fn tell(&mut self, backwards: bool, exchange: u32, origin: u32, block: T::Block) {
        if let Some(side) = self.side(!backwards) {
            let conn = side.conn;
            self.send(
                conn,
                Message::Block {
                    exchange,
                    origin,
                    block,
                },
            );
        }
    }

    #[inline]
    pub(super) fn part(&mut self, of_next: bool, number: u32, origin: u32, block: T::Block) {
        let Place { rank, ranks, .. } = self.place;
        // After a failure the counts no longer matter, and beyond the number of ranks no part is
        // due.
        if self.failure.is_some() {
            return;
        }
        let Some(exchange) = self.exchange.as_mut().filter(|it| it.number == number) else {
            self.keep_early(of_next, number, origin, block);
            return;
        };
        let counter = if of_next {
            &mut exchange.from_next
        } else {
            &mut exchange.from_previous
        };
        *counter += 1;
        let distance = *counter;
        let furthest = if of_next { (ranks - 1) / 2 } else { ranks / 2 };
        let expected = if of_next {
            let it = rank + distance;
            if it >= ranks { it - ranks } else { it }
        } else {
            let it = rank + ranks - distance;
            if it >= ranks { it - ranks } else { it }
        };
        if distance > furthest || origin != expected {
            let neighbor = self.neighbor(of_next);
            let what = format!(
                "{} forwarded rank {}'s part; expected rank {}'s",
                self.name(neighbor),
                self.first(origin),
                self.first(expected)
            );
            self.fail_as(Failure::new(self.first(neighbor), what), None);
            return;
        }
        if number == 0 {
            if let Err(failure) = self.table.take(origin, &block) {
                self.fail_as(failure, None);
                return;
            }
        } else {
            exchange.parts[origin as usize] = Some(block.clone());
        }
        if distance < furthest {
            self.tell(of_next, number, origin, block);
        }
        self.finish_exchange();
    }

    /// Keeps a part that arrived before this rank began its exchange. A neighbor with all parts of
    /// one exchange may begin the next, but cannot end it before this rank has begun it.
    fn keep_early(&mut self, of_next: bool, number: u32, origin: u32, block: T::Block) {
        let early = &mut self.early[usize::from(of_next)];
        if number == self.exchanges && early.len() < self.place.ranks as usize {
            early.push((origin, block));
            return;
        }
        let neighbor = self.neighbor(of_next);
        let what = format!(
            "{} forwarded a part of exchange {number}; expected exchange {}",
            self.name(neighbor),
            self.exchanges
        );
        self.fail_as(Failure::new(self.first(neighbor), what), None);
    }

    #[inline]
    pub(super) fn finish_exchange(&mut self) {
        if self.failure.is_some() {
            return;
        }
        let ranks = self.place.ranks;
        let complete = |it: &&mut Exchange<T::Block>| it.from_next + it.from_previous == ranks - 1;
        if let Some(exchange) = self.exchange.as_mut().filter(complete) {
            let parts = std::mem::take(&mut exchange.parts);
            if exchange.number == 0 && ranks > 1 {
                self.stage = Stage::Ready;
            } else {
                self.finished = parts.into_iter().collect();
            }
            self.exchange = None;
        }
    }
}
