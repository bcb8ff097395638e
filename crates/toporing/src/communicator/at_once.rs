//! Short messages that are moved at once, without being begun: a send in the call that starts it, a
//! receive by polling a while. Most messages between ranks of a host arrive within microseconds.

use backend_cpu::Cpu;
use executor::{Attempt, Communicator, End, OpenGroup};

use crate::communicator::open::Open;
use crate::communicator::queue::{Job, MOST_COMPARED, Transfer, Work};

impl Transfer {
    /// Moves the message if it is short, can be moved without waiting, and no transfer of the group
    /// precedes it.
    fn attempt(&self, communicator: &mut Communicator<Cpu>, group: &OpenGroup<'_>) -> Attempt {
        let attempt = communicator.try_transfer(group, (self.end, self.tag), self.lend());
        if let (End::From(peer), Attempt::Moved) = (self.end, attempt) {
            self.tell_source(peer);
        }
        attempt
    }
}

/// Moves the messages of a group of short ones, and polls a while for them. Returns the transfers
/// that are left, in their order. `None` means that the group has other transfers and no message
/// was moved: the communicator may refuse such a group as a whole.
pub fn move_short(
    communicator: &mut Communicator<Cpu>,
    transfers: &[Transfer],
) -> Option<Vec<Transfer>> {
    let can_try = |it: &Transfer| communicator.can_try((it.end, it.tag), it.bytes);
    if transfers.len() > MOST_COMPARED || !transfers.iter().all(can_try) {
        return None;
    }
    let nothing = OpenGroup::default();
    let mut is_left = [true; MOST_COMPARED];
    let mut polls = communicator.spins();
    // Sends first: other ranks wait for them, and a receive that looks for its message while that
    // is written slows its sender down.
    let mut only_sends = true;
    while is_left[..transfers.len()].contains(&true) && polls > 0 {
        polls -= 1;
        for (at, transfer) in transfers.iter().enumerate() {
            let mut earlier = transfers[..at].iter().zip(&is_left);
            let has_earlier = earlier.any(|(it, is_left)| *is_left && it.shares_messages(transfer));
            if !is_left[at] || has_earlier || only_sends && !transfer.sends() {
                continue;
            }
            match transfer.attempt(communicator, &nothing) {
                Attempt::Moved => is_left[at] = false,
                Attempt::NotReady => {}
                Attempt::Refused => polls = polls.min(1),
            }
        }
        only_sends = false;
    }
    let all = transfers.iter().zip(is_left);
    let left = all.filter(|(_, is_left)| *is_left);
    Some(left.map(|(transfer, _)| *transfer).collect())
}

impl Open {
    /// Moves short messages of [`Self::jobs`]. If there is nothing else to do, polls a while for
    /// them, until `job`, or else any, has ended or `stop` returns `true`. Returns `true` if no job
    /// was refused.
    pub fn move_short(
        &mut self,
        communicator: &mut Communicator<Cpu>,
        job: Option<u64>,
        stop: &mut dyn FnMut() -> bool,
    ) -> bool {
        if self.debug || self.jobs.len() > MOST_COMPARED {
            return false;
        }
        let mut polls = match self.group.is_empty() && self.collectives.is_empty() {
            true => communicator.spins(),
            false => 1,
        };
        let mut none_refused = true;
        while polls > 0 {
            polls -= 1;
            let mut at = 0;
            while let Some((number, Job { work, .. })) = self.jobs.get(at) {
                let number = *number;
                let attempt = match work {
                    Work::Transfer(transfer) if self.is_next(at, transfer) => {
                        transfer.attempt(communicator, &self.group)
                    }
                    Work::Transfer(_) => Attempt::NotReady,
                    Work::Collective(_) | Work::Group(_) => Attempt::Refused,
                };
                match attempt {
                    Attempt::Moved => {
                        self.jobs.remove(at);
                        self.ended.push((number, Ok(())));
                        continue;
                    }
                    Attempt::NotReady => {}
                    Attempt::Refused => {
                        none_refused = false;
                        polls = 0;
                    }
                }
                at += 1;
            }
            if self.has_ended(job) || self.jobs.is_empty() || stop() {
                break;
            }
        }
        none_refused
    }

    /// Whether none of the first jobs precedes a transfer.
    fn is_next(&self, jobs: usize, transfer: &Transfer) -> bool {
        let earlier = self.jobs.range(..jobs);
        let mut earlier = earlier.flat_map(|(_, job)| job.work.transfers());
        !earlier.any(|it| it.shares_messages(transfer))
    }

    /// Sends a message if it is short, can be sent without waiting, and no other transfer precedes
    /// it.
    pub fn try_send(&self, communicator: &mut Communicator<Cpu>, transfer: &Transfer) -> Attempt {
        match self.jobs.len() {
            jobs if jobs <= MOST_COMPARED && self.is_next(jobs, transfer) => {
                transfer.attempt(communicator, &self.group)
            }
            _ => Attempt::Refused,
        }
    }
}
