//! Programs in processes of their own, each with a deadline.

use std::io::{self, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use serde::de::DeserializeOwned;

/// Most bytes that are read of what a program prints.
const MOST_BYTES: u64 = 64 << 20;

/// Between two looks at a program.
const LOOK: Duration = Duration::from_millis(10);

/// How long what a program printed may take to arrive after its end.
const LINGER: Duration = Duration::from_secs(1);

/// The output of a program, and how it ended.
#[derive(Debug)]
pub struct ProgramOutput {
    /// How it ended.
    pub status: ExitStatus,
    /// What it printed.
    pub out: String,
    errors: String,
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

/// A program that ends with this value.
pub struct RunningProgram {
    child: Child,
    out: Receiver<String>,
    errors: Receiver<String>,
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        // One that has ended already needs neither.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl RunningProgram {
    /// Starts it.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn new(mut command: Command) -> Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        Ok(Self {
            out: collect(child.stdout.take()),
            errors: collect(child.stderr.take()),
            child,
        })
    }

    /// Waits until the program has ended.
    ///
    /// # Errors
    /// It did not end within the deadline, and was killed.
    pub fn wait(mut self, deadline: Duration) -> Result<ProgramOutput> {
        let began = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            if began.elapsed() >= deadline {
                bail!("it did not end within {:.0} s", deadline.as_secs_f64());
            }
            thread::sleep(LOOK);
        };
        let text = |from: &Receiver<String>| from.recv_timeout(LINGER).unwrap_or_default();
        Ok(ProgramOutput {
            status,
            out: text(&self.out),
            errors: text(&self.errors),
        })
    }
}

/// Reads all of a pipe, so that the program at its other end never waits.
fn collect(pipe: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // What came before an error is all that there is.
            let _ = (&mut pipe).take(MOST_BYTES).read_to_end(&mut bytes);
            let _ = io::copy(&mut pipe, &mut io::sink());
        }
        // Nobody may want it any more.
        let _ = send.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receive
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

    #[test]
    fn a_deadline_kills() {
        let began = Instant::now();
        let late = run(shell("exec sleep 60"), Duration::from_millis(50)).unwrap_err();
        assert!(late.to_string().contains("did not end"), "{late}");
        assert!(began.elapsed() < Duration::from_secs(10));
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
