//! One process: it follows a script, then stands still.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, Write};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{ptr, thread};

use super::{Line, Script, Step};
use crate::host::{asked, end_with, prepare, say, wait_for_end};
use crate::nccl::{Communicator, Id, Nccl, Part};
use crate::{plant, stand_in};

/// Most bytes of an element.
const ELEMENT: usize = 4;

/// Does what a parent asks for on standard input, and says on standard output how far it is. NCCL's
/// log and what it prints goes to standard error. The process ends with standard input, or with its
/// parent.
///
/// The library's code runs in this process, which must do nothing else.
///
/// # Errors
/// Standard input or output is closed, no script comes, or the process has other threads.
pub fn serve(input: &mut impl BufRead) -> Result<(), std::io::Error> {
    let output = &mut messages()?;
    let script: Script = asked(input)?;
    end_with(script.request.parent)?;
    plant::plant(script.plants.clone());
    stand_in::be_host(script.request.host);
    stand_in::keep_segments_in(format!("{}/", script.shared_memory.display()));
    // SAFETY: `asked` found no other threads.
    match unsafe { prepare(&script.request) } {
        Ok((nccl, _, _topology)) => {
            let host = Host::new(&nccl, &script);
            let ended = host.and_then(|host| host.follow(&script, input, output));
            let failed = ended.is_err();
            say(output, &Line::Ends(ended.err()))?;
            if failed {
                end(1);
            }
        }
        Err(unusable) => say(output, &Line::Unusable(unusable.to_string()))?,
    }
    wait_for_end(input)
}

/// Standard output, which is standard error from now on for NCCL's diagnostics.
fn messages() -> std::io::Result<File> {
    let own = std::io::stdout().as_fd().try_clone_to_owned()?;
    // SAFETY: replaces a descriptor of which nobody relies on the file.
    match unsafe { libc::dup2(libc::STDERR_FILENO, libc::STDOUT_FILENO) } {
        -1 => Err(std::io::Error::last_os_error()),
        _ => Ok(File::from(own)),
    }
}

/// Ends the process as programs do whose call failed: the kernel closes its connections.
fn end(status: i32) -> ! {
    // SAFETY: ends the process without running code of the library.
    unsafe { libc::_exit(status) }
}

/// Stops this process; another one wakes it.
fn stop(seconds: u32) -> Result<(), String> {
    let wakes = format!("sleep {seconds}; kill -CONT {}", std::process::id());
    let mut waking = Command::new("/bin/sh")
        .args(["-c", &wakes])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .map_err(|error| format!("cannot start sh: {error}"))?;
    // SAFETY: stops all threads of the process.
    unsafe { libc::raise(libc::SIGSTOP) };
    waking.wait().map_err(|error| error.to_string())?;
    Ok(())
}

/// Most elements of a call.
fn elements(steps: &[Step]) -> usize {
    let of = |step: &Step| match step {
        Step::Call { elements, .. } => *elements as usize,
        Step::Repeat(_, steps) => elements(steps),
        _ => 0,
    };
    steps.iter().map(of).max().unwrap_or(0)
}

/// The ranks of this process.
struct Host<'a> {
    nccl: &'a Nccl,
    first_gpu: u32,
    /// The job's rank of each GPU.
    ranks: Vec<u32>,
    /// By GPU buffers and a stream, without a communicator.
    parts: Vec<Part>,
    /// By unique id and GPU.
    communicators: BTreeMap<(u32, usize), Communicator>,
}

impl<'a> Host<'a> {
    fn new(nccl: &'a Nccl, script: &Script) -> Result<Self, String> {
        let ranks = script.request.ranks.clone();
        let all = script.request.all_ranks as usize;
        let bytes = elements(&script.steps).max(1) * all * ELEMENT;
        let part = |gpu: usize| {
            stand_in::set_device(script.first_gpu as i32 + gpu as i32);
            Ok(Part {
                communicator: ptr::null_mut(),
                input: stand_in::new_memory(bytes)?,
                output: stand_in::new_memory(bytes)?,
                stream: stand_in::new_stream(),
            })
        };
        Ok(Self {
            nccl,
            first_gpu: script.first_gpu,
            parts: (0..ranks.len()).map(part).collect::<Result<_, String>>()?,
            communicators: BTreeMap::new(),
            ranks,
        })
    }

    fn follow(
        mut self,
        script: &Script,
        input: &mut impl BufRead,
        output: &mut impl Write,
    ) -> Result<(), String> {
        let text = |error: std::io::Error| error.to_string();
        let ids = self.ids(script, input, output)?;
        for (number, step) in script.steps.iter().enumerate() {
            say(output, &Line::Begins(number)).map_err(text)?;
            self.step(step, &ids)?;
            // NCCL's diagnostics wait in a buffer.
            // SAFETY: flushes all streams of the C library.
            unsafe { libc::fflush(ptr::null_mut()) };
        }
        Ok(())
    }

    fn step(&mut self, step: &Step, ids: &[Id]) -> Result<(), String> {
        match step {
            Step::Make { id, ranks } => {
                let unique = ids.get(*id as usize).ok_or("the job has no such id")?;
                self.make(*id, *unique, ranks)?;
            }
            Step::Call { .. } => self.call(step)?,
            Step::Pause(milliseconds) => {
                thread::sleep(Duration::from_millis(u64::from(*milliseconds)));
            }
            Step::Repeat(times, steps) => {
                for _ in 0..*times {
                    for step in steps {
                        self.step(step, ids)?;
                    }
                }
            }
            Step::Stop(seconds) => stop(*seconds)?,
            Step::Destroy(id) => {
                for gpu in 0..self.ranks.len() {
                    if let Some(communicator) = self.communicators.remove(&(*id, gpu)) {
                        self.set_device(gpu);
                        self.nccl.destroy(communicator)?;
                    }
                }
            }
            Step::Exit => end(0),
        }
        Ok(())
    }

    fn set_device(&self, gpu: usize) {
        stand_in::set_device(self.first_gpu as i32 + gpu as i32);
    }

    /// The first process makes the job's ids and says them; the others are told.
    fn ids(
        &self,
        script: &Script,
        input: &mut impl BufRead,
        output: &mut impl Write,
    ) -> Result<Vec<Id>, String> {
        let text = |error: std::io::Error| error.to_string();
        if script.request.ranks.contains(&0) {
            let ids = (0..script.ids).map(|_| self.nccl.id());
            let ids = ids.collect::<Result<Vec<_>, _>>()?;
            let digits = ids.iter().map(Id::digits).collect();
            say(output, &Line::Ids(digits)).map_err(text)?;
            return Ok(ids);
        }
        let mut line = String::new();
        input.read_line(&mut line).map_err(text)?;
        let digits: Vec<String> = serde_json::from_str(&line).map_err(|it| it.to_string())?;
        let ids = digits.iter().map(|it| Id::of(it));
        ids.collect::<Option<_>>()
            .ok_or_else(|| "no unique ids were passed on".to_owned())
    }

    fn make(&mut self, number: u32, id: Id, ranks: &[u32]) -> Result<(), String> {
        let all = i32::try_from(ranks.len()).map_err(|_| "too many ranks")?;
        let mut made: Vec<(usize, i32, Communicator)> = Vec::new();
        for (gpu, own) in self.ranks.iter().enumerate() {
            let rank = ranks.iter().position(|it| it == own);
            made.extend(rank.map(|rank| (gpu, rank as i32, ptr::null_mut())));
        }
        self.nccl.group(|| {
            for (gpu, rank, communicator) in &mut made {
                self.set_device(*gpu);
                self.nccl.init(communicator, all, id, *rank)?;
            }
            Ok(())
        })?;
        let made = made.into_iter();
        self.communicators
            .extend(made.map(|(gpu, _, communicator)| ((number, gpu), communicator)));
        Ok(())
    }

    fn call(&self, step: &Step) -> Result<(), String> {
        let Step::Call {
            id,
            collective,
            elements,
            data_type,
            reduction,
        } = step
        else {
            return Ok(());
        };
        self.nccl.group(|| {
            for (gpu, part) in self.parts.iter().enumerate() {
                let Some(communicator) = self.communicators.get(&(*id, gpu)).copied() else {
                    continue;
                };
                self.set_device(gpu);
                let part = Part {
                    communicator,
                    ..*part
                };
                let count = *elements as usize;
                self.nccl
                    .collective(*collective, &part, count, *data_type, *reduction)?;
            }
            Ok(())
        })
    }
}
