//! The parent: starts the processes, passes the unique ids on, and collects what NCCL says.

use std::ffi::OsString;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::ChildStdin;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use super::{Line, Script, Step, ras};
use crate::job::NoAnswer;
use crate::message::{Network, Request};
use crate::plant::{MARK, Plant};
use crate::process::{self, Process};
use crate::stand_in::NET_PLUGIN;

/// How often the logs are emptied.
const POLL: Duration = Duration::from_millis(20);

/// Messages that wait for the parent.
const QUEUE: usize = 64;

/// How a line begins that is not NCCL's.
const OWN: &str = "topo: ";

/// What a process says, by its number; `None`: it has ended.
type Event = (usize, Option<Line>);

/// A process of the job.
#[derive(Debug, Clone)]
pub struct ScriptedProcess {
    /// NCCL's library.
    pub library: PathBuf,
    /// The number of its host.
    pub host: u32,
    /// The text of the host's topology file.
    pub topology: String,
    /// The host's GPUs that it has: the first one's number, and how many.
    pub gpus: (u32, u32),
    /// What it does.
    pub steps: Vec<Step>,
    /// NCCL's variables, besides those that are given to all.
    pub variables: Vec<(String, String)>,
    /// Its calls that fail.
    pub plants: Vec<Plant>,
    /// It is killed once the evidence would be complete without that.
    pub is_killed: bool,
}

/// A job that has a fault.
#[derive(Debug, Clone)]
pub struct ScriptedJob {
    /// The program whose [`serve`](super::serve) answers.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// The network.
    pub network: Network,
    /// The GPUs of all hosts are in one NVLink domain.
    pub nvlink_domain: bool,
    /// GPUs of a host access each other's memory.
    pub peer_access: bool,
    /// Unique ids.
    pub ids: u32,
    /// The processes. Ranks are numbered in their order; the first one makes the unique ids.
    pub processes: Vec<ScriptedProcess>,
    /// A folder for the job, in which each host keeps its shared memory.
    pub folder: PathBuf,
    /// A text of NCCL's log without which the evidence is not complete.
    pub text: Option<String>,
    /// Whether RAS is asked.
    pub asks_ras: bool,
    /// For how long nothing is said in a job whose evidence is complete although processes wait.
    pub pause: Duration,
    /// When the evidence is taken at the latest.
    pub deadline: Duration,
}

/// What is left of a job.
#[derive(Debug, Clone, Default)]
pub struct Evidence {
    /// By process the lines of its log.
    pub logs: Vec<Vec<String>>,
    /// By process how its script ended: NCCL's error, or `None` inside; outside `None` if it waits
    /// or was killed.
    pub ends: Vec<Option<Option<String>>>,
    /// The functions of which planted calls were made.
    pub planted: Vec<String>,
    /// Whether the log has the job's text, if it has one.
    pub has_text: bool,
    /// Two reports of the first process's RAS, a pause apart.
    pub ras: [RasReport; 2],
}

/// A report of RAS.
#[derive(Debug, Clone, Default)]
pub struct RasReport {
    /// As text, if it answers.
    pub text: Option<String>,
    /// As JSON, if the version has it.
    pub json: Option<String>,
}

struct Child {
    process: Process,
    input: Option<ChildStdin>,
    has_begun: bool,
    /// `None` inside if the process has ended without a word.
    end: Option<Option<Option<String>>>,
}

impl ScriptedJob {
    /// Runs the job until all processes have ended or nothing is said any more, and collects the
    /// evidence. All processes have ended afterwards.
    ///
    /// # Errors
    /// A process does not start, or the library cannot be asked.
    pub fn run(&self) -> Result<Evidence, NoAnswer> {
        let end = Instant::now() + self.deadline;
        // RAS of the first process is asked. Others have their own addresses.
        let addresses: Result<Vec<_>, _> = self.processes.iter().map(|_| free_address()).collect();
        let addresses = addresses?;
        let address = addresses[0];
        let (mut children, events) = self.start_all(&addresses)?;
        if self.processes.iter().any(|it| it.is_killed) {
            self.listen(&mut children, &events, end, None)?;
        }
        for (child, process) in children.iter_mut().zip(&self.processes) {
            if process.is_killed {
                child.process.kill();
            }
        }
        let has_text = self.listen(&mut children, &events, end, self.text.as_deref())?;
        let mut reports = [RasReport::default(), RasReport::default()];
        for report in reports.iter_mut().filter(|_| self.asks_ras) {
            let resume = Instant::now() + self.pause;
            while Instant::now() < resume {
                children.iter_mut().for_each(|it| it.process.keep_log());
                thread::sleep(POLL);
            }
            let asked = |form| ras::ask(address, form).ok().flatten();
            report.text = asked(ras::Form::Text);
            report.json = asked(ras::Form::Json);
        }
        let mut logs = process::logs(children.iter_mut().map(|it| &mut it.process));
        let said = logs.iter().flatten().filter_map(|it| it.strip_prefix(MARK));
        let planted = said.map(str::to_owned).collect();
        for log in &mut logs {
            log.retain(|line| !line.starts_with(OWN));
        }
        Ok(Evidence {
            logs,
            ends: children.into_iter().map(|it| it.end.flatten()).collect(),
            planted,
            has_text,
            ras: reports,
        })
    }

    /// Runs the job while `watch` runs, which gets the address of each host's RAS. Returns what
    /// that returns, and by process when it began the last step that it was seen to begin.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn watched<T: Send>(
        &self,
        watch: impl FnOnce(Vec<SocketAddr>) -> T + Send,
    ) -> Result<(T, Vec<Instant>), NoAnswer> {
        let hosts = self.processes.iter().map(|it| it.host).max().unwrap_or(0);
        let hosts: Result<Vec<_>, _> = (0..=hosts).map(|_| free_address()).collect();
        let hosts = hosts?;
        // The processes of a host share a port.
        let addresses = self.processes.iter().map(|it| hosts[it.host as usize]);
        let (mut children, events) = self.start_all(&addresses.collect::<Vec<_>>())?;
        let mut begun = vec![Instant::now(); children.len()];
        thread::scope(|scope| {
            let watching = scope.spawn(|| watch(hosts));
            while !watching.is_finished() {
                children.iter_mut().for_each(|it| it.process.keep_log());
                match events.recv_timeout(POLL) {
                    Ok((number, line)) => {
                        if let Some(Line::Begins(_)) = line {
                            begun[number] = Instant::now();
                        }
                        hear(&mut children, number, line)?;
                    }
                    Err(_) => thread::sleep(POLL),
                }
            }
            let done = watching.join();
            done.map_err(|_| NoAnswer::from(std::io::Error::other("the watch panicked")))
        })
        .map(|done| (done, begun))
    }

    /// Starts all processes, whose RAS has these addresses.
    fn start_all(
        &self,
        addresses: &[SocketAddr],
    ) -> Result<(Vec<Child>, Receiver<Event>), NoAnswer> {
        let (sender, events) = mpsc::sync_channel(QUEUE);
        let mut children = Vec::new();
        let mut first = 0;
        for (number, address) in addresses.iter().enumerate() {
            children.push(self.start(number, first, *address, &sender)?);
            first += self.processes[number].gpus.1;
        }
        Ok((children, events))
    }

    fn variables(&self, process: &ScriptedProcess, address: SocketAddr) -> Vec<(String, String)> {
        let plugin = match self.network {
            Network::Socket | Network::Verbs => "none",
            Network::Merging | Network::Plugin => NET_PLUGIN,
        };
        let host = format!("host-{}", process.host);
        let address = address.to_string();
        let given = [
            ("NCCL_DEBUG", "INFO"),
            ("NCCL_DEBUG_FILE", "/proc/self/fd/2"),
            ("NCCL_HOSTID", host.as_str()),
            ("NCCL_NET_PLUGIN", plugin),
            ("NCCL_RAS_ENABLE", if self.asks_ras { "1" } else { "0" }),
            ("NCCL_RAS_ADDR", address.as_str()),
        ];
        let given = given.map(|(name, value)| (name.to_owned(), value.to_owned()));
        given
            .into_iter()
            .chain(process.variables.iter().cloned())
            .collect()
    }

    fn start(
        &self,
        number: usize,
        first: u32,
        address: SocketAddr,
        sender: &SyncSender<Event>,
    ) -> Result<Child, NoAnswer> {
        let process = &self.processes[number];
        let shared_memory = self.folder.join(format!("shm-{}", process.host));
        std::fs::create_dir_all(&shared_memory)?;
        let script = Script {
            request: Request {
                topology: process.topology.clone(),
                host: process.host,
                ranks: (first..).take(process.gpus.1 as usize).collect(),
                all_ranks: self.processes.iter().map(|it| it.gpus.1).sum(),
                network: self.network,
                nvlink_domain: self.nvlink_domain,
                peer_access: self.peer_access,
                variables: self.variables(process, address),
                ..Request::of(process.library.clone())
            },
            first_gpu: process.gpus.0,
            ids: self.ids,
            plants: process.plants.clone(),
            shared_memory,
            steps: process.steps.clone(),
        };
        let sender = sender.clone();
        let hears = move |line: Option<&[u8]>| match line.map(serde_json::from_slice) {
            Some(Ok(said)) => sender.send((number, Some(said))).is_ok(),
            Some(Err(_)) => true,
            None => sender.send((number, None)).is_ok(),
        };
        let (process, input) = Process::start(&self.program, &self.arguments, &script, hears)?;
        Ok(Child {
            process,
            input: Some(input),
            has_begun: false,
            end: None,
        })
    }

    /// Waits until all have ended or nothing is said any more, and the log has a text.
    /// Returns whether it has.
    fn listen(
        &self,
        children: &mut [Child],
        events: &Receiver<Event>,
        end: Instant,
        text: Option<&str>,
    ) -> Result<bool, NoAnswer> {
        let mut last = Instant::now();
        let mut has_text = text.is_none();
        let mut lines = 0;
        while Instant::now() < end {
            for child in &mut *children {
                child.process.keep_log();
            }
            let kept: usize = children.iter().map(|it| it.process.lines().len()).sum();
            if kept > lines {
                (lines, last) = (kept, Instant::now());
                let mut all = children.iter().flat_map(|it| it.process.lines());
                has_text |= text.is_some_and(|text| all.any(|it| it.contains(text)));
            }
            let is_quiet = last.elapsed() >= self.pause;
            let all_began = children.iter().all(|it| it.has_begun || it.end.is_some());
            let all_ended = children.iter().all(|it| it.end.is_some());
            if is_quiet && all_began && (has_text || all_ended) {
                break;
            }
            let (number, line) = match events.recv_timeout(POLL) {
                Ok(event) => event,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => {
                    thread::sleep(POLL);
                    continue;
                }
            };
            last = Instant::now();
            hear(children, number, line)?;
        }
        Ok(has_text)
    }
}

/// Takes what a process says; ids are passed on.
fn hear(children: &mut [Child], number: usize, line: Option<Line>) -> Result<(), NoAnswer> {
    match line {
        Some(Line::Ids(ids)) => {
            let mut text = serde_json::to_string(&ids).map_err(std::io::Error::from)?;
            text.push('\n');
            for other in children.iter_mut().skip(1) {
                if let Some(input) = &mut other.input {
                    // A process that has ended says so itself.
                    let _ = input.write_all(text.as_bytes());
                }
            }
        }
        Some(Line::Begins(_)) => children[number].has_begun = true,
        Some(Line::Ends(error)) => children[number].end = Some(Some(error)),
        Some(Line::Unusable(why)) => return Err(NoAnswer::Unusable(why)),
        None => {
            children[number].end.get_or_insert(None);
        }
    }
    Ok(())
}

/// An address on which nobody listens now.
fn free_address() -> Result<SocketAddr, NoAnswer> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}
