//! Memory that other processes share: arbitrary words, overwritten between any operations on both
//! ends of its connections.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use program::Protocol;
use shared_memory::fifo::device::{DeviceFifo, DeviceInflow, DeviceOutflow};
use shared_memory::fifo::in_place::{InPlaceInflow, InPlaceOutflow};
use shared_memory::fifo::relay::{Inflow, Outflow};
use shared_memory::fifo::{
    FifoProtocol, LowLatency, LowLatency128, Receiver, SLOTS, Sender, Simple,
};
use shared_memory::{
    Bell, BufferTable, Descriptor, Item, Mapping, Patience, Place, Segment, Signal, SignalCount,
    Waiter,
};

use crate::input::Depth;
use crate::mutate::Random;

/// Longest sleep of a waiter here.
const WAIT: Duration = Duration::from_micros(50);

/// Steps at which flags, tags or their halves wrap around.
const FIRST_STEPS: [u64; 4] = [0, (1 << 31) - 3, (1 << 32) - 3, 1 << 62];

/// Bytes of the slots' size and the first step; operations follow them.
const HEAD: usize = 2;

/// Random operations and words.
pub fn seeds() -> Vec<Vec<u8>> {
    let seed = |number: u64| {
        let mut random = Random::new(number);
        (0..120).map(|_| random.below(256) as u8).collect()
    };
    (0..16).map(seed).collect()
}

/// Runs operations on both ends of every kind of connection, in one process. Between them words of
/// the memory are overwritten through its file, as another process would.
///
/// # Panics
/// A slot is longer than slots can be, or more slots are in use than there are.
pub fn run(data: &[u8]) -> Depth {
    let mut input = Input { data, at: 0 };
    let slot_bytes = 1 + usize::from(input.byte()) * 3;
    let first_step = FIRST_STEPS[usize::from(input.byte()) % FIRST_STEPS.len()];
    let mut host = HostMemory::new(slot_bytes, first_step);
    let mut devices: Vec<Device> = PROTOCOLS
        .iter()
        .map(|protocol| Device::new(*protocol, slot_bytes, first_step))
        .collect();
    while !input.is_empty() {
        let (operation, which) = (input.byte() % 8, usize::from(input.byte()));
        match operation {
            0..=2 => {
                let files = devices.iter().map(|device| &device.words);
                let mut files = std::iter::once(&host.words).chain(files);
                let words = files.nth(which % 4).unwrap_or(&host.words);
                words.overwrite(&mut input);
            }
            3 => host.simple.operate(&mut input, slot_bytes),
            4 => host.low_latency.operate(&mut input, slot_bytes),
            5 => host.low_latency_128.operate(&mut input, slot_bytes),
            6 => devices[which % 3].operate(&mut input, slot_bytes),
            _ => host.talk(&mut input),
        }
    }
    Depth::accepted_if(data.len() > HEAD, Depth::Outside)
}

/// The unused bytes, followed by zeros.
struct Input<'a> {
    data: &'a [u8],
    at: usize,
}

impl Input<'_> {
    const fn is_empty(&self) -> bool {
        self.at >= self.data.len()
    }

    fn byte(&mut self) -> u8 {
        let byte = self.data.get(self.at).copied().unwrap_or_default();
        self.at += 1;
        byte
    }

    fn word(&mut self) -> u64 {
        u64::from_le_bytes(std::array::from_fn(|_| self.byte()))
    }

    /// A length of at most `most` bytes, often exactly that.
    fn length(&mut self, most: usize) -> usize {
        let length = usize::from(self.byte()) << (self.byte() % 3);
        length.min(most)
    }
}

/// A memory file, as another process sees it.
struct Words {
    file: File,
    count: u64,
}

impl Words {
    fn of(mapping: &Mapping) -> Self {
        let file = mapping.file().expect("shared memory has a file");
        let file = file
            .try_clone_to_owned()
            .expect("a descriptor can be copied");
        Self {
            file: File::from(file),
            count: mapping.bytes() as u64 / 8,
        }
    }

    /// Overwrites one word with an arbitrary value, or with one similar to the present value.
    fn overwrite(&self, input: &mut Input<'_>) {
        let kind = input.byte();
        // Counters, flags and lengths are more interesting than data. They are at the beginning of
        // lines.
        let at = u64::from(input.byte()) | u64::from(input.byte()) << 8;
        let at = if kind & 0x10 == 0 { at } else { at / 16 * 16 } % self.count;
        let mut before = [0; 8];
        let read = self.file.read_exact_at(&mut before, at * 8);
        read.expect("the memory can be read");
        let before = u64::from_le_bytes(before);
        let small = u64::from(input.byte());
        let value = match kind % 8 {
            0 => input.word(),
            1 => u64::MAX - small,
            2 => before.wrapping_add(small),
            3 => before.wrapping_sub(small),
            4 => before ^ 1 << (small % 64),
            5 => before & 0xffff_ffff | input.word() << 32,
            6 => before & !0xffff_ffff | input.word() >> 32,
            _ => small,
        };
        let wrote = self.file.write_all_at(&value.to_le_bytes(), at * 8);
        wrote.expect("the memory can be written");
    }
}

const PROTOCOLS: [Protocol; 3] = [Protocol::Simple, Protocol::Ll, Protocol::Ll128];

/// Both ends of a FIFO.
struct Fifo<P: FifoProtocol> {
    sender: P::Sender,
    receiver: P::Receiver,
}

impl<P: FifoProtocol> Fifo<P> {
    fn new(segment: &Segment, index: usize, first_step: u64) -> Self {
        let mut sender = segment.sender_from::<P>(index, first_step).expect("free");
        sender.announce_lengths();
        Self {
            sender,
            receiver: segment.receiver_from::<P>(index, first_step).expect("free"),
        }
    }

    fn operate(&mut self, input: &mut Input<'_>, slot_bytes: usize) {
        let (operation, bytes) = (input.byte() % 6, input.length(slot_bytes));
        match operation {
            0 => {
                self.sender.try_send_from(&vec![input.byte(); bytes]);
            }
            1 => {
                self.receiver.try_receive_into(&mut vec![0; bytes]);
            }
            2 => {
                let began = self.receiver.has_begun();
                if self.receiver.is_complete(bytes) && began {
                    let _ = self.receiver.slot(bytes);
                }
            }
            3 => send(&mut self.sender, bytes, slot_bytes),
            4 => receive(&mut self.receiver, slot_bytes),
            _ => {
                for _ in 0..=SLOTS {
                    send(&mut self.sender, bytes, slot_bytes);
                }
            }
        }
    }
}

fn send(slots: &mut dyn Inflow, bytes: usize, slot_bytes: usize) {
    assert_eq!(slots.most_bytes(), slot_bytes);
    if let Some(room) = slots.room(bytes) {
        assert_eq!(room.len(), bytes);
        room.fill(1);
        slots.post(bytes);
    }
}

fn receive(slots: &mut dyn Outflow, slot_bytes: usize) {
    if let Ok(Some(slot)) = slots.next() {
        assert!(slot.len() <= slot_bytes);
        std::hint::black_box(slot.iter().map(|byte| u64::from(*byte)).sum::<u64>());
        slots.release();
    }
}

/// Memory shared by ranks of one host.
struct HostMemory {
    words: Words,
    simple: Fifo<Simple>,
    low_latency: Fifo<LowLatency>,
    low_latency_128: Fifo<LowLatency128>,
    signal: Signal,
    count: SignalCount,
    bell: Bell,
    waiter: Waiter,
    buffer_table: BufferTable,
}

impl HostMemory {
    fn new(slot_bytes: usize, first_step: u64) -> Self {
        let fifo = |protocol| Item::Fifo {
            protocol,
            slot_bytes,
        };
        let items = [
            fifo(Protocol::Simple),
            fifo(Protocol::Ll),
            fifo(Protocol::Ll128),
            Item::Signal,
            Item::Bell,
            Item::BufferTable { entries: 2 },
        ];
        let segment = Segment::shared("words", &items).expect("there is memory");
        Self {
            words: Words::of(segment.mapping()),
            simple: Fifo::new(&segment, 0, first_step),
            low_latency: Fifo::new(&segment, 1, first_step),
            low_latency_128: Fifo::new(&segment, 2, first_step),
            signal: segment.signal(3).expect("free"),
            count: segment.signal_count(3).expect("free"),
            bell: segment.bell(4).expect("a bell"),
            waiter: Waiter::new(segment.bell(4).expect("a bell"), Patience::new(2, 1)),
            buffer_table: segment.buffer_table(5).expect("a buffer table"),
        }
    }

    /// Uses signals, bells and buffer tables.
    fn talk(&mut self, input: &mut Input<'_>) {
        let launch = u64::from(input.byte());
        match input.byte() % 6 {
            0 => self.signal.notify(),
            1 => {
                self.count.try_take();
            }
            2 => self.bell.ring(),
            3 => {
                let deadline = Some(Instant::now() + WAIT);
                let _ = self.waiter.wait_until(|| self.count.has_come(), deadline);
            }
            4 => {
                let place = match launch % 2 {
                    0 => Place::Address(input.word()),
                    _ => Place::Registered {
                        allocation: input.word() as u32,
                        offset: input.word(),
                    },
                };
                let bytes = input.word();
                self.buffer_table
                    .publish(launch, 0, &[Descriptor { place, bytes }; 3]);
            }
            _ => {
                self.buffer_table.read(launch);
            }
        }
    }
}

/// FIFOs of kernels with both ends at the host: one with copied slots, one with slots in place.
struct Device {
    words: Words,
    outflow: DeviceOutflow,
    inflow: DeviceInflow,
    in_place_outflow: InPlaceOutflow,
    in_place_inflow: InPlaceInflow,
    /// Slots that were taken and not yet released or posted.
    leaving: u64,
    coming: u64,
}

impl Device {
    fn new(protocol: Protocol, slot_bytes: usize, first_step: u64) -> Self {
        let stride = (slot_bytes.div_ceil(8) * 16 + 128).next_multiple_of(128);
        let fifo = |offset| DeviceFifo {
            protocol,
            tail: offset,
            head: offset + 128,
            lengths: offset + 256,
            slots: offset + 384,
            stride,
            slot_bytes,
            first_step,
        };
        let bytes = 384 + SLOTS as usize * stride;
        let mapping = Mapping::shared("device", 2 * bytes).expect("there is memory");
        let mapping = Arc::new(mapping);
        let (copied, in_place) = (fifo(0), fifo(bytes));
        let room = InPlaceOutflow::within(&mapping, in_place).expect("it fits");
        let memory = room.memory().clone();
        Self {
            words: Words::of(&mapping),
            outflow: DeviceOutflow::new(&mapping, copied).expect("it fits"),
            inflow: DeviceInflow::new(&mapping, copied).expect("it fits"),
            in_place_outflow: room,
            in_place_inflow: InPlaceInflow::new(&mapping, in_place, memory).expect("it fits"),
            leaving: 0,
            coming: 0,
        }
    }

    fn operate(&mut self, input: &mut Input<'_>, slot_bytes: usize) {
        let (operation, bytes) = (input.byte() % 6, input.length(slot_bytes));
        let all = self.in_place_outflow.memory().bytes();
        match operation {
            0 => send(&mut self.inflow, bytes, slot_bytes),
            1 => receive(&mut self.outflow, slot_bytes),
            2 => {
                if let Ok(Some((offset, bytes))) = self.in_place_outflow.next() {
                    assert!(offset + bytes <= all);
                    self.in_place_outflow.take();
                    self.leaving += 1;
                }
            }
            3 if self.leaving > 0 => {
                self.in_place_outflow.release();
                self.leaving -= 1;
            }
            4 => {
                if let Some(offset) = self.in_place_inflow.room() {
                    assert!(offset < all);
                    self.in_place_inflow.take();
                    self.coming += 1;
                }
            }
            5 if self.coming > 0 => {
                self.in_place_inflow.post();
                self.coming -= 1;
            }
            _ => {}
        }
        assert!(self.leaving <= SLOTS && self.coming <= SLOTS);
    }
}
