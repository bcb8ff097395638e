//! Open work: transfers and collectives that run beside each other, by whichever thread waits.

use std::collections::VecDeque;
use std::ptr::copy_nonoverlapping;
use std::time::{Duration, Instant};

use backend_cpu::Cpu;
use executor::{Communicator, End, Ended, Memory, OpenGroup, Request};
use rustc_hash::FxHashMap;

use crate::communicator::compare::{self, Header, Told};
use crate::communicator::error::{Code, Fault};
use crate::communicator::queue::{Call, Job, Transfer, Work};
use crate::communicator::request::Launch;

/// What has begun.
pub struct Open {
    /// The own rank.
    rank: u32,
    /// Ranks.
    ranks: u32,
    /// Whether calls are compared before they run.
    pub debug: bool,
    /// What the communicator runs.
    pub group: OpenGroup<'static>,
    /// What each number of the group is.
    parts: FxHashMap<u64, Part>,
    /// The last number given out.
    last: u64,
    /// The job of which a part was added or has ended last.
    current: u64,
    /// By job of several parts: how many of them are not done, and the first that failed.
    left: FxHashMap<u64, (usize, Option<Fault>)>,
    /// Jobs that have not begun.
    pub jobs: VecDeque<(u64, Job)>,
    /// Jobs that have ended.
    pub ended: Vec<(u64, Result<(), Fault>)>,
    /// Sends to the own rank that have no receive yet, or receives that have no send.
    own: VecDeque<SelfTransfer>,
    /// Collectives that wait for the one before.
    pub collectives: VecDeque<(u64, Launch, Call)>,
}

// SAFETY: callers lend the memory of what they start to whichever thread runs it.
unsafe impl Send for Open {}

/// A transfer with the own rank that waits for its other end.
struct SelfTransfer {
    job: u64,
    transfer: Transfer,
    /// How long it may wait.
    until: Instant,
}

/// A part of a job.
struct Part {
    job: u64,
    /// Longest wait for another rank.
    longest: Duration,
    piece: Piece,
}

/// What a part of a job is. Memory that it owns stays where it is while the part runs.
enum Piece {
    /// A transfer.
    Transfer(Transfer),
    /// What the ends of a transfer tell each other before it.
    Headers(Transfer, Headers),
    /// A collective.
    Collective,
    /// What ranks tell each other before a collective.
    Told(Launch, Told),
}

/// The headers of a transfer.
struct Headers {
    own: Vec<u8>,
    theirs: Vec<u8>,
}

impl Open {
    /// Nothing has begun on a rank. `debug` says whether calls are compared before they run.
    pub fn new(rank: u32, ranks: u32, debug: bool) -> Self {
        Self {
            rank,
            ranks,
            debug,
            group: OpenGroup::default(),
            parts: FxHashMap::default(),
            last: 0,
            current: 0,
            left: FxHashMap::default(),
            jobs: VecDeque::new(),
            ended: Vec::new(),
            own: VecDeque::new(),
            collectives: VecDeque::new(),
        }
    }

    /// Adds [`Self::jobs`] and runs until `job`, or else any, is done or `stop` returns `true`.
    ///
    /// # Errors
    /// Those of the communicator, or the two ends of a transfer differ. All that has begun has
    /// failed with it: see [`Self::fail_all`].
    pub fn run(
        &mut self,
        communicator: &mut Communicator<Cpu>,
        job: Option<u64>,
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<(), Fault> {
        let none_refused = self.move_short(communicator, job, stop);
        // Short messages may wait for the next turn if they are younger than the job. Every turn
        // runs older jobs and those that have begun, and begins all others.
        let is_first = |job| self.jobs.front().is_none_or(|(it, _)| *it > job);
        let is_alone = self.group.is_empty() && self.collectives.is_empty();
        if none_refused && is_alone && job.is_some_and(is_first) && self.has_ended(job) {
            return Ok(());
        }
        while let Some((number, Job { work, call })) = self.jobs.pop_front() {
            self.current = number;
            match work {
                Work::Collective(launch) => {
                    self.collectives.push_back((number, launch, call));
                }
                Work::Transfer(transfer) => {
                    self.add_transfer(communicator, number, transfer, &call)?;
                }
                // An empty group is done, too.
                Work::Group(transfers) if transfers.is_empty() => self.ended.push((number, Ok(()))),
                Work::Group(transfers) => {
                    self.left.insert(number, (transfers.len(), None));
                    for transfer in transfers {
                        self.add_transfer(communicator, number, transfer, &call)?;
                    }
                }
            }
        }
        let has_ended = self.has_ended(job);
        loop {
            self.advance(communicator, &mut || has_ended || stop())?;
            let is_over = self.self_deadline().is_some_and(|it| Instant::now() >= it);
            let is_done = job.is_none() || self.has_ended(job);
            if is_done || self.group.is_empty() || is_over || stop() {
                return Ok(());
            }
        }
    }

    /// Whether `job`, or else any, has ended in this turn.
    pub fn has_ended(&self, job: Option<u64>) -> bool {
        match job {
            Some(job) => self.ended.iter().any(|(ended, _)| *ended == job),
            None => !self.ended.is_empty(),
        }
    }

    /// Ends all that has begun with an error.
    pub fn fail_all(&mut self, fault: &Fault) {
        let begun = self.parts.values().map(|it| it.job);
        let own = self.own.iter().map(|it| it.job);
        let collectives = self.collectives.iter().map(|(job, ..)| *job);
        let left = self.left.keys().copied();
        let begun = begun.chain(own).chain(collectives).chain(left);
        let begun = begun.chain([self.current]);
        // Some more than once, or done before, which the queue ignores.
        let all = begun.chain(self.jobs.iter().map(|(job, _)| *job));
        self.ended.extend(all.map(|job| (job, Err(fault.clone()))));
        let ended = std::mem::take(&mut self.ended);
        *self = Self {
            ended,
            ..Self::new(self.rank, self.ranks, self.debug)
        };
    }

    fn advance(
        &mut self,
        communicator: &mut Communicator<Cpu>,
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<(), Fault> {
        self.begin_collective(communicator);
        if self.group.is_empty() {
            return Ok(());
        }
        // Transfers with the own rank time out, whatever else runs.
        let until = self.self_deadline();
        let mut stop = || stop() || until.is_some_and(|it| Instant::now() >= it);
        let done = communicator.advance(&mut self.group, &mut stop)?;
        for Ended { number, peer } in done {
            let Some(Part {
                job,
                longest,
                piece,
            }) = self.parts.remove(&number)
            else {
                continue;
            };
            self.current = job;
            match (piece, peer) {
                (Piece::Transfer(transfer), peer) => {
                    if let Some(peer) = peer {
                        transfer.tell_source(peer);
                    }
                    self.finish(job);
                }
                (Piece::Headers(transfer, told), Some(peer)) if !transfer.sends() => {
                    compare::headers(&told.own, &told.theirs, (self.rank, peer))?;
                    if transfer.end == End::FromAny {
                        // The header's sender is known now, and the rest follows its header.
                        let end = End::From(peer);
                        let transfer = Transfer { end, ..transfer };
                        let part = Part {
                            job,
                            longest,
                            piece: Piece::Transfer(transfer),
                        };
                        self.add(communicator, part, true)?;
                    }
                }
                (Piece::Headers(..), _) => {}
                (Piece::Told(launch, told), _) => match told.compare(self.rank) {
                    Ok(()) => self.add_collective(communicator, job, launch, longest),
                    Err(fault) => self.fail(job, fault),
                },
                (Piece::Collective, _) => {
                    self.collectives.pop_front();
                    self.finish(job);
                }
            }
        }
        self.begin_collective(communicator);
        Ok(())
    }

    /// Begins the first of the collectives, unless it runs.
    fn begin_collective(&mut self, communicator: &mut Communicator<Cpu>) {
        while let Some((job, launch, call)) = self.collectives.front() {
            let is_collective = |it: &Part| matches!(it.piece, Piece::Collective | Piece::Told(..));
            if self.parts.values().any(is_collective) {
                return;
            }
            let (job, launch, longest) = (*job, *launch, call.longest);
            if self.debug {
                let mut told = Told::new(&launch.request, &call.place, self.ranks);
                let (request, memory) = told.exchange();
                let part = Part {
                    job,
                    longest,
                    piece: Piece::Told(launch, told),
                };
                self.begin(communicator, &request, memory, part);
            } else {
                self.add_collective(communicator, job, launch, longest);
            }
        }
    }

    /// Adds a transfer of a job.
    fn add_transfer(
        &mut self,
        communicator: &Communicator<Cpu>,
        job: u64,
        transfer: Transfer,
        call: &Call,
    ) -> Result<(), Fault> {
        if matches!(transfer.end, End::To(peer) | End::From(peer) if peer == self.rank) {
            let until = Instant::now() + call.longest;
            self.add_own(SelfTransfer {
                job,
                transfer,
                until,
            });
            return Ok(());
        }
        let part = |piece| Part {
            job,
            longest: call.longest,
            piece,
        };
        if self.debug {
            let headers = Headers {
                own: compare::header(transfer.bytes, &call.place).to_vec(),
                theirs: vec![0; size_of::<Header>()],
            };
            self.add(communicator, part(Piece::Headers(transfer, headers)), false)?;
            // Whose header comes decides who sends the rest.
            if transfer.end == End::FromAny {
                return Ok(());
            }
        }
        self.add(communicator, part(Piece::Transfer(transfer)), false)
    }

    /// Whether the communicator has nothing to do.
    pub fn is_idle(&self) -> bool {
        self.jobs.is_empty() && self.group.is_empty() && self.collectives.is_empty()
    }

    /// Adds a part of a transfer behind the others, or before those that have not begun.
    fn add(
        &mut self,
        communicator: &Communicator<Cpu>,
        mut part: Part,
        first: bool,
    ) -> Result<(), Fault> {
        let transfer = match &mut part.piece {
            Piece::Transfer(transfer) => *transfer,
            Piece::Headers(transfer, told) => {
                let used = match transfer.sends() {
                    true => &mut told.own,
                    false => &mut told.theirs,
                };
                // The headers are in the part, which lives until the transfer has ended.
                Transfer {
                    memory: used.as_mut_ptr(),
                    bytes: used.len(),
                    ..*transfer
                }
            }
            Piece::Collective | Piece::Told(..) => return Ok(()),
        };
        let memory = transfer.lend();
        self.last += 1;
        let (number, longest) = (self.last, part.longest);
        let end = (transfer.end, transfer.tag);
        let group = &mut self.group;
        match first {
            true => communicator.add_transfer_first(group, number, end, memory, longest)?,
            false => communicator.add_transfer(group, number, end, memory, longest)?,
        }
        self.parts.insert(number, part);
        Ok(())
    }

    /// Adds the first of the collectives.
    fn add_collective(
        &mut self,
        communicator: &mut Communicator<Cpu>,
        job: u64,
        launch: Launch,
        longest: Duration,
    ) {
        let part = Part {
            job,
            longest,
            piece: Piece::Collective,
        };
        self.begin(communicator, &launch.request, launch.memory(), part);
    }

    fn begin(
        &mut self,
        communicator: &mut Communicator<Cpu>,
        request: &Request,
        memory: Memory<'static>,
        part: Part,
    ) {
        self.last += 1;
        let (number, longest) = (self.last, part.longest);
        match communicator.add_collective(&mut self.group, number, (request, 0), memory, longest) {
            Ok(()) => {
                self.parts.insert(number, part);
            }
            Err(error) => self.fail(part.job, error.into()),
        }
    }

    /// Ends the first of the collectives with an error that all ranks get.
    fn fail(&mut self, job: u64, fault: Fault) {
        self.collectives.pop_front();
        self.end_part(job, Err(fault));
    }

    /// Copies between a send to the own rank and its receive, once both are there.
    fn add_own(&mut self, own: SelfTransfer) {
        let SelfTransfer { job, transfer, .. } = own;
        let is_other = |it: &SelfTransfer| {
            it.transfer.tag == transfer.tag && it.transfer.sends() != transfer.sends()
        };
        let other = self.own.iter().position(is_other);
        let Some(other) = other.and_then(|at| self.own.remove(at)) else {
            self.own.push_back(own);
            return;
        };
        let (other_job, other) = (other.job, other.transfer);
        let (send, receive) = match transfer.sends() {
            true => (transfer, other),
            false => (other, transfer),
        };
        if send.bytes != receive.bytes {
            let (sent, received) = (send.bytes, receive.bytes);
            let fault = Fault::invalid(format!(
                "a rank sends {sent} bytes to itself and receives {received}; a receive is as long as its send"
            ));
            self.end_part(job, Err(fault.clone()));
            self.end_part(other_job, Err(fault));
            return;
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
    }

    /// When the first of the transfers with the own rank has waited too long.
    pub fn self_deadline(&self) -> Option<Instant> {
        self.own.iter().map(|it| it.until).min()
    }

    /// Ends transfers with the own rank that waited too long, or all.
    pub fn time_out(&mut self, all: bool) {
        if self.own.is_empty() {
            return;
        }
        let now = Instant::now();
        let mut timed_out = Vec::new();
        self.own.retain(|it| {
            let stays = !all && it.until > now;
            if !stays {
                let (does, lacks) = match it.transfer.sends() {
                    true => ("sends", "receives nothing"),
                    false => ("receives", "sends nothing"),
                };
                let bytes = it.transfer.bytes;
                let tag = it.transfer.tag;
                let text = format!(
                    "a rank {does} {bytes} bytes to or from itself with tag {tag}, and {lacks}"
                );
                timed_out.push((it.job, Fault::new(Code::Timeout, text)));
            }
            stays
        });
        for (job, fault) in timed_out {
            self.end_part(job, Err(fault));
        }
    }

    fn finish(&mut self, job: u64) {
        self.end_part(job, Ok(()));
    }

    /// Ends a part of a job. The job ends with its last part, as the first that failed: memory of
    /// the others is used until then.
    fn end_part(&mut self, job: u64, mut done: Result<(), Fault>) {
        if let Some((left, failed)) = self.left.get_mut(&job) {
            *left -= 1;
            if let Err(fault) = done {
                failed.get_or_insert(fault);
            }
            if *left > 0 {
                return;
            }
            done = failed.take().map_or(Ok(()), Err);
            self.left.remove(&job);
        }
        self.ended.push((job, done));
    }
}
