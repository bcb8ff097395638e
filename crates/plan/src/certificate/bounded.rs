//! Lists that are bounded while they are read.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Most vertices and links of a class of hosts, and most classes.
pub(super) const MOST: usize = 1 << 20;

/// Reads a list whose entries take more memory than text. It has at most 2^20 of them.
pub(super) fn bounded_list<'de, D, T>(input: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct BoundedList<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for BoundedList<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a list of at most {MOST} entries")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let mut entries = Vec::new();
            while let Some(entry) = list.next_element()? {
                if entries.len() == MOST {
                    return Err(A::Error::invalid_length(MOST + 1, &self));
                }
                entries.push(entry);
            }
            Ok(entries)
        }
    }

    input.deserialize_seq(BoundedList(PhantomData))
}
