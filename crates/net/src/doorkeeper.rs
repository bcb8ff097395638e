//! Telling ranks that come too late that the others went on without them.
//!
//! A rank that was cut off for a while finds, when it comes, a communicator of which it is no member. Without an answer it
//! would wait for the others in vain, or take them for lost and go on alone.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

use crate::regroup::{Home, hear, present, told};

/// A thread that answers where a rank listens while a communicator works that was made after a failure.
#[derive(Debug)]
pub(crate) struct Doorkeeper {
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Doorkeeper {
    /// Answers whoever is none of these members.
    ///
    /// # Errors
    /// There is no thread, or no descriptor.
    pub fn start(home: Arc<Home>, members: Vec<u32>, generation: u64) -> io::Result<Self> {
        home.listener.set_nonblocking(true)?;
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        let seen = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("doorkeeper".to_owned())
            .spawn(move || keep(&home, &members, generation, &seen))?;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }
}

fn keep(home: &Home, members: &[u32], generation: u64, stop: &OwnedFd) {
    let key = home.gather_key();
    loop {
        let mut fds = [
            PollFd::from_borrowed_fd(stop.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(home.listener.as_fd(), PollFlags::IN),
        ];
        // A signal only makes it look once more.
        let _ = poll(&mut fds, None);
        if !fds[0].revents().is_empty() {
            return;
        }
        let Ok((stream, _)) = home.listener.accept() else {
            continue;
        };
        let Some((come, mut connection)) = hear(stream, &key) else {
            continue;
        };
        // A member has noticed a failure before this rank did. It asks again.
        if !members.contains(&come.rank) {
            // One that ended meanwhile need not hear it.
            let _ = connection.send(&told(&present(home, members, generation)));
        }
    }
}

impl Drop for Doorkeeper {
    fn drop(&mut self) {
        // It counts from nothing, so it can count one further.
        let _ = rustix::io::write(&*self.stop, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
