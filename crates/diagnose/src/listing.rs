//! Listings of a machine: `nvidia-smi`, `lspci`, `ibstat` and others.

mod bandwidths;
mod notes;
mod ports;

use std::collections::BTreeMap;

use findings::Rule;
use findings::causes::Certainty::{Likely, Possible};
use findings::causes::table::{gpu, network, nvlink, pcie};
use findings::causes::{Cause, Certainty};
use records::adapter::Adapter;
use records::condition::Condition;
use records::links::Links;
use records::matrix::{Matrix, Nearness};
use records::pci::Function;
use records::peers::Peers;
use records::{Bandwidths, Listings, Machine};

use crate::verdict::{Line, Missing};
pub(crate) use notes::notes;
use ports::without_cable;

/// The rules of `topo doctor` whose findings are in the listing itself. Those of others depend on
/// what is assumed where a listing says nothing.
const SHOWN: [Rule; 5] = [
    Rule::Width,
    Rule::Speed,
    Rule::AccessControl,
    Rule::Iommu,
    Rule::Flat,
];

/// Bytes at the beginning of a text in which its first listing has begun.
const BEGINNING: usize = 64 << 10;

/// Most machines whose listings are joined, and most cells of their matrices together.
const MOST_PLACES: usize = 1 << 12;
const MOST_CELLS: usize = 1 << 21;

/// Most pairs of GPUs that are named.
const MOST_PAIRS: usize = 8;

/// A cause that a listing shows. None is known to slow or stop the job.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) cause: &'static Cause,
    pub(crate) certainty: Certainty,
    pub(crate) devices: Vec<String>,
    pub(crate) text: String,
}

impl Shown {
    pub(crate) fn new(
        cause: &'static Cause,
        certainty: Certainty,
        devices: Vec<String>,
        text: &str,
    ) -> Self {
        let text = match devices.is_empty() {
            true => text.to_owned(),
            false => format!("{}: {text}", devices.join(", ")),
        };
        Self {
            cause,
            certainty,
            devices,
            text,
        }
    }
}

/// Whether a text begins with a listing.
pub(crate) fn is_listing(first: &[u8]) -> bool {
    let first = &first[..first.len().min(BEGINNING)];
    Listings::are_in(first)
}

/// Whether listings have adapters of Amazon's.
pub(crate) fn has_efa(facts: &Listings) -> bool {
    let pci = facts.pci.iter();
    let mut names = pci.map(|it| &it.name);
    let mut ports = facts.adapters.iter().map(|it| &it.name);
    names.any(|it| it.contains("Elastic Fabric Adapter"))
        || ports.any(|it| it.starts_with("rdmap") || it.starts_with("efa_"))
}

/// The causes that the listings of one input show.
pub(crate) fn shown(name: &str, facts: &Listings) -> Vec<Shown> {
    let machine = Machine::of(name, facts);
    let findings = machine.map_or_else(|_| Vec::new(), |it| it.findings());
    // Whether switches are hidden shows where NICs and GPUs are beside each other.
    let mut devices = facts.matrix.iter().flat_map(|it| &it.devices);
    let has_nics = devices.any(|it| it.gpu.is_none());
    let counts = |rule: Rule| SHOWN.contains(&rule) && (rule != Rule::Flat || has_nics);
    let findings = findings.iter().filter(|it| counts(it.rule));
    let mut shown: Vec<Shown> = findings
        .filter_map(|it| {
            Some(Shown {
                cause: it.rule.cause()?,
                certainty: Possible,
                devices: Vec::new(),
                text: format!("{}: {}, expected {}", it.device(), it.seen, it.expected),
            })
        })
        .collect();
    // Ports are known also where no listing names the GPUs.
    shown.extend(ports::ports(&facts.adapters));
    shown.extend(ports::outputs(&facts.outputs));
    shown.extend(facts.adapters.iter().filter_map(small_packets));
    shown.extend(split_switches(&facts.pci));
    shown.extend(facts.matrix.as_ref().and_then(apart));
    shown.extend(facts.conditions.iter().flat_map(condition));
    shown.extend(links(&facts.links));
    shown
}

/// What `nvidia-smi -q` says of a GPU.
fn condition(it: &Condition) -> Vec<Shown> {
    let mut shown = Vec::new();
    let mut add = |cause: &'static Cause, certainty, text: &str| {
        let device = match it.name.as_str() {
            "" => format!("GPU {}", it.bus_id),
            name => format!("GPU {} ({name})", it.bus_id),
        };
        shown.push(Shown::new(cause, certainty, vec![device], text));
    };
    if let (Some(now), Some(most)) = (it.width, it.most_width)
        && now < most
    {
        add(
            &pcie::LINK_NARROW,
            Possible,
            &format!("x{now}, expected x{most}"),
        );
    }
    if it.has_remap_failed {
        add(
            &gpu::REMAP,
            Likely,
            "rows of memory cannot be remapped any more",
        );
    } else if it.is_remap_pending {
        add(
            &gpu::REMAP,
            Possible,
            "rows of memory wait for a reset to be remapped",
        );
    } else if it.errors > 0 {
        add(
            &gpu::REMAP,
            Possible,
            &format!("{} uncorrectable errors of memory", it.errors),
        );
    }
    if !it.slowed.is_empty() {
        let text = format!("clocks lowered by {}", it.slowed.join(", "));
        add(&gpu::THROTTLED, Possible, &text);
    }
    if let Some(state) = &it.fabric {
        add(
            &nvlink::FABRIC_NOT_READY,
            Likely,
            &format!("fabric: {state}"),
        );
    }
    if it.is_fabric_degraded {
        add(
            &nvlink::HEALTH_MASK,
            Possible,
            "the fabric's bandwidth is degraded",
        );
    }
    if it.is_partitioned {
        add(&gpu::MIG, Possible, "MIG is enabled");
    }
    if let Some(action) = &it.recovery {
        let text = format!("the driver asks for: {action}");
        add(&gpu::REMAP, Possible, &text);
    }
    shown
}

/// GPUs with fewer NVLinks up than others of their name. Links that are down on all are of boards
/// without a bridge there.
fn links(all: &[Links]) -> Vec<Shown> {
    let lacking = all.iter().filter_map(|it| {
        let alike = all.iter().filter(|other| other.name == it.name);
        let most = alike.clone().map(|it| it.up.count_ones()).max()?;
        let missing = alike.fold(0, |up, other| up | other.up) & it.down & !it.up;
        let up = it.up.count_ones();
        let device = vec![format!("GPU {}", it.gpu)];
        if up < most && missing != 0 {
            let numbers: Vec<u32> = (0..64).filter(|link| missing >> link & 1 == 1).collect();
            let text = format!(
                "{up} NVLinks up, others have {most}; down: {}",
                crate::verdict::ranges(&numbers)
            );
            return Some(Shown::new(&nvlink::LINKS_MISSING, Likely, device, &text));
        }
        let (slowest, fastest) = it.slowest.zip(it.fastest)?;
        (slowest < 0.9 * fastest).then(|| {
            let text = format!("an NVLink at {slowest} GB/s, others at {fastest} GB/s");
            Shown::new(&nvlink::LINKS_MISSING, Possible, device, &text)
        })
    });
    lacking.collect()
}

/// A port that is up and moves packets of 1 KiB or less, though it could move much larger ones.
fn small_packets(adapter: &Adapter) -> Option<Shown> {
    let (now, most) = adapter.mtu.zip(adapter.most_mtu)?;
    let is_small = adapter.is_active != Some(false) && now <= 1024 && most >= 4096;
    is_small.then(|| {
        let text = format!("active_mtu {now}, max_mtu {most}");
        Shown::new(&network::MTU, Possible, vec![adapter.name.clone()], &text)
    })
}

/// Chips with several ports towards the host.
fn split_switches(functions: &[Function]) -> Vec<Shown> {
    let mut chips: BTreeMap<(&str, &str), Vec<&Function>> = BTreeMap::new();
    for it in functions.iter().filter(|it| it.is_upstream) {
        if let Some(serial) = &it.serial {
            chips.entry((serial, &it.name)).or_default().push(it);
        }
    }
    let split = chips.into_iter().filter_map(|((serial, _), mut ports)| {
        // Functions of one device are one port.
        ports.dedup_by_key(|it| it.bus);
        let ids = ports.iter().take(MOST_PAIRS).map(|it| it.bus_id());
        let text = format!("upstream ports of one chip, serial number {serial}");
        let is_split = ports.len() > 1;
        is_split.then(|| Shown::new(&pcie::SPLIT_SWITCH, Possible, ids.collect(), &text))
    });
    split.collect()
}

/// GPUs whose path to each NIC crosses the link between sockets.
fn apart(matrix: &Matrix) -> Option<Shown> {
    let is_apart = |row: &[Nearness]| {
        let mut nics = matrix
            .devices
            .iter()
            .zip(row)
            .filter(|it| it.0.gpu.is_none());
        nics.clone().next().is_some() && nics.all(|it| *it.1 == Nearness::Sys)
    };
    let gpus = matrix.devices.iter().zip(&matrix.nearness);
    let apart = gpus.filter(|(device, row)| device.gpu.is_some() && is_apart(row));
    let apart: Vec<String> = apart.map(|it| it.0.name.clone()).collect();
    (!apart.is_empty())
        .then(|| Shown::new(&network::NO_NEAR_NIC, Possible, apart, "SYS to each NIC"))
}

/// Matrices of one machine, each with its input.
#[derive(Debug, Default)]
struct Place {
    matrices: Vec<(String, Matrix)>,
    peers: Vec<(String, Peers)>,
    bandwidths: Vec<(String, Bandwidths)>,
}

/// Matrices by machine: what a folder or an archive holds is taken for one machine, unless it has
/// several matrices of one kind.
#[derive(Debug, Default)]
pub(crate) struct Places {
    places: BTreeMap<String, Place>,
    cells: usize,
}

impl Places {
    /// Keeps the matrices of an input, while there is room.
    pub(crate) fn add(&mut self, input: &str, facts: &Listings) {
        let sides = facts.matrix.iter().map(|it| it.devices.len());
        let sides = sides.chain(facts.peers.iter().map(|it| it.gpus.len()));
        let sides = sides.chain(facts.bandwidths.iter().map(|it| it.values.len()));
        let cells: usize = sides.map(|side| side * side).sum();
        if cells > 0 && self.cells + cells <= MOST_CELLS {
            self.cells += cells;
            let place = self.place(input);
            let named = |it| (input.to_owned(), it);
            if let Some(place) = place {
                place
                    .matrices
                    .extend(facts.matrix.clone().map(|it| (input.to_owned(), it)));
                place
                    .peers
                    .extend(facts.peers.clone().map(|it| (input.to_owned(), it)));
                place
                    .bandwidths
                    .extend(facts.bandwidths.iter().cloned().map(named));
            }
        }
    }

    /// Keeps what was measured.
    pub(crate) fn measured(&mut self, input: &str, all: Vec<Bandwidths>) {
        let facts = Listings {
            bandwidths: all,
            ..Listings::default()
        };
        self.add(input, &facts);
    }

    fn place(&mut self, input: &str) -> Option<&mut Place> {
        let end = input.rfind(['/', ':']).unwrap_or(0);
        let name = &input[..end];
        if !self.places.contains_key(name) && self.places.len() >= MOST_PLACES {
            return None;
        }
        Some(self.places.entry(name.to_owned()).or_default())
    }

    /// What would tell whether GPUs without NVLink reach each other through the CPU, if a matrix
    /// has such a pair and nothing tells it.
    pub(crate) fn missing(&self) -> Option<Missing> {
        let untold = self.places.values();
        let mut untold = untold.filter(|it| it.peers.is_empty() && it.bandwidths.is_empty());
        let (one, other, near) =
            untold.find_map(|it| it.matrices.iter().find_map(pair_by_host_bridge))?;
        Some(Missing {
            what: format!(
                "whether {one} and {other} ({near}) and GPUs joined like them reach each other's \
                 memory through the CPU; where ACS or the IOMMU is in the way, that is slow or hangs"
            ),
            how: "give nvidia-smi topo -p2p r, lspci -vv (as root) and dmesg; if the first \
                  collective hangs, start with NCCL_P2P_DISABLE=1"
                .to_owned(),
        })
    }

    /// Two GPUs that only a host bridge joins, if there is one machine.
    pub(crate) fn pair(&self) -> Option<(String, String)> {
        let mut matrices = self.places.values().flat_map(|it| &it.matrices);
        let only = matrices.next().filter(|_| matrices.next().is_none())?;
        pair_by_host_bridge(only).map(|it| (it.0, it.1))
    }

    /// What the matrices show, with lines.
    pub(crate) fn shown(&self) -> Vec<(Shown, Line)> {
        let mut all = Vec::new();
        for place in self.places.values() {
            let matrix = match place.matrices.as_slice() {
                [only] => Some(&only.1),
                _ => None,
            };
            for (input, peers) in &place.peers {
                let matrix = matrix.filter(|_| place.peers.len() == 1);
                all.extend(refused(peers, matrix).map(|it| (input, it)));
            }
            let is_one = place.bandwidths.windows(2).all(|it| it[0].0 == it[1].0);
            for (input, measured) in &place.bandwidths {
                all.extend(bandwidths::dead(measured).map(|it| (input, it)));
                all.extend(
                    bandwidths::slow(measured, matrix.filter(|_| is_one)).map(|it| (input, it)),
                );
            }
        }
        let all = all.into_iter().map(|(input, it)| {
            let line = Line::new(input, None, &it.text);
            (it, line)
        });
        all.collect()
    }
}

/// How near two GPUs are, by their places among GPUs.
fn nearness(matrix: &Matrix, [one, other]: [usize; 2]) -> Option<Nearness> {
    let place = |number: usize| {
        let mut devices = matrix.devices.iter();
        devices.position(|it| it.gpu.is_some_and(|gpu| gpu as usize == number))
    };
    matrix
        .nearness
        .get(place(one)?)?
        .get(place(other)?)
        .copied()
}

/// The names of the first two GPUs that a host bridge joins, and how near they are.
fn pair_by_host_bridge((_, matrix): &(String, Matrix)) -> Option<(String, String, &'static str)> {
    let gpus = || (0..matrix.devices.len()).filter(|it| matrix.devices[*it].gpu.is_some());
    let mut pairs =
        gpus().flat_map(|one| gpus().filter(move |it| *it > one).map(move |it| (one, it)));
    pairs.find_map(|(one, other)| {
        let near = match matrix.nearness.get(one)?.get(other)? {
            Nearness::Phb => "PHB",
            Nearness::Node => "NODE",
            Nearness::Sys => "SYS",
            _ => return None,
        };
        let name = |place: usize| matrix.devices[place].name.clone();
        Some((name(one), name(other), near))
    })
}

/// GPUs that may not access each other.
fn refused(peers: &Peers, matrix: Option<&Matrix>) -> Option<Shown> {
    let refused: Vec<(usize, usize, &str)> = peers.refused().collect();
    let number = |place: usize| peers.gpus.get(place)?.strip_prefix("GPU")?.parse().ok();
    let is_nvlink = |it: &&(usize, usize, &str)| {
        let near = matrix.zip(number(it.0).zip(number(it.1)));
        let near = near.and_then(|(matrix, (one, other))| nearness(matrix, [one, other]));
        matches!(near, Some(Nearness::Nvlinks(_)))
    };
    let joined: Vec<_> = refused.iter().filter(is_nvlink).copied().collect();
    let (cause, certainty, pairs) = match joined.is_empty() {
        false => (&nvlink::NVLINK_NO_ACCESS, Likely, joined),
        true => (&pcie::NO_PEER_ACCESS, Possible, refused),
    };
    let (_, _, why) = pairs.first()?;
    let name = |place: usize| peers.gpus.get(place).map_or("", String::as_str);
    let names = pairs.iter().take(MOST_PAIRS);
    let names = names.map(|it| format!("{} and {}", name(it.0), name(it.1)));
    let text = format!("{} pairs: {why}", pairs.len());
    Some(Shown::new(cause, certainty, names.collect(), &text))
}
