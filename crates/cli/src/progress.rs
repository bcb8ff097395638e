//! A line on the terminal that says that something still goes on, and how far it is.

use std::io::Write;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::environment::Environment;

/// What is done sooner needs no line; also the time between two lines.
const PERIOD: Duration = Duration::from_secs(1);

/// Shows a line on standard error while it lives, if that is a terminal and it lives for more than a second.
#[derive(Debug)]
pub struct Progress {
    texts: Option<Sender<String>>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    /// Begins with a text such as `planning`; how long it has taken is added to it.
    pub fn new(environment: &Environment, text: &str) -> Self {
        let (texts, changed) = channel();
        let text = text.to_owned();
        let show = || std::thread::Builder::new().spawn(move || show(text, &changed));
        // Without a thread nothing is shown, and everything else is as ever.
        let thread = environment.progress.then(show).and_then(Result::ok);
        Self {
            texts: Some(texts),
            thread,
        }
    }

    /// Changes the text.
    pub fn set(&self, text: String) {
        if let Some(texts) = &self.texts {
            // Nobody listens where nothing is shown.
            let _ = texts.send(text);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.texts = None;
        if let Some(thread) = self.thread.take() {
            // What it shows is no result.
            let _ = thread.join();
        }
    }
}

fn show(mut text: String, changed: &Receiver<String>) {
    let began = Instant::now();
    let mut next = began + PERIOD;
    let mut shown = false;
    loop {
        match changed.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Ok(new) => text = new,
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                print(&format!("{text}: {} s", began.elapsed().as_secs()));
                shown = true;
                next += PERIOD;
            }
        }
    }
    if shown {
        print("");
    }
}

/// Replaces the line.
fn print(text: &str) {
    // Nobody is left to tell when standard error is closed.
    let _ = write!(std::io::stderr(), "\r\u{1b}[K{text}");
}
