//! The thread that drives a rank's state machine and the roots in its process, and the state that
//! it shares with the rank's other threads.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use super::drive::{Drive, StateMachine};
use super::process_exchange::ProcessExchange;
use crate::failure::Failure;
use crate::info::PeerInfo;

/// A request of another thread.
pub(super) enum Command {
    Publish(String, Vec<u8>),
    Ask(u32, u32, String),
    Probe(u32, u32),
    Exchange(Vec<u8>),
    Fail(Failure),
    Finish,
    Leave(u32),
    End,
}

/// The state that other threads read.
#[derive(Default)]
pub(super) struct State {
    commands: Vec<Command>,
    pub ready: bool,
    pub infos: Arc<[PeerInfo]>,
    pub failure: Option<Failure>,
    pub left: Vec<u32>,
    pub everyone_left: bool,
    values: Vec<(u32, Vec<u8>)>,
    pub exchange: ProcessExchange,
    /// Ranks of this process that are about to leave.
    pub finishing: u32,
    tickets: u32,
    pub strangers: u32,
    pub own_stop: Option<Failure>,
    /// The thread is about to end.
    pub ended: bool,
}

pub(super) struct Shared {
    /// Ranks of this process, and the first of them.
    pub width: u32,
    pub first: u32,
    state: Mutex<State>,
    pub changed: Condvar,
    /// Wakes the thread.
    wake: OwnedFd,
}

impl Shared {
    /// Starts the thread for these drives, the member's first. The process has `width` ranks, from
    /// `rank` on.
    pub(super) fn start(
        rank: u32,
        width: u32,
        drives: Vec<Drive>,
    ) -> io::Result<(Arc<Self>, JoinHandle<()>)> {
        // No pipe: writing to one whose other end is closed raises a signal.
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let shared = Arc::new(Self {
            width,
            first: rank,
            state: Mutex::default(),
            changed: Condvar::new(),
            wake,
        });
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name(format!("bootstrap of rank {rank}"))
            .spawn(move || serve(&of_thread, drives))?;
        Ok((shared, thread))
    }

    /// A new number for a question.
    pub(super) fn ticket(&self) -> u32 {
        let mut state = self.lock();
        state.tickets += 1;
        state.tickets
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn command(&self, command: Command) {
        self.lock().commands.push(command);
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }
}

impl State {
    /// Takes the answer to a question.
    pub(super) fn answer(&mut self, ticket: u32) -> Option<Vec<u8>> {
        let at = self.values.iter().position(|(it, _)| *it == ticket)?;
        Some(self.values.swap_remove(at).1)
    }

    /// The job's failure. If a rank is waited for, its leaving counts as one.
    pub(super) fn failure(&self, waiting_for: Option<u32>) -> Option<Failure> {
        if let Some(failure) = &self.failure {
            return Some(failure.clone());
        }
        let rank = waiting_for.filter(|rank| self.left.contains(rank))?;
        Some(Failure::new(rank, "it ended while others still needed it"))
    }
}

/// How long the thread sends at the end, and keeps roots that tell late ranks about a failure.
const END_TIME: Duration = Duration::from_secs(3);

/// How long the thread waits at the end for the other sides to close. If a connection is closed
/// with unread data on this side, data that the other side did not read is lost.
const DRAIN_TIME: Duration = Duration::from_millis(300);

fn serve(shared: &Shared, mut drives: Vec<Drive>) {
    let woken = &shared.wake;
    let mut ends: Option<Instant> = None;
    loop {
        for drive in &mut drives {
            drive.make_progress();
        }
        // Events may have given other threads a reason for a request.
        if take_commands(shared, &mut drives) {
            ends.get_or_insert_with(|| Instant::now() + END_TIME);
        }
        for drive in &mut drives {
            drive.make_progress();
        }
        tell(shared, &mut drives);
        // A finished root is closed, so that late ranks are refused.
        let root_done =
            |it: &Drive| matches!(it.machine, StateMachine::Root(_)) && it.is_finished();
        drives.retain(|it| !(root_done(it) && it.is_flushed()));
        if let Some(ends) = ends {
            let done = drives.iter().all(|it| match it.machine {
                StateMachine::Member(_) => it.is_flushed(),
                StateMachine::Root(_) => false,
            });
            if done || Instant::now() >= ends {
                break;
            }
        }
        wait(woken, &mut drives, ends);
    }
    shared.lock().ended = true;
    shared.changed.notify_all();
    for drive in &drives {
        drive.shut_down();
    }
    let until = Instant::now() + DRAIN_TIME;
    while drives.iter_mut().any(|drive| !drive.drain()) && Instant::now() < until {
        wait(woken, &mut drives, Some(until));
    }
}

/// Runs queued commands. Returns `true` on `End`.
fn take_commands(shared: &Shared, drives: &mut [Drive]) -> bool {
    let commands = std::mem::take(&mut shared.lock().commands);
    let mut end = false;
    let Some(member) = drives.first_mut().and_then(Drive::member) else {
        return true;
    };
    for command in commands {
        match command {
            Command::Publish(name, value) => member.publish(name, value),
            Command::Ask(ticket, from, name) => member.ask(ticket, from, name),
            Command::Probe(ticket, rank) => member.probe(ticket, rank),
            Command::Exchange(own) => member.begin_exchange(own),
            Command::Fail(failure) => member.fail(failure),
            Command::Finish => member.finish(),
            Command::Leave(rank) => member.leave(rank),
            Command::End => end = true,
        }
    }
    end
}

/// Tells other threads what has changed.
fn tell(shared: &Shared, drives: &mut [Drive]) {
    let strangers = drives.iter().map(Drive::strangers).sum();
    let Some(member) = drives.first_mut().and_then(Drive::member) else {
        return;
    };
    let mut state = shared.lock();
    state.strangers = strangers;
    let mut news = false;
    if member.is_ready() && !state.ready {
        state.infos = member.table().all().unwrap_or_default().into();
        state.ready = true;
        news = true;
    }
    let values = member.take_values();
    news |= !values.is_empty();
    state.values.extend(values);
    if let Some(all) = member.take_exchanged() {
        if let Err(failure) = state.exchange.complete(shared.width, &all) {
            member.fail(failure);
        }
        news = true;
    }
    if state.failure.is_none() && member.failure().is_some() {
        state.failure = member.failure().cloned();
        state.own_stop = member.own_stop();
        news = true;
    }
    if member.count_left() as usize > state.left.len() {
        state.left = member.all_left();
        state.everyone_left = member.is_over();
        news = true;
    }
    drop(state);
    if news {
        shared.changed.notify_all();
    }
}

fn wait(woken: &OwnedFd, drives: &mut [Drive], ends: Option<Instant>) {
    let mut fds = vec![PollFd::from_borrowed_fd(woken.as_fd(), PollFlags::IN)];
    for drive in drives.iter() {
        drive.poll_fds(&mut fds);
    }
    let mut sleep = Duration::from_secs(10);
    for drive in drives.iter() {
        sleep = drive.sleep().map_or(sleep, |it| it.min(sleep));
    }
    if let Some(ends) = ends {
        sleep = sleep.min(ends.saturating_duration_since(Instant::now()));
    }
    // Avoids a busy loop for a fraction of a millisecond.
    let sleep = sleep.max(Duration::from_millis(1));
    let timeout = Timespec::try_from(sleep).ok();
    // A signal only ends the sleep early.
    let _ = poll(&mut fds, timeout.as_ref());
    let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
    let mut ready = ready.into_iter().skip(1);
    for drive in drives.iter_mut() {
        drive.polled(&mut ready);
    }
    let mut bytes = [0; 256];
    while matches!(rustix::io::read(woken, &mut bytes), Ok(1..)) {}
}
