//! What was started and is not done: a thread runs it in order.
//!
//! Sends and receives that were started are held until a thread waits for one of them, asks for it,
//! or starts or runs something else. Then they run as one group: two ranks that both start a send
//! and then a receive would wait for each other if each transfer ran by itself.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use crate::error::Fault;
use crate::request::Launch;

/// A transfer between this rank and another one.
#[derive(Debug, Clone, Copy)]
pub struct Transfer {
    /// The memory that is sent or written.
    pub memory: *mut u8,
    /// Its length.
    pub bytes: usize,
    /// The other rank.
    pub peer: u32,
    /// Whether this rank sends.
    pub sends: bool,
}

// SAFETY: the caller lends the memory to whichever thread runs the transfer.
unsafe impl Send for Transfer {}

/// How one call runs.
#[derive(Debug, Clone)]
pub struct Call {
    /// Longest wait for another rank.
    pub longest: Duration,
    /// Where the caller calls; empty if that is unknown.
    pub place: String,
}

/// What runs at once, for one call.
#[derive(Debug)]
pub struct Job {
    /// What runs.
    pub work: Work,
    /// For which call. Transfers that were held run for the first of their calls.
    pub call: Call,
}

/// What runs at once.
#[derive(Debug)]
pub enum Work {
    /// A collective.
    Collective(Launch),
    /// Transfers.
    Group(Vec<Transfer>),
}

/// What was started.
#[derive(Debug, Default)]
pub struct Queue {
    /// The last number given out.
    started: u64,
    /// All up to this number are done.
    done: u64,
    /// Jobs, each with its last number.
    jobs: VecDeque<(u64, Job)>,
    /// Transfers that wait for others to run with.
    held: Vec<Transfer>,
    /// The call of the first of them.
    held_by: Option<Call>,
    /// Errors of those that are done, by number, until they are asked for.
    faults: HashMap<u64, Fault>,
    /// Transfers since `topo_group_start`.
    pub group: Option<Vec<Transfer>>,
    /// Whether the thread runs.
    pub has_worker: bool,
    /// Whether the thread should end when nothing is left.
    pub ends: bool,
}

impl Queue {
    /// Adds a job behind those that were started before. Returns its number.
    pub fn push(&mut self, job: Job) -> u64 {
        self.release();
        self.started += 1;
        self.jobs.push_back((self.started, job));
        self.started
    }

    /// Adds a transfer to those that are held. Returns its number.
    pub fn hold(&mut self, transfer: Transfer, call: Call) -> u64 {
        self.started += 1;
        self.held_by.get_or_insert(call);
        self.held.push(transfer);
        self.started
    }

    /// Takes the transfers that are held, to run them with others in the calling thread. Their
    /// numbers are done with `finish`.
    pub fn take_held(&mut self) -> Vec<Transfer> {
        std::mem::take(&mut self.held)
    }

    /// Hands held transfers to the thread. Returns whether there were any.
    pub fn release(&mut self) -> bool {
        let work = Work::Group(self.take_held());
        let Some(call) = self.held_by.take() else {
            return false;
        };
        self.jobs.push_back((self.started, Job { work, call }));
        true
    }

    /// Whether nothing is left but held transfers.
    pub fn is_idle(&self) -> bool {
        self.done + self.held.len() as u64 == self.started
    }

    /// Marks all up to a number as done.
    pub fn finish(&mut self, last: u64, fault: Option<&Fault>) {
        if let Some(fault) = fault {
            for number in self.done + 1..=last {
                self.faults.insert(number, fault.clone());
            }
        }
        self.done = last;
    }

    /// The last number given out.
    pub const fn last(&self) -> u64 {
        self.started
    }

    /// How a job ended, if it is done; its error is returned once.
    pub fn ended(&mut self, number: u64) -> Option<Result<(), Fault>> {
        (self.done >= number).then(|| match self.faults.remove(&number) {
            Some(fault) => Err(fault),
            None => Ok(()),
        })
    }

    /// Takes the next job, with its last number.
    pub fn pop(&mut self) -> Option<(u64, Job)> {
        self.jobs.pop_front()
    }

    /// Whether a job is among the transfers that are held.
    pub fn is_held(&self, number: u64) -> bool {
        number > self.started - self.held.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transfer() -> Transfer {
        Transfer {
            memory: std::ptr::null_mut(),
            bytes: 0,
            peer: 0,
            sends: true,
        }
    }

    fn call() -> Call {
        Call {
            longest: Duration::from_secs(1),
            place: String::new(),
        }
    }

    #[test]
    fn held_transfers_run_before_what_starts_later() {
        let mut queue = Queue::default();
        let (first, second) = (
            queue.hold(transfer(), call()),
            queue.hold(transfer(), call()),
        );
        assert!(queue.is_idle() && queue.is_held(first));
        let third = queue.push(Job {
            work: Work::Group(Vec::new()),
            call: call(),
        });
        assert_eq!((first, second, third), (1, 2, 3));
        assert!(!queue.is_idle() && !queue.is_held(second));
        let lasts: Vec<u64> = queue.jobs.iter().map(|(last, _)| *last).collect();
        assert_eq!(lasts, [2, 3]);
    }

    #[test]
    fn an_error_reaches_each_job_of_a_group_once() {
        let mut queue = Queue::default();
        queue.hold(transfer(), call());
        queue.hold(transfer(), call());
        assert!(queue.release());
        assert!(queue.ended(1).is_none());
        queue.finish(2, Some(&Fault::invalid("wrong")));
        assert!(queue.ended(1).is_some_and(|it| it.is_err()));
        assert!(queue.ended(1).is_some_and(|it| it.is_ok()));
        assert!(queue.ended(2).is_some_and(|it| it.is_err()));
    }
}
