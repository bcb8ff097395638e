//! Splitting: the first rank of each color makes an id, and the communicator carries it to the
//! others.

use bootstrap::UniqueId;
use program::{Collective, ElementType, Reduction};

use crate::communicator::comm::Comm;
use crate::communicator::error::Fault;
use crate::communicator::request::Arguments;

/// Most bytes of an id's text.
const ID_BYTES: usize = 256;

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
        let first = members.first().map_or(0, |(_, rank)| *rank);
        let id = self.shared_id(first, place == Some(0));
        let Some(place) = place else {
            return Ok(None);
        };
        let (rank, ranks) = (place as u32, members.len() as u32);
        Self::join(&id?, rank, ranks, &self.options).map(Some)
    }

    /// The id that the rank `from` makes. All ranks call it together, and those whose ranks share
    /// an id name the same one; `makes` is true on those that are named.
    ///
    /// # Errors
    /// It cannot be made or read, or a rank failed.
    pub(crate) fn shared_id(&self, from: u32, makes: bool) -> Result<UniqueId, Fault> {
        let mut text = [0_u8; ID_BYTES];
        if makes {
            let id = self.options.new_id()?.to_string();
            text.iter_mut()
                .zip(id.bytes())
                .for_each(|(to, from)| *to = from);
        }
        let texts = self.gather(&text)?;
        let text = &texts[from as usize * ID_BYTES..][..ID_BYTES];
        let text = String::from_utf8_lossy(text);
        let id = text.trim_end_matches('\0').parse();
        id.map_err(|error| Fault::invalid(format!("the id that rank {from} made: {error}")))
    }

    /// The values of all ranks, in rank order.
    pub(crate) fn gather<T: Copy + Default>(&self, own: &[T]) -> Result<Vec<T>, Fault> {
        let ranks = self.shared.ranks;
        let mut all = vec![T::default(); own.len() * ranks as usize];
        let arguments = Arguments {
            collective: Collective::AllGather,
            input: own.as_ptr().cast(),
            output: all.as_mut_ptr().cast(),
            count: size_of_val(own),
            element: ElementType::U8,
            operation: Reduction::Sum,
            root: 0,
        };
        // SAFETY: both are borrowed until the call returns.
        let launch = unsafe { arguments.read(self.shared.rank, ranks) }?;
        self.run(launch)?;
        Ok(all)
    }
}
