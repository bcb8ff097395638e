//! The parent: starts a process per host, passes the unique id on, and collects what they say.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ChildStdin, ExitStatus};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use thiserror::Error;

use crate::crash;
use crate::message::{Network, Report, Request, Said};
use crate::nccl::ID_BYTES;
use crate::process::{self, Process, words};
use crate::stand_in::{NET_PLUGIN, TUNER_PLUGIN};

/// How long messages of a process that has ended may take to arrive.
const AFTER_END: Duration = Duration::from_secs(1);

/// How long other hosts may still answer after one has failed.
const AFTER_FAILURE: Duration = Duration::from_secs(3);

/// How often the hosts' logs are emptied.
const POLL: Duration = Duration::from_millis(20);

/// Messages that wait for the parent.
const QUEUE: usize = 4;

/// Variables that are given here, and that nobody else can set: they say where NCCL finds what is
/// presented, and what it writes.
pub const RESERVED: [&str; 16] = [
    "NCCL_COMM_ID",
    "NCCL_CONF_FILE",
    "NCCL_DEBUG",
    "NCCL_DEBUG_FILE",
    "NCCL_DEBUG_SUBSYS",
    "NCCL_GRAPH_DUMP_FILE",
    "NCCL_GRAPH_DUMP_FILE_RANK",
    "NCCL_HOSTID",
    "NCCL_NET",
    "NCCL_NET_PLUGIN",
    "NCCL_RAS_ENABLE",
    "NCCL_SINGLE_PROC_MEM_REG_ENABLE",
    "NCCL_TOPO_DUMP_FILE",
    "NCCL_TOPO_DUMP_FILE_RANK",
    "NCCL_TOPO_FILE",
    "NCCL_TUNER_PLUGIN",
];

/// The variable that lets NCCL connect an algorithm when a collective first takes it. It is 0
/// here, unless a job says otherwise.
pub const CONNECTS_LATE: &str = "NCCL_RUNTIME_CONNECT";

/// A job that NCCL is asked about.
#[derive(Debug, Clone)]
pub struct Job {
    /// The program whose [`host::serve`](crate::host::serve) answers.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// What each host is asked; its variables are none of [`RESERVED`]. Topology, number and ranks
    /// are those of `hosts`.
    pub request: Request,
    /// The hosts. The first one makes the unique id.
    pub hosts: Vec<JobHost>,
    /// When NCCL must have answered.
    pub deadline: Duration,
}

/// A host of a job.
#[derive(Debug, Clone)]
pub struct JobHost {
    /// The text of its topology file.
    pub topology: String,
    /// The rank of each of its GPUs, by CUDA's number.
    pub ranks: Vec<u32>,
    /// Variables of this host alone.
    pub variables: Vec<(String, String)>,
}

/// What one host answered.
#[derive(Debug, Clone, Default)]
pub struct HostAnswer {
    /// The rank of each of its GPUs, by CUDA's number.
    pub ranks: Vec<u32>,
    /// What NCCL did.
    pub report: Report,
    /// The lines of its log.
    pub log: Vec<String>,
}

/// NCCL gave no answer.
#[derive(Debug, Error)]
pub enum NoAnswer {
    /// A process cannot be started or asked.
    #[error("cannot ask NCCL in a process of its own: {0}")]
    Start(#[from] std::io::Error),
    /// Memory ran out.
    #[error(
        "NCCL got no memory on host {host}: {line}; use a machine with more, or fewer hosts, and \
         raise limits (ulimit -v)"
    )]
    Memory {
        /// The host.
        host: u32,
        /// NCCL's words.
        line: String,
    },
    /// The library cannot be asked. The text continues a sentence that begins with its name.
    #[error("{0}")]
    Unusable(String),
    /// The deadline has passed.
    #[error("NCCL did not answer within {seconds} s, the time-out{}", last_line(.last))]
    Deadline {
        /// The deadline.
        seconds: u64,
        /// The last line of the log.
        last: Option<String>,
    },
    /// A process ended.
    #[error("NCCL {how} on host {host}{}", last_line(.last))]
    Ended {
        /// The host.
        host: u32,
        /// How it ended.
        how: String,
        /// The last line of the log.
        last: Option<String>,
    },
}

fn last_line(last: &Option<String>) -> String {
    let said = last
        .as_ref()
        .map(|line| format!("; its last words: {line}"));
    said.unwrap_or_default()
}

/// What a thread read from a host.
enum Event {
    Said(u32, Said),
    Ended(u32),
}

struct Host {
    process: Process,
    input: Option<ChildStdin>,
    report: Option<Report>,
    /// Whether its standard output has ended. It may still run, and then it will not answer.
    is_silent: bool,
    /// Until when its messages may still arrive, if it has ended.
    last_message: Option<Instant>,
}

/// The warning before NCCL refuses a job only because its graphs cannot be written: it has no word
/// for a path in them.
const NO_WORD: &str = "KV Convert to str";

/// How NCCL says that it got no memory: its own words, CUDA's and the system's.
const NO_MEMORY: [&str; 3] = [
    "Failed to malloc",
    "out of memory",
    "Cannot allocate memory",
];

impl Job {
    /// Asks NCCL. All processes have ended afterwards.
    ///
    /// # Errors
    /// NCCL gave no answer. A refusal is an answer.
    pub fn run(&self) -> Result<Vec<HostAnswer>, NoAnswer> {
        let answers = self.run_once()?;
        if let Some(error) = without_memory(&answers) {
            return Err(error);
        }
        let has_no_word = |answer: &HostAnswer| {
            let refused = answer.report.refusal.is_some();
            refused && answer.log.iter().any(|line| line.contains(NO_WORD))
        };
        if !self.request.graphs || !answers.iter().any(has_no_word) {
            return Ok(answers);
        }
        let mut without = self.clone();
        without.request.graphs = false;
        without.run_once()
    }

    fn run_once(&self) -> Result<Vec<HostAnswer>, NoAnswer> {
        let end = Instant::now() + self.deadline;
        let (sender, events) = mpsc::sync_channel(QUEUE);
        let mut hosts = Vec::new();
        for (number, host) in (0..).zip(&self.hosts) {
            hosts.push(self.start(number, host, &sender)?);
        }
        drop(sender);
        self.listen(&mut hosts, &events, end)?;
        // What they have said is known; what they still do is of no use.
        let logs = process::logs(hosts.iter_mut().map(|host| &mut host.process));
        let answers = hosts.into_iter().zip(logs).zip(&self.hosts);
        let answers = answers.map(|((host, log), asked)| HostAnswer {
            ranks: asked.ranks.clone(),
            report: host.report.unwrap_or_default(),
            log,
        });
        Ok(answers.collect())
    }

    fn variables(&self, number: u32, host: &JobHost) -> Vec<(String, String)> {
        let plugin = match self.request.network {
            Network::Socket | Network::Verbs => "none",
            Network::Merging | Network::Plugin => NET_PLUGIN,
        };
        let tuner = self
            .request
            .tuner
            .as_ref()
            .map(|path| path.to_string_lossy());
        let name = format!("topo-host-{number}");
        // Connections of algorithms that no collective takes are compared, too.
        let mut defaults = vec![(CONNECTS_LATE.to_owned(), "0".to_owned())];
        let own = self.request.variables.iter().chain(&host.variables);
        defaults.extend(own.cloned());
        let given = [
            ("NCCL_DEBUG", "INFO"),
            ("NCCL_DEBUG_SUBSYS", "INIT,GRAPH,TUNING,NET,P2P,SHM"),
            ("NCCL_DEBUG_FILE", "/proc/self/fd/2"),
            ("NCCL_HOSTID", &name),
            ("NCCL_NET_PLUGIN", plugin),
            (
                "NCCL_TUNER_PLUGIN",
                tuner.as_deref().unwrap_or(TUNER_PLUGIN),
            ),
            ("NCCL_RAS_ENABLE", "0"),
            // The ranks of a host are threads, but register as processes do.
            ("NCCL_SINGLE_PROC_MEM_REG_ENABLE", "1"),
        ];
        let given = given.map(|(name, value)| (name.to_owned(), value.to_owned()));
        defaults.into_iter().chain(given).collect()
    }

    fn start(
        &self,
        number: u32,
        host: &JobHost,
        sender: &SyncSender<Event>,
    ) -> Result<Host, NoAnswer> {
        let all_ranks = self
            .hosts
            .iter()
            .map(|host| host.ranks.len())
            .sum::<usize>();
        let request = Request {
            host: number,
            topology: host.topology.clone(),
            ranks: host.ranks.clone(),
            all_ranks: u32::try_from(all_ranks).unwrap_or(u32::MAX),
            variables: self.variables(number, host),
            ..self.request.clone()
        };
        let sender = sender.clone();
        let hears = move |line: Option<&[u8]>| {
            let event = match line.map(serde_json::from_slice) {
                Some(Ok(said)) => Event::Said(number, said),
                Some(Err(_)) => return true,
                None => Event::Ended(number),
            };
            // The parent may have heard enough.
            sender.send(event).is_ok()
        };
        let (process, input) = Process::start(&self.program, &self.arguments, &request, hears)?;
        Ok(Host {
            process,
            input: Some(input),
            report: None,
            is_silent: false,
            last_message: None,
        })
    }

    fn listen(
        &self,
        hosts: &mut [Host],
        events: &Receiver<Event>,
        mut end: Instant,
    ) -> Result<(), NoAnswer> {
        let mut failed = false;
        let mut id_is_known = false;
        while hosts.iter().any(|host| host.report.is_none()) {
            hosts.iter_mut().for_each(|host| host.process.keep_log());
            self.expect_running(hosts)?;
            let left = end.saturating_duration_since(Instant::now());
            // A library that talks without end must not hold the parent.
            let event = match left.is_zero() {
                true => None,
                false => match events.recv_timeout(left.min(POLL)) {
                    Ok(event) => Some(event),
                    Err(RecvTimeoutError::Timeout) => continue,
                    // All are silent; they may end before the deadline, with a reason.
                    Err(RecvTimeoutError::Disconnected) => {
                        thread::sleep(left.min(POLL));
                        continue;
                    }
                },
            };
            match event {
                // More of them would fill the other hosts' input.
                Some(Event::Said(_, Said::Id(id))) if id_is_known || !is_id(&id) => {}
                Some(Event::Said(_, Said::Id(id))) => {
                    id_is_known = true;
                    for other in hosts.iter_mut().skip(1) {
                        if let Some(input) = &mut other.input {
                            // A host that has ended says so itself.
                            let _ = writeln!(input, "{id}");
                        }
                    }
                }
                Some(Event::Said(_, Said::Unusable(why))) => return Err(NoAnswer::Unusable(why)),
                Some(Event::Said(host, Said::Report(report))) => {
                    if report.refusal.is_some() && !failed {
                        failed = true;
                        end = end.min(Instant::now() + AFTER_FAILURE);
                    }
                    hosts[host as usize].report = Some(*report);
                }
                Some(Event::Ended(host)) if hosts[host as usize].report.is_some() => {}
                Some(Event::Ended(host)) => hosts[host as usize].is_silent = true,
                // A refusal by one host is the answer of all.
                None if failed => return Ok(()),
                None => {
                    return Err(NoAnswer::Deadline {
                        seconds: self.deadline.as_secs(),
                        last: last_words(&kill(hosts, 0)),
                    });
                }
            }
        }
        Ok(())
    }

    /// Fails if a host has ended without a report.
    fn expect_running(&self, hosts: &mut [Host]) -> Result<(), NoAnswer> {
        let now = Instant::now();
        let mut waiting = hosts.iter_mut().zip(0..);
        let ended = waiting.find_map(|(host, number)| {
            let status = match host.report {
                None => host.process.ends_until(now)?,
                Some(_) => return None,
            };
            // A daemon may keep the stream open.
            let last = *host.last_message.get_or_insert(now + AFTER_END);
            (host.is_silent || now >= last).then_some((number, status))
        });
        let Some((host, status)) = ended else {
            return Ok(());
        };
        let log = kill(hosts, host);
        let mut how = how(status);
        if let Some(whose) = crash::told(&log, &self.request.library) {
            how = format!("{how} {whose}");
        }
        Err(NoAnswer::Ended {
            host,
            how,
            last: last_words(&log),
        })
    }
}

/// Whether it has the length of an id as it is passed on: longer ones would fill the others' input.
fn is_id(text: &str) -> bool {
    text.len() == 2 * ID_BYTES
}

/// A refusal that says nothing about the job: this machine has too little memory.
fn without_memory(answers: &[HostAnswer]) -> Option<NoAnswer> {
    let refused = answers.iter().any(|it| it.report.refusal.is_some());
    let says = |line: &&String| NO_MEMORY.iter().any(|words| line.contains(words));
    let mut lines = (0..).zip(answers).filter_map(|(host, answer)| {
        let line = answer.log.iter().find(says)?;
        Some((host, words(line)))
    });
    let (host, line) = lines.next().filter(|_| refused)?;
    Some(NoAnswer::Memory { host, line })
}

/// Kills all hosts, and returns the log of one.
fn kill(hosts: &mut [Host], host: u32) -> Vec<String> {
    let mut logs = process::logs(hosts.iter_mut().map(|host| &mut host.process));
    let log = logs.get_mut(host as usize);
    log.map(std::mem::take).unwrap_or_default()
}

/// The last line of a log that is NCCL's.
fn last_words(log: &[String]) -> Option<String> {
    let lines = log.iter().rev().filter(|line| !crash::is_line(line));
    let mut words = lines.map(|line| words(line));
    words.find(|line| !line.is_empty())
}

fn how(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(9), _) => "was killed (signal 9), perhaps because memory ran out,".to_owned(),
        (Some(signal), _) if crash::SIGNALS.contains(&signal) => {
            format!("crashed (signal {signal})")
        }
        (Some(signal), _) => format!("was ended by signal {signal}"),
        (None, Some(code)) => format!("ended with status {code}"),
        (None, None) => "ended".to_owned(),
    }
}
