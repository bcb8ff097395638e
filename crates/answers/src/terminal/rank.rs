//! The part of one rank, on a page.

use crate::names::processors;
use plan::cost::doubling;
use plan::expand::{ChannelView, PeerLink};
use plan::{Expansion, NetEnd, Plan, PlannedMachine, RankView};
use program::Collective;

use pages::numbers::{count, gbps, group, ranges, short};
use pages::{Page, Table};

use super::connections::{both_directions, sentence};
use crate::head::{self, slow_hosts};
use crate::names::{gpu_name, net_name};

/// Sizes for which the choice is shown, bytes.
const SIZES: [u64; 2] = [1 << 10, 8 << 30];

/// Rounds of the point-to-point schedule that are shown.
const ROUNDS: usize = 8;

/// The page of one rank.
pub fn page(plan: &Plan, expansion: &Expansion, view: &RankView) -> Page {
    let machine = &plan.machines[view.machine as usize];
    let rank = RankPage {
        plan,
        expansion,
        view,
        machine,
    };
    let mut page = rank.head();
    let tables = [
        ("Rings", rank.rings()),
        ("Trees", rank.trees()),
        ("CollNet chains", rank.chains()),
    ];
    for (title, table) in tables {
        if let Some(table) = table {
            page.section(title, "").table(table);
        }
    }
    rank.collnet(&mut page);
    rank.nvls(&mut page);
    rank.p2p(&mut page);
    if let Some(table) = rank.choices() {
        page.section("Choice by size", "").table(table);
    }
    page
}

struct RankPage<'a> {
    plan: &'a Plan,
    expansion: &'a Expansion,
    view: &'a RankView,
    machine: &'a PlannedMachine,
}

impl RankPage<'_> {
    fn head(&self) -> Page {
        let (view, layout) = (self.view, self.expansion.layout());
        let mut page = Page::new(format!("Rank {} of {}", view.rank, layout.ranks()));
        let (name, summary) = (&self.machine.name, &self.machine.summary);
        page.field("machine", format!("{name}: {summary}"));
        page.field("nccl", head::version(&self.plan.profile));
        page.field(
            "host",
            format!(
                "host{}, {}; node {}, {}; local rank {}",
                view.host,
                one_of(layout.hosts()),
                view.node,
                one_of(layout.nodes()),
                view.local_rank
            ),
        );
        if let Some(gpu) = self.machine.gpus.get(view.gpu as usize) {
            let numa = gpu
                .numa
                .map_or(String::new(), |numa| format!(", NUMA node {numa}"));
            let near = gpu.cpu_affinity.as_deref().and_then(processors);
            let near = near.map_or(String::new(), |near| format!(", processors {near}"));
            let name = gpu_name(self.machine, view.gpu);
            let (bus_id, sm) = (&gpu.bus_id, gpu.sm);
            page.field("GPU", format!("{name} ({bus_id}), sm {sm}{numa}{near}"));
        }
        let nics: Vec<String> = view.p2p_ports.iter().map(|end| self.port(end)).collect();
        page.field(
            "NIC",
            match nics.is_empty() {
                true => "none".to_owned(),
                false => nics.join("; "),
            },
        );
        let channels = self.expansion.channels();
        page.field("channels", format!("{channels} for collectives"));
        page.fields.extend(slow_hosts::fields(self.plan));
        page
    }

    /// `NIC3 (mlx5_3), PIX 48 GB/s, GDR`.
    fn port(&self, end: &NetEnd) -> String {
        let nic = self.machine.nics.iter().find(|nic| nic.id == end.net);
        let name = nic
            .and_then(|nic| nic.name.as_ref())
            .map_or(String::new(), |name| format!(" ({name})"));
        format!(
            "{}{name}, {} {} GB/s, {}",
            net_name(self.machine, end.net),
            end.path_type,
            gbps(end.bw),
            end.gdr
        )
    }

    fn machine_of(&self, rank: u32) -> &PlannedMachine {
        let place = self.expansion.layout().rank(rank);
        let machine = place.and_then(|place| self.plan.machines.get(place.node.machine as usize));
        machine.unwrap_or(self.machine)
    }

    fn over(&self, link: &PeerLink) -> String {
        both_directions(
            link,
            self.view.rank,
            self.machine,
            self.machine_of(link.peer),
        )
    }

    /// Rows that are equal apart from the channel, once.
    fn by_channel(
        &self,
        headers: &[&str],
        row: impl Fn(&ChannelView) -> Option<Vec<String>>,
    ) -> Option<Table> {
        let channels = self.view.channels.iter();
        let rows = channels.filter_map(|channel| Some((row(channel)?, channel.channel as i32)));
        let rows = group(rows);
        if rows.is_empty() {
            return None;
        }
        let mut table = Table::new(headers.iter().copied());
        for (cells, numbers) in rows {
            table.row([vec![ranges(&numbers, " ")], cells].concat());
        }
        Some(table)
    }

    fn rings(&self) -> Option<Table> {
        self.by_channel(&["channels", "from", "over", "to", "over"], |channel| {
            let ring = channel.ring?;
            Some(vec![
                ring.previous.peer.to_string(),
                self.over(&ring.previous),
                ring.next.peer.to_string(),
                self.over(&ring.next),
            ])
        })
    }

    fn cells(&self, link: Option<&PeerLink>) -> [String; 2] {
        link.map_or([String::new(), String::new()], |link| {
            [link.peer.to_string(), self.over(link)]
        })
    }

    fn trees(&self) -> Option<Table> {
        // One row for each neighbor: three children beside each other would not fit.
        self.by_channel(&["channels", "up", "over", "down", "over"], |channel| {
            let tree = channel.tree;
            let [up, over] = self.cells(tree.up.as_ref());
            let below: Vec<[String; 2]> = tree
                .down
                .iter()
                .flatten()
                .map(|link| self.cells(Some(link)))
                .collect();
            if up.is_empty() && below.is_empty() {
                return None;
            }
            let join = |at: usize| {
                let mut texts: Vec<&str> = below.iter().map(|cells| cells[at].as_str()).collect();
                if at == 1 {
                    texts.dedup();
                }
                texts.join(if at == 1 { "; " } else { " " })
            };
            let up = if up.is_empty() { "root".to_owned() } else { up };
            Some(vec![up, over, join(0), join(1)])
        })
    }

    fn chains(&self) -> Option<Table> {
        self.by_channel(&["channels", "up", "over", "down", "over"], |channel| {
            let chain = channel.chain?;
            let [mut up, mut over] = self.cells(chain.up.as_ref());
            if let Some(end) = &chain.network {
                (up, over) = ("network".to_owned(), self.port(end));
            }
            let [down, below] = self.cells(chain.down.as_ref());
            Some(vec![up, over, down, below])
        })
    }

    fn collnet(&self, page: &mut Page) {
        let Some(collnet) = &self.view.collnet else {
            return;
        };
        let list = |ranks: &[u32]| {
            let ranks: Vec<i32> = ranks.iter().map(|rank| *rank as i32).collect();
            ranges(&ranks, " ")
        };
        let section = page.section("CollNet direct", "");
        section.field("heads", list(&collnet.place.heads));
        if let Some(head) = collnet.place.head {
            let port = collnet.network.as_ref().map(|end| self.port(end));
            let port = port.unwrap_or_default();
            section.field("network", format!("head {head}, {port}"));
        }
        for (name, links) in [("up", &collnet.up), ("down", &collnet.down)] {
            if !links.is_empty() {
                let peers: Vec<u32> = links.iter().map(|link| link.peer).collect();
                let mut all: Vec<String> = links.iter().map(|link| self.over(link)).collect();
                all.sort();
                all.dedup();
                section.field(name, format!("{}; {}", list(&peers), all.join("; ")));
            }
        }
    }

    fn nvls(&self, page: &mut Page) {
        let Some(nvls) = &self.view.nvls else {
            return;
        };
        let section = page.section("NVLS", "");
        let head = nvls.head.map_or_else(
            || "this rank is none".to_owned(),
            |head| format!("this rank is head {head}"),
        );
        section.field(
            "heads",
            format!(
                "{} per node, {head}; {}",
                nvls.heads,
                count(nvls.channels as usize, "channel")
            ),
        );
        for (name, tree) in ["even", "odd"].into_iter().zip(&nvls.trees) {
            let up = tree.up.as_ref().map_or_else(
                || "root".to_owned(),
                |link| format!("up {} over {}", link.peer, self.over(link)),
            );
            let down = tree
                .down
                .iter()
                .flatten()
                .map(|link| format!("; down {} over {}", link.peer, self.over(link)));
            section.field(name, format!("{up}{}", down.collect::<String>()));
        }
    }

    fn p2p(&self, page: &mut Page) {
        let rank = self.view.rank;
        let layout = self.expansion.layout();
        if layout.ranks() < 2 {
            return;
        }
        // In the first round a rank meets itself.
        let rounds = self
            .expansion
            .schedule(rank)
            .enumerate()
            .skip(1)
            .take(ROUNDS);
        let mut table = Table::new(["round", "sends to", "over", "receives from"]);
        for (index, round) in rounds {
            let channel = self.expansion.peer_channel(index as u32, 0);
            let over = match self.expansion.p2p_connection(rank, round.send, channel) {
                Ok(connection) => sentence(
                    &connection,
                    (rank, self.machine),
                    self.machine_of(round.send),
                ),
                Err(error) => error.to_string(),
            };
            table.row(vec![
                index.to_string(),
                round.send.to_string(),
                over,
                round.receive.to_string(),
            ]);
        }
        let section = page.section("Point to point", "").table(table);
        let more = (layout.ranks() as usize - 1).saturating_sub(ROUNDS);
        if more > 0 {
            section.faint(format!("and {}", count(more, "more round")));
        }
    }

    fn choices(&self) -> Option<Table> {
        let costs = self.plan.costs.as_ref()?;
        let mut table = Table::new(["collective", "sizes", "algorithm", "protocol"]);
        for collective in Collective::TUNED {
            for range in costs.sweep(collective, doubling(SIZES[0], SIZES[1])) {
                let sizes = if range.from_bytes == range.to_bytes {
                    short(range.from_bytes)
                } else {
                    format!("{}–{}", short(range.from_bytes), short(range.to_bytes))
                };
                let (algorithm, protocol) = range.choice.map_or_else(
                    || ("none".to_owned(), String::new()),
                    |(algorithm, protocol)| (algorithm.to_string(), protocol.to_string()),
                );
                table.row(vec![collective.to_string(), sizes, algorithm, protocol]);
            }
        }
        Some(table)
    }
}

/// A number of hosts or nodes, beside the number of one of them.
fn one_of(count: u32) -> String {
    match count {
        1 => "the only one".to_owned(),
        _ => format!("one of {count}"),
    }
}
