//! The record to which a statement belongs, and what is kept of it.

use rustc_hash::FxHashMap;

use super::record::{GraphText, Process, Record};
use super::strings::Text;
use super::{Collector, MOST_RECORDS, Thread};
use crate::nccl_log::decisions::Local;
use crate::nccl_log::message::Source;
use crate::nccl_log::statement::{Connection, End, Member, Stage, Statement, Transport};

/// Most lines of a machine's view that are kept, and most channels of a graph.
const MOST_SYSTEM_LINES: usize = 2000;
const MOST_GRAPHS: usize = 24;

/// Most entries of a process's lists.
const MOST_ENTRIES: usize = 512;

impl Collector {
    /// Takes a statement of a source.
    pub(super) fn take(&mut self, source: &Source<'_>, statement: Statement<'_>) {
        let host = self.strings.keep_host(source.host);
        let thread = (host, source.process, source.thread, source.gpu);
        match statement {
            Statement::Member(member, stage) => self.member(thread, &member, stage),
            Statement::Ring { channel, ranks, .. } => {
                if self.has_room(1 + ranks.len() / 16)
                    && let Some(record) = self.record(thread)
                {
                    record.rings.insert(channel, ranks);
                }
            }
            Statement::Trees { trees, is_cut } => {
                if self.has_room(trees.len())
                    && let Some(record) = self.record(thread)
                {
                    record.trees_cut |= is_cut;
                    let trees = trees.into_iter();
                    record
                        .trees
                        .extend(trees.map(|(channel, rank, it)| ((channel, rank), it)));
                }
            }
            Statement::Connection(connection) => self.connection(thread, &connection),
            Statement::Choice {
                collective,
                bytes,
                algorithm,
                protocol,
                channels: _,
            } => {
                // Collectives come after the communicator.
                let of = self
                    .latest
                    .get(&(host, source.process, source.gpu))
                    .copied();
                if self.has_room(1)
                    && let Some(record) = of.and_then(|it| self.records.get_mut(it))
                {
                    record
                        .choices
                        .insert((collective, bytes), (algorithm, protocol));
                }
            }
            Statement::Operation(name) => {
                if self.operations.len() < MOST_ENTRIES || self.operations.contains_key(name) {
                    *self.operations.entry(name.to_owned()).or_default() += 1;
                }
            }
            Statement::Version(version) => self.version(thread, version),
            Statement::Gpu { rank, host, model } => {
                if self.gpus.len() < MOST_RECORDS {
                    self.gpus.insert(rank, (host.to_owned(), model.to_owned()));
                }
            }
            Statement::Ignored | Statement::Unknown | Statement::Broken(_) => {}
            other => {
                if !self.of_process(thread, &other) {
                    self.of_rank(thread, other);
                }
            }
        }
    }

    fn version(&mut self, (host, process, ..): Thread, version: &str) {
        if self.versions.len() < MOST_ENTRIES || self.versions.contains_key(version) {
            *self.versions.entry(version.to_owned()).or_default() += 1;
        }
        // A line without a head names no process.
        if process > 0 {
            let version = self.strings.keep(version);
            let at = (self.file_text, self.line);
            of(&mut self.processes, (host, process), at).version = Some(version);
        }
    }

    /// Takes what a process says. Returns `false` if the statement is about a rank.
    fn of_process(&mut self, (host, id, ..): Thread, statement: &Statement<'_>) -> bool {
        let strings = &mut self.strings;
        let at = (self.file_text, self.line);
        let mut kept = |text: &str| strings.keep(text);
        if self.processes.len() >= MOST_RECORDS && !self.processes.contains_key(&(host, id)) {
            self.is_full = true;
            return false;
        }
        match *statement {
            Statement::Driver(version) => {
                of(&mut self.processes, (host, id), at).driver = Some(version);
            }
            Statement::Setting { name, value } => {
                let (name, value) = (kept(name), kept(value));
                let process = of(&mut self.processes, (host, id), at);
                if process.settings.len() < MOST_ENTRIES {
                    process.settings.insert(name, value);
                }
            }
            Statement::Network(name) => {
                let name = kept(name);
                of(&mut self.processes, (host, id), at).network = Some(name);
            }
            Statement::Ports { network, ports } => {
                let (network, ports) = (kept(network), kept(ports));
                let process = of(&mut self.processes, (host, id), at);
                if process.listed_ports.len() < MOST_ENTRIES {
                    process.listed_ports.insert(network, ports);
                }
            }
            Statement::Bootstrap(interface) => {
                let interface = kept(interface);
                of(&mut self.processes, (host, id), at).bootstrap = Some(interface);
            }
            Statement::Gdr(gdr) => {
                let (device, why) = (kept(gdr.device), kept(gdr.why));
                let process = of(&mut self.processes, (host, id), at);
                if process.gdr.len() < MOST_ENTRIES {
                    process.gdr.insert(device, (gdr.enabled, why));
                }
            }
            Statement::Fabric { cluster, clique } => {
                let fabric = (kept(cluster), kept(clique));
                let process = of(&mut self.processes, (host, id), at);
                if process.fabrics.len() < MOST_ENTRIES {
                    process.fabrics.insert(fabric);
                }
            }
            Statement::Failed { place, code } => {
                let place = kept(place);
                let process = of(&mut self.processes, (host, id), at);
                if process.failed.len() < MOST_ENTRIES {
                    *process.failed.entry((place, code)).or_default() += 1;
                }
            }
            _ => return false,
        }
        true
    }

    fn of_rank(&mut self, thread: Thread, statement: Statement<'_>) {
        let size = match &statement {
            Statement::NvlsHead { ranks, .. } => 1 + ranks.len() / 16,
            Statement::TableRow { costs, .. } => costs.len(),
            Statement::SystemLine(_) | Statement::GraphChannel(_) => 0,
            _ => 1,
        };
        if !self.has_room(size) {
            return;
        }
        match statement {
            Statement::Graph(graph) => {
                let types = self.strings.keep(graph.types);
                let graph = GraphText {
                    pattern: graph.pattern,
                    cross_nic: graph.cross_nic,
                    channels: graph.channels,
                    bandwidths: [graph.inside, graph.between],
                    types,
                    devices: Vec::new(),
                };
                if let Some(record) = self.record(thread)
                    && record.graphs.len() < MOST_GRAPHS
                {
                    record.graphs.push(graph);
                }
            }
            Statement::GraphChannel(text) => {
                let text = self.strings.keep(text);
                if let Some(graph) = self.record(thread).and_then(|it| it.graphs.last_mut())
                    && graph.devices.len() < graph.channels as usize
                {
                    graph.devices.push(text);
                }
            }
            Statement::System { .. } => {
                if let Some(record) = self.record(thread) {
                    record.system.clear();
                    record.system_ended = false;
                }
            }
            Statement::SystemLine(text) => {
                let text = self.strings.keep(text);
                if let Some(record) = self.record(thread)
                    && !record.system_ended
                    && record.system.len() < MOST_SYSTEM_LINES
                {
                    record.system.push(text);
                }
            }
            Statement::Timings(timings) => {
                let keep = |(name, time): &(&str, f32)| (self.strings.keep(name), *time);
                let phases = timings.phases.iter().map(keep).collect();
                let (host, process, _, gpu) = thread;
                let of = self
                    .open
                    .get(&thread)
                    .or_else(|| self.latest.get(&(host, process, gpu)));
                if let Some(record) = of.and_then(|it| self.records.get_mut(*it)) {
                    record.timings = Some((timings.total, phases));
                }
            }
            Statement::ConnectedAll(what) => {
                let what = self.strings.keep(what);
                if let Some(record) = self.record(thread)
                    && !record.connected.contains(&what)
                {
                    record.connected.push(what);
                }
            }
            other => {
                if let Some(record) = self.record(thread) {
                    record.keep(other);
                }
            }
        }
    }

    fn connection(&mut self, thread: Thread, connection: &Connection<'_>) {
        let transport = match connection.transport {
            Transport::Local {
                how: Local::SharedMemory,
                ..
            } => self.strings.keep("SHM"),
            Transport::Local { kind, .. } => {
                let kind = kind.split('/').next().unwrap_or(kind);
                self.strings.keep_joined("P2P/", kind)
            }
            Transport::Network { name, .. } => self.strings.keep_joined("NET/", name),
            Transport::Other(how) => {
                let kind = how.split('/').next().unwrap_or(how);
                self.strings.keep(kind)
            }
        };
        let port = match connection.transport {
            Transport::Network { name, port } => {
                let name = self.strings.keep(name);
                Some(((name, port.device), port.gdr))
            }
            _ => None,
        };
        let has_room = self.has_room(1);
        let Some(record) = self.record(thread) else {
            return;
        };
        *record.transports.entry(transport).or_default() += 1;
        if let Some((port, gdr)) = port {
            record.ports.entry(port).or_default()[usize::from(!gdr)] += 1;
        }
        // Point-to-point transfers have their own connections.
        if connection.index > 0 || !has_room {
            return;
        }
        let ends = (connection.channel, connection.from, connection.to);
        let connected = record.connections.entry(ends).or_default();
        match connection.transport {
            Transport::Local { how, .. } => connected.local = Some(how),
            Transport::Network { port, .. } => match connection.end {
                End::Sender => connected.sender = Some(port),
                _ => connected.receiver = Some(port),
            },
            Transport::Other(_) => {}
        }
    }

    fn member(&mut self, thread: Thread, member: &Member<'_>, stage: Stage) {
        let (host, process, _, gpu) = thread;
        let address = self.strings.keep(member.address);
        let by_address = self.by_address.get(&(host, process, address)).copied();
        let at = match stage {
            Stage::Start => {
                let at = (self.file_text, self.line);
                of(&mut self.processes, (host, process), at).says_starts = true;
                // An address may be used again after a communicator has ended.
                self.open_record(thread, true)
            }
            Stage::Destroyed | Stage::Aborted => by_address,
            Stage::Shape | Stage::Complete => {
                let is_same = |at: &usize| {
                    let record = &self.records[*at];
                    record.rank.is_none_or(|rank| rank == member.rank)
                        && record.stage.is_none_or(|it| it < Stage::Destroyed)
                };
                let open = self.open.get(&thread).copied().filter(is_same);
                open.or(by_address.filter(is_same))
                    .or_else(|| self.open_record(thread, true))
            }
        };
        let Some(at) = at else {
            return;
        };
        let id = member.id.map(|id| self.strings.keep(id));
        let begun = (stage == Stage::Start).then_some((self.file_text, self.line));
        let record = &mut self.records[at];
        record.rank = Some(member.rank);
        record.ranks = member.ranks.or(record.ranks);
        record.nodes = member.nodes.or(record.nodes);
        record.local_ranks = member.local_ranks.or(record.local_ranks);
        record.gpu = record.gpu.or(member.cuda_device);
        record.nvml_device = member.nvml_device.or(record.nvml_device);
        record.bus_id = member.bus_id.or(record.bus_id);
        record.id = id.or(record.id);
        record.begun = record.begun.or(begun);
        record.stage = Some(stage).max(record.stage);
        self.by_address.insert((host, process, address), at);
        self.latest.insert((host, process, gpu), at);
        if stage == Stage::Complete {
            self.open.remove(&thread);
        }
    }

    /// The record that a thread writes; a new one if none can be meant.
    fn record(&mut self, thread: Thread) -> Option<&mut Record> {
        let (host, process, _, gpu) = thread;
        let open = self.open.get(&thread).copied();
        let says_starts = || {
            let process = self.processes.get(&(host, process));
            process.is_some_and(|it| it.says_starts)
        };
        let at = match open {
            Some(at) => Some(at),
            None if says_starts() => self.latest.get(&(host, process, gpu)).copied(),
            None => None,
        };
        let at = at.or_else(|| self.open_record(thread, false))?;
        self.records.get_mut(at)
    }

    fn open_record(&mut self, thread: Thread, is_new: bool) -> Option<usize> {
        let (host, process, _, gpu) = thread;
        if is_new
            && let Some(at) = self.open.get(&thread)
            && self.records[*at].stage.is_none()
        {
            return Some(*at);
        }
        if self.records.len() >= MOST_RECORDS {
            self.is_full = true;
            return None;
        }
        let at = self.records.len();
        self.records.push(Record {
            host,
            process,
            gpu,
            ..Record::default()
        });
        self.open.insert(thread, at);
        Some(at)
    }
}

/// A process. `at`: the file and line that names it, if that is new.
fn of(
    processes: &mut FxHashMap<(Text, u32), Process>,
    process: (Text, u32),
    at: (Text, u64),
) -> &mut Process {
    let place = processes.len();
    processes.entry(process).or_insert_with(|| Process {
        place,
        begun: Some(at),
        ..Process::default()
    })
}

impl Record {
    fn keep(&mut self, statement: Statement<'_>) {
        match statement {
            Statement::RingNeighbors {
                channel,
                previous,
                rank,
                next,
            } => {
                self.ring_neighbors.insert(channel, (previous, next));
                self.rank = self.rank.or(Some(rank));
            }
            Statement::NvlsHead { head, ranks } => {
                self.nvls_heads.insert(head, ranks);
            }
            Statement::NvlsTrees { rank, trees } => self.nvls_trees = Some((rank, trees)),
            Statement::SystemEnd => self.system_ended = true,
            Statement::TableHead(columns) => self.columns = columns,
            Statement::TableRow { collective, costs } => {
                for (column, cost) in self.columns.iter().zip(costs) {
                    if let ((Some(algorithm), Some(protocol)), Some(cost)) = (*column, cost) {
                        self.model.insert((collective, algorithm, protocol), cost);
                    }
                }
            }
            Statement::Channels(counts) => self.counts = Some(counts),
            Statement::Nvls(nvls) => self.nvls = Some(nvls),
            Statement::NvlsAvailable(available) => self.nvls_available = Some(available),
            Statement::P2pChunk(chunk) => self.p2p_chunk = Some(chunk),
            _ => {}
        }
    }
}
