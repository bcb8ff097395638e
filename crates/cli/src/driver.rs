//! The answers of this machine's NVIDIA driver, from a process of its own: its library may hang or
//! end the process, and a command then shows the rest of the machine.

use std::fmt::Display;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Result;
use bench::child_process::{ProgramEnd, RunningProgram};
use probe::nvml::{self, Answers};
use rustix::process::{Signal, set_parent_process_death_signal};

use crate::output::Output;

/// The hidden command of the process.
const COMMAND: &str = "driver-answers";

/// How long all answers may take.
const DEADLINE: Duration = Duration::from_secs(10);

/// Asks the driver. Takes at most a second longer than its deadline.
pub(crate) fn ask() -> Answers {
    let program = std::env::current_exe().map(|program| {
        let mut command = Command::new(program);
        command.arg(COMMAND);
        command
    });
    let running = program.map_err(anyhow::Error::from);
    let running = running.and_then(RunningProgram::leader);
    let (out, why) = match running.map(|it| it.end_by(Instant::now() + DEADLINE)) {
        Ok(ProgramEnd::InTime(it)) => (it.out, format!("ended its process ({})", it.status)),
        Ok(ProgramEnd::Killed(out)) => {
            let seconds = DEADLINE.as_secs();
            (out, format!("did not answer within {seconds} s"))
        }
        Err(why) => return silent(&format!("cannot be asked: {why:#}")),
    };
    // The library may print, too, and hang once it has answered.
    let mut lines = out.lines();
    let answers = lines.find_map(|line| serde_json::from_str(line).ok());
    answers.unwrap_or_else(|| silent(&why))
}

fn silent(why: &dyn Display) -> Answers {
    Answers::none(format!("{}: {} {why}", nvml::NO_ANSWER, nvml::LIBRARY))
}

/// The process: prints the answers as one line.
pub(crate) fn serve(output: &mut Output) -> Result<()> {
    // Ctrl-C reaches only the one that asks.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let answers = serde_json::to_string(&nvml::ask_this_machine())?;
    // The library may have begun a line.
    output.text = format!("\n{answers}\n");
    output.is_file = true;
    Ok(())
}
