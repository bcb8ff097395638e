//! A line on the terminal that shows progress.

use std::io::Write;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::environment::Environment;

/// How long to wait before the first line, and between two lines.
const PERIOD: Duration = Duration::from_secs(1);

/// Shows a line on standard error, if that is a terminal, until it is dropped.
#[derive(Debug)]
pub(crate) struct Progress {
    texts: Option<Sender<String>>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    /// Begins with a text such as `planning`; how long it has taken is added to it.
    pub(crate) fn new(environment: &Environment, text: &str) -> Self {
        let (texts, changed) = channel();
        let text = text.to_owned();
        let show = || std::thread::Builder::new().spawn(move || show(text, &changed));
        // Without a thread there is no progress line.
        let thread = environment.progress.then(show).and_then(Result::ok);
        Self {
            texts: Some(texts),
            thread,
        }
    }

    pub(crate) fn set(&self, text: String) {
        if let Some(texts) = &self.texts {
            // Without a terminal there is no receiver.
            let _ = texts.send(text);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.texts = None;
        if let Some(thread) = self.thread.take() {
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

/// A line on standard error that counts steps, if that is a terminal. Dropping it removes the line.
#[derive(Debug)]
pub(crate) struct Steps {
    all: usize,
    done: usize,
    shown: bool,
}

impl Steps {
    pub(crate) const fn new(environment: &Environment, all: usize) -> Self {
        Self {
            all,
            done: 0,
            shown: environment.progress,
        }
    }

    pub(crate) fn show(&mut self, step: &str) {
        self.done += 1;
        if self.shown {
            print(&format!("{} of {}: {step}", self.done, self.all));
        }
    }

    /// Removes the line until the next step.
    pub(crate) fn clear(&self) {
        if self.shown {
            print("");
        }
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        self.clear();
    }
}

/// A line on standard error that changes, if that is a terminal. Dropping it removes the line.
#[derive(Debug)]
pub(crate) struct Line {
    is_possible: bool,
    width: usize,
    is_shown: bool,
}

impl Line {
    pub(crate) const fn new(environment: &Environment) -> Self {
        Self {
            is_possible: environment.progress,
            width: environment.width,
            is_shown: false,
        }
    }

    /// Shows a text, cut to the width of the terminal.
    pub(crate) fn show(&mut self, text: &str) {
        if self.is_possible {
            print(&text.chars().take(self.width - 1).collect::<String>());
            self.is_shown = true;
        }
    }

    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            print("");
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.clear();
    }
}

fn print(text: &str) {
    // A closed standard error cannot be reported anywhere.
    let _ = write!(std::io::stderr(), "{}", line(text));
}

/// The text in place of the line before.
fn line(text: &str) -> String {
    format!("\r\u{1b}[K{}", files::printable(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_are_escaped() {
        assert_eq!(
            line("reading \u{1b}[2Jlog"),
            "\r\u{1b}[Kreading \\u001b[2Jlog"
        );
    }
}
