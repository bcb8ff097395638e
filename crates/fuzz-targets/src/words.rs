//! Short texts from the command line, the environment and other ranks, and messages with which
//! ranks of a host offer memory. The first byte chooses the reader.

use std::net::SocketAddr;

use bootstrap::UniqueId;
use bootstrap::interface::{Interface, Wanted, choose};
use executor::HandedOver;
use executor::bootstrap::Offer;
use executor::connections::SlotBytes;
use executor::offered::{OfferedConnection, OfferedMemory, OfferedSegment};
use findings::complete::Assumptions;
use plan::Digest;
use plan::{Algorithm, RankOrder};
use program::{Collective, ElementType, Protocol, Reduction};
use program::{Schedule, Transfer};
use serde::Serialize;
use serde::de::DeserializeOwned;
use shared_memory::{Handle, Item};
use topology::edit::Edit;
use topology::xml::{Document, c_float, c_int, c_unsigned_hexadecimal};
use topology::{BusId, PathType};

use crate::input::{Depth, checked};
use crate::jobs;

type Reader = fn(&str) -> Depth;

/// Readers of texts.
const READERS: [Reader; 8] = [
    unique_id, without, degrade, plugin, interfaces, rank_order, number, name,
];

/// Readers of offers.
const OFFERS: [fn(&Offer) -> Depth; 3] = [
    offered::<OfferedMemory>,
    offered::<OfferedConnection>,
    offered::<HandedOver>,
];

thread_local! {
    static MACHINE: Document = jobs::document("dgx-h100");
}

/// One text of each kind.
pub fn seeds() -> Vec<Vec<u8>> {
    let token = "0123456789abcdef".repeat(4);
    let texts = [
        format!("topo1-{token}@10.0.0.1:4000,[fe80::1]:5"),
        "host0/GPU2:NVSwitch".to_owned(),
        "GPU0:NVSwitch=50%".to_owned(),
        "aws-ofi, /lib/libnccl-net.so".to_owned(),
        "^=eth0,ib:1".to_owned(),
        r#"[{"first": 0, "count": 2, "step": -1}]"#.to_owned(),
        "-0x1f.8e+3".to_owned(),
        "all-reduce".to_owned(),
    ];
    let seed = |(number, text): (usize, &String)| [&[number as u8], text.as_bytes()].concat();
    let texts = texts.iter().enumerate().map(seed);
    let memory = OfferedSegment {
        handle: Handle {
            process: 123,
            descriptor: 4,
            device: 5,
            inode: 6,
            bytes: 4096,
        },
        items: vec![Item::Bell, Item::BufferTable { entries: 2 }],
    };
    let slot_bytes = SlotBytes {
        ll: 256,
        ll128: 640,
        simple: 4096,
    };
    let offers = [
        Offer::of(&OfferedMemory {
            base: Some(memory.clone()),
            arena: Some(memory.handle),
            slot_bytes,
            backend: vec![7; 5],
        }),
        Offer::of(&OfferedConnection {
            item: 1,
            segment: Some(memory.clone()),
        }),
        Offer::of(&HandedOver::Host {
            base: memory.clone(),
            fifo: memory,
        }),
    ];
    let seed = |(number, offer): (u8, &Offer)| [&[number], &offer.message[..]].concat();
    let offers = (READERS.len() as u8..).zip(&offers).map(seed);
    texts.chain(offers).collect()
}

/// Reads a text.
///
/// # Panics
/// An accepted value reads back differently after it was written.
pub fn run(bytes: &[u8]) -> Depth {
    let Some((which, text)) = bytes.split_first() else {
        return Depth::Outside;
    };
    let which = usize::from(*which) % (READERS.len() + OFFERS.len());
    match READERS.get(which) {
        Some(reader) => reader(&String::from_utf8_lossy(text)),
        None => OFFERS[which - READERS.len()](&Offer {
            message: text.to_vec(),
            segment: None,
        }),
    }
}

fn accepted(holds: bool) -> Depth {
    Depth::accepted_if(holds, Depth::Outside)
}

fn unique_id(text: &str) -> Depth {
    let id = checked(text.parse::<UniqueId>());
    accepted(
        id.inspect(|id| assert_eq!(id.to_string().parse().as_ref(), Ok(id)))
            .is_some(),
    )
}

fn edit(edit: Result<Edit, topology::edit::EditError>) -> Depth {
    let Some(edit) = checked(edit) else {
        return Depth::Outside;
    };
    let _ = edit.to_string();
    MACHINE
        .with(|machine| Depth::accepted_if(checked(edit.apply(machine)).is_some(), Depth::Inside))
}

fn without(text: &str) -> Depth {
    edit(Edit::without(text))
}

fn degrade(text: &str) -> Depth {
    edit(Edit::degrade(text))
}

fn plugin(text: &str) -> Depth {
    accepted(checked(net_plugin::PluginChoice::parse(text)).is_some())
}

fn interfaces(text: &str) -> Depth {
    let addresses = [
        "10.0.0.1:0",
        "[fe80::1]:0",
        "[2001:db8::1]:0",
        "127.0.0.1:0",
    ];
    let names = ["eth0", "ib0", "docker0", "lo"];
    let all: Vec<Interface> = names
        .iter()
        .zip(addresses)
        .map(|(name, address)| Interface {
            name: (*name).to_owned(),
            address: address.parse::<SocketAddr>().expect("an address"),
        })
        .collect();
    let (names, family) = text.split_once(' ').unwrap_or((text, ""));
    let wanted = Wanted {
        names: Some(names.to_owned()),
        family: Some(family.to_owned()),
    };
    let empty = "the choice or the reason is empty";
    match choose(&all, &wanted) {
        Ok(chosen) => assert!(!chosen.is_empty(), "{empty}"),
        Err(why) => {
            assert!(!why.is_empty(), "{empty}");
            return Depth::Inside;
        }
    }
    Depth::Accepted
}

/// Reads an offer of rank 1.
fn offered<T: Serialize + DeserializeOwned>(offer: &Offer) -> Depth {
    let read = checked(offer.read::<T>("memory", (0, 1)));
    let read = read.inspect(|read| {
        let again = Offer::of(read);
        let shorter = again.message.len() <= offer.message.len();
        assert!(shorter, "it is longer when it is written again");
        let again = again.read::<T>("memory", (0, 1)).expect("it is read again");
        assert_eq!(Offer::of(&again).message, Offer::of(read).message);
    });
    accepted(read.is_some())
}

fn rank_order(text: &str) -> Depth {
    let Ok(order) = serde_json::from_str::<RankOrder>(text) else {
        return Depth::Outside;
    };
    let _ = order.is_plain();
    for ranks in [0, 1, 2, 8, 1 << 16] {
        if let Some(slots) = checked(order.slots(ranks)) {
            assert_eq!(RankOrder::new(slots.clone()).slots(ranks), Ok(slots));
            return Depth::Accepted;
        }
    }
    Depth::Inside
}

fn number(text: &str) -> Depth {
    let _ = (c_int(text), c_float(text), c_unsigned_hexadecimal(text));
    accepted(BusId::is_well_formed(text))
}

fn name(text: &str) -> Depth {
    let known = text.parse::<Algorithm>().is_ok()
        | text.parse::<Collective>().is_ok()
        | text.parse::<Protocol>().is_ok()
        | text.parse::<ElementType>().is_ok()
        | text.parse::<Reduction>().is_ok()
        | text.parse::<Schedule>().is_ok()
        | text.parse::<Transfer>().is_ok()
        | text.parse::<PathType>().is_ok()
        | text.parse::<Digest>().is_ok()
        | Assumptions::preset(text).is_some();
    accepted(known)
}
