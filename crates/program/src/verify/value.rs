//! Symbolic values: whose input, which part of it, and what was done with it.

use rustc_hash::FxHashMap;

/// A piece of a block, of one rank or reduced over several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Value {
    pub block: u32,
    /// Turn whose window it belongs to.
    pub turn: u32,
    pub piece: u16,
    pub state: ValueState,
    /// Whose inputs are in it.
    pub ranks: SetId,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueState {
    /// The caller's input, where the caller put it.
    Input,
    /// Read, perhaps reduced, not final.
    Open,
    /// The operation's last part was applied.
    Final,
}

/// A set of ranks, as an index into [`Sets`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct SetId(u32);

/// All sets of ranks of a proof.
#[derive(Debug)]
pub(super) struct Sets {
    ranks: u32,
    sets: Vec<Box<[u64]>>,
    known: FxHashMap<Box<[u64]>, SetId>,
    unions: FxHashMap<(SetId, SetId), Option<SetId>>,
}

impl Sets {
    pub(super) fn new(ranks: u32) -> Self {
        Self {
            ranks,
            sets: Vec::new(),
            known: FxHashMap::default(),
            unions: FxHashMap::default(),
        }
    }

    fn words(&self) -> usize {
        self.ranks.div_ceil(64) as usize
    }

    fn intern(&mut self, set: Box<[u64]>) -> SetId {
        if let Some(known) = self.known.get(&set) {
            return *known;
        }
        let id = SetId(u32::try_from(self.sets.len()).unwrap_or(u32::MAX));
        self.sets.push(set.clone());
        self.known.insert(set, id);
        id
    }

    pub(super) fn one(&mut self, rank: u32) -> SetId {
        let mut set = vec![0; self.words()];
        set[rank as usize / 64] |= 1 << (rank % 64);
        self.intern(set.into())
    }

    pub(super) fn all(&mut self) -> SetId {
        let mut set = vec![u64::MAX; self.words()];
        if !self.ranks.is_multiple_of(64)
            && let Some(last) = set.last_mut()
        {
            *last = (1 << (self.ranks % 64)) - 1;
        }
        self.intern(set.into())
    }

    /// The union; `None` if the sets have a rank in common.
    pub(super) fn union(&mut self, first: SetId, second: SetId) -> Option<SetId> {
        if let Some(known) = self.unions.get(&(first, second)) {
            return *known;
        }
        let pairs = || {
            let first = self.sets[first.0 as usize].iter();
            first.zip(self.sets[second.0 as usize].iter())
        };
        let union = if pairs().any(|(first, second)| first & second != 0) {
            None
        } else {
            let union: Box<[u64]> = pairs().map(|(first, second)| first | second).collect();
            Some(self.intern(union))
        };
        self.unions.insert((first, second), union);
        union
    }

    /// The ranks in words.
    pub(super) fn names(&self, set: SetId) -> String {
        let set = &self.sets[set.0 as usize];
        let has = |rank: &u32| set[*rank as usize / 64] >> (rank % 64) & 1 == 1;
        let ranks: Vec<u32> = (0..self.ranks).filter(has).collect();
        match ranks.as_slice() {
            [one] => format!("rank {one}"),
            all if all.len() == self.ranks as usize => "all ranks".to_owned(),
            some => {
                let names: Vec<String> = some.iter().map(u32::to_string).collect();
                format!("ranks {}", names.join(" "))
            }
        }
    }

    /// A value in words.
    pub(super) fn words_of(&self, value: Value) -> String {
        let Value {
            block, turn, piece, ..
        } = value;
        let of = self.names(value.ranks);
        let state = match value.state {
            ValueState::Input => "the input itself: ",
            ValueState::Open => "",
            ValueState::Final => "final: ",
        };
        format!("{state}block {block}, piece {piece}, turn {turn} of {of}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unions_of_ranks() {
        let mut sets = Sets::new(70);
        let (first, last) = (sets.one(0), sets.one(69));
        let both = sets.union(first, last).expect("nothing in common");
        assert_eq!(sets.union(last, first), Some(both));
        assert_eq!(sets.union(both, last), None);
        assert_eq!(sets.names(both), "ranks 0 69");
        let mut sum = first;
        for rank in 1..70 {
            let one = sets.one(rank);
            sum = sets.union(sum, one).expect("a rank more");
        }
        assert_eq!(sum, sets.all());
        assert_eq!(sets.names(sum), "all ranks");
    }
}
