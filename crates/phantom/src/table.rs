//! Handles. A number is never given twice, so a handle that was used after its end is known.

use std::collections::BTreeMap;

/// What a number leads to.
#[derive(Debug)]
pub enum Found<T> {
    /// An object.
    Live(T),
    /// An object that was destroyed.
    Dead,
    /// No object ever.
    Unknown,
}

/// The objects of one kind.
#[derive(Debug)]
pub struct Table<T> {
    kind: u64,
    next: u64,
    live: BTreeMap<u64, T>,
}

impl<T> Table<T> {
    /// An empty table. Handles of different kinds differ.
    pub const fn new(kind: u64) -> Self {
        Self {
            kind: kind << 40,
            next: 0,
            live: BTreeMap::new(),
        }
    }

    /// Adds an object; returns its handle.
    pub fn insert(&mut self, object: T) -> u64 {
        self.next += 16;
        let handle = self.kind | self.next;
        self.live.insert(handle, object);
        handle
    }

    /// Gives an object that was removed its handle again.
    pub fn restore(&mut self, handle: u64, object: T) {
        self.live.insert(handle, object);
    }

    /// Looks a handle up.
    pub fn find(&self, handle: u64) -> Found<&T> {
        match self.live.get(&handle) {
            Some(object) => Found::Live(object),
            None if self.was_given(handle) => Found::Dead,
            None => Found::Unknown,
        }
    }

    /// Removes an object.
    pub fn remove(&mut self, handle: u64) -> Found<T> {
        match self.live.remove(&handle) {
            Some(object) => Found::Live(object),
            None if self.was_given(handle) => Found::Dead,
            None => Found::Unknown,
        }
    }

    /// Removes the objects that `of` picks and returns them.
    pub fn take(&mut self, mut of: impl FnMut(&T) -> bool) -> Vec<(u64, T)> {
        let picked = self.live.iter().filter(|(_, object)| of(object));
        let picked: Vec<u64> = picked.map(|(handle, _)| *handle).collect();
        let taken = picked
            .into_iter()
            .map(|it| Some((it, self.live.remove(&it)?)));
        taken.flatten().collect()
    }

    /// All objects.
    pub fn all(&self) -> impl Iterator<Item = (u64, &T)> {
        self.live.iter().map(|(handle, object)| (*handle, object))
    }

    fn was_given(&self, handle: u64) -> bool {
        let number = handle ^ self.kind;
        number > 0 && number <= self.next && number.is_multiple_of(16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_are_never_given_twice() {
        let mut table = Table::new(5);
        let one = table.insert('a');
        assert!(matches!(table.find(one), Found::Live('a')));
        assert!(matches!(table.remove(one), Found::Live('a')));
        let other = table.insert('b');
        assert_ne!(one, other);
        assert!(matches!(table.find(one), Found::Dead));
        assert!(matches!(table.remove(one), Found::Dead));
        assert!(matches!(table.find(other + 16), Found::Unknown));
        assert!(matches!(table.find(3), Found::Unknown));
        assert_eq!(table.take(|it| *it == 'b').len(), 1);
    }
}
