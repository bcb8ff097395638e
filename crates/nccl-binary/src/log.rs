//! Reads NCCL's log.
//!
//! A line is `host:process:thread [GPU] NCCL INFO text`, with the GPU's number on its host. The
//! texts are those of NCCL 2.27 to 2.32.

use std::str::FromStr;

use plan::Algorithm;
use program::{Collective, Protocol};

use crate::answer::{Answer, ChannelCounts, Connected, Local, Neighbors, Port, Times};
use crate::job::HostAnswer;
use crate::message::Report;

/// Most warnings that are kept.
const MOST_WARNINGS: usize = 20;

/// NCCL cuts lines with trees at 1024 characters.
const LONG_LINE: usize = 1000;

/// Protocols of a table, in the order of its columns.
const PROTOCOLS: [Protocol; 3] = [Protocol::Ll, Protocol::Ll128, Protocol::Simple];

/// Reads what the hosts of a job answered.
pub fn read(hosts: &[HostAnswer]) -> Answer {
    let mut answer = Answer::default();
    for (number, host) in hosts.iter().enumerate() {
        let report = &host.report;
        if answer.refusal.is_none() {
            answer.refusal.clone_from(&report.refusal);
        }
        let mut reader = Reader {
            answer: &mut answer,
            is_first_host: number == 0,
            algorithms: Vec::new(),
        };
        for line in &host.log {
            reader.line(line);
        }
    }
    if let Some(first) = hosts.first() {
        read_report(&first.report, &mut answer);
    }
    let ranks = u64::from(answer.ranks.unwrap_or(1));
    let choices = std::mem::take(&mut answer.choices).into_iter();
    let choices = choices.map(|((collective, bytes), taken)| {
        let pieces = match collective {
            Collective::AllGather | Collective::ReduceScatter => ranks,
            _ => 1,
        };
        ((collective, bytes.saturating_mul(pieces)), taken)
    });
    answer.choices = choices.collect();
    answer
}

fn read_report(report: &Report, answer: &mut Answer) {
    answer.version = report.version;
    answer.topology.clone_from(&report.topology);
    answer.graphs.clone_from(&report.graphs);
    answer.nvlink_domains = report.nvlink_domains;
    for failure in &report.failures {
        let name = collective(failure.collective).map_or("a collective", Collective::name);
        let bytes = failure.bytes;
        let said = format!("{name} of {bytes} bytes: {}", failure.error);
        answer.failures.push(said);
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
        let times = Times {
            operations: u32::try_from(call.operations).unwrap_or(1),
            of: times.filter(|(_, time)| *time >= 0.0).collect(),
        };
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
    is_first_host: bool,
    /// The algorithms of the table's columns.
    algorithms: Vec<Option<Algorithm>>,
}

impl Reader<'_> {
    fn line(&mut self, line: &str) {
        if let Some((_, warning)) = line.split_once(" NCCL WARN ") {
            let warnings = &mut self.answer.warnings;
            let known = warnings.iter().any(|known| known == warning);
            if !known && warnings.len() < MOST_WARNINGS {
                warnings.push(warning.to_owned());
            }
            return;
        }
        let Some((head, text)) = line.split_once(" NCCL INFO ") else {
            return;
        };
        let gpu = head.rsplit_once('[').and_then(|(_, rest)| number(rest));
        let is_rank_0 = self.is_first_host && gpu == Some(0);
        let text = text.trim();
        // What all ranks say alike is read from rank 0.
        if is_rank_0 {
            self.common(text);
            self.table(text);
            self.choice(text);
        }
        if let Some(rest) = text.strip_prefix("Channel ") {
            self.channel(rest);
        } else if let Some(rest) = text.strip_prefix("Trees ") {
            self.trees(rest);
        } else if let Some(rest) = text.strip_prefix("NVLS Head ") {
            self.head(rest);
        } else if let Some(rest) = text.strip_prefix("NVLS Trees : ") {
            self.nvls_trees(rest);
        }
    }

    fn common(&mut self, text: &str) {
        if let Some(rest) = text.strip_prefix("comm ")
            && let Some(nodes) = after(rest, "nNodes ")
        {
            self.answer.nodes = Some(nodes);
            self.answer.ranks = after(rest, "nRanks ");
        } else if let Some(rest) = text.strip_prefix("NVLS tuning: ") {
            let numbers = ["nChannels ", "chunkSize ", "treeMaxChunkSize "];
            if let [Some(channels), Some(chunk), Some(tree)] =
                numbers.map(|name| after::<i64>(rest, name))
            {
                self.answer.nvls = Some([channels, chunk, tree]);
            }
        } else if let Some(rest) = text.strip_prefix("P2P Chunksize set to ") {
            self.answer.p2p_chunk = number(rest);
        } else if text.contains(" coll channels, ") {
            let mut numbers = text.split(", ").map(number::<u32>);
            let mut next = || numbers.next().flatten();
            if let [Some(collectives), _, Some(nvls), Some(p2p), Some(per_peer)] =
                [next(), next(), next(), next(), next()]
            {
                self.answer.channels = Some(ChannelCounts {
                    collectives,
                    nvls,
                    p2p,
                    per_peer,
                });
            }
        }
    }

    /// `Algorithm | Ring | …`, and for each collective `AllReduce | latency/ bandwidth | …`.
    fn table(&mut self, text: &str) {
        let mut cells = text.split('|').map(str::trim);
        let Some(name) = cells.next() else {
            return;
        };
        if name == "Algorithm" {
            let names = cells.filter(|cell| !cell.is_empty());
            self.algorithms = names.map(algorithm).collect();
            return;
        }
        let Ok(collective) = Collective::from_str(name) else {
            return;
        };
        for (at, cell) in cells.enumerate() {
            let (Some(Some(algorithm)), Some((latency, bandwidth))) = (
                self.algorithms.get(at / PROTOCOLS.len()),
                cell.split_once('/'),
            ) else {
                continue;
            };
            let numbers = (latency.trim().parse(), bandwidth.trim().parse());
            if let (Ok(latency), Ok(bandwidth)) = numbers {
                let entry = (collective, *algorithm, PROTOCOLS[at % PROTOCOLS.len()]);
                self.answer.model.insert(entry, [latency, bandwidth]);
            }
        }
    }

    /// `AllReduce: 1024 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..0}`. The bytes of a
    /// collective that gathers or scatters are those of one rank.
    fn choice(&mut self, text: &str) {
        let Some((name, rest)) = text.split_once(": ") else {
            return;
        };
        let (Ok(collective), Some(bytes)) = (Collective::from_str(name), number::<u64>(rest))
        else {
            return;
        };
        let mut words = rest.split_whitespace();
        let algorithm = words.by_ref().skip_while(|word| *word != "Algo").nth(1);
        let protocol = words.skip_while(|word| *word != "proto").nth(1);
        let (Some(algorithm), Some(Ok(protocol))) = (
            algorithm.and_then(self::algorithm),
            protocol.map(Protocol::from_str),
        ) else {
            return;
        };
        let taken = (algorithm, protocol);
        self.answer.choices.insert((collective, bytes), taken);
    }

    /// `00/24 : 0 1 2 …` is a ring; `00/0 : 1[1] -> 9[1] [send] via NET/…` a connection.
    fn channel(&mut self, text: &str) {
        let Some((numbers, rest)) = text.split_once(" : ") else {
            return;
        };
        let Some(channel) = number::<u32>(numbers) else {
            return;
        };
        let Some((ends, how)) = rest.split_once(" via ") else {
            let ranks = rest.split_whitespace().map(str::parse);
            if let Ok(ranks) = ranks.collect::<Result<Vec<u32>, _>>() {
                self.answer.rings.insert(channel, ranks);
            }
            return;
        };
        // The second number is 0 for rings and trees, and left out for shared memory.
        let is_first = numbers.split_once('/').is_none_or(|(_, it)| it == "0");
        let ends = ends.split_once(" -> ");
        let ends = ends.and_then(|(from, to)| Some((number(from)?, number(to)?, to)));
        let Some((from, to, rest)) = ends.filter(|_| is_first) else {
            return;
        };
        let connected = self
            .answer
            .connections
            .entry((channel, from, to))
            .or_default();
        connect(connected, how, rest.contains("[send]"), [from, to]);
    }

    /// `[0] 1/-1/-1->0->-1 [1] …`: below, the rank, above. A rank's line names itself.
    fn trees(&mut self, text: &str) {
        // The last one of a long line may lack digits.
        let cut = text.len() >= LONG_LINE;
        let text = match text.rfind('[') {
            Some(last) if cut => &text[..last],
            _ => text,
        };
        self.answer.trees_cut |= cut;
        let mut words = text.split_whitespace();
        while let Some(word) = words.next() {
            let channel = word.strip_prefix('[').and_then(number::<u32>);
            match (channel, words.next().and_then(tree)) {
                (Some(channel), Some((rank, neighbors))) => {
                    self.answer.trees.insert((channel, rank), neighbors);
                }
                _ => self.answer.trees_cut = true,
            }
        }
    }

    /// `0:  0  8`: a head, and its rank in each node.
    fn head(&mut self, text: &str) {
        if let Some((head, ranks)) = text.split_once(':')
            && let Ok(head) = head.trim().parse()
        {
            let ranks = ranks.split_whitespace().map_while(|it| it.parse().ok());
            self.answer.nvls_heads.insert(head, ranks.collect());
        }
    }

    fn nvls_trees(&mut self, text: &str) {
        let mut trees = text.split_whitespace().map(tree);
        if let (Some(Some((rank, first))), Some(Some((_, second)))) = (trees.next(), trees.next()) {
            self.answer.nvls_trees.insert(rank, [first, second]);
        }
    }
}

/// Reads how two ranks are connected: `P2P/direct pointer/read`, `P2P/indirect/2[2]`,
/// `SHM/direct/direct`, `NET/plug-in/1(3)/GDRDMA`.
fn connect(connected: &mut Connected, how: &str, sends: bool, [from, to]: [u32; 2]) {
    let mut parts = how.split('/');
    match parts.next() {
        Some("P2P") => {
            let via = match parts.next() {
                Some("indirect") => parts.next().and_then(number),
                _ => None,
            };
            let read = how.ends_with("/read");
            connected.local = Some(Local::Direct { via, read });
        }
        Some("SHM") => connected.local = Some(Local::SharedMemory),
        Some("NET") => {
            let Some(place) = parts.nth(1) else {
                return;
            };
            let proxy = place.split_once('(').and_then(|(_, proxy)| number(proxy));
            let port = Port {
                device: number(place).unwrap_or(-1),
                proxy: proxy.unwrap_or(if sends { from } else { to }),
                gdr: how.contains("/GDRDMA"),
            };
            match sends {
                true => connected.sender = Some(port),
                false => connected.receiver = Some(port),
            }
        }
        _ => {}
    }
}

/// `1/-1/-1->0->-1`: below, the rank, above.
fn tree(text: &str) -> Option<(u32, Neighbors)> {
    let mut parts = text.split("->");
    let (down, rank, up) = (parts.next()?, parts.next()?, parts.next()?);
    let neighbor = |text: &str| Some(u32::try_from(text.parse::<i32>().ok()?).ok());
    let mut slots = down.split('/').map(neighbor);
    let mut slot = || slots.next().flatten();
    let neighbors = Neighbors {
        up: neighbor(up)?,
        down: [slot()?, slot()?, slot()?],
    };
    Some((rank.parse().ok()?, neighbors))
}

/// An algorithm by NCCL's names: `Ring`, `RING`, `NVLS_TREE`, `COLLNET_DIRECT`.
fn algorithm(name: &str) -> Option<Algorithm> {
    name.replace('_', "").parse().ok()
}

/// The number with which a text begins.
fn number<T: FromStr>(text: &str) -> Option<T> {
    let text = text.trim_start();
    let end = text
        .find(|it: char| !it.is_ascii_digit())
        .unwrap_or(text.len());
    text[..end].parse().ok()
}

/// The number after a name.
fn after<T: FromStr>(text: &str, name: &str) -> Option<T> {
    text.split_once(name).and_then(|(_, rest)| number(rest))
}
