//! Switches by name, and the order of hosts that crosses them least.

use std::collections::{BTreeMap, BTreeSet};

use super::forms::{Entry, Form, Names};
use super::host_list;

/// Most switches of a file.
const MOST_SWITCHES: usize = 1 << 16;

/// Most levels of switches.
const MOST_LEVELS: usize = 16;

/// Why a file is no tree of switches.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SwitchError {
    /// A line cannot be read.
    #[error("{file}:{line}: {what}")]
    Line {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// The fault, and the expectation.
        what: String,
    },
    /// The switches do not form trees.
    #[error("{file}: {what}")]
    Tree {
        /// The file.
        file: String,
        /// The fault.
        what: String,
    },
}

/// A switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Switch {
    /// Its name.
    pub name: String,
    /// The switch above, if it has one.
    pub above: Option<usize>,
    /// The hosts that are connected to it.
    pub hosts: Vec<String>,
}

/// Switches over hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwitchTree {
    /// The switches, in the order of the file.
    pub switches: Vec<Switch>,
    /// The switch of each host.
    leaf_of: BTreeMap<String, usize>,
}

impl SwitchTree {
    /// Whether a text has switches: Slurm's `topology.conf` or `topology.yaml`, or what
    /// `ibnetdiscover` prints.
    pub fn is_one(text: &str) -> bool {
        Form::of(text).is_some()
    }

    /// Reads such a text; `file` is its name for messages. Blocks of Slurm are joined by the
    /// network.
    ///
    /// # Errors
    /// What is wrong, with the line.
    pub fn read(file: &str, text: &str) -> Result<Self, SwitchError> {
        let wrong = |(line, what): (usize, String)| match line {
            0 => SwitchError::Tree {
                file: file.to_owned(),
                what,
            },
            _ => SwitchError::Line {
                file: file.to_owned(),
                line,
                what,
            },
        };
        let mut tree = Self {
            switches: Vec::new(),
            leaf_of: BTreeMap::new(),
        };
        let mut below: Vec<(usize, usize, String)> = Vec::new();
        for entry in Form::of(text)
            .unwrap_or(Form::Conf)
            .read(text)
            .map_err(wrong)?
        {
            let line = entry.line;
            tree.add(entry, &mut below)
                .map_err(|what| wrong((line, what)))?;
        }
        tree.join(file, &below)?;
        Ok(tree)
    }

    /// Adds a switch.
    fn add(&mut self, entry: Entry, below: &mut Vec<(usize, usize, String)>) -> Result<(), String> {
        let Entry {
            line,
            name,
            hosts,
            switches,
        } = entry;
        let (hosts, switches) = (each(hosts)?, each(switches)?);
        let at = self.switches.len();
        let names = self.leaf_of.len() + below.len() + hosts.len() + switches.len();
        if at >= MOST_SWITCHES || names > host_list::MOST_NAMES {
            return Err(format!(
                "too many switches or hosts; expected at most {MOST_SWITCHES} and {}",
                host_list::MOST_NAMES
            ));
        }
        for host in &hosts {
            if let Some(other) = self.leaf_of.insert(host.clone(), at) {
                let other = &self.switches.get(other).map_or(&name, |it| &it.name);
                return Err(format!(
                    "{host} is below {other} and {name}; expected one switch"
                ));
            }
        }
        below.extend(switches.into_iter().map(|it| (at, line, it)));
        self.switches.push(Switch {
            name,
            above: None,
            hosts,
        });
        Ok(())
    }

    /// Connects switches with those below them.
    fn join(&mut self, file: &str, below: &[(usize, usize, String)]) -> Result<(), SwitchError> {
        let named = self.switches.iter().enumerate();
        let by_name: BTreeMap<String, usize> =
            named.map(|(at, it)| (it.name.clone(), at)).collect();
        let tree = |what: String| SwitchError::Tree {
            file: file.to_owned(),
            what,
        };
        if by_name.len() < self.switches.len() {
            let mut seen = BTreeSet::new();
            let twice = self.switches.iter().find(|it| !seen.insert(&it.name));
            let name = twice.map_or("", |it| &it.name);
            return Err(tree(format!(
                "switch {name} is there twice; expected each once"
            )));
        }
        for (above, line, name) in below {
            let wrong = |what: String| SwitchError::Line {
                file: file.to_owned(),
                line: *line,
                what,
            };
            let Some(at) = by_name.get(name) else {
                return Err(wrong(format!(
                    "there is no switch {name}; expected a line SwitchName={name}"
                )));
            };
            if let Some(other) = self.switches[*at].above {
                let other = &self.switches[other].name;
                return Err(wrong(format!(
                    "{name} is below {other} already; expected a tree"
                )));
            }
            self.switches[*at].above = Some(*above);
        }
        if let Some(switch) = (0..self.switches.len()).find(|at| self.chain(*at).is_none()) {
            let name = &self.switches[switch].name;
            return Err(tree(format!(
                "switch {name} is below itself, or below more than {MOST_LEVELS} switches; expected a tree"
            )));
        }
        match self.leaf_of.is_empty() {
            true => Err(tree("no switch has a host; expected Nodes=".to_owned())),
            false => Ok(()),
        }
    }

    /// A switch and those above it, the lowest first; `None` if there are too many.
    fn chain(&self, switch: usize) -> Option<Vec<usize>> {
        let all = std::iter::successors(Some(switch), |at| self.switches.get(*at)?.above);
        let chain: Vec<usize> = all.take(MOST_LEVELS + 1).collect();
        (chain.len() <= MOST_LEVELS).then_some(chain)
    }

    /// All hosts, in the order of the file.
    pub fn hosts(&self) -> Vec<String> {
        self.switches
            .iter()
            .flat_map(|it| it.hosts.iter().cloned())
            .collect()
    }

    /// The switch of a host.
    pub fn leaf_of(&self, host: &str) -> Option<usize> {
        self.leaf_of.get(host).copied()
    }

    /// The switches that a message passes beside the hosts' own; `None` without a way.
    pub fn crossed(&self, one: usize, other: usize) -> Option<usize> {
        let (one, other) = (self.chain(one)?, self.chain(other)?);
        let common = one.iter().position(|at| other.contains(at))?;
        Some(common)
    }

    /// Switches of hosts as the numbers of leaf switches, in the order in which they occur.
    pub fn leaf_numbers(leaves: &[usize]) -> Vec<u32> {
        let mut numbers = BTreeMap::new();
        let number = |leaf: &usize| {
            let next = numbers.len() as u32;
            *numbers.entry(*leaf).or_insert(next)
        };
        leaves.iter().map(number).collect()
    }

    /// The numbers of hosts in the order that keeps each switch's hosts together: no ring crosses
    /// switches less often, because it must enter and leave each of them.
    pub fn best_order(&self, leaves: &[usize]) -> Vec<usize> {
        let mut order: Vec<(Vec<usize>, usize)> = leaves
            .iter()
            .enumerate()
            .map(|(host, leaf)| {
                let mut chain = self.chain(*leaf).unwrap_or_default();
                chain.reverse();
                (chain, host)
            })
            .collect();
        // Switches in the order of their first host, so that an order that is good stays.
        let mut first: BTreeMap<usize, usize> = BTreeMap::new();
        for (chain, host) in &order {
            for switch in chain {
                first.entry(*switch).or_insert(*host);
            }
        }
        let key = |chain: &[usize]| -> Vec<(usize, usize)> {
            chain
                .iter()
                .map(|it| (first.get(it).copied().unwrap_or(0), *it))
                .collect()
        };
        order.sort_by_cached_key(|(chain, host)| (key(chain), *host));
        order.into_iter().map(|(_, host)| host).collect()
    }
}

/// The names of a list.
fn each(names: Names) -> Result<Vec<String>, String> {
    match names {
        Names::Listed(list) => host_list::names(&list),
        Names::Each(names) => Ok(names),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONF: &str = "\
# made by topograph
SwitchName=core Switches=s[1-2]
SwitchName=s1 Nodes=n[1-2,5]
SwitchName=s2 Nodes=n[3-4,6] LinkSpeed=100
";

    #[test]
    fn orders_keep_switches_together() {
        let tree = SwitchTree::read("t", CONF).unwrap();
        assert!(SwitchTree::is_one(CONF) && !SwitchTree::is_one("[leaf]\n"));
        let hosts: Vec<String> = (1..=6).map(|it| format!("n{it}")).collect();
        let leaves: Vec<usize> = hosts.iter().map(|it| tree.leaf_of(it).unwrap()).collect();
        assert_eq!(leaves, [1, 1, 2, 2, 1, 2]);
        assert_eq!(tree.best_order(&leaves), [0, 1, 4, 2, 3, 5]);
        assert_eq!(tree.crossed(1, 2), Some(1));
        assert_eq!(tree.crossed(1, 1), Some(0));
    }

    #[test]
    fn no_order_of_few_hosts_crosses_less() {
        let tree = SwitchTree::read("t", CONF).unwrap();
        let crossings = |leaves: &[usize]| {
            let next = leaves.iter().cycle().skip(1);
            let pairs = leaves.iter().zip(next);
            pairs
                .filter_map(|(one, other)| tree.crossed(*one, *other))
                .sum::<usize>()
        };
        let leaves = [1, 2, 1, 2, 2, 1];
        let best: Vec<usize> = tree
            .best_order(&leaves)
            .iter()
            .map(|at| leaves[*at])
            .collect();
        let mut least = usize::MAX;
        permute(&mut leaves.to_vec(), 0, &mut |order| {
            least = least.min(crossings(order))
        });
        assert_eq!(crossings(&best), least);
    }

    fn permute(order: &mut Vec<usize>, from: usize, each: &mut dyn FnMut(&[usize])) {
        if from == order.len() {
            each(order);
            return;
        }
        for at in from..order.len() {
            order.swap(from, at);
            permute(order, from + 1, each);
            order.swap(from, at);
        }
    }

    #[test]
    fn other_forms_are_read() {
        let crossed = |text: &str, pairs: [(&str, &str); 2]| {
            assert!(SwitchTree::is_one(text), "{text}");
            let tree = SwitchTree::read("t", text).unwrap();
            pairs.map(|(one, other)| {
                let leaf = |it: &str| tree.leaf_of(it).unwrap();
                tree.crossed(leaf(one), leaf(other))
            })
        };
        let blocks = "BlockName=b1 Nodes=n[1-2]\nBlockName=b2 Nodes=n[3-4]\nBlockSizes=2\n";
        let yaml = "- topology: other\n  cluster_default: false\n  tree:\n    switches:\n      - switch: s1\n\
            \x20       nodes: x[1-9]\n- topology: own\n  cluster_default: true\n  block:\n    block_sizes:\n      - 2\n\
            \x20   blocks:\n      - block: b1\n        nodes: n[1-2]\n      - block: b2\n        nodes: n[3-4]\n";
        let printed = "vendid=0x2c9\nSwitch\t65 \"S-1\"\t# \"MF0;leaf1:Q/U1\" base\n\
            [1]\t\"H-1\"[1](1) \t# \"n1 mlx5_0\" lid 11\n[2]\t\"H-2\"[1](2) \t# \"n2 mlx5_0\" lid 12\n\
            [3]\t\"H-3\"[1](3) \t# \"n3 mlx5_1\" lid 13\n[41]\t\"H-9\"[1](9)\t# \"Mellanox Technologies Aggregation Node\"\n\
            Switch\t65 \"S-2\"\t# \"MF0;leaf2:Q/U1\" base\n[1]\t\"H-3\"[1](3) \t# \"n3 mlx5_0\" lid 13\n\
            [2]\t\"H-4\"[1](4) \t# \"n4 mlx5_0\" lid 14\n[33]\t\"S-9\"[1]\t# \"MF0;spine:Q/U1\" lid 9\n";
        let pairs = "CA 1 1 0x1 4x EDR - SW 9 1 0x9 ( 'n1 HCA-1' - 'leaf1' )\n\
            CA 2 1 0x2 4x EDR - SW 9 2 0x9 ( 'n2 HCA-1' - 'leaf1' )\nSW 9 9 0x9 4x ??? 'leaf1'\n\
            CA 3 1 0x3 4x EDR - SW 8 1 0x8 ( 'n3 HCA-1' - 'leaf2' )\nSW 9 3 0x9 4x EDR - SW 7 1 0x7 ( 'leaf1' - 'top' )\n";
        for text in [blocks, yaml] {
            assert_eq!(
                crossed(text, [("n1", "n2"), ("n2", "n3")]),
                [Some(0), Some(1)],
                "{text}"
            );
        }
        for text in [printed, pairs] {
            assert_eq!(
                crossed(text, [("n1", "n2"), ("n2", "n3")]),
                [Some(0), Some(2)],
                "{text}"
            );
        }
        // Switches and adapters that are called by their products are told apart by guids.
        let alike = "SW 9 1 0x9 4x EDR - CA 1 1 0x1 ( 'Quantum' - 'MT4123 ConnectX6' )\nSW 8 1 0x8 4x EDR - CA 2 1 0x2 ( 'Quantum' - 'MT4123 ConnectX6' )\n";
        assert_eq!(
            crossed(alike, [("0x1", "0x1"), ("0x1", "0x2")]),
            [Some(0), Some(1)]
        );
        let begun = "---\n- topology: a\n  cluster_default: True\n  tree:\n    switches:\n      - nodes: n1\n        switch: s\n- topology: b\n";
        let error = SwitchTree::read("t", begun).unwrap_err().to_string();
        assert!(error.contains("t:6: `nodes` begins an item"), "{error}");
        let two = "- topology: a\n  tree:\n- topology: b\n";
        let error = SwitchTree::read("t", two).unwrap_err().to_string();
        assert_eq!(
            error,
            "t: none of the topologies a, b is the cluster's; expected `cluster_default: true` at one"
        );
    }

    #[test]
    fn mistakes_are_named() {
        let message = |text: &str| SwitchTree::read("t", text).unwrap_err().to_string();
        assert_eq!(
            message("SwitchName=a Switches=b\n"),
            "t:1: there is no switch b; expected a line SwitchName=b"
        );
        assert_eq!(
            message("SwitchName=a Nodes=n1\nSwitchName=b Nodes=n1\n"),
            "t:2: n1 is below a and b; expected one switch"
        );
        assert!(message("SwitchName=a Switches=a\n").contains("below itself"));
        assert!(message("SwitchName=a Nods=a\n").contains("`Nods`"));
        assert!(message("").contains("no switch has a host"));
    }
}
