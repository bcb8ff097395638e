//! The parent: starts a process per host, passes the unique ids on, and collects what NCCL says.

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
use crate::process::{self, Process};
use crate::stand_in::NET_PLUGIN;

/// How often the hosts' logs are emptied.
const POLL: Duration = Duration::from_millis(20);

/// Messages that wait for the parent.
const QUEUE: usize = 64;

/// A host of the job.
#[derive(Debug, Clone)]
pub struct ScriptedHost {
    /// The text of its topology file.
    pub topology: String,
    /// Its GPUs.
    pub gpus: u32,
    /// What it does.
    pub steps: Vec<Step>,
    /// NCCL's variables, besides those that are given to all hosts.
    pub variables: Vec<(String, String)>,
    /// When the evidence is complete: the script has ended if `None`, or it waits in this step.
    pub waits_in: Option<usize>,
}

/// A job that has a fault.
#[derive(Debug, Clone)]
pub struct ScriptedJob {
    /// The program whose [`serve`](super::serve) answers.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// NCCL's library.
    pub library: PathBuf,
    /// The network.
    pub network: Network,
    /// Unique ids.
    pub ids: u32,
    /// Multicast objects that the NVSwitches of a host have room for.
    pub multicast: Option<u32>,
    /// The hosts; the first one makes the unique ids.
    pub hosts: Vec<ScriptedHost>,
    /// Hosts whose processes are killed once the evidence would be complete without that.
    pub killed: Vec<usize>,
    /// How long ranks wait before RAS is asked, and again before it is asked once more.
    pub pause: Duration,
    /// When the hosts must have come that far.
    pub deadline: Duration,
}

/// What is left of a job.
#[derive(Debug, Clone, Default)]
pub struct Evidence {
    /// By host the lines of its log.
    pub logs: Vec<Vec<String>>,
    /// By host how its script ended: NCCL's error, or `None` inside; outside `None` if it waits.
    pub ends: Vec<Option<Option<String>>>,
    /// Two reports of the first host's RAS, a pause apart.
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

struct Host {
    process: Process,
    input: Option<ChildStdin>,
    begun: Option<usize>,
    end: Option<Option<String>>,
}

impl ScriptedJob {
    /// Runs the job until each host is where the script leads it, and collects the evidence. All
    /// processes have ended afterwards.
    ///
    /// # Errors
    /// A process does not start or ends, the library cannot be asked, or the deadline has passed.
    pub fn run(&self) -> Result<Evidence, NoAnswer> {
        let end = Instant::now() + self.deadline;
        let address = free_address()?;
        let (sender, events) = mpsc::sync_channel(QUEUE);
        let mut hosts = Vec::new();
        let mut first = 0;
        for (number, host) in self.hosts.iter().enumerate() {
            // RAS of the first host is asked. Each one has its own address, as on its own machine.
            let address = if number == 0 {
                address
            } else {
                free_address()?
            };
            hosts.push(self.start(number, first, address, &sender)?);
            first += host.gpus;
        }
        drop(sender);
        self.listen(&mut hosts, &events, end)?;
        for killed in &self.killed {
            hosts[*killed].process.kill();
        }
        let mut reports = [RasReport::default(), RasReport::default()];
        for report in &mut reports {
            let resume = Instant::now() + self.pause;
            while Instant::now() < resume {
                hosts.iter_mut().for_each(|host| host.process.keep_log());
                thread::sleep(POLL);
            }
            let asked = |form| ras::ask(address, form).ok().flatten();
            report.text = asked(ras::Form::Text);
            report.json = asked(ras::Form::Json);
        }
        let logs = process::logs(hosts.iter_mut().map(|host| &mut host.process));
        Ok(Evidence {
            logs,
            ends: hosts.into_iter().map(|host| host.end).collect(),
            ras: reports,
        })
    }

    fn variables(&self, number: usize, address: SocketAddr) -> Vec<(String, String)> {
        let plugin = match self.network {
            Network::Socket => "none",
            Network::Merging | Network::Plugin => NET_PLUGIN,
        };
        let host = format!("host-{number}");
        let address = address.to_string();
        let given = [
            ("NCCL_DEBUG", "INFO"),
            ("NCCL_DEBUG_SUBSYS", "INIT,ENV,NET,GRAPH"),
            ("NCCL_DEBUG_FILE", "/proc/self/fd/2"),
            ("NCCL_HOSTID", host.as_str()),
            ("NCCL_NET_PLUGIN", plugin),
            ("NCCL_RAS_ENABLE", "1"),
            ("NCCL_RAS_ADDR", address.as_str()),
        ];
        let given = given.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let own = self.hosts[number].variables.iter().cloned();
        given.into_iter().chain(own).collect()
    }

    fn start(
        &self,
        number: usize,
        first: u32,
        address: SocketAddr,
        sender: &SyncSender<(usize, Line)>,
    ) -> Result<Host, NoAnswer> {
        let host = &self.hosts[number];
        let script = Script {
            request: Request {
                topology: host.topology.clone(),
                host: number as u32,
                ranks: (first..).take(host.gpus as usize).collect(),
                all_ranks: self.hosts.iter().map(|host| host.gpus).sum(),
                network: self.network,
                variables: self.variables(number, address),
                ..Request::of(self.library.clone())
            },
            first,
            ids: self.ids,
            multicast: self.multicast,
            steps: host.steps.clone(),
        };
        let sender = sender.clone();
        let hears = move |line: Option<&[u8]>| match line.map(serde_json::from_slice) {
            Some(Ok(said)) => sender.send((number, said)).is_ok(),
            Some(Err(_)) | None => true,
        };
        let (process, input) = Process::start(&self.program, &self.arguments, &script, hears)?;
        Ok(Host {
            process,
            input: Some(input),
            begun: None,
            end: None,
        })
    }

    /// Waits until each host is where the script leads it.
    fn listen(
        &self,
        hosts: &mut [Host],
        events: &Receiver<(usize, Line)>,
        end: Instant,
    ) -> Result<(), NoAnswer> {
        let is_there = |(host, scripted): (&Host, &ScriptedHost)| match scripted.waits_in {
            Some(step) => host.begun == Some(step) || host.end.is_some(),
            None => host.end.is_some(),
        };
        while !hosts.iter().zip(&self.hosts).all(is_there) {
            hosts.iter_mut().for_each(|host| host.process.keep_log());
            if Instant::now() >= end {
                return Err(NoAnswer::Deadline {
                    seconds: self.deadline.as_secs(),
                    last: None,
                });
            }
            let (number, line) = match events.recv_timeout(POLL) {
                Ok(event) => event,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => {
                    let last = process::logs(hosts.iter_mut().map(|host| &mut host.process));
                    return Err(NoAnswer::Ended {
                        host: 0,
                        how: "ended".to_owned(),
                        last: last.into_iter().flatten().last(),
                    });
                }
            };
            match line {
                Line::Ids(ids) => {
                    let mut text = serde_json::to_string(&ids).map_err(std::io::Error::from)?;
                    text.push('\n');
                    for other in hosts.iter_mut().skip(1) {
                        if let Some(input) = &mut other.input {
                            // A host that has ended says so itself.
                            let _ = input.write_all(text.as_bytes());
                        }
                    }
                }
                Line::Begins(step) => hosts[number].begun = Some(step),
                Line::Ends(error) => hosts[number].end = Some(error),
                Line::Unusable(why) => return Err(NoAnswer::Unusable(why)),
            }
        }
        Ok(())
    }
}

/// An address on which nobody listens now.
fn free_address() -> Result<SocketAddr, NoAnswer> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}
