//! Switches and cables between hosts, as a page.

use std::collections::BTreeMap;

use pages::numbers::{count, microseconds, or_dash};
use pages::{Page, Section, Table, row};
use simulator::fabric::Cables;
use simulator::fabric::host_list::short;

use super::{FabricReport, HostOrder, Network};

/// Most switches and missing links that are shown.
const SHOWN: usize = 32;

impl FabricReport {
    /// The page.
    pub fn page(&self) -> Page {
        let mut page = Page::new(&self.file);
        page.remark = count(self.hosts.len(), "host");
        let network = match &self.network {
            Network::Cables(cables) => {
                format!("{} without a switch", count(cables.count(), "cable"))
            }
            Network::Tree(tree, _) => match tree.switches.len() {
                1 => "1 switch".to_owned(),
                all => format!("{all} switches"),
            },
            Network::Leaves(leaf) => {
                format!("{} leaf switches", leaf.count(self.hosts.len() as u32))
            }
        };
        page.field("network", network);
        if let Some((one, other)) = &self.apart {
            page.field("apart", format!("no switch connects {one} and {other}"));
        }
        match &self.network {
            Network::Cables(cables) => self.connections(&mut page, cables),
            Network::Tree(..) | Network::Leaves(_) => {
                self.leaves(page.section("Leaf switches", ""));
                self.orders(page.section("Rank order", ""));
            }
        }
        page
    }

    fn leaves(&self, section: &mut Section) {
        let mut by_leaf: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        for (host, name) in self.hosts.iter().enumerate() {
            let leaf = match &self.network {
                Network::Tree(_, leaves) => leaves[host],
                Network::Leaves(leaf) => leaf.of_host(host as u32) as usize,
                Network::Cables(_) => 0,
            };
            by_leaf.entry(leaf).or_default().push(name.clone());
        }
        let mut table = Table::new(["switch", "below", ">hosts", "names"]);
        let all = by_leaf.len();
        for (leaf, names) in by_leaf.into_iter().take(SHOWN) {
            let (name, above) = match &self.network {
                Network::Tree(tree, _) => {
                    let switch = &tree.switches[leaf];
                    let above = switch.above.map(|at| tree.switches[at].name.clone());
                    (switch.name.clone(), above)
                }
                _ => (format!("leaf {leaf}"), Some("spine".to_owned())),
            };
            table.row(row![name, or_dash(above), names.len(), short(&names)]);
        }
        section.table(table);
        if all > SHOWN {
            section.faint(format!("{} more", all - SHOWN));
        }
    }

    fn orders(&self, section: &mut Section) {
        let mut headers = vec!["order", ">ring", ">trees"];
        headers.extend(self.simulated.as_ref().map(|_| ">µs"));
        headers.push("hosts");
        let mut table = Table::new(headers);
        let mut row = |name: &str, order: &HostOrder| {
            let mut cells = row![name, order.ring, order.trees];
            if self.simulated.is_some() {
                cells.push(or_dash(order.time_us.map(microseconds)));
            }
            cells.push(short(&order.hosts));
            table.row(cells);
        };
        row("given", &self.given);
        let best = self.best.as_ref();
        if let Some(best) = best.filter(|best| best.ring < self.given.ring) {
            row("best", best);
        }
        section.table(table).faint(
            "ring, trees: switches above the hosts' own that all links between hosts together pass",
        );
        if let Some(job) = &self.simulated {
            section.faint(format!("µs: simulated, {job}"));
        }
        match best {
            Some(best) if best.ring == self.given.ring => {
                section.faint("no order lets rings pass fewer switches")
            }
            _ => section.faint("start ranks in the best order").hint(
                ": --hostfile, then mpirun --hostfile, or SLURM_HOSTFILE with srun \
                 --distribution=arbitrary",
            ),
        };
    }

    fn connections(&self, page: &mut Page, cables: &Cables) {
        let given: Vec<u32> = (0..self.hosts.len() as u32).collect();
        let name = |host: u32| &self.hosts[host as usize];
        let words = |links: &[(u32, u32)]| {
            let shown = links.iter().take(SHOWN);
            let shown = shown.map(|(one, other)| format!("{}–{}", name(*one), name(*other)));
            shown.collect::<Vec<_>>().join(", ")
        };
        let ring = cables.missing_of_ring(&given);
        let trees = cables.missing_of_trees(&given);
        let section = page.section("Connections", "of the order that was given");
        match ring.is_empty() {
            true => section.item("rings: every link has a cable"),
            false => {
                section.item(format!("rings: no cable for {}", words(&ring)));
                section.item(match &self.best {
                    Some(best) => {
                        format!("start ranks in this order: {}", best.hosts.join(","))
                    }
                    None => {
                        "no order of these hosts is a ring of cables: add cables, or use fewer hosts"
                            .to_owned()
                    }
                })
            }
        };
        section.item(match trees.is_empty() {
            true => "trees: every link has a cable".to_owned(),
            false => format!("trees: no cable for {}", words(&trees)),
        });
        let section = page.section("Set", "");
        if !trees.is_empty() {
            section
                .item("NCCL_ALGO=Ring, so that neither trees nor PAT are used")
                .item(
                    "NCCL_RUNTIME_CONNECT=1 (the default since 2.22) and NCCL_CUMEM_ENABLE=1: NCCL connects trees \
                     when they are first used. Without CUDA's virtual memory (cuMem) it connects them at the \
                     beginning, and fails",
                )
                .item("no all-to-all and no send and receive between hosts without a cable");
        }
        section.item(
            "a subnet of its own for each cable and NCCL_IB_SUBNET_AWARE_ROUTING=1 (2.30.7 and later), so that each \
             connection takes the port whose cable reaches its neighbor",
        );
    }
}
