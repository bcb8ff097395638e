//! The thread that runs what was started.

use std::collections::{HashMap, VecDeque};
use std::ptr::{copy_nonoverlapping, null, null_mut};
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use backend_cpu::Cpu;
use executor::{Communicator, End, Ended, Memory, OpenGroup};

use crate::compare::{self, Header};
use crate::error::{Code, Fault};
use crate::queue::{Call, Queue, Transfer};
use crate::shared::Shared;

/// Transfers that have begun.
#[derive(Default)]
struct Open {
    group: OpenGroup<'static>,
    /// What each number of the group is.
    parts: HashMap<u64, Part>,
    /// The last number given out.
    last: u64,
    /// By job: how many of its transfers are not done.
    left: HashMap<u64, usize>,
    /// Sends to the own rank that have no receive yet, or receives that have no send.
    own: VecDeque<Lonely>,
    call: Option<Call>,
}

/// A transfer with the own rank that waits for its other end.
struct Lonely {
    job: u64,
    transfer: Transfer,
    /// How long it may wait.
    until: Instant,
}

/// A part of a job.
struct Part {
    job: u64,
    transfer: Transfer,
    /// What the ends tell each other before the transfer, if this is that and not the transfer.
    headers: Option<Headers>,
}

/// The headers of a transfer. Both stay where they are while they are sent.
struct Headers {
    own: Vec<u8>,
    theirs: Vec<u8>,
}

impl Shared {
    /// Runs what was started, until the communicator ends.
    pub fn work(&self) {
        let mut open = Open::default();
        let mut queue = self.queue();
        loop {
            self.news.store(false, Ordering::Release);
            let mut groups = Vec::new();
            // Another thread may run a collective, which transfers that were started later follow.
            while let Some(group) = queue.pop_group(!open.group.is_empty() || !groups.is_empty()) {
                groups.push(group);
            }
            if groups.is_empty() && open.group.is_empty() {
                for (job, fault) in open.give_up(queue.drains) {
                    queue.finish(job, Some(&fault));
                    self.changed.notify_all();
                }
                queue = self.run_collectives(queue, u64::MAX);
                if queue.is_idle() && queue.ends {
                    return;
                }
                if !queue.has_next() {
                    queue = self.sleep(queue, open.patience());
                }
                continue;
            }
            drop(queue);
            let ended = self.run_open(&mut open, groups);
            queue = self.queue();
            queue.is_running = !open.group.is_empty();
            for (job, done) in ended {
                queue.finish(job, done.as_ref().err());
            }
            self.changed.notify_all();
        }
    }

    /// Runs collectives up to this number in the calling thread, unless another one runs something:
    /// a thread that would only wait needs to wake no other one.
    pub fn run_up_to(&self, number: u64) {
        drop(self.run_collectives(self.queue(), number));
    }

    fn run_collectives<'a>(
        &'a self,
        mut queue: MutexGuard<'a, Queue>,
        most: u64,
    ) -> MutexGuard<'a, Queue> {
        while let Some((number, job)) = queue.take_collective(most) {
            drop(queue);
            let done = self.run(&job);
            queue = self.queue();
            queue.is_running = false;
            queue.finish(number, done.as_ref().err());
            self.changed.notify_all();
        }
        queue
    }

    /// Adds transfers and runs until some are done or others are started. Returns the jobs that are
    /// done.
    fn run_open(
        &self,
        open: &mut Open,
        groups: Vec<(u64, Vec<Transfer>, Call)>,
    ) -> Vec<(u64, Result<(), Fault>)> {
        let mut ended = Vec::new();
        for (job, ..) in &groups {
            // Also an empty group is done once.
            open.left.insert(*job, 0);
        }
        let ran = self.with_communicator(|communicator| {
            for (job, transfers, call) in groups {
                for transfer in transfers {
                    self.add(open, communicator, job, transfer, &call)?;
                }
                open.call = Some(call);
            }
            self.advance(open, communicator)
        });
        match ran {
            Ok(()) => {
                open.left.retain(|job, left| {
                    if *left == 0 {
                        ended.push((*job, Ok(())));
                    }
                    *left > 0
                });
            }
            // The communicator has failed, and all with it.
            Err(fault) => {
                let failed = open.left.keys().map(|job| (*job, Err(fault.clone())));
                ended.extend(failed);
                *open = Open::default();
            }
        }
        ended
    }

    fn advance(&self, open: &mut Open, communicator: &mut Communicator<Cpu>) -> Result<(), Fault> {
        if open.group.is_empty() {
            return Ok(());
        }
        if let Some(call) = &open.call {
            communicator.set_longest_wait(call.longest)?;
        }
        let mut stop = || self.news.load(Ordering::Acquire);
        let done = communicator.advance(&mut open.group, &mut stop)?;
        for Ended { number, peer } in done {
            let Some(part) = open.parts.remove(&number) else {
                continue;
            };
            let Part { job, transfer, .. } = part;
            match &part.headers {
                None => {
                    transfer.tell_source(peer);
                    open.finish(job);
                }
                Some(_) if transfer.sends() => {}
                Some(it) => {
                    let compared = compare::headers(&it.own, &it.theirs, (self.rank, peer));
                    // The sender would wait for the rest, and must learn why it waits in vain.
                    compared.inspect_err(|fault| self.abort(&fault.text))?;
                    if transfer.end == End::FromAny {
                        // The header's sender is known now, and the rest follows its header.
                        let end = End::From(peer);
                        let part = Part::of(job, Transfer { end, ..transfer });
                        open.add(communicator, part, true)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Adds a transfer of a job.
    fn add(
        &self,
        open: &mut Open,
        communicator: &Communicator<Cpu>,
        job: u64,
        transfer: Transfer,
        call: &Call,
    ) -> Result<(), Fault> {
        *open.left.entry(job).or_default() += 1;
        if matches!(transfer.end, End::To(peer) | End::From(peer) if peer == self.rank) {
            let until = Instant::now() + call.longest;
            return open.add_own(Lonely {
                job,
                transfer,
                until,
            });
        }
        if self.debug {
            let headers = Headers {
                own: compare::header(transfer.bytes, &call.place).to_vec(),
                theirs: vec![0; size_of::<Header>()],
            };
            let headers = Some(headers);
            let part = Part {
                headers,
                ..Part::of(job, transfer)
            };
            open.add(communicator, part, false)?;
            // Whose header comes decides who sends the rest.
            if transfer.end == End::FromAny {
                return Ok(());
            }
        }
        open.add(communicator, Part::of(job, transfer), false)
    }
}

impl Part {
    const fn of(job: u64, transfer: Transfer) -> Self {
        Self {
            job,
            transfer,
            headers: None,
        }
    }

    /// The memory that it sends or receives.
    fn memory(&mut self) -> Memory<'static> {
        let (memory, bytes) = match &mut self.headers {
            Some(it) if self.transfer.sends() => (it.own.as_mut_ptr(), it.own.len()),
            Some(it) => (it.theirs.as_mut_ptr(), it.theirs.len()),
            None => (self.transfer.memory, self.transfer.bytes),
        };
        match self.transfer.sends() {
            true => Memory::at(memory, bytes, null_mut(), 0),
            false => Memory::at(null(), 0, memory, bytes),
        }
    }
}

impl Open {
    /// Adds a part behind the others, or before those that have not begun.
    fn add(
        &mut self,
        communicator: &Communicator<Cpu>,
        mut part: Part,
        first: bool,
    ) -> Result<(), Fault> {
        self.last += 1;
        let (number, end, memory) = (self.last, part.transfer.end, part.memory());
        match first {
            true => communicator.add_transfer_first(&mut self.group, number, end, memory)?,
            false => communicator.add_transfer(&mut self.group, number, end, memory)?,
        }
        self.parts.insert(number, part);
        Ok(())
    }

    /// Copies between a send to the own rank and its receive, once both are there.
    fn add_own(&mut self, lonely: Lonely) -> Result<(), Fault> {
        let Lonely { job, transfer, .. } = lonely;
        let first = self.own.front();
        let matches = first.is_some_and(|it| it.transfer.sends() != transfer.sends());
        let Some(other) = matches.then(|| self.own.pop_front()).flatten() else {
            self.own.push_back(lonely);
            return Ok(());
        };
        let (other_job, other) = (other.job, other.transfer);
        let (send, receive) = match transfer.sends() {
            true => (transfer, other),
            false => (other, transfer),
        };
        if send.bytes != receive.bytes {
            return Err(Fault::invalid(format!(
                "a rank sends {} bytes to itself and receives {}; a receive is as long as its send",
                send.bytes, receive.bytes
            )));
        }
        if send.bytes > 0 {
            // SAFETY: the caller lends both until the transfers are done, and the receive's for it
            // alone.
            unsafe { copy_nonoverlapping(send.memory, receive.memory, send.bytes) };
        }
        if let End::From(own) = receive.end {
            receive.tell_source(own);
        }
        self.finish(job);
        self.finish(other_job);
        Ok(())
    }

    /// How long the transfers with the own rank may still wait.
    fn patience(&self) -> Option<Duration> {
        let first = self.own.iter().map(|it| it.until).min();
        first.map(|until| until.saturating_duration_since(Instant::now()))
    }

    /// Gives up transfers with the own rank that waited too long, or all.
    fn give_up(&mut self, all: bool) -> Vec<(u64, Fault)> {
        let now = Instant::now();
        let mut given_up = Vec::new();
        self.own.retain(|it| {
            let stays = !all && it.until > now;
            if !stays {
                let (does, lacks) = match it.transfer.sends() {
                    true => ("sends", "receives nothing"),
                    false => ("receives", "sends nothing"),
                };
                let bytes = it.transfer.bytes;
                let text = format!("a rank {does} {bytes} bytes to or from itself, and {lacks}");
                given_up.push((it.job, Fault::new(Code::Timeout, text)));
            }
            stays
        });
        for (job, _) in &given_up {
            self.left.remove(job);
        }
        given_up
    }

    fn finish(&mut self, job: u64) {
        if let Some(left) = self.left.get_mut(&job) {
            *left = left.saturating_sub(1);
        }
    }
}
