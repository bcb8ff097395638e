//! Prepared programs by request. Of those that do not run, only so many are kept.

use program::Collective;
use rustc_hash::FxHashMap;
use shared_memory::Waiter;

use crate::request::Request;

/// Most programs that are kept, besides those that run, and collectives of backends that wire.
/// Others are prepared again when they are needed, which no other rank notices: all ranks count and
/// compare launches, not programs.
const MOST_PREPARED: usize = 4096;

/// A program that can be run again and again.
pub struct Prepared<P> {
    pub program: P,
    /// Whether ranks access each other's buffers.
    pub direct: bool,
    /// The collective.
    pub collective: Collective,
    /// A hash of the request and its choice.
    pub request: u64,
    /// The least lengths of this rank's input and output, bytes.
    pub lengths: (u64, u64),
    /// Whether it has run.
    pub has_run: bool,
    /// The age of the known requests at its last launch.
    pub age: u64,
}

impl<P> Prepared<P> {
    /// Notes the end of a run. The first run waits for ranks of the same core that prepare the
    /// program: the yielder forgets these long yields, which otherwise mean a busy core.
    pub fn note_run(&mut self, waiter: &Waiter) {
        if !std::mem::replace(&mut self.has_run, true) {
            waiter.yielder().forget();
        }
    }
}

/// A program in the table.
struct Entry<P> {
    key: Request,
    prepared: Prepared<P>,
    /// Whether it was used since the hand last passed it.
    is_used: bool,
    /// How many calls run it or look for its message.
    holds: u32,
}

/// The programs. A program keeps its place while it is held.
pub struct Table<P> {
    entries: Vec<Entry<P>>,
    places: FxHashMap<Request, usize>,
    /// The places that were found last: most calls repeat those before them.
    recent: [usize; 2],
    most: usize,
    /// Whether collectives are never replaced: all ranks wire them together, so a rank that does it
    /// again would wait for the others.
    keeps_collectives: bool,
    /// Where the search for a program to replace continues: as a clock's hand it passes those that
    /// were used since its last turn, so the search takes as many steps as there were uses.
    hand: usize,
}

impl<P> Table<P> {
    /// An empty table of a backend that wires programs, or not.
    pub fn new(wires: bool) -> Self {
        Self {
            entries: Vec::new(),
            places: FxHashMap::default(),
            recent: [0; 2],
            most: MOST_PREPARED,
            keeps_collectives: wires,
            hand: 0,
        }
    }

    /// The place of a request's program.
    #[inline]
    pub fn find(&mut self, request: &Request) -> Option<usize> {
        let is_at = |place: &usize| {
            self.entries
                .get(*place)
                .is_some_and(|it| it.key == *request)
        };
        if let Some(place) = self.recent.into_iter().find(is_at) {
            return Some(place);
        }
        let place = *self.places.get(request)?;
        self.recent = [place, self.recent[0]];
        Some(place)
    }

    /// The program at a place, which is used now.
    #[inline]
    pub fn get(&mut self, place: usize) -> &mut Prepared<P> {
        let entry = &mut self.entries[place];
        entry.is_used = true;
        &mut entry.prepared
    }

    /// Adds a program and returns its place. If there are enough, it replaces one that was not used
    /// for long and is not held.
    pub fn insert(&mut self, key: Request, prepared: Prepared<P>) -> usize {
        let entry = Entry {
            key,
            prepared,
            is_used: true,
            holds: 0,
        };
        let place = match self.unused() {
            Some(place) => {
                self.places.remove(&self.entries[place].key);
                self.entries[place] = entry;
                place
            }
            None => {
                self.entries.push(entry);
                self.entries.len() - 1
            }
        };
        self.places.insert(key, place);
        place
    }

    /// The place of a program to replace; `None` if there are few, or all are held.
    fn unused(&mut self) -> Option<usize> {
        if self.entries.len() < self.most {
            return None;
        }
        // The first turn may only find that all were used.
        for _ in 0..2 * self.entries.len() {
            let place = self.hand;
            self.hand = (place + 1) % self.entries.len();
            let entry = &mut self.entries[place];
            let is_transfer = entry.key.collective == Collective::SendRecv;
            let is_held = entry.holds > 0 || self.keeps_collectives && !is_transfer;
            if !is_held && !std::mem::take(&mut entry.is_used) {
                return Some(place);
            }
        }
        None
    }

    /// Keeps the program at a place until it is released as often.
    #[inline]
    pub fn hold(&mut self, place: usize) {
        self.entries[place].holds += 1;
    }

    /// Ends a hold.
    #[inline]
    pub fn release(&mut self, place: usize) {
        self.entries[place].holds -= 1;
    }

    /// Whether calls run the program at a place, or look for its message.
    #[inline]
    pub fn is_held(&self, place: usize) -> bool {
        self.entries[place].holds > 0
    }

    /// The programs at these places, which ascend, each with what comes with its place.
    pub fn each<T>(
        &mut self,
        places: impl Iterator<Item = (usize, T)>,
    ) -> impl Iterator<Item = (&mut Prepared<P>, T)> {
        let (mut rest, mut begin) = (self.entries.as_mut_slice(), 0);
        places.map_while(move |(place, with)| {
            let from_here = std::mem::take(&mut rest).get_mut(place - begin..)?;
            let (entry, after) = from_here.split_first_mut()?;
            (rest, begin) = (after, place + 1);
            entry.is_used = true;
            Some((&mut entry.prepared, with))
        })
    }
}

#[cfg(test)]
mod tests {
    use program::{ElementType, Reduction};

    use super::*;

    fn request(count: u64) -> Request {
        Request {
            collective: Collective::AllReduce,
            element: ElementType::U8,
            reduction: Reduction::Sum,
            root: 0,
            to: 0,
            tag: 0,
            in_place: false,
            count,
            choice: None,
        }
    }

    fn prepared(program: u64) -> Prepared<u64> {
        Prepared {
            program,
            direct: false,
            collective: Collective::AllReduce,
            request: 0,
            lengths: (0, 0),
            has_run: false,
            age: 0,
        }
    }

    fn full(most: usize) -> Table<u64> {
        let mut table = Table {
            most,
            ..Table::new(false)
        };
        for count in 0..most as u64 {
            table.insert(request(count), prepared(count));
        }
        table
    }

    #[test]
    fn a_program_replaces_one_that_was_not_used_for_long() {
        let mut table = full(4);
        // The first passes all, since each is new.
        table.insert(request(4), prepared(4));
        assert!(table.find(&request(0)).is_none());
        let place = table.find(&request(1)).expect("it is kept");
        assert_eq!(table.get(place).program, 1);
        table.insert(request(5), prepared(5));
        assert_eq!(table.find(&request(1)), Some(place));
        assert!(table.find(&request(2)).is_none());
        assert_eq!(table.entries.len(), 4);
        assert_eq!(table.places.len(), 4);
    }

    #[test]
    fn collectives_of_a_backend_that_wires_are_kept() {
        let mut table = Table {
            most: 4,
            ..Table::new(true)
        };
        let transfer = |count| Request {
            collective: Collective::SendRecv,
            ..request(count)
        };
        for count in 0..100 {
            table.insert(request(count), prepared(count));
            table.insert(transfer(count), prepared(count));
        }
        assert!((0..100).all(|count| table.find(&request(count)).is_some()));
        // Each collective replaces the transfer before it.
        assert_eq!(table.entries.len(), 101);
    }

    #[test]
    fn programs_that_run_keep_their_places_and_those_of_other_sizes_stay_few() {
        let mut table = full(4);
        let held = table.find(&request(2)).expect("it is kept");
        table.hold(held);
        for count in 4..1000 {
            table.insert(request(count), prepared(count));
        }
        assert_eq!(table.find(&request(2)), Some(held));
        assert_eq!(table.entries.len(), 4);
        table.release(held);
        for count in 1000..1010 {
            table.insert(request(count), prepared(count));
        }
        assert!(table.find(&request(2)).is_none());
        for place in 0..4 {
            table.hold(place);
        }
        assert_eq!(table.insert(request(0), prepared(0)), 4);
        let places = [(1, 'a'), (4, 'b')].into_iter();
        let programs = table.each(places).map(|(it, with)| (it.program, with));
        let programs: Vec<(u64, char)> = programs.collect();
        assert_eq!((programs.len(), programs[1]), (2, (0, 'b')));
    }
}
