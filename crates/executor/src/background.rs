//! Collectives in the background: a thread runs them in order while the caller does something else.
//!
//! The engine has one owner at a time, so that no launch takes a lock. It moves to the thread with
//! the first collective that is started there, and back with the next call in the foreground.

use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

use crate::backend::Backend;
use crate::engine::Engine;
use crate::error::Error;

type Job<B> = Box<dyn FnOnce(&mut Engine<B>) + Send>;

enum Command<B: Backend> {
    Take(Box<Engine<B>>),
    Run(Job<B>),
    GiveBack,
}

struct Worker<B: Backend> {
    commands: Sender<Command<B>>,
    engines: Receiver<Box<Engine<B>>>,
}

/// The engine, here or in the background thread.
pub(crate) struct Home<B: Backend> {
    rank: u32,
    engine: Option<Box<Engine<B>>>,
    worker: Option<Worker<B>>,
}

impl<B: Backend> Home<B> {
    pub fn new(engine: Engine<B>) -> Self {
        Self {
            rank: engine.rank(),
            engine: Some(Box::new(engine)),
            worker: None,
        }
    }

    /// The engine, after all started collectives are done.
    #[inline]
    pub fn engine(&mut self) -> Result<&mut Engine<B>, Error> {
        if self.engine.is_none() {
            self.fetch()?;
        }
        let rank = self.rank;
        self.engine.as_deref_mut().ok_or_else(|| Error::Background {
            rank,
            what: "has lost the communicator".to_owned(),
        })
    }

    #[cold]
    fn fetch(&mut self) -> Result<(), Error> {
        if let Some(worker) = &self.worker
            && worker.commands.send(Command::GiveBack).is_ok()
            && let Ok(engine) = worker.engines.recv()
        {
            self.engine = Some(engine);
            return Ok(());
        }
        Err(self.gone())
    }

    fn gone(&self) -> Error {
        Error::Background {
            rank: self.rank,
            what: "has ended because it panicked".to_owned(),
        }
    }

    /// Queues a job behind those that were started before.
    pub fn start(&mut self, job: Job<B>) -> Result<(), Error> {
        let worker = match self.worker.take() {
            Some(worker) => worker,
            None => spawn(self.rank)?,
        };
        let mut sent = true;
        if let Some(engine) = self.engine.take() {
            sent &= worker.commands.send(Command::Take(engine)).is_ok();
        }
        sent &= worker.commands.send(Command::Run(job)).is_ok();
        self.worker = Some(worker);
        if sent { Ok(()) } else { Err(self.gone()) }
    }
}

fn spawn<B: Backend>(rank: u32) -> Result<Worker<B>, Error> {
    let (commands, queue) = channel();
    let (done, engines) = channel();
    let thread = std::thread::Builder::new().name(format!("rank {rank}"));
    let spawned = thread.spawn(move || {
        let mut engine: Option<Box<Engine<B>>> = None;
        for command in queue {
            match command {
                Command::Take(it) => engine = Some(it),
                Command::Run(job) => {
                    if let Some(engine) = &mut engine {
                        job(engine);
                    }
                }
                Command::GiveBack => {
                    if let Some(engine) = engine.take()
                        && done.send(engine).is_err()
                    {
                        return;
                    }
                }
            }
        }
    });
    spawned.map_err(|error| Error::Background {
        rank,
        what: format!("cannot be started: {error}"),
    })?;
    Ok(Worker { commands, engines })
}

/// A collective in the background. It owns its buffers until it is done.
#[must_use = "the buffers come back from `wait`"]
pub struct Pending<T> {
    pub(crate) rank: u32,
    pub(crate) result: Receiver<Result<T, Error>>,
    pub(crate) ready: Option<Result<T, Error>>,
}

impl<T> Pending<T> {
    pub(crate) const fn new(rank: u32, result: Receiver<Result<T, Error>>) -> Self {
        Self {
            rank,
            result,
            ready: None,
        }
    }

    /// Whether it is done: [`Self::wait`] will not wait.
    pub fn is_done(&mut self) -> bool {
        if self.ready.is_none() {
            self.ready = match self.result.try_recv() {
                Ok(ready) => Some(ready),
                Err(TryRecvError::Empty) => None,
                Err(TryRecvError::Disconnected) => Some(Err(lost(self.rank))),
            };
        }
        self.ready.is_some()
    }

    /// Waits until it is done; returns the buffers.
    ///
    /// # Errors
    /// The collective failed. The buffers are lost then.
    pub fn wait(mut self) -> Result<T, Error> {
        match self.ready.take() {
            Some(ready) => ready,
            None => self.result.recv().unwrap_or_else(|_| Err(lost(self.rank))),
        }
    }
}

fn lost(rank: u32) -> Error {
    Error::Background {
        rank,
        what: "has ended before the collective was done".to_owned(),
    }
}
