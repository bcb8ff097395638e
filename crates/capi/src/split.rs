//! Splitting: the first rank of each color makes an id, and the communicator carries it to the
//! others.

use program::ElementType;

use crate::comm::Comm;
use crate::error::Fault;
use crate::options::{ID_BYTES, parse, topo_id, write};
use crate::request::Arguments;

/// The number of an all-gather in `topo.h`.
const ALL_GATHER: i32 = 2;

impl Comm {
    /// A communicator of the ranks with this color, ordered by `order` and then by rank; `None` for
    /// a color below 0. All ranks call it together.
    pub fn split(&self, color: i32, order: i32) -> Result<Option<Self>, Fault> {
        let mine = [color, order];
        let all = self.gather(&mine)?;
        let mut members: Vec<(i32, u32)> = Vec::new();
        for (pair, rank) in all.chunks(2).zip(0..) {
            if pair[0] == color && color >= 0 {
                members.push((pair[1], rank));
            }
        }
        members.sort_unstable();
        let own = self.shared.rank;
        let place = members.iter().position(|(_, rank)| *rank == own);
        let text = match place {
            Some(0) => write(&self.chosen.new_id()?)?.text,
            _ => [0; ID_BYTES],
        };
        let texts = self.gather(&text)?;
        let (Some(place), Some((_, first))) = (place, members.first()) else {
            return Ok(None);
        };
        let at = *first as usize * ID_BYTES;
        let mut id = topo_id {
            text: [0; ID_BYTES],
        };
        id.text.copy_from_slice(&texts[at..at + ID_BYTES]);
        let (rank, ranks) = (place as u32, members.len() as u32);
        Self::join(&parse(&id)?, rank, ranks, &self.chosen).map(Some)
    }

    /// The values of all ranks, in rank order.
    fn gather<T: Copy + Default>(&self, own: &[T]) -> Result<Vec<T>, Fault> {
        let ranks = self.shared.ranks;
        let mut all = vec![T::default(); own.len() * ranks as usize];
        let arguments = Arguments {
            collective: ALL_GATHER,
            input: own.as_ptr().cast(),
            output: all.as_mut_ptr().cast(),
            count: size_of_val(own),
            element: ElementType::U8 as i32,
            operation: 0,
            root: 0,
        };
        self.run(arguments.read(self.shared.rank, ranks)?)?;
        Ok(all)
    }
}
