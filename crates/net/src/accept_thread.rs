//! A thread that answers connections until it is dropped.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;

use bootstrap::socket::Acceptor;
use bootstrap::socket::accept::Arrived;
use rustix::event::{EventfdFlags, eventfd};

/// The thread.
#[derive(Debug)]
pub(crate) struct AcceptThread {
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl AcceptThread {
    /// Starts a thread that calls `answer` for each connection.
    ///
    /// # Errors
    /// The system has no thread or descriptor left.
    pub(crate) fn start(
        name: &str,
        mut acceptor: Acceptor,
        mut answer: impl FnMut(Arrived) + Send + 'static,
    ) -> io::Result<Self> {
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        let stopped = Arc::clone(&stop);
        let run = move || {
            while !acceptor.sleep(Some(stopped.as_fd()), None) {
                acceptor.accept().into_iter().for_each(&mut answer);
            }
        };
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(run)?;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for AcceptThread {
    fn drop(&mut self) {
        let _ = rustix::io::write(&*self.stop, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
