//! The ends of transfers, the earliest first: a heap with one entry for each transfer.

use crate::units::Time;

/// Children of an entry. Four have fewer levels than two, and lie in one cache line.
const CHILDREN: usize = 4;

/// Not in the heap.
const NOWHERE: u32 = u32::MAX;

/// The ends of transfers, by time and connection.
#[derive(Debug)]
pub(crate) struct Ends {
    heap: Vec<(Time, u32)>,
    /// For each connection its place in the heap.
    place: Vec<u32>,
}

impl Ends {
    /// No ends yet. `connections`: how many connections there are.
    pub(crate) fn new(connections: usize) -> Self {
        Self {
            heap: Vec::new(),
            place: vec![NOWHERE; connections],
        }
    }

    /// The earliest end.
    pub(crate) fn first(&self) -> Option<(Time, u32)> {
        self.heap.first().copied()
    }

    /// When a connection's transfer ends, if it is known.
    pub(crate) fn of(&self, connection: u32) -> Option<Time> {
        let place = self.place[connection as usize];
        self.heap.get(place as usize).map(|(time, _)| *time)
    }

    /// Sets when a connection's transfer ends.
    pub(crate) fn set(&mut self, connection: u32, time: Time) {
        let place = self.place[connection as usize];
        if place == NOWHERE {
            self.heap.push((time, connection));
            self.place[connection as usize] = (self.heap.len() - 1) as u32;
            self.rise(self.heap.len() - 1);
            return;
        }
        let place = place as usize;
        let earlier = time < self.heap[place].0;
        self.heap[place].0 = time;
        if earlier {
            self.rise(place);
        } else {
            self.sink(place);
        }
    }

    /// Removes the earliest end.
    pub(crate) fn remove_first(&mut self) {
        let Some(last) = self.heap.pop() else {
            return;
        };
        let removed = match self.heap.first_mut() {
            Some(first) => std::mem::replace(first, last),
            None => last,
        };
        self.place[removed.1 as usize] = NOWHERE;
        if !self.heap.is_empty() {
            self.place[last.1 as usize] = 0;
            self.sink(0);
        }
    }

    fn put(&mut self, place: usize, entry: (Time, u32)) {
        self.heap[place] = entry;
        self.place[entry.1 as usize] = place as u32;
    }

    fn rise(&mut self, mut place: usize) {
        let entry = self.heap[place];
        while place > 0 {
            let above = (place - 1) / CHILDREN;
            if self.heap[above] <= entry {
                break;
            }
            self.put(place, self.heap[above]);
            place = above;
        }
        self.put(place, entry);
    }

    fn sink(&mut self, mut place: usize) {
        let entry = self.heap[place];
        loop {
            let first = place * CHILDREN + 1;
            let children = first..(first + CHILDREN).min(self.heap.len());
            let Some(least) = children.min_by_key(|child| self.heap[*child]) else {
                break;
            };
            if entry <= self.heap[least] {
                break;
            }
            self.put(place, self.heap[least]);
            place = least;
        }
        self.put(place, entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_come_in_order() {
        let mut ends = Ends::new(200);
        // A sequence without a pattern; some ends are changed, both ways.
        let time = |at: u32, factor: u32| Time(u64::from(at * factor % 211));
        (0..200).for_each(|at| ends.set(at, time(at, 37)));
        (0..200)
            .step_by(3)
            .for_each(|at| ends.set(at, time(at, 101)));
        let expected = |at: u32| time(at, if at.is_multiple_of(3) { 101 } else { 37 });
        assert_eq!(ends.of(3), Some(expected(3)));
        let mut all: Vec<(Time, u32)> = (0..200).map(|at| (expected(at), at)).collect();
        all.sort_unstable();
        for entry in all {
            assert_eq!(ends.first(), Some(entry));
            ends.remove_first();
        }
        assert_eq!((ends.first(), ends.of(3)), (None, None));
    }
}
