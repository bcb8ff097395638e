//! Two processes: this test starts itself again as the peer, with a role in the environment.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use program::Protocol;
use shared_memory::fifo::{FifoProtocol, LowLatency, LowLatency128, Receiver, Sender, Simple};
use shared_memory::process_memory::{ProcessHandle, allow_peers};
use shared_memory::{
    Arena, Descriptor, Error, Handle, Interrupted, Item, Mapping, Patience, Place, ProcessMemory,
    ProcessMemoryError, Segment, Waiter,
};

type Test = fn(&str) -> Result<Completion, Failed>;

fn main() -> ExitCode {
    let tests: [(&str, Test); 4] = [
        ("messages_go_there_and_back", messages_go_there_and_back),
        (
            "buffers_are_read_where_they_are",
            buffers_are_read_where_they_are,
        ),
        (
            "a_killed_peer_leaves_nothing_behind",
            a_killed_peer_leaves_nothing_behind,
        ),
        (
            "a_new_process_with_the_same_id_is_another",
            a_new_process_with_the_same_id_is_another,
        ),
    ];
    let trials = tests.map(|(name, test)| Trial::ignorable_test(name, move || test(name)));
    libtest_mimic::run(&Arguments::from_args(), trials.into()).exit_code()
}

/// The peer's role: the name of its test.
const ROLE: &str = "SHARED_MEMORY_TEST_ROLE";

/// The peer of a test.
struct Peer {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts this test again.
    fn start(test: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([test, "--exact", "--test-threads=1"])
            .env(ROLE, test)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, output }
    }

    fn tell(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    /// The next line that the peer printed with [`say`].
    fn hear(&mut self) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(
                self.output.read_line(&mut line).unwrap() > 0,
                "the peer has ended"
            );
            if let Some((_, said)) = line.split_once("says: ") {
                return said.trim_end().to_owned();
            }
        }
    }

    fn end(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }
}

fn is_peer(test: &str) -> bool {
    std::env::var(ROLE).is_ok_and(|role| role == test)
}

/// The peer's side of [`Peer::hear`].
fn say(line: &str) {
    println!("says: {line}");
}

/// The peer's side of [`Peer::tell`].
fn listen() -> String {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

const SLOT_BYTES: usize = 512;

/// The items of each process: FIFOs towards it, a signal for it, its bell and its buffer table.
fn items() -> Vec<Item> {
    let fifo = |protocol| Item::Fifo {
        protocol,
        slot_bytes: SLOT_BYTES,
    };
    vec![
        fifo(Protocol::Simple),
        fifo(Protocol::Ll),
        fifo(Protocol::Ll128),
        Item::Signal,
        Item::Bell,
        Item::BufferTable { entries: 2 },
    ]
}

const STEPS: usize = 3000;

fn message(step: usize) -> Vec<u8> {
    (0..step * 7 % SLOT_BYTES)
        .map(|place| (place + step) as u8)
        .collect()
}

/// Exchanges messages in both directions.
fn there_and_back<P: FifoProtocol>(index: usize, own: &Segment, peers: &Segment, begins: bool) {
    let waiter = Waiter::new(own.bell(4).unwrap(), Patience::new(2, 1));
    let bell = peers.bell(4).unwrap();
    let mut sender = peers.sender::<P>(index).unwrap();
    let mut receiver = own.receiver::<P>(index).unwrap();
    let deadline = Some(Instant::now() + Duration::from_secs(60));
    for step in 0..STEPS {
        let expected = message(step);
        if begins {
            assert!(sender.try_send_from(&expected));
            bell.ring();
        }
        let mut received = vec![0; expected.len()];
        waiter
            .wait_until(|| receiver.try_receive_into(&mut received), deadline)
            .unwrap();
        bell.ring();
        assert_eq!(received, expected, "step {step}");
        if !begins {
            assert!(sender.try_send_from(&received));
            bell.ring();
        }
    }
}

fn exchange(own: &Segment, peers: &Segment, begins: bool) {
    there_and_back::<Simple>(0, own, peers, begins);
    there_and_back::<LowLatency>(1, own, peers, begins);
    there_and_back::<LowLatency128>(2, own, peers, begins);
}

fn text(handle: &Handle) -> String {
    serde_json::to_string(handle).unwrap()
}

fn read(text: &str) -> Handle {
    serde_json::from_str(text).unwrap()
}

fn messages_go_there_and_back(name: &str) -> Result<Completion, Failed> {
    let own = Segment::shared("own", &items()).unwrap();
    own.mapping().populate().unwrap();
    let handle = own.mapping().handle().unwrap().unwrap();
    if is_peer(name) {
        let peers: Handle = read(&listen());
        say(&text(&handle));
        let peers = Segment::open(&peers, &items()).unwrap();
        exchange(&own, &peers, false);
        return Ok(Completion::Completed);
    }
    let mut peer = Peer::start(name);
    peer.tell(&text(&handle));
    let handle: Handle = read(&peer.hear());
    let peers = Segment::open(&handle, &items()).unwrap();
    let wrong = Segment::open(&handle, &items()[..2]).unwrap_err();
    assert!(matches!(wrong, Error::Layout { .. }), "{wrong}");
    exchange(&own, &peers, true);
    peer.end();
    Ok(Completion::Completed)
}

/// Bytes of each buffer that is read in place.
const BUFFER_BYTES: usize = 3 << 20;

fn pattern(seed: usize) -> impl Iterator<Item = u8> {
    (0..BUFFER_BYTES).map(move |place| ((place * seed) >> 3) as u8)
}

/// Publishes a registered and a private buffer, and waits until the other process wrote to the
/// latter.
fn publish_buffers() {
    allow_peers();
    let own = Segment::shared("own", &items()).unwrap();
    let arena = Arena::new(Mapping::shared("buffers", 8 << 20).unwrap());
    let _other = arena.allocate(1000, 64).unwrap();
    let mut input = arena.allocate(BUFFER_BYTES, 4096).unwrap();
    input
        .as_bytes_mut()
        .copy_from_slice(&pattern(3).collect::<Vec<u8>>());
    let mut output: Vec<u8> = pattern(5).collect();
    let registered = Place::Registered {
        allocation: 0,
        offset: input.offset() as u64,
    };
    let private = Place::Address(output.as_mut_ptr().expose_provenance() as u64);
    let [input, output_place] = [registered, private].map(|place| Descriptor {
        place,
        bytes: BUFFER_BYTES as u64,
    });
    let buffers = [input, output_place, Descriptor::EMPTY];
    own.buffer_table(5).unwrap().publish(1, 7, &buffers);
    for mapping in [own.mapping(), arena.mapping()] {
        say(&text(&mapping.handle().unwrap().unwrap()));
    }
    assert_eq!(listen(), "written");
    let first: [u8; 4] = std::hint::black_box(&output)[..4].try_into().unwrap();
    say(&format!("{first:?}"));
    assert_eq!(listen(), "");
}

fn buffers_are_read_where_they_are(name: &str) -> Result<Completion, Failed> {
    if is_peer(name) {
        publish_buffers();
        return Ok(Completion::Completed);
    }
    let mut peer = Peer::start(name);
    let segment = Segment::open(&read(&peer.hear()), &items()).unwrap();
    let handle: Handle = read(&peer.hear());
    let arena = Mapping::open(&handle).unwrap();
    let buffer_table = segment.buffer_table(5).unwrap();
    assert_eq!(buffer_table.read(2), None);
    let (7, [input, output, scratch]) = buffer_table.read(1).unwrap() else {
        panic!("another request");
    };
    assert_eq!(scratch, Descriptor::EMPTY);
    let Place::Registered {
        allocation: 0,
        offset,
    } = input.place
    else {
        panic!("{input:?}");
    };
    let start = arena.base().as_ptr().wrapping_add(offset as usize);
    // SAFETY: the peer's buffer is mapped, and the peer no longer writes it.
    let seen = unsafe { std::slice::from_raw_parts(start, BUFFER_BYTES) };
    assert!(seen.iter().copied().eq(pattern(3)));
    let Place::Address(address) = output.place else {
        panic!("{output:?}");
    };
    let memory = ProcessMemory::new(handle.process);
    let mut read = vec![0; BUFFER_BYTES];
    match memory.read_into(address, &mut read) {
        Err(error @ ProcessMemoryError::Refused { .. }) => {
            peer.child.kill().unwrap();
            peer.child.wait().unwrap();
            let why = format!("not run: reading the other process: {error}");
            return Ok(Completion::ignored_with(why));
        }
        result => {
            result.unwrap();
            assert!(read.iter().copied().eq(pattern(5)));
            accesses_another_process(peer, &memory, address);
            let gone = Mapping::open(&handle).unwrap_err();
            assert!(matches!(gone, Error::Open { .. }), "{gone}");
        }
    }
    Ok(Completion::Completed)
}

/// Probes and writes the peer's buffer at an address, then finds that the peer has ended.
fn accesses_another_process(mut peer: Peer, memory: &ProcessMemory, address: u64) {
    let mut first = [0; 8];
    memory.read_into(address, &mut first).unwrap();
    let first = u64::from_ne_bytes(first);
    memory.probe(address, first).unwrap();
    let other = memory.probe(address, !first).unwrap_err();
    assert!(matches!(other, ProcessMemoryError::Other { .. }), "{other}");
    // SAFETY: the peer waits for these bytes.
    unsafe { memory.write(address, [9, 8, 7, 6].as_ptr(), 4).unwrap() };
    let nowhere = memory.read_into(16, &mut [0; 4]).unwrap_err();
    assert!(
        matches!(nowhere, ProcessMemoryError::NoMemory { .. }),
        "{nowhere}"
    );
    peer.tell("written");
    assert_eq!(peer.hear(), "[9, 8, 7, 6]");
    peer.end();
    let gone = memory.read_into(address, &mut [0; 8]).unwrap_err();
    assert!(matches!(gone, ProcessMemoryError::Gone { .. }), "{gone}");
}

/// A rank that waits for a killed peer is woken by others, and the peer's memory is gone with it.
fn a_killed_peer_leaves_nothing_behind(name: &str) -> Result<Completion, Failed> {
    let mark = "left-behind";
    if is_peer(name) {
        let own = Segment::shared(mark, &items()).unwrap();
        say(&text(&own.mapping().handle().unwrap().unwrap()));
        // Waits to be killed.
        assert_eq!(listen(), "");
        return Ok(Completion::Completed);
    }
    let mut peer = Peer::start(name);
    let handle: Handle = read(&peer.hear());
    let peers = Segment::open(&handle, &items()).unwrap();
    let own = Segment::shared("own", &items()).unwrap();
    let mut count = own.signal_count(3).unwrap();
    let waiter = Waiter::new(
        own.bell(4).unwrap(),
        Patience {
            spins: 10,
            yields: Duration::from_micros(10),
            most_yields: u32::MAX,
            longest_yield: Duration::from_millis(1),
            sleeps_often: false,
        },
    );
    peer.child.kill().unwrap();
    peer.child.wait().unwrap();
    // What this process maps stays.
    let mut sender = peers.sender::<Simple>(0).unwrap();
    assert!(sender.try_send_from(&[1; 8]));
    let soon = Some(Instant::now() + Duration::from_millis(20));
    assert_eq!(
        waiter.wait_until(|| count.try_take(), soon),
        Err(Interrupted::Deadline)
    );
    let bell = own.bell(4).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| bell.abort(7));
        let end = waiter.wait_until(|| count.try_take(), None);
        assert_eq!(end, Err(Interrupted::Aborted { reason: 7 }));
    });
    drop((peers, sender));
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    assert!(!maps.contains(mark), "the mapping is gone");
    let files = std::fs::read_dir("/dev/shm").into_iter().flatten();
    let names = files.filter_map(|file| file.ok()?.file_name().into_string().ok());
    assert_eq!(names.filter(|name| name.contains(mark)).count(), 0);
    Ok(Completion::Completed)
}

/// How often the kernel is asked for a certain process id. Other processes of the machine may take
/// it first.
const ATTEMPTS: u32 = 200;

/// A process with this id. `None` if this user may not choose it.
fn process_with_id(id: u32) -> Option<Child> {
    for _ in 0..ATTEMPTS {
        std::fs::write("/proc/sys/kernel/ns_last_pid", (id - 1).to_string()).ok()?;
        let mut sleep = Command::new("sleep");
        let mut child = sleep.arg("600").spawn().unwrap();
        if child.id() == id {
            return Some(child);
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    None
}

fn a_new_process_with_the_same_id_is_another(_: &str) -> Result<Completion, Failed> {
    let mut first = Command::new("sleep").arg("600").spawn()?;
    let handle = ProcessHandle::of(first.id());
    assert!(!handle.has_ended());
    assert!(Arc::ptr_eq(&handle, &ProcessHandle::of(first.id())));
    first.kill()?;
    first.wait()?;
    assert!(handle.has_ended());
    let Some(mut second) = process_with_id(first.id()) else {
        return Ok(Completion::ignored_with(
            "not run: this user cannot choose a process id",
        ));
    };
    assert!(handle.has_ended());
    assert!(!ProcessHandle::of(second.id()).has_ended());
    second.kill()?;
    second.wait()?;
    Ok(Completion::Completed)
}
