//! Exchanges of a process with several ranks: their parts travel around the ring together.

use std::sync::Arc;

use crate::failure::Failure;
use crate::message::read_whole;

/// The exchange that the ranks of this process are in.
#[derive(Debug, Default)]
pub(super) struct ProcessExchange {
    /// Number of the exchange whose parts are being collected.
    number: u32,
    /// By rank of this process: its part of that exchange.
    parts: Vec<Option<Vec<u8>>>,
    /// The last exchange that was completed, and all parts by rank. The next one is not completed
    /// before each rank of this process has taken them, because it gives its next part later.
    completed: Option<(u32, Arc<[Vec<u8>]>)>,
}

impl ProcessExchange {
    /// Adds the part of a rank of this process, by its place among the `width`. Returns the number
    /// of the exchange, and if all parts are there, what this process sends.
    pub(super) fn add(&mut self, width: u32, place: u32, part: Vec<u8>) -> (u32, Option<Vec<u8>>) {
        let number = self.number;
        self.parts.resize(width as usize, None);
        self.parts[place as usize] = Some(part);
        if self.parts.iter().any(Option::is_none) {
            return (number, None);
        }
        self.number += 1;
        let parts: Vec<Vec<u8>> = self.parts.drain(..).flatten().collect();
        let all = match width {
            1 => parts.into_iter().next().unwrap_or_default(),
            _ => postcard::to_allocvec(&parts).unwrap_or_default(),
        };
        (number, Some(all))
    }

    /// Takes what all processes sent, in the order of their ranks.
    ///
    /// # Errors
    /// A process did not send one part for each of its ranks.
    pub(super) fn complete(&mut self, width: u32, all: &[Vec<u8>]) -> Result<(), Failure> {
        let parts: Vec<Vec<u8>> = match width {
            1 => all.to_vec(),
            _ => {
                let mut parts = Vec::with_capacity(all.len() * width as usize);
                for (sent, member) in all.iter().zip(0..) {
                    let theirs: Option<Vec<Vec<u8>>> = read_whole(sent).ok();
                    let theirs = theirs.filter(|it| it.len() == width as usize);
                    let what = "it did not send one part for each rank of its process";
                    parts.extend(theirs.ok_or_else(|| Failure::new(member * width, what))?);
                }
                parts
            }
        };
        self.completed = Some((self.number.wrapping_sub(1), parts.into()));
        Ok(())
    }

    /// All parts of an exchange by rank, if it is complete.
    pub(super) fn parts(&self, number: u32) -> Option<Arc<[Vec<u8>]>> {
        let (completed, parts) = self.completed.as_ref()?;
        (*completed == number).then(|| Arc::clone(parts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_process_travel_together() {
        let mut two: [ProcessExchange; 2] = Default::default();
        for round in 0..3_u32 {
            let part = |rank: u8| vec![rank; 1 + round as usize];
            let mut sent = Vec::new();
            for (process, first) in two.iter_mut().zip([0_u8, 2]) {
                assert_eq!(process.add(2, 1, part(first + 1)), (round, None));
                let (number, all) = process.add(2, 0, part(first));
                assert_eq!((number, process.parts(round)), (round, None));
                sent.push(all.unwrap());
            }
            for process in &mut two {
                process.complete(2, &sent).unwrap();
                let all: Vec<Vec<u8>> = (0..4).map(part).collect();
                assert_eq!(*process.parts(round).unwrap(), *all);
            }
        }
        let short = postcard::to_allocvec(&vec![vec![1_u8]]).unwrap();
        let fine = postcard::to_allocvec(&vec![vec![1_u8], vec![2]]).unwrap();
        let failure = two[0].complete(2, &[fine, short]).unwrap_err();
        assert_eq!(failure.rank, 2);
    }
}
