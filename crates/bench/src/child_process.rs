//! Programs in processes of their own, each with a deadline.

use std::io::{ErrorKind, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use serde::de::DeserializeOwned;

/// Most bytes that are kept of what a program prints; later ones are read and dropped.
const MOST_BYTES: usize = 64 << 20;

/// Bytes that are read at once.
const PIECE: usize = 1 << 16;

/// Between two looks at a program.
const LOOK: Duration = Duration::from_millis(10);

/// How long what programs printed may take to arrive after their end. A process that one left
/// behind may keep the pipe open.
const LINGER: Duration = Duration::from_secs(1);

/// How long a killed process may take to end. One in a call of a device's driver may never end.
const AFTER_KILL: Duration = Duration::from_millis(200);

/// The output of a program, and how it ended.
#[derive(Debug)]
pub struct ProgramOutput {
    /// How it ended.
    pub status: ExitStatus,
    /// What it printed.
    pub out: String,
    /// What it printed to standard error.
    pub errors: String,
}

impl ProgramOutput {
    /// The last line of standard error.
    pub fn last_words(&self) -> &str {
        let mut lines = self.errors.lines().rev();
        let last = lines.find(|line| !line.trim().is_empty());
        let last = last.unwrap_or("it said nothing");
        last.strip_prefix("error: ").unwrap_or(last)
    }
}

/// How a program ended.
#[derive(Debug)]
pub enum ProgramEnd {
    /// By itself.
    InTime(ProgramOutput),
    /// It was killed, and had printed this.
    Killed(String),
}

/// A program that ends with this value.
pub struct RunningProgram {
    child: Child,
    /// It leads a process group, which ends with it.
    is_leader: bool,
    /// How it ended, once the system was asked. Its number may then be another process's.
    status: Option<ExitStatus>,
    out: Pipe,
    errors: Pipe,
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        self.kill();
        let until = Instant::now() + AFTER_KILL;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < until {
            thread::sleep(LOOK);
        }
    }
}

impl RunningProgram {
    /// Starts it.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn new(command: Command) -> Result<Self> {
        Self::start(command, false)
    }

    /// Starts it as the leader of a process group: the processes that it starts end with it. Ctrl-C
    /// at a terminal does not reach them.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn leader(command: Command) -> Result<Self> {
        Self::start(command, true)
    }

    fn start(mut command: Command, is_leader: bool) -> Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if is_leader {
            command.process_group(0);
        }
        let mut child = command
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        Ok(Self {
            out: Pipe::of(child.stdout.take()),
            errors: Pipe::of(child.stderr.take()),
            child,
            is_leader,
            status: None,
        })
    }

    /// Waits until the program has ended.
    ///
    /// # Errors
    /// It did not end within the deadline, and was killed.
    pub fn wait(self, deadline: Duration) -> Result<ProgramOutput> {
        match self.end_by(Instant::now() + deadline) {
            ProgramEnd::InTime(output) => Ok(output),
            ProgramEnd::Killed(_) => {
                bail!("it did not end within {:.0} s", deadline.as_secs_f64())
            }
        }
    }

    /// Waits until the program has ended, and kills it if it still runs at a moment. Takes little
    /// more than a second longer.
    pub fn end_by(mut self, moment: Instant) -> ProgramEnd {
        wait_for(std::slice::from_ref(&self), moment);
        let status = self.end();
        self.output(status, Instant::now() + LINGER)
    }

    /// Whether it has ended. It is not reaped, so that its number stays that of its group.
    fn has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let asked = waitid(WaitId::Pid(Pid::from_child(&self.child)), options);
        !matches!(asked, Ok(None))
    }

    /// Kills it, and its group if it leads one.
    fn kill(&mut self) {
        if self.status.is_some() {
            return;
        }
        // Both fail if nothing is left to be killed.
        if self.is_leader {
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        }
        let _ = self.child.kill();
    }

    /// Kills what is left of it. Returns its status if it had ended by itself.
    fn end(&mut self) -> Option<ExitStatus> {
        let has_ended = self.has_ended();
        if !has_ended || self.is_leader {
            self.kill();
        }
        self.status = self.child.try_wait().ok().flatten();
        self.status.filter(|_| has_ended)
    }

    fn output(&self, status: Option<ExitStatus>, until: Instant) -> ProgramEnd {
        let (out, errors) = (self.out.text(until), self.errors.text(until));
        match status {
            Some(status) => ProgramEnd::InTime(ProgramOutput {
                status,
                out,
                errors,
            }),
            None => ProgramEnd::Killed(out),
        }
    }
}

fn wait_for(programs: &[RunningProgram], moment: Instant) {
    while !programs.iter().all(RunningProgram::has_ended) && Instant::now() < moment {
        thread::sleep(LOOK);
    }
}

/// Waits until all programs have ended, and kills those that still run at a moment. Takes little
/// more than a second longer.
pub fn end_all(mut programs: Vec<RunningProgram>, moment: Instant) -> Vec<ProgramEnd> {
    wait_for(&programs, moment);
    let ends: Vec<_> = programs.iter_mut().map(RunningProgram::end).collect();
    let until = Instant::now() + LINGER;
    let all = programs.iter().zip(ends);
    all.map(|(program, status)| program.output(status, until))
        .collect()
}

/// What a program prints, read so that it never waits.
struct Pipe {
    bytes: Arc<Mutex<Vec<u8>>>,
    /// Closed at the end of the pipe.
    end: Receiver<()>,
}

impl Pipe {
    fn of(pipe: Option<impl Read + Send + 'static>) -> Self {
        let bytes = Arc::default();
        let (running, end) = mpsc::channel();
        let kept = Arc::clone(&bytes);
        thread::spawn(move || {
            if let Some(pipe) = pipe {
                read(pipe, &kept);
            }
            drop(running);
        });
        Self { bytes, end }
    }

    /// All of it, or what arrives in time.
    fn text(&self, until: Instant) -> String {
        let left = until.saturating_duration_since(Instant::now());
        // Nothing is ever sent: it ends with the pipe or with the time.
        let _ = self.end.recv_timeout(left);
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Reads a pipe to its end, or to an error.
fn read(mut pipe: impl Read, kept: &Mutex<Vec<u8>>) {
    let mut piece = vec![0; PIECE];
    loop {
        let count = match pipe.read(&mut piece) {
            Ok(0) => return,
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        let room = MOST_BYTES.saturating_sub(kept.len());
        kept.extend_from_slice(&piece[..count.min(room)]);
    }
}

/// Runs a program to its end.
///
/// # Errors
/// As [`RunningProgram::new`] and [`RunningProgram::wait`].
pub fn run(command: Command, deadline: Duration) -> Result<ProgramOutput> {
    RunningProgram::new(command)?.wait(deadline)
}

/// Runs a program that prints JSON.
///
/// # Errors
/// It did not end within the deadline, failed, or printed something else. With status 1 it printed
/// that something is wrong.
pub fn json<T: DeserializeOwned>(command: Command, deadline: Duration) -> Result<T> {
    let ended = run(command, deadline)?;
    if !matches!(ended.status.code(), Some(0 | 1)) {
        bail!("{} ({})", ended.last_words(), ended.status);
    }
    parse(&ended)
}

/// The JSON that a program printed.
///
/// # Errors
/// It printed something else.
pub fn parse<T: DeserializeOwned>(ended: &ProgramOutput) -> Result<T> {
    serde_json::from_str(&ended.out)
        .map_err(|error| anyhow!("it printed no result ({error}): {}", ended.last_words()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    /// Longer than any of these programs needs, even on a busy machine.
    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_deadline_kills() {
        let began = Instant::now();
        let late = run(shell("exec sleep 60"), Duration::from_millis(50)).unwrap_err();
        assert!(late.to_string().contains("did not end"), "{late}");
        assert!(began.elapsed() < Duration::from_secs(10));
    }

    /// Whether a process runs; a zombie does not.
    fn runs(number: &str) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{number}/stat"));
        stat.is_ok_and(|it| !it.contains(") Z"))
    }

    /// Waits until a process that was killed has ended.
    fn until_ended(number: &str) {
        let began = Instant::now();
        while runs(number) {
            assert!(began.elapsed() < LONG, "process {number} still runs");
            thread::sleep(LOOK);
        }
    }

    #[test]
    fn children_end_with_their_leader() {
        // One that ends and leaves a process, and one that waits for its own.
        for (script, is_in_time) in [
            ("sleep 600 & echo $!", true),
            ("sleep 600 & echo $!; wait", false),
        ] {
            let program = RunningProgram::leader(shell(script)).unwrap();
            let time = if is_in_time {
                LONG
            } else {
                Duration::from_secs(5)
            };
            let printed = match program.end_by(Instant::now() + time) {
                ProgramEnd::InTime(output) if is_in_time => output.out,
                ProgramEnd::Killed(printed) if !is_in_time => printed,
                other => panic!("{script}: {other:?}"),
            };
            until_ended(printed.trim());
        }
    }

    #[test]
    fn a_pipe_that_stays_open_loses_nothing() {
        // A process that leaves the group keeps the pipe open.
        let script = "echo first; setsid sleep 600 & echo $!
            until [ $(cut -d ' ' -f 5 /proc/$!/stat) = $! ]; do :; done";
        let ended = RunningProgram::leader(shell(script))
            .unwrap()
            .wait(LONG)
            .unwrap();
        let number = ended.out.strip_prefix("first\n").expect(&ended.out).trim();
        assert!(runs(number));
        shell(&format!("kill {number}")).status().unwrap();
        until_ended(number);
    }

    #[test]
    fn results_and_last_words() {
        let deadline = Duration::from_secs(20);
        let numbers: Vec<u32> = json(shell("echo '[1, 2]'; exit 1"), deadline).unwrap();
        assert_eq!(numbers, [1, 2]);
        let failed = shell("echo first >&2; echo error: last >&2; echo >&2; exit 3");
        let error = json::<Vec<u32>>(failed, deadline).unwrap_err().to_string();
        assert!(error.starts_with("last (exit status: 3)"), "{error}");
        let error = json::<Vec<u32>>(shell("echo nonsense"), deadline).unwrap_err();
        assert!(error.to_string().contains("no result"), "{error}");
    }
}
