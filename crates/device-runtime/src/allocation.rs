//! Memory of callers as the driver knows it.

/// Memory that a caller allocated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allocation {
    /// Its first address.
    pub base: u64,
    /// Its pieces, one behind the other: one allocation, or mappings of virtual memory.
    pub pieces: Vec<Piece>,
    /// Whether devices of this process access it at its address.
    pub is_of_peers: bool,
}

/// A piece of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Its length, bytes.
    pub bytes: u64,
    /// Tells it from earlier or later memory at the same address.
    pub id: u64,
}

impl Allocation {
    /// Its length, bytes.
    pub fn bytes(&self) -> u64 {
        let lengths = self.pieces.iter().map(|it| it.bytes);
        lengths.fold(0, u64::saturating_add)
    }

    /// Whether its addresses are among those of `other`.
    pub fn is_within(&self, other: &Self) -> bool {
        let end = |it: &Self| it.base.saturating_add(it.bytes());
        other.base <= self.base && end(self) <= end(other)
    }

    /// Whether `other` is a part of this memory: the same pieces at the same addresses.
    pub fn holds(&self, other: &Self) -> bool {
        let mut at = self.base;
        let first = self.pieces.iter().position(|piece| {
            let begin = at;
            at = at.wrapping_add(piece.bytes);
            begin == other.base
        });
        self.is_of_peers == other.is_of_peers
            && first.is_some_and(|first| self.pieces[first..].starts_with(&other.pieces))
    }
}

/// Memory of a caller that a multicast can be bound to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bindable {
    /// Its first address.
    pub base: u64,
    /// Its length, bytes.
    pub bytes: u64,
    /// The allocation that holds it.
    pub allocation: Allocation,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(base: u64, pieces: &[(u64, u64)]) -> Allocation {
        let pieces = pieces.iter().map(|(bytes, id)| Piece {
            bytes: *bytes,
            id: *id,
        });
        Allocation {
            base,
            pieces: pieces.collect(),
            is_of_peers: false,
        }
    }

    #[test]
    fn parts_of_memory_are_whole_pieces_at_their_addresses() {
        let whole = memory(100, &[(10, 1), (20, 2), (10, 3)]);
        let parts = [
            memory(100, &[(10, 1)]),
            memory(110, &[(20, 2)]),
            memory(110, &[(20, 2), (10, 3)]),
            whole.clone(),
        ];
        for part in parts {
            assert!(whole.holds(&part) && part.is_within(&whole), "{part:?}");
        }
        let others = [
            memory(110, &[(20, 9)]),
            memory(110, &[(10, 2)]),
            memory(115, &[(20, 2)]),
            memory(130, &[(10, 3), (10, 4)]),
            memory(90, &[(10, 0), (10, 1)]),
        ];
        for other in others {
            assert!(!whole.holds(&other), "{other:?}");
        }
    }
}
