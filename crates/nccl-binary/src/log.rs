//! Reads NCCL's log: what the hosts of a job said, as one answer. `nccl_log` reads the lines.

use std::collections::BTreeMap;

use plan::Algorithm;
use program::{Collective, Protocol};
use records::nccl_log::compare::answer::{Answer, Failure};
use records::nccl_log::message::{Level, Message, NoHosts, messages};
use records::nccl_log::statement::{self, Connection, End, Statement, Transport};

use crate::job::HostAnswer;
use crate::message::{PEERS_BEGIN, Report};

/// Most warnings that are kept.
const MOST_WARNINGS: usize = 20;

/// Protocols of a table, in the order of its columns.
const PROTOCOLS: [Protocol; 3] = [Protocol::Ll, Protocol::Ll128, Protocol::Simple];

/// NCCL's errors for a failed call to the system or to the driver, and for another host that is
/// gone. They say nothing about the job.
const NO_DECISIONS: [&str; 3] = ["unhandled system error", "unhandled cuda error", ECHO];

/// The error of a host after another one has failed.
const ECHO: &str = "remote process exited";

fn is_echo(refusal: &str) -> bool {
    refusal.starts_with(ECHO)
}

/// Whether a refusal is NCCL's decision about the job. Otherwise something failed on this machine.
pub fn is_decision(refusal: &str) -> bool {
    !NO_DECISIONS.iter().any(|it| refusal.starts_with(it))
}

/// Reads what the hosts of a job answered.
pub fn read(hosts: &[HostAnswer]) -> Answer {
    let mut answer = Answer::default();
    for host in hosts {
        let report = &host.report;
        let only_echoes = answer.refusal.as_deref().is_none_or(is_echo);
        if only_echoes && report.refusal.is_some() {
            answer.refusal.clone_from(&report.refusal);
        }
        let mut reader = Reader {
            answer: &mut answer,
            gpu_of_rank_0: gpu_of_rank_0(host),
            columns: Vec::new(),
            between_peers: false,
        };
        for line in &host.log {
            reader.line(line);
        }
        if !reader.between_peers {
            answer.peers = None;
        }
        let devices = host.ranks.iter().zip(&report.memory.devices);
        for (gpu, (rank, bytes)) in devices.enumerate() {
            let more = report.peers_memory.devices.get(gpu).copied().unwrap_or(0);
            answer.gpu_memory.insert(*rank, [*bytes, more]);
        }
        if answer.peers_failure.is_none() {
            answer.peers_failure.clone_from(&report.peers_failure);
        }
    }
    if let Some(first) = hosts.first() {
        answer.multicast_objects = first.report.memory.multicast_objects;
    }
    let first = hosts.iter().find(|host| gpu_of_rank_0(host).is_some());
    if let Some(first) = first {
        read_report(&first.report, &mut answer);
    }
    let ranks = u64::from(answer.ranks.unwrap_or(1));
    answer.choices = of_whole_messages(&mut answer.choices, ranks);
    answer.spread = of_whole_messages(&mut answer.spread, ranks);
    answer.window_kernels = of_whole_messages(&mut answer.window_kernels, ranks);
    if let Some(first) = first {
        without_kernel(&first.report, &mut answer);
    }
    answer
}

/// CUDA's number of the GPU of rank 0, if it is on this host.
fn gpu_of_rank_0(host: &HostAnswer) -> Option<u32> {
    let at = host.ranks.iter().position(|rank| *rank == 0)?;
    u32::try_from(at).ok()
}

/// Which collectives ran without a kernel that the log names.
fn without_kernel(report: &Report, answer: &mut Answer) {
    let calls = u64::from(report.calls.max(1));
    for (number, bytes) in &report.called {
        let Some(collective) = collective(*number) else {
            continue;
        };
        let logged = answer.choices.contains_key(&(collective, bytes / calls))
            || answer.window_kernels.iter().any(|(of, (_, _, number))| {
                let one = *bytes / calls;
                *of == (collective, one.saturating_mul((*number).into()))
            });
        if !logged {
            answer.without_kernel.insert((collective, *bytes));
        }
    }
}

/// The log has the bytes of one rank for collectives that gather or scatter.
fn of_whole_messages<T>(
    logged: &mut BTreeMap<(Collective, u64), T>,
    ranks: u64,
) -> BTreeMap<(Collective, u64), T> {
    let all = std::mem::take(logged).into_iter();
    let all = all.map(|((collective, bytes), said)| {
        let pieces = match collective {
            Collective::AllGather | Collective::ReduceScatter => ranks,
            _ => 1,
        };
        ((collective, bytes.saturating_mul(pieces)), said)
    });
    all.collect()
}

fn read_report(report: &Report, answer: &mut Answer) {
    answer.version = report.version;
    answer.topology.clone_from(&report.topology);
    answer.graphs.clone_from(&report.graphs);
    answer.nvlink_domains = report.nvlink_domains;
    for failed in &report.failures {
        if let Some(collective) = collective(failed.collective) {
            answer.failures.push(Failure {
                collective,
                bytes: failed.bytes,
                error: failed.error.clone(),
            });
        }
    }
    for call in &report.tuner_calls {
        let Some(collective) = collective(call.collective) else {
            continue;
        };
        let rows = call.times.chunks(call.protocols.max(1));
        let times = Algorithm::ALL
            .into_iter()
            .zip(rows)
            .flat_map(|(algorithm, row)| {
                let row = PROTOCOLS.into_iter().zip(row);
                row.map(move |(protocol, time)| ((algorithm, protocol), *time))
            });
        let times = times.filter(|(_, time)| *time >= 0.0).collect();
        answer.times.insert((collective, call.bytes), times);
    }
}

/// The collective with NCCL's number.
fn collective(number: i32) -> Option<Collective> {
    Collective::TUNED
        .into_iter()
        .find(|it| *it as i32 == number)
}

struct Reader<'a> {
    answer: &'a mut Answer,
    /// None if rank 0 is on another host.
    gpu_of_rank_0: Option<u32>,
    /// The table's columns.
    columns: Vec<(Option<Algorithm>, Option<Protocol>)>,
    /// All ranks send to each other.
    between_peers: bool,
}

impl Reader<'_> {
    fn line(&mut self, line: &str) {
        self.between_peers |= line == PEERS_BEGIN;
        messages(line, &NoHosts, |message| self.message(&message));
    }

    fn message(&mut self, message: &Message<'_>) {
        match message.level {
            Level::Info => {}
            Level::Warn => return self.warning(message.text),
            Level::Other => return,
        }
        let gpu = message.source.and_then(|source| source.gpu);
        let statement = statement::read(message.text);
        // What all ranks say alike is read from rank 0.
        let is_rank_0 = gpu.is_some() && gpu == self.gpu_of_rank_0;
        match statement {
            Statement::Ring { channel, ranks, .. } => {
                self.answer.rings.insert(channel, ranks);
                if message.text.ends_with("...") {
                    self.answer.cut_rings.insert(channel);
                }
            }
            Statement::Connection(connection) => self.connection(&connection),
            // `Tree 0 : …` says the same as `Trees [0] …`.
            Statement::Trees { trees, is_cut } if message.text.starts_with("Trees") => {
                self.answer.trees_cut |= is_cut;
                let trees = trees.into_iter();
                let trees = trees.map(|(channel, rank, it)| ((channel, rank), it));
                self.answer.trees.extend(trees);
            }
            Statement::Broken(_) if message.text.starts_with("Trees") => {
                self.answer.trees_cut = true;
            }
            Statement::NvlsHead { head, ranks } => {
                self.answer.nvls_heads.insert(head, ranks);
            }
            Statement::NvlsTrees { rank, trees } => {
                self.answer.nvls_trees.insert(rank, trees);
            }
            other if is_rank_0 => self.common(other),
            _ => {}
        }
    }

    fn warning(&mut self, text: &str) {
        let warnings = &mut self.answer.warnings;
        let known = warnings.iter().any(|known| known == text);
        if !known && warnings.len() < MOST_WARNINGS {
            warnings.push(text.to_owned());
        }
    }

    fn common(&mut self, statement: Statement<'_>) {
        let answer = &mut *self.answer;
        match statement {
            Statement::Member(member, _) if member.nodes.is_some() => {
                answer.nodes = member.nodes;
                answer.ranks = member.ranks;
            }
            Statement::Nvls(nvls) => answer.nvls = Some(nvls),
            Statement::P2pChunk(chunk) => answer.p2p_chunk = Some(chunk),
            Statement::Channels(counts) => answer.channels = Some(counts),
            Statement::TableHead(columns) => self.columns = columns,
            Statement::TableRow { collective, costs } => {
                for (column, cost) in self.columns.iter().zip(costs) {
                    if let ((Some(algorithm), Some(protocol)), Some(cost)) = (*column, cost) {
                        answer.model.insert((collective, algorithm, protocol), cost);
                    }
                }
            }
            // The bytes of a collective that gathers or scatters are those of one rank.
            Statement::Choice {
                collective,
                bytes,
                algorithm,
                protocol,
                channels,
            } => {
                let taken = (algorithm, protocol);
                answer.choices.insert((collective, bytes), taken);
                let spread = answer.spread.entry((collective, bytes)).or_default();
                spread.extend(channels);
            }
            Statement::WindowKernel {
                collective,
                bytes,
                kernel,
                blocks,
                calls,
            } => {
                let taken = (kernel.to_owned(), blocks, calls);
                answer.window_kernels.insert((collective, bytes), taken);
            }
            _ => {}
        }
    }

    /// The second number of a channel is 0 for rings and trees, and left out for shared memory.
    fn connection(&mut self, connection: &Connection<'_>) {
        if connection.index > 0 || self.between_peers {
            let sends = !matches!(
                (connection.transport, connection.end),
                (Transport::Network { .. }, End::Receiver) | (Transport::Other(_), _)
            );
            if sends {
                let peers = self.answer.peers.get_or_insert_default();
                let channels = peers.entry((connection.from, connection.to)).or_default();
                channels.insert(connection.channel);
            }
            return;
        }
        let ends = (connection.channel, connection.from, connection.to);
        let connected = self.answer.connections.entry(ends).or_default();
        match (connection.transport, connection.end) {
            (Transport::Local { how, .. }, _) => connected.local = Some(how),
            (Transport::Network { port, .. }, End::Sender) => connected.sender = Some(port),
            (Transport::Network { port, .. }, _) => connected.receiver = Some(port),
            (Transport::Other(_), _) => {}
        }
    }
}
