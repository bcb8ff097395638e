//! An all-to-all whose blocks have different lengths, as transfers of one group.

use executor::End;
use program::ElementType;

use crate::communicator::error::Fault;
use crate::communicator::queue::Transfer;
use crate::communicator::request::bytes;

/// The arguments of an all-to-all with counts for each rank.
#[derive(Debug, Clone, Copy)]
pub struct Exchange<'a> {
    /// The blocks for each rank, one behind the other.
    pub input: *const u8,
    /// Elements for each rank.
    pub sent: &'a [usize],
    /// The blocks of each rank, one behind the other; apart from the input.
    pub output: *mut u8,
    /// Elements of each rank.
    pub received: &'a [usize],
    /// Type of the elements.
    pub element: ElementType,
}

impl Exchange<'_> {
    /// The transfers of a rank; empty blocks are not sent.
    ///
    /// # Errors
    /// There is not a count for each rank, the own block is not as long in both, the buffers
    /// overlap, or there is none.
    ///
    /// # Safety
    /// Until every use of the transfers and of their copies has ended, the input is readable, and
    /// the output writable and used by nobody else, for as many elements as the counts say.
    pub unsafe fn read(&self, rank: u32, ranks: u32) -> Result<Vec<Transfer>, Fault> {
        for (name, counts) in [("send", self.sent), ("receive", self.received)] {
            if counts.len() != ranks as usize {
                return Err(Fault::invalid(format!(
                    "all-to-all: {} {name} counts, expected one for each of the {ranks} ranks",
                    counts.len()
                )));
            }
        }
        let own = rank as usize;
        let (sent, received) = (self.sent.get(own), self.received.get(own));
        if sent != received {
            return Err(Fault::invalid(format!(
                "all-to-all: rank {rank} sends {} elements to itself and receives {}",
                sent.unwrap_or(&0),
                received.unwrap_or(&0)
            )));
        }
        let mut transfers = Vec::with_capacity(2 * ranks as usize);
        let sent = self.blocks(self.sent, self.input.cast_mut(), true, &mut transfers)?;
        let received = self.blocks(self.received, self.output, false, &mut transfers)?;
        for (name, address, length) in [
            ("input", self.input.addr(), sent),
            ("output", self.output.addr(), received),
        ] {
            if address == 0 && length > 0 {
                return Err(Fault::invalid(format!(
                    "all-to-all: the {name} is null, expected {length} bytes"
                )));
            }
        }
        let (input, output) = (self.input.addr(), self.output.addr());
        let apart =
            input.saturating_add(sent) <= output || output.saturating_add(received) <= input;
        if sent > 0 && received > 0 && !apart {
            return Err(Fault::invalid(
                "all-to-all: input and output overlap; with counts it takes separate buffers",
            ));
        }
        Ok(transfers)
    }

    /// Adds the transfers of one direction; returns the bytes of all blocks.
    fn blocks(
        &self,
        counts: &[usize],
        memory: *mut u8,
        sends: bool,
        to: &mut Vec<Transfer>,
    ) -> Result<usize, Fault> {
        let mut at = 0_usize;
        for (count, peer) in counts.iter().zip(0..) {
            let length = bytes(*count, self.element)?;
            if length > 0 {
                to.push(Transfer {
                    memory: memory.wrapping_add(at),
                    bytes: length,
                    end: if sends {
                        End::To(peer)
                    } else {
                        End::From(peer)
                    },
                    tag: Transfer::COLLECTIVE_TAG,
                    source: std::ptr::null_mut(),
                });
            }
            let end = at.checked_add(length);
            at = end
                .filter(|it| isize::try_from(*it).is_ok())
                .ok_or_else(|| Fault::invalid("all-to-all: the counts exceed the address space"))?;
        }
        Ok(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_follow_each_other_and_wrong_counts_are_refused() {
        let (input, mut output) = ([0_u16; 6], [0_u16; 4]);
        let good = Exchange {
            input: input.as_ptr().cast(),
            sent: &[1, 2, 3],
            output: output.as_mut_ptr().cast(),
            received: &[0, 2, 2],
            element: ElementType::Bf16,
        };
        // SAFETY: nothing is run.
        let read = |exchange: Exchange<'_>| unsafe { exchange.read(1, 3) };
        let transfers = read(good).unwrap();
        let shown: Vec<(End, usize, usize)> = transfers
            .iter()
            .map(|it| {
                let output = good.output.cast_const();
                let start = if it.sends() { good.input } else { output };
                (it.end, it.memory.addr() - start.addr(), it.bytes)
            })
            .collect();
        let sends = [(End::To(0), 0, 2), (End::To(1), 2, 4), (End::To(2), 6, 6)];
        let receives = [(End::From(1), 0, 4), (End::From(2), 4, 4)];
        assert_eq!(shown, [&sends[..], &receives].concat());
        for wrong in [
            Exchange {
                sent: &[1, 2],
                ..good
            },
            Exchange {
                sent: &[1, 1, 3],
                ..good
            },
            Exchange {
                sent: &[usize::MAX, 2, 3],
                ..good
            },
            Exchange {
                output: good.input.cast_mut(),
                ..good
            },
            Exchange {
                input: std::ptr::null(),
                ..good
            },
        ] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
    }
}
