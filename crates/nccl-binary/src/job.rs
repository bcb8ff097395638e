//! The parent: starts a process per host, passes the unique id on, and collects what they say.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use thiserror::Error;

use crate::message::{Network, Report, Request, Said};
use crate::stand_in::{NET_PLUGIN, TUNER_PLUGIN};

/// How long other hosts may still answer after one has failed.
const AFTER_FAILURE: Duration = Duration::from_secs(3);

/// Most bytes of a host's log that are kept.
const MOST_LOG_BYTES: u64 = 512 << 20;

/// Longest message of a host, bytes.
const MOST_MESSAGE_BYTES: u64 = 256 << 20;

/// Variables that are given here, and that nobody else can set: they say where NCCL finds what is
/// presented, and what it writes.
pub const RESERVED: [&str; 17] = [
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
    "NCCL_RUNTIME_CONNECT",
    "NCCL_SOCKET_IFNAME",
    "NCCL_TOPO_DUMP_FILE",
    "NCCL_TOPO_DUMP_FILE_RANK",
    "NCCL_TOPO_FILE",
    "NCCL_TUNER_PLUGIN",
];

/// A job that NCCL is asked about.
#[derive(Debug, Clone)]
pub struct Job {
    /// The program whose [`host::serve`](crate::host::serve) answers.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// NCCL's library.
    pub library: PathBuf,
    /// The text of the topology file of each host.
    pub topology: String,
    /// Hosts, all with the same topology.
    pub hosts: u32,
    /// The network.
    pub network: Network,
    /// A tuner plug-in for NCCL, by an absolute path; it then decides, and NCCL's own times are not
    /// known.
    pub tuner: Option<PathBuf>,
    /// The GPUs of all hosts are in one NVLink domain.
    pub nvlink_domain: bool,
    /// Message sizes of the collectives that are started, bytes.
    pub sizes: Vec<u64>,
    /// NCCL writes its graphs.
    pub graphs: bool,
    /// NCCL's variables; none of [`RESERVED`].
    pub variables: Vec<(String, String)>,
    /// When NCCL must have answered.
    pub deadline: Duration,
}

/// What one host answered.
#[derive(Debug, Clone, Default)]
pub struct HostAnswer {
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
        "NCCL got no memory on host {host}: {line}; use a machine with more, or fewer --hosts, and \
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
    #[error("NCCL did not answer within {seconds} s (--timeout){}", last_line(.last))]
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
    process: Child,
    input: Option<ChildStdin>,
    log: Option<JoinHandle<Vec<String>>>,
    report: Option<Report>,
}

/// Processes that end with this value.
struct Hosts(Vec<Host>);

impl Drop for Hosts {
    fn drop(&mut self) {
        for host in &mut self.0 {
            // It may have ended by itself.
            let _ = host.process.kill();
        }
        for host in &mut self.0 {
            let _ = host.process.wait();
        }
    }
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
        if !self.graphs || !answers.iter().any(has_no_word) {
            return Ok(answers);
        }
        let without = Self {
            graphs: false,
            ..self.clone()
        };
        without.run_once()
    }

    fn run_once(&self) -> Result<Vec<HostAnswer>, NoAnswer> {
        let (sender, events) = mpsc::channel();
        let mut hosts = Hosts(Vec::new());
        for number in 0..self.hosts {
            hosts.0.push(self.start(number, &sender)?);
        }
        drop(sender);
        self.listen(&mut hosts, &events)?;
        for host in &mut hosts.0 {
            host.input = None;
            // What it has said is known; what it still does is of no use.
            let _ = host.process.kill();
        }
        let answers = hosts.0.iter_mut().map(|host| HostAnswer {
            report: host.report.take().unwrap_or_default(),
            log: log_of(host),
        });
        Ok(answers.collect())
    }

    fn variables(&self, host: u32) -> Vec<(String, String)> {
        let plugin = match self.network {
            Network::Socket => "none",
            Network::Merging | Network::Plugin => NET_PLUGIN,
        };
        let tuner = self.tuner.as_ref().map(|path| path.to_string_lossy());
        let host = format!("topo-host-{host}");
        let given = [
            ("NCCL_DEBUG", "INFO"),
            ("NCCL_DEBUG_SUBSYS", "INIT,GRAPH,TUNING,NET,P2P,SHM"),
            ("NCCL_DEBUG_FILE", "/proc/self/fd/2"),
            ("NCCL_HOSTID", &host),
            ("NCCL_NET_PLUGIN", plugin),
            (
                "NCCL_TUNER_PLUGIN",
                tuner.as_deref().unwrap_or(TUNER_PLUGIN),
            ),
            ("NCCL_SOCKET_IFNAME", "lo"),
            ("NCCL_RAS_ENABLE", "0"),
            // Connections of algorithms that no collective takes are compared, too.
            ("NCCL_RUNTIME_CONNECT", "0"),
        ];
        let given = given.map(|(name, value)| (name.to_owned(), value.to_owned()));
        self.variables.iter().cloned().chain(given).collect()
    }

    fn start(&self, number: u32, sender: &Sender<Event>) -> Result<Host, NoAnswer> {
        let mut process = Command::new(&self.program)
            .args(&self.arguments)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let closed = || std::io::Error::other("its streams are closed");
        let mut input = process.stdin.take().ok_or_else(closed)?;
        let output = process.stdout.take().ok_or_else(closed)?;
        let log = process.stderr.take().ok_or_else(closed)?;
        let host = Host {
            process,
            input: None,
            log: Some(thread::spawn(move || lines(log))),
            report: None,
        };
        // A host that fails from here on ends with this value.
        let mut host = Hosts(vec![host]);
        let request = Request {
            parent: std::process::id(),
            library: self.library.clone(),
            topology: self.topology.clone(),
            host: number,
            hosts: self.hosts,
            network: self.network,
            tuner: self.tuner.clone(),
            nvlink_domain: self.nvlink_domain,
            sizes: self.sizes.clone(),
            graphs: self.graphs,
            variables: self.variables(number),
        };
        let mut text = serde_json::to_string(&request).map_err(std::io::Error::from)?;
        text.push('\n');
        let sender = sender.clone();
        thread::spawn(move || tell(number, output, &sender));
        match input.write_all(text.as_bytes()) {
            // That it has ended is heard later, with the reason.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
            written => written?,
        }
        host.0[0].input = Some(input);
        let started = host.0.pop();
        started.ok_or_else(|| closed().into())
    }

    fn listen(&self, hosts: &mut Hosts, events: &Receiver<Event>) -> Result<(), NoAnswer> {
        let mut end = Instant::now() + self.deadline;
        let mut failed = false;
        while hosts.0.iter().any(|host| host.report.is_none()) {
            let left = end.saturating_duration_since(Instant::now());
            match events.recv_timeout(left) {
                Ok(Event::Said(_, Said::Id(id))) => {
                    for other in hosts.0.iter_mut().skip(1) {
                        if let Some(input) = &mut other.input {
                            // A host that has ended says so itself.
                            let _ = writeln!(input, "{id}");
                        }
                    }
                }
                Ok(Event::Said(_, Said::Unusable(why))) => return Err(NoAnswer::Unusable(why)),
                Ok(Event::Said(host, Said::Report(report))) => {
                    if report.refusal.is_some() && !failed {
                        failed = true;
                        end = end.min(Instant::now() + AFTER_FAILURE);
                    }
                    hosts.0[host as usize].report = Some(*report);
                }
                Ok(Event::Ended(host)) if hosts.0[host as usize].report.is_some() => {}
                Ok(Event::Ended(host)) => return Err(ended(hosts, host)),
                // A refusal by one host is the answer of all.
                Err(_) if failed => return Ok(()),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    return Err(NoAnswer::Deadline {
                        seconds: self.deadline.as_secs(),
                        last: last_words(hosts, 0),
                    });
                }
            }
        }
        Ok(())
    }
}

/// A refusal that says nothing about the job: this machine has too little memory.
fn without_memory(answers: &[HostAnswer]) -> Option<NoAnswer> {
    let refused = answers.iter().any(|it| it.report.refusal.is_some());
    let says = |line: &&String| NO_MEMORY.iter().any(|words| line.contains(words));
    let mut lines = (0..).zip(answers).filter_map(|(host, answer)| {
        let line = answer.log.iter().find(says)?;
        Some((host, line.clone()))
    });
    let (host, line) = lines.next().filter(|_| refused)?;
    Some(NoAnswer::Memory { host, line })
}

fn log_of(host: &mut Host) -> Vec<String> {
    let log = host.log.take().map(JoinHandle::join);
    log.and_then(Result::ok).unwrap_or_default()
}

/// The last line of a host's log, after all hosts were ended.
fn last_words(hosts: &mut Hosts, host: u32) -> Option<String> {
    for host in &mut hosts.0 {
        let _ = host.process.kill();
    }
    let log = log_of(hosts.0.get_mut(host as usize)?);
    log.into_iter().rev().find(|line| !line.trim().is_empty())
}

fn ended(hosts: &mut Hosts, host: u32) -> NoAnswer {
    let status = hosts.0.get_mut(host as usize).map(|it| it.process.wait());
    NoAnswer::Ended {
        host,
        how: match status {
            Some(Ok(status)) => how(status),
            _ => "ended".to_owned(),
        },
        last: last_words(hosts, host),
    }
}

fn how(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(9), _) => "was killed (signal 9), perhaps because memory ran out,".to_owned(),
        (Some(signal), _) => format!("was ended by signal {signal}"),
        (None, Some(code)) => format!("ended with status {code}"),
        (None, None) => "ended".to_owned(),
    }
}

/// All lines of a stream.
fn lines(stream: impl Read) -> Vec<String> {
    let lines = BufReader::new(stream.take(MOST_LOG_BYTES)).split(b'\n');
    let lines = lines.map_while(Result::ok);
    lines
        .map(|line| String::from_utf8_lossy(&line).into_owned())
        .collect()
}

/// Passes on what a host says, until it ends.
fn tell(host: u32, output: impl Read, to: &Sender<Event>) {
    let lines = BufReader::new(output.take(MOST_MESSAGE_BYTES)).lines();
    for line in lines.map_while(Result::ok) {
        if let Ok(said) = serde_json::from_str(&line) {
            // The parent may have heard enough.
            let _ = to.send(Event::Said(host, said));
        }
    }
    let _ = to.send(Event::Ended(host));
}
