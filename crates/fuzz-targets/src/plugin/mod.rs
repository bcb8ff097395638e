//! Net plug-ins with arbitrary answers: a table in this process, whose functions read them from the
//! input.
//!
//! Messages of the plug-in are posted to the receiving end of a FIFO. Half of them have a valid
//! header.

mod answers;
mod table;

use std::time::Duration;

use net::framing::{FramedIn, FramedOut};
use net::nic::{Incoming, Outgoing, Waits};
use net::plugin::ends::{ReceiveEnd, SendEnd};
use net::plugin::messages::{MessagesIn, MessagesOut, shape};
use net_plugin::{Handle, Plugin, ReceiveComm, SendComm};
use shared_memory::fifo::{LowLatency, Receiver, Sender, Simple};
use shared_memory::{Item, Segment};

use crate::input::{Depth, checked};
use crate::mutate::Random;

/// Turns of a connection. Each sends and receives if possible.
const MOST_TURNS: usize = 60;

/// Bytes of a slot.
const SLOT_BYTES: usize = 300;

/// For each version, answers of two sensible devices; then only successes, or random answers.
pub fn seeds() -> Vec<Vec<u8>> {
    let seed = |(version, wild): (u8, bool)| {
        let one = [0, 0, 0, 0, 2];
        let mut seed = vec![version];
        if version >= 3 {
            seed.extend([0, 0]);
        }
        seed.push(0);
        seed.extend(one);
        for _ in 0..2 {
            seed.extend([0, 3, b'n', b'i', b'c', 0]);
            seed.extend(one.repeat(9));
            if version >= 1 {
                seed.extend(one);
                seed.push(2);
                seed.extend(one);
            }
            // Requests at once; rail and plane.
            let more = [0, 0, 0, 1, 3][usize::from(version)];
            seed.extend(one.repeat(more));
        }
        if wild {
            let mut random = Random::new(version.into());
            seed.extend((0..200).map(|_| random.below(160) as u8));
        }
        seed
    };
    let versions = (0..5).map(|version| (version, false));
    versions
        .clone()
        .chain(versions.map(|(version, _)| (version, true)))
        .map(seed)
        .collect()
}

/// Loads a plug-in, connects its devices and sends slots.
///
/// # Panics
/// A received slot is longer than slots can be.
pub fn run(bytes: &[u8]) -> Depth {
    let Some((version, rest)) = bytes.split_first() else {
        return Depth::Outside;
    };
    let reached = table::run(*version, rest);
    // SAFETY: there is no NIC; memory is written only during calls of the table's functions.
    unsafe { net_plugin::free_left() };
    reached
}

fn with_table<T>(version: u32, table: &T) -> Depth {
    // SAFETY: callers name the table's version, and it stays until everything made of the plug-in
    // has ended.
    let plugin = unsafe { Plugin::of_table(version, std::ptr::from_ref(table).cast(), 1) };
    let Some(plugin) = checked(plugin) else {
        return Depth::Outside;
    };
    for device in plugin.devices() {
        let _ = device.memory();
        assert!(device.latency_us >= 0.0 && device.most_communicators > 0);
    }
    match checked(connected(&plugin)).flatten() {
        Some((sending, receiving)) => carry(sending, receiving),
        None => Depth::Inside,
    }
}

/// Both ends of a connection, if the plug-in makes them in time.
fn connected(plugin: &Plugin) -> Result<Option<(SendComm, ReceiveComm)>, net_plugin::Error> {
    let last = plugin.devices().len() as u32 - 1;
    let (mut listening, handle) = plugin.listen(0)?;
    let handle = Handle::of(handle.bytes()).expect("as many bytes as handles have");
    let mut connecting = plugin.connect(last, &handle)?;
    let (mut sending, mut receiving) = (None, None);
    for _ in 0..MOST_TURNS {
        if sending.is_none() {
            sending = connecting.poll(shape(SLOT_BYTES, 1))?;
        }
        if receiving.is_none() {
            receiving = listening.accept(shape(SLOT_BYTES, 1))?;
        }
        if sending.is_some() && receiving.is_some() {
            return Ok(sending.zip(receiving));
        }
    }
    Ok(None)
}

/// Sends slots, and posts received ones.
fn carry(sending: SendComm, receiving: ReceiveComm) -> Depth {
    let items = |protocol| {
        [Item::Fifo {
            protocol,
            slot_bytes: SLOT_BYTES,
        }]
    };
    let segment = |protocol| Segment::private("fuzz", &items(protocol)).expect("there is memory");
    let from = segment(program::Protocol::Ll);
    let to = segment(program::Protocol::Simple);
    let mut sender = from.sender::<LowLatency>(0).expect("it was not taken");
    sender.announce_lengths();
    let carried = from.receiver::<LowLatency>(0).expect("it was not taken");
    let mut outgoing = FramedOut::new(
        MessagesOut::new(SendEnd::of(sending)),
        Box::new(carried),
        true,
    );
    let into = to.sender::<Simple>(0).expect("it was not taken");
    let mut receiver = to.receiver::<Simple>(0).expect("it was not taken");
    let mut incoming = FramedIn::new(MessagesIn::new(ReceiveEnd::of(receiving)), Box::new(into));
    let mut came = false;
    for turn in 0..MOST_TURNS {
        let _ = sender.try_send_from(&[turn as u8; 100]);
        let ending = turn > MOST_TURNS / 2;
        let sent = checked(outgoing.progress(Duration::ZERO, ending));
        if sent
            .and_then(|_| checked(incoming.progress(Duration::ZERO)))
            .is_none()
        {
            break;
        }
        let _ = (outgoing.is_drained(), incoming.awaits_end());
        outgoing.wait_for(&mut Waits::default());
        // A slot's length is not known here, so the slot is released without reading its data.
        while receiver.is_complete(0) {
            receiver.release();
            came = true;
        }
    }
    Depth::accepted_if(came, Depth::Inside)
}
