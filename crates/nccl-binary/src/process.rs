//! The process of one host: its group, its streams, its end. A library may close its streams,
//! leave a daemon that keeps them open, or write without end: every wait here has a deadline, and
//! the text that is kept has a limit.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

/// How long all killed processes may take to end, and their logs to arrive.
const AFTER_KILL: Duration = Duration::from_secs(1);

/// How often the end of a process is looked for.
const POLL: Duration = Duration::from_millis(5);

/// Most bytes of a host's log that are kept; later ones are read and dropped.
const MOST_LOG_BYTES: usize = 64 << 20;

/// Longest line of a log, bytes; the rest of it is dropped.
const MOST_LINE_BYTES: usize = 64 << 10;

/// Longest message of a host, bytes; a longer one is dropped.
const MOST_MESSAGE_BYTES: usize = 64 << 20;

/// Lines that wait for the parent. A reader of a full queue waits, and so does the library.
const QUEUE: usize = 1024;

/// Most characters of a library's words in an error.
const MOST_WORDS: usize = 300;

/// A running host.
pub struct Process {
    child: Child,
    status: Option<ExitStatus>,
    log: Receiver<String>,
    lines: Vec<String>,
    bytes: usize,
}

impl Process {
    /// Starts a program as the leader of a process group, without an environment, and gives it a
    /// request as a line of JSON. `hears` gets its messages on a thread, and `None` at the end of
    /// its output; `false` ends the interest. Returns its standard input, too.
    ///
    /// # Errors
    /// The program or a thread does not start, or the request cannot be written.
    pub fn start(
        program: &Path,
        arguments: &[OsString],
        request: &impl Serialize,
        mut hears: impl FnMut(Option<&[u8]>) -> bool + Send + 'static,
    ) -> std::io::Result<(Self, ChildStdin)> {
        let mut request = serde_json::to_string(request)?;
        request.push('\n');
        let mut child = Command::new(program)
            .args(arguments)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let streams = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (sender, log) = mpsc::sync_channel(QUEUE);
        // Ends the child if it fails from here on.
        let process = Self {
            child,
            status: None,
            log,
            lines: Vec::new(),
            bytes: 0,
        };
        let (Some(mut input), Some(output), Some(errors)) = streams else {
            return Err(std::io::Error::other("its streams are closed"));
        };
        thread::Builder::new().spawn(move || pass_log(errors, &sender))?;
        thread::Builder::new().spawn(move || {
            pass_messages(output, |line| hears(Some(line)));
            hears(None);
        })?;
        match input.write_all(request.as_bytes()) {
            // That it has ended is heard later, with the reason.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
            written => written?,
        }
        Ok((process, input))
    }

    /// Whether it ends by itself before a moment.
    pub fn ends_until(&mut self, end: Instant) -> Option<ExitStatus> {
        loop {
            self.keep_log();
            if self.status.is_none() && self.has_ended() {
                // As long as nobody has waited for it, its number is that of its group.
                self.kill_group();
                self.status = self.child.try_wait().ok().flatten();
            }
            if self.status.is_some() || Instant::now() >= end {
                return self.status;
            }
            thread::park_timeout(POLL);
        }
    }

    /// Whether it has ended, without waiting for it.
    fn has_ended(&self) -> bool {
        let mut ended = MaybeUninit::<libc::siginfo_t>::zeroed();
        let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        // SAFETY: the kernel writes what it knows of the child; all zeros is a value, too.
        let (asked, ended) = unsafe {
            let asked = libc::waitid(libc::P_PID, self.child.id(), ended.as_mut_ptr(), options);
            (asked, ended.assume_init())
        };
        // SAFETY: a field of every answer; 0 if the child still runs.
        asked != 0 || unsafe { ended.si_pid() } != 0
    }

    /// Kills it and its group.
    pub fn kill(&mut self) {
        // The group of one that was waited for is killed already.
        if self.status.is_none() {
            self.kill_group();
            // It may have left its group.
            let _ = self.child.kill();
        }
    }

    fn kill_group(&self) {
        if let Ok(group) = i32::try_from(self.child.id()) {
            // SAFETY: sends a signal to the group of a child that was not waited for.
            unsafe { libc::kill(-group, libc::SIGKILL) };
        }
    }

    /// Keeps the lines that have arrived. Called often during a wait for a host, since a
    /// library waits while its log is full.
    pub fn keep_log(&mut self) {
        // No more than a full queue: a library that writes without end must not hold the parent.
        for line in self.log.try_iter().take(QUEUE).collect::<Vec<_>>() {
            self.keep(line);
        }
    }

    /// The lines that were kept.
    pub fn lines(&self) -> &[String] {
        &self.lines
    }

    fn keep(&mut self, line: String) {
        if self.bytes < MOST_LOG_BYTES {
            // An empty line costs memory, too.
            self.bytes += line.len() + size_of::<String>();
            self.lines.push(line);
        }
    }

    /// The lines of a killed process's log that arrive in time.
    fn log_until(&mut self, end: Instant) -> Vec<String> {
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.log.recv_timeout(left) {
                Ok(line) if !left.is_zero() => self.keep(line),
                Ok(line) => {
                    self.keep(line);
                    break;
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
        }
        // Others may have used up the time.
        self.keep_log();
        std::mem::take(&mut self.lines)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        self.ends_until(Instant::now() + AFTER_KILL);
    }
}

/// Kills all processes, and returns the log of each. Takes two seconds at most.
pub fn logs<'a>(processes: impl IntoIterator<Item = &'a mut Process>) -> Vec<Vec<String>> {
    let mut processes: Vec<&mut Process> = processes.into_iter().collect();
    processes.iter_mut().for_each(|process| process.kill());
    let end = Instant::now() + AFTER_KILL;
    let logs = processes
        .iter_mut()
        .map(|process| process.log_until(end))
        .collect();
    for process in &mut processes {
        process.ends_until(end);
    }
    logs
}

/// A library's words for an error: short, and without control characters.
pub fn words(line: &str) -> String {
    let mut said = line.trim().chars().filter(|it| !it.is_control());
    let mut words: String = said.by_ref().take(MOST_WORDS).collect();
    if said.next().is_some() {
        words.push('…');
    }
    words
}

/// Hands on the lines of a log, until nobody wants them.
fn pass_log(stream: ChildStderr, to: &SyncSender<String>) {
    let mut stream = BufReader::new(stream);
    while let Some((line, _)) = bounded_line(&mut stream, MOST_LINE_BYTES) {
        if to
            .send(String::from_utf8_lossy(&line).into_owned())
            .is_err()
        {
            return;
        }
    }
}

/// Hands on the lines of standard output that are whole, until the stream or the interest ends.
fn pass_messages(stream: impl Read, mut to: impl FnMut(&[u8]) -> bool) {
    let mut stream = BufReader::new(stream);
    while let Some((line, whole)) = bounded_line(&mut stream, MOST_MESSAGE_BYTES) {
        if whole && !to(&line) {
            return;
        }
    }
}

/// The next line without its end, at most so many bytes of it, and whether it is whole. Returns
/// `None` at the end of the stream.
fn bounded_line(stream: &mut impl BufRead, most: usize) -> Option<(Vec<u8>, bool)> {
    let mut line = Vec::new();
    let mut whole = true;
    loop {
        let bytes = match stream.fill_buf() {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(_) => return None,
        };
        if bytes.is_empty() {
            return (!line.is_empty()).then_some((line, whole));
        }
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let part = &bytes[..end.unwrap_or(bytes.len())];
        let room = most - line.len();
        whole &= part.len() <= room;
        line.extend_from_slice(&part[..part.len().min(room)]);
        let read = end.map_or(bytes.len(), |end| end + 1);
        stream.consume(read);
        if end.is_some() {
            return Some((line, whole));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut() {
        let mut stream = &b"short\nlonger than\n\nend"[..];
        let mut lines = Vec::new();
        while let Some((line, whole)) = bounded_line(&mut stream, 6) {
            lines.push((String::from_utf8(line).unwrap(), whole));
        }
        let expected = [
            ("short", true),
            ("longer", false),
            ("", true),
            ("end", true),
        ];
        assert_eq!(
            lines,
            expected.map(|(line, whole)| (line.to_owned(), whole))
        );
    }

    #[test]
    fn words_are_short_and_plain() {
        assert_eq!(words(" \u{1b}[2Jhello\r "), "[2Jhello");
        assert_eq!(words(&"a".repeat(1000)).chars().count(), MOST_WORDS + 1);
    }
}
