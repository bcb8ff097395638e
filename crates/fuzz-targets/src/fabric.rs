//! Fabric files of the simulator, and Slurm's `topology.conf`. Every accepted fabric has a ring run
//! over it; the best order of hosts has each of them once.

use program::lower::{Lowering, ProgramRequest};
use program::{Channels, Collective, MessageSize, Schedule, Transfer};
use simulator::build::build;
use simulator::fabric::SwitchTree;
use simulator::{Fabric, FabricError, PlainHosts, simulate};

use crate::input::Depth;

/// Ranks of the ring.
const RANKS: u32 = 6;

/// A file with every key.
const WHOLE: &str = "\
[network]
port-gbps = 12.5
latency-us = 5
header-bytes = 16
window-slots = 4
[leaf]
hosts = 2
rails = false
oversubscription = 2.0
uplinks = 4
spine-us = 1.5
[latency]
start-us = 8.4
nvlink-us = 0.6
pci-us = 1
[ranks]
work-gbps = 20
per-host = 1
[slots]
ll = 16384
ll128 = 57344
simple = 262144
[[delay]]
rank = 3
us = 100
[[port]]
host = 1
nic = 0
send-gbps = 6.25
receive-gbps = 3
failed = false
[[uplink]]
leaf = 1
failed = 1
";

/// Switches of Slurm.
const SWITCHES: &str = "\
# topograph
SwitchName=core Switches=s[1-2]
SwitchName=s1 Nodes=n[1-2,05],x[1-2]y[3-4]
SwitchName=s2 Nodes=n[3-4] LinkSpeed=100
";

/// A whole file, and small ones.
pub fn seeds() -> Vec<Vec<u8>> {
    let small = [
        "- topology: t\n  block:\n    blocks:\n      - block: b\n        nodes: n[1-2]\n",
        "CA 1 1 0x1 4x EDR - SW 9 1 0x9 ( 'n1 HCA-1' - 'leaf1' )\n",
        "vendid=0\nSwitch 65 \"S-1\" # \"M;l\"\n[1] \"H-1\"[1](1) # \"n1 mlx5_0\" lid 1\n",
        "[network]\nport-gbps = 1\n",
        "[[port]]\nhost = 0\nfailed = true\n",
    ];
    let all = [WHOLE, SWITCHES].into_iter().chain(small);
    all.map(|text| text.as_bytes().to_vec()).collect()
}

/// Reads a fabric and simulates a ring over it, once with equal lanes together and once with all.
///
/// # Panics
/// The two differ, or the causes of the time do not add up to it.
pub fn run(bytes: &[u8]) -> Depth {
    let text = String::from_utf8_lossy(bytes);
    if SwitchTree::is_one(&text) {
        return switches(&text);
    }
    let fabric = match Fabric::from_toml("fuzz.toml", &text) {
        Ok(fabric) => fabric,
        Err(error) => {
            let _ = error.to_string();
            return match error {
                FabricError::Syntax { .. } => Depth::Outside,
                _ => Depth::Inside,
            };
        }
    };
    let channels = Channels::plain(RANKS, 1).expect("a few ranks");
    let request = ProgramRequest {
        collective: Collective::AllReduce,
        schedule: Schedule::Ring,
        transfer: Transfer::Fifo,
        root: 0,
        in_place: false,
        channels: &channels,
    };
    let lowering = Lowering::new(&request).expect("a ring");
    let port = fabric.network.port_gbps.unwrap_or(1.0);
    let hosts = PlainHosts::new(RANKS, port, &fabric);
    if fabric.check(RANKS, hosts.hosts(), 1).is_err() {
        return Depth::Inside;
    }
    let message = MessageSize {
        count: 50_000,
        element_bytes: 4,
        slot_bytes: fabric.slot_bytes(program::Protocol::Simple, 4096),
        piece_bytes: 0,
    };
    let Ok(model) = build(&lowering, &message, &hosts) else {
        return Depth::Inside;
    };
    let [one, all] =
        [true, false].map(|collapse| simulate(model.clone(), 0, collapse).expect("rings end"));
    assert_eq!(one.outcome.time, all.outcome.time, "{text}");
    assert_eq!(one.outcome.path.total(), one.outcome.time, "{text}");
    Depth::Accepted
}

/// Reads switches and orders their hosts.
fn switches(text: &str) -> Depth {
    let Ok(tree) = SwitchTree::read("fuzz.conf", text) else {
        return Depth::Inside;
    };
    let hosts = tree.hosts();
    let leaves: Vec<usize> = hosts
        .iter()
        .map(|host| tree.leaf_of(host).expect("a host of the file"))
        .collect();
    let mut order = tree.best_order(&leaves);
    order.sort_unstable();
    assert!(order.into_iter().eq(0..hosts.len()), "{text}");
    Depth::Accepted
}
