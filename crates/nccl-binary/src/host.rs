//! One host of the job: a process that does nothing else.

use std::ffi::CString;
use std::io::{BufRead, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

use plan::cost::Registration;
use program::Collective;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::crash;
use crate::error::Unusable;
use crate::machine;
use crate::message::{Failure, PEERS_BEGIN, Report, Request, Said, Taken};
use crate::nccl::{Communicator, Id, Nccl, Part};
use crate::redirect::Library;
use crate::stand_in;

/// The network interface of NCCL's own sockets.
const LOOPBACK: &str = "lo";

/// The variable of NCCL's topology file, which only a planted fault sets otherwise.
const TOPOLOGY: &str = "NCCL_TOPO_FILE";

/// Largest dump that is read, bytes.
const MOST_DUMP_BYTES: u64 = 64 << 20;

/// Does what a parent asks for on standard input, and answers on standard output. NCCL's log goes
/// to standard error. The process ends with standard input, or with its parent.
///
/// The library's code runs in this process, which must do nothing else.
///
/// # Errors
/// Standard input or output is closed, no request comes, or the process has other threads.
pub fn serve(input: &mut impl BufRead, output: &mut impl Write) -> Result<(), std::io::Error> {
    let request: Request = asked(input)?;
    end_with(request.parent)?;
    // SAFETY: there are no other threads.
    let said = match unsafe { answer(&request, input, output) } {
        Ok(report) => Said::Report(Box::new(report)),
        Err(unusable) => Said::Unusable(unusable.to_string()),
    };
    say(output, &said)?;
    wait_for_end(input)
}

/// What the parent asks, once the process ends with it.
///
/// # Errors
/// Nothing is asked, or the process has other threads.
pub(crate) fn asked<T: DeserializeOwned>(input: &mut impl BufRead) -> std::io::Result<T> {
    if std::fs::read_dir("/proc/self/task")?.count() > 1 {
        return Err(std::io::Error::other("the process has other threads"));
    }
    // SAFETY: the signal ends this process when its parent has ended.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    let mut line = String::new();
    input.read_line(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}

/// Fails if the parent has ended before [`asked`].
pub(crate) fn end_with(parent: u32) -> std::io::Result<()> {
    // SAFETY: reads the number of the parent.
    if unsafe { libc::getppid() } as u32 != parent {
        return Err(std::io::Error::other("it has ended"));
    }
    Ok(())
}

/// Stands still until standard input ends, since other hosts may need this one, and then ends the
/// process.
pub(crate) fn wait_for_end(input: &mut impl BufRead) -> std::io::Result<()> {
    let mut rest = String::new();
    while input.read_line(&mut rest)? > 0 {
        rest.clear();
    }
    // SAFETY: ends the process without running code of the library.
    unsafe { libc::_exit(0) };
}

/// Writes a message as one line.
pub(crate) fn say(output: &mut impl Write, said: &impl Serialize) -> std::io::Result<()> {
    serde_json::to_writer(&mut *output, said)?;
    output.write_all(b"\n")?;
    output.flush()
}

/// A file without a name, which NCCL opens by its path in /proc.
pub(crate) struct MemoryFile(OwnedFd);

impl MemoryFile {
    fn new(text: &str) -> Result<Self, Unusable> {
        // SAFETY: the name is a C string.
        let file = unsafe { libc::memfd_create(c"topo-nccl".as_ptr(), libc::MFD_CLOEXEC) };
        if file < 0 {
            return Err(Unusable::File(std::io::Error::last_os_error()));
        }
        // SAFETY: the descriptor was just made, and nobody else has it.
        let file = Self(unsafe { OwnedFd::from_raw_fd(file) });
        let mut stream = file.stream()?;
        stream.write_all(text.as_bytes()).map_err(Unusable::File)?;
        Ok(file)
    }

    fn stream(&self) -> Result<std::fs::File, Unusable> {
        let path = self.path();
        let opened = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(path);
        opened.map_err(Unusable::File)
    }

    fn path(&self) -> String {
        format!("/proc/self/fd/{}", self.0.as_raw_fd())
    }

    /// Its text, if NCCL wrote one.
    fn text(&self) -> Option<String> {
        let mut text = String::new();
        let stream = self.stream().ok()?;
        stream
            .take(MOST_DUMP_BYTES)
            .read_to_string(&mut text)
            .ok()?;
        (!text.is_empty()).then_some(text)
    }
}

/// Sets a variable for NCCL.
fn set_variable(name: &str, value: &str) {
    if let (Ok(name), Ok(value)) = (CString::new(name), CString::new(value)) {
        // SAFETY: the process has one thread.
        unsafe { libc::setenv(name.as_ptr(), value.as_ptr(), 1) };
    }
}

/// As many open files as the system allows.
fn allow_files() {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the limit is read and then written within what is allowed.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
    }
}

/// Presents the devices of a request, sets its variables and loads its library. Returns the
/// library's functions, the number of GPUs, and the topology file, which NCCL reads later.
///
/// # Errors
/// The library cannot be asked.
///
/// # Safety
/// The process has no other threads.
pub(crate) unsafe fn prepare(request: &Request) -> Result<(Nccl, usize, MemoryFile), Unusable> {
    let gpus = stand_in::devices::present(request).map_err(Unusable::Devices)?;
    let topology = MemoryFile::new(&machine::as_found(&request.topology))?;
    allow_files();
    for (name, value) in &request.variables {
        set_variable(name, value);
    }
    if !request.variables.iter().any(|(name, _)| name == TOPOLOGY) {
        set_variable(TOPOLOGY, &topology.path());
    }
    if !stand_in::is_host() {
        // NCCL's own sockets; a list of the user is about the ports of the file.
        set_variable("NCCL_SOCKET_IFNAME", LOOPBACK);
    }
    // SAFETY: the caller says so.
    let library = unsafe { Library::load(&request.library) }?;
    crash::watch(&request.library);
    Ok((Nccl::of(&library)?, gpus, topology))
}

/// # Safety
/// The process has no other threads.
unsafe fn answer(
    request: &Request,
    input: &mut impl BufRead,
    output: &mut impl Write,
) -> Result<Report, Unusable> {
    let dumps = [MemoryFile::new("")?, MemoryFile::new("")?];
    // Rank 0 writes it; all ranks of an NVLink domain must know, since they join it together.
    set_variable("NCCL_TOPO_DUMP_FILE", &dumps[0].path());
    if request.ranks.contains(&0) && request.graphs {
        set_variable("NCCL_GRAPH_DUMP_FILE", &dumps[1].path());
    }
    // SAFETY: the caller says so.
    let (nccl, gpus, _topology) = unsafe { prepare(request) }?;
    let mut report = Report {
        version: nccl.version(),
        calls: request.calls.number,
        ..Report::default()
    };
    let made = job_id(&nccl, request, input, output).and_then(|id| {
        let ranks = Ranks::new(&nccl, request, gpus, id)?;
        report.memory = ranks.memory.clone();
        let collectives = ranks.collectives(&nccl, request);
        if request.peers {
            let before = stand_in::taken();
            // What NCCL says from here on is about these transfers.
            eprintln!("{PEERS_BEGIN}");
            report.peers_failure = ranks.exchange(&nccl).err();
            report.peers_memory = stand_in::taken().without(&before);
        }
        Ok(collectives)
    });
    match made {
        Ok((called, failures)) => (report.called, report.failures) = (called, failures),
        Err(refusal) => report.refusal = Some(refusal),
    }
    [report.topology, report.graphs] = dumps.map(|dump| dump.text());
    stand_in::report_tuner_to(&mut report);
    report.missing = stand_in::missing();
    Ok(report)
}

/// The first host makes the job's id and says it; the others are told.
fn job_id(
    nccl: &Nccl,
    request: &Request,
    input: &mut impl BufRead,
    output: &mut impl Write,
) -> Result<Id, String> {
    if request.host == 0 {
        let id = nccl.id()?;
        say(output, &Said::Id(id.digits())).map_err(|error| error.to_string())?;
        return Ok(id);
    }
    let mut line = String::new();
    input
        .read_line(&mut line)
        .map_err(|error| error.to_string())?;
    Id::of(line.trim()).ok_or_else(|| "no unique id was passed on".to_owned())
}

/// The ranks of this host.
struct Ranks {
    parts: Vec<Part>,
    all: u32,
    /// What is allocated once there are communicators.
    memory: Taken,
}

impl Ranks {
    fn new(nccl: &Nccl, request: &Request, gpus: usize, id: Id) -> Result<Self, String> {
        if request.ranks.len() != gpus {
            let ranks = request.ranks.len();
            return Err(format!("the host has {gpus} GPUs for {ranks} ranks"));
        }
        let number = |rank: u32| i32::try_from(rank).map_err(|_| "too many ranks".to_owned());
        let all = number(request.all_ranks)?;
        let mut communicators: Vec<Communicator> = vec![ptr::null_mut(); gpus];
        nccl.group(|| {
            for (gpu, (communicator, rank)) in
                communicators.iter_mut().zip(&request.ranks).enumerate()
            {
                stand_in::set_device(gpu as i32);
                nccl.init(communicator, all, id, number(*rank)?)?;
            }
            Ok(())
        })?;
        let memory = stand_in::taken();
        let largest = request.sizes.iter().copied().max().unwrap_or(0);
        let parts = communicators.iter().enumerate();
        let parts = parts.map(|(gpu, communicator)| {
            stand_in::set_device(gpu as i32);
            let buffer = || match request.calls.registration {
                Registration::None => stand_in::new_memory(largest as usize),
                _ => nccl.registered_memory(largest as usize),
            };
            Ok(Part {
                communicator: *communicator,
                input: buffer()?,
                output: buffer()?,
                stream: stand_in::new_stream(),
            })
        });
        let ranks = Self {
            parts: parts.collect::<Result<_, String>>()?,
            all: request.all_ranks,
            memory,
        };
        ranks.register(nccl, request.calls.registration, largest as usize)?;
        Ok(ranks)
    }

    /// Registers all buffers.
    fn register(
        &self,
        nccl: &Nccl,
        registration: Registration,
        bytes: usize,
    ) -> Result<(), String> {
        if registration == Registration::None {
            return Ok(());
        }
        for memory in [|part: &Part| part.input, |part: &Part| part.output] {
            let mut handles = vec![ptr::null_mut(); self.parts.len()];
            nccl.group(|| {
                for (gpu, (part, handle)) in self.parts.iter().zip(&mut handles).enumerate() {
                    stand_in::set_device(gpu as i32);
                    nccl.register(registration, part.communicator, memory(part), bytes, handle)?;
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// All ranks send to each other, in one group.
    fn exchange(&self, nccl: &Nccl) -> Result<(), String> {
        nccl.group(|| {
            for (gpu, part) in self.parts.iter().enumerate() {
                stand_in::set_device(gpu as i32);
                (0..self.all).try_for_each(|peer| nccl.exchange(part, peer as i32))?;
            }
            Ok(())
        })
    }

    /// Starts all collectives of all sizes, and returns those that were carried out and those that
    /// failed.
    fn collectives(&self, nccl: &Nccl, request: &Request) -> (Vec<(i32, u64)>, Vec<Failure>) {
        let (mut called, mut failures) = (Vec::new(), Vec::new());
        for collective in Collective::TUNED {
            for bytes in &request.sizes {
                let pieces = match collective {
                    Collective::AllGather | Collective::ReduceScatter => u64::from(self.all.max(1)),
                    _ => 1,
                };
                let calls = &request.calls;
                let width = u64::from(calls.data_type.bytes());
                let count = bytes / width / pieces;
                if count == 0 {
                    continue;
                }
                let element = calls.data_type as i32;
                let started = nccl.group(|| {
                    for (gpu, (part, rank)) in self.parts.iter().zip(&request.ranks).enumerate() {
                        stand_in::set_device(gpu as i32);
                        let reduction = nccl.reduction(calls, part.communicator)?;
                        let mut part = *part;
                        if calls.in_place {
                            part.join(collective, u64::from(*rank) * count * width);
                        }
                        for _ in 0..calls.number {
                            nccl.collective(collective, &part, count as usize, element, reduction)?;
                        }
                    }
                    Ok(())
                });
                let bytes = count * pieces * width;
                let collective = collective as i32;
                match started {
                    Ok(()) => called.push((collective, bytes.saturating_mul(calls.number.into()))),
                    Err(error) => failures.push(Failure {
                        collective,
                        bytes,
                        error,
                    }),
                }
            }
        }
        (called, failures)
    }
}
