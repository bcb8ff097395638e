//! Peers that know the token and send wrong data, and strangers at a data port.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use backend_cpu::{Cpu, Profile};
use bootstrap::interface::Wanted;
use bootstrap::member::Meeting;
use bootstrap::message::CheckIn;
use bootstrap::socket::accept::{Acceptor, Until};
use bootstrap::socket::blocking::Connection;
use bootstrap::{Kind, Message, PeerInfo, UniqueId};
use executor::bootstrap::Bootstrap;
use executor::{Choice, Communicator, Error, HandedOver, Network, Reduction, Route, Settings};
use libtest_mimic::{Completion, Failed};
use net::tcp::connect;
use net::{Host, Hosts, Options};
use program::Protocol;
use program::{Schedule, Transfer};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use shared_memory::fifo::relay::{Outflow, Oversized, SlotsIn, SlotsOut};
use shared_memory::{Alarms, Bell};

use super::faults::busy;
use super::{LONG, Ranks, Said, address, all_right, all_say, check, folder, id};

/// Rank 0 of two. Rank 1 is the liar.
fn lone_rank(id: &str) -> Result<Ranks, Failed> {
    Ranks::start(1, |_, command| {
        command.args(["--rank", "0", "--world", "2", "--id", id, "all-reduce"]);
        command.args(["-b", "64K", "-e", "64K", "-n", "2", "--channels", "1"]);
        command.args(["--algorithm", "ring", "--protocol", "simple"]);
    })
}

/// Limits a process to 1 GiB more than it has. A rank that believes a wrong length exceeds it.
fn limit(process: u32) -> Result<(), Failed> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let data = status.lines().find_map(|it| it.strip_prefix("VmData:"));
    let kib: u64 = data
        .and_then(|it| it.trim().trim_end_matches(" kB").parse().ok())
        .ok_or_else(|| lie("the kernel does not tell how much memory a process has"))?;
    let most = Some((kib << 10) + (1 << 30));
    let limits = Rlimit {
        current: most,
        maximum: most,
    };
    let process = Pid::from_raw(process as i32);
    prlimit(process, Resource::Data, limits)?;
    Ok(())
}

fn lie(what: impl std::fmt::Display) -> Failed {
    format!("the liar: {what}").into()
}

fn send(connection: &mut Connection, message: &Message<Vec<u8>>) -> Result<(), Failed> {
    connection.send(&message.encode()).map_err(lie)
}

fn receive(connection: &mut Connection) -> Result<Message<Vec<u8>>, Failed> {
    loop {
        let frame = connection.receive(LONG).map_err(lie)?;
        match Message::decode(&frame).map_err(lie)? {
            Message::Beat => {}
            message => return Ok(message),
        }
    }
}

/// Connects as soon as a process listens.
fn open(to: SocketAddr, id: &UniqueId, kind: Kind) -> Result<Connection, Failed> {
    let until = Instant::now() + LONG;
    loop {
        match Connection::open(to, &id.key, kind, LONG) {
            Ok(connection) => return Ok(connection),
            Err(ending) if Instant::now() > until => return Err(lie(ending)),
            Err(_) => std::thread::park_timeout(Duration::from_millis(10)),
        }
    }
}

/// Checks in as rank 1, closes the ring, and sends the information that a rank sends. Returns the
/// connections to rank 0 and from it, and the information of rank 0.
fn join_the_ring(id: &UniqueId) -> Result<(Connection, Connection, PeerInfo), Failed> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let own = listener.local_addr()?;
    let mut root = open(id.roots[0], id, Kind::Root)?;
    let check_in = CheckIn {
        rank: 1,
        ranks: 2,
        roots: 1,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        place: "process 1 on host liar".to_owned(),
        ring: own,
    };
    send(&mut root, &Message::CheckIn(Box::new(check_in)))?;
    let Message::Next(next) = receive(&mut root)? else {
        return Err(lie("the root does not name rank 0's address"));
    };
    let mut to = open(*next, id, Kind::Ring)?;
    send(&mut to, &Message::Hello(1))?;
    let mut acceptor = Acceptor::new(listener, &id.key, &[Kind::Ring], Until::Proved)?;
    let until = Instant::now() + LONG;
    let arrived = loop {
        acceptor.sleep(None, Some(until));
        if let Some(arrived) = acceptor.accept().pop() {
            break arrived;
        }
        check(Instant::now() < until, || "rank 0 does not come".to_owned())?;
    };
    let mut from = Connection::of(arrived, LONG).map_err(lie)?;
    let info = loop {
        if let Message::Block { block, .. } = receive(&mut from)? {
            let info: Option<PeerInfo> = postcard::from_bytes(&block)?;
            break info.ok_or_else(|| lie("rank 0 says nothing of itself"))?;
        }
    };
    let mine = PeerInfo {
        rank: 1,
        host: 1,
        host_name: "liar".to_owned(),
        process: std::process::id(),
        address: own,
        nics: vec![own],
        ..info.clone()
    };
    let block = Message::Block {
        exchange: 0,
        origin: 1,
        block: postcard::to_allocvec(&Some(mine))?,
    };
    send(&mut to, &block)?;
    Ok((to, from, info))
}

/// A frame of the bootstrap with a length of 4 GiB.
pub(crate) fn an_oversized_message() -> Result<Completion, Failed> {
    let id = id(&[&address()])?;
    let ranks = lone_rank(&id)?;
    let (to, from, _) = join_the_ring(&id.parse()?)?;
    limit(ranks.0[0].id())?;
    let mut stream = to.into_stream();
    stream.write_all(&u32::MAX.to_le_bytes())?;
    // Its length is enough to refuse it.
    let _ = stream.write_all(&[0; 100_000]);
    let said = ranks.finish()?;
    drop(from);
    all_say(
        &said,
        &[],
        &[
            "rank 1: process",
            "on host liar: its connection with rank 0",
            "a message of 4294967295 bytes, more than the 4194304 that are allowed",
        ],
    )?;
    Ok(Completion::Completed)
}

/// The action of a rank instead of sending its data.
enum Lie {
    /// Sends a slot that is far too long after its data, once this is set.
    Long(Arc<AtomicBool>),
    /// Sends nothing, over connections that stay open.
    Silence,
}

/// A rank that lies on its data connections only.
struct Liar {
    hosts: Hosts,
    lie: Lie,
    silent: Vec<TcpStream>,
}

/// Bytes of a slot for which no FIFO has room.
const LONG_SLOT: usize = 2 << 30;

struct Lying {
    slots: Box<dyn Outflow>,
    now: Arc<AtomicBool>,
    long: Option<Vec<u8>>,
}

impl Outflow for Lying {
    fn most_bytes(&self) -> usize {
        self.slots.most_bytes()
    }

    fn next(&mut self) -> Result<Option<&[u8]>, Oversized> {
        if self.long.is_none() && self.slots.next()?.is_none() && self.now.load(Ordering::Acquire) {
            // This memory is never touched.
            self.long = Some(vec![0; LONG_SLOT]);
        }
        match &self.long {
            Some(long) => Ok(Some(long)),
            None => self.slots.next(),
        }
    }

    fn release(&mut self) {
        self.slots.release();
    }
}

impl Network for Liar {
    fn begin(&mut self, bell: Bell) -> Result<Bell, Error> {
        self.hosts.begin(bell)
    }

    fn pxn_proxy(&self, _: &Route) -> Option<u32> {
        None
    }

    fn hand_over(&mut self, _: &Route, _: u32, _: HandedOver) -> Result<Option<Alarms>, Error> {
        Ok(None)
    }

    fn send(&mut self, route: &Route, slots: SlotsOut) -> Result<(), Error> {
        let SlotsOut::Copied(slots) = slots else {
            unreachable!("this rank has no device");
        };
        match &self.lie {
            Lie::Long(now) => {
                let slots = Lying {
                    slots,
                    now: Arc::clone(now),
                    long: None,
                };
                Network::send(&mut self.hosts, route, SlotsOut::Copied(Box::new(slots)))
            }
            Lie::Silence => {
                let to = self.hosts.infos()[route.to as usize].nics[0];
                let streams = connect::connect(route, to, self.hosts.key(), 1, LONG);
                self.silent.extend(streams.into_iter().flatten());
                Ok(())
            }
        }
    }

    fn receive(&mut self, route: &Route, slots: SlotsIn) -> Result<(), Error> {
        Network::receive(&mut self.hosts, route, slots)
    }
}

impl Bootstrap for Liar {
    testkit::ask_hosts!();
    testkit::ask_hosts!(offers);

    fn network(&mut self) -> Option<&mut dyn Network> {
        Some(self)
    }
}

/// The output of rank 0 when its peer lies on the data connection.
fn lied_to(long: bool) -> Result<Vec<Said>, Failed> {
    // A first job tells what all ranks of such a job must agree on.
    let first = id(&[&address()])?;
    let ranks = lone_rank(&first)?;
    let (_, _, info) = join_the_ring(&first.parse()?)?;
    drop(ranks);
    let second = id(&[&address()])?;
    let ranks = lone_rank(&second)?;
    let second: UniqueId = second.parse()?;
    let hosts = Hosts::join(Options {
        interfaces: Wanted {
            names: Some("=lo".to_owned()),
            family: Some("AF_INET".to_owned()),
        },
        host: Host::this(Some("liar")),
        version: info.version,
        fingerprint: info.fingerprint,
        alike: info.options,
        ..Options::new(1, 2, second.key, Meeting::Roots(second.roots))
    })?;
    let now = Arc::new(AtomicBool::new(false));
    let liar = Liar {
        hosts,
        lie: if long {
            Lie::Long(Arc::clone(&now))
        } else {
            Lie::Silence
        },
        silent: Vec::new(),
    };
    let settings = Settings {
        longest_wait: LONG,
        ..Settings::default()
    };
    let backend = Cpu::new(Arc::new(Profile::default()));
    let mut communicator = Communicator::join(backend, Box::new(liar), &settings)?;
    communicator.set_choice(Some(Choice {
        schedule: Schedule::Ring,
        transfer: Transfer::Fifo,
        protocol: Protocol::Simple,
        channels: 1,
        piece_bytes: 0,
    }));
    let mut elements = vec![1.0_f32; 16 << 10];
    if long {
        // A right launch, so that rank 0 has all memory that it needs.
        communicator.all_reduce(&mut elements, Reduction::Sum)?;
        limit(ranks.0[0].id())?;
        now.store(true, Ordering::Release);
    }
    // Data that was posted before is still sent.
    let mut lies = (0..100).map(|_| communicator.all_reduce(&mut elements, Reduction::Sum));
    let failed = lies.any(|it| it.is_err());
    check(failed, || "the liar gets answers".to_owned())?;
    drop(communicator);
    ranks.finish()
}

/// A slot of 2 GiB, far more than the slots of the FIFO have.
pub(crate) fn an_oversized_slot() -> Result<Completion, Failed> {
    let said = lied_to(true)?;
    all_say(
        &said,
        &[],
        &[
            "rank 1: process",
            "the connection from rank 1 to rank 0 (channel 0, Simple)",
            "brought a slot of 2147483648 bytes, more than the",
        ],
    )?;
    Ok(Completion::Completed)
}

/// A connection without data while the ring makes progress.
pub(crate) fn a_connection_that_stalls() -> Result<Completion, Failed> {
    let said = lied_to(false)?;
    all_say(
        &said,
        &[],
        &[
            "rank 1: process",
            "the connection from rank 1 to rank 0 (channel 0, Simple)",
            "brought nothing for 15 s",
        ],
    )?;
    Ok(Completion::Completed)
}

/// A TCP socket of a process.
pub(crate) struct Socket {
    local: SocketAddr,
    /// The kernel's number.
    pub(crate) state: u8,
}

impl Socket {
    pub(crate) const ESTABLISHED: u8 = 0x01;
    const LISTEN: u8 = 0x0a;
}

/// The addresses at which a process listens.
fn listens(child: &Child) -> Result<Vec<SocketAddr>, Failed> {
    let mut all = sockets(child)?;
    all.retain(|it| it.state == Socket::LISTEN);
    Ok(all.into_iter().map(|it| it.local).collect())
}

/// The sockets of a process, as the kernel lists them.
pub(crate) fn sockets(child: &Child) -> Result<Vec<Socket>, Failed> {
    let process = format!("/proc/{}", child.id());
    let mut sockets = Vec::new();
    for entry in std::fs::read_dir(format!("{process}/fd"))? {
        // The descriptor may be closed meanwhile.
        let Ok(link) = std::fs::read_link(entry?.path()) else {
            continue;
        };
        let link = link.to_string_lossy().into_owned();
        let inode = link.strip_prefix("socket:[").map(str::to_owned);
        sockets.extend(inode.map(|it| it.trim_end_matches(']').to_owned()));
    }
    let mut all = Vec::new();
    for line in std::fs::read_to_string(format!("{process}/net/tcp"))?.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, local, _, state, _, _, _, _, _, inode, ..] = words[..] else {
            continue;
        };
        // The first line has titles.
        if sockets.iter().any(|it| it == inode) {
            let (address, port) = local.split_once(':').unwrap_or_default();
            let address = u32::from_str_radix(address, 16)?.to_ne_bytes();
            all.push(Socket {
                local: SocketAddr::from((address, u16::from_str_radix(port, 16)?)),
                state: u8::from_str_radix(state, 16)?,
            });
        }
    }
    Ok(all)
}

/// Sends garbage to every port of working ranks: those of the bootstrap, and those for data.
pub(crate) fn garbage_at_every_port() -> Result<Completion, Failed> {
    let (_folder, place) = folder()?;
    let ranks = busy(4, &place, "800", &[])?;
    let mut ports = 0;
    for child in &ranks.0 {
        let all = listens(child)?;
        check(all.len() >= 2, || format!("a rank listens at {all:?} only"))?;
        for address in all {
            ports += 1;
            for garbage in [
                &b"GET / HTTP/1.1\r\n\r\n"[..],
                &[0xa5; 300_000],
                b"",
                &[0; 47],
            ] {
                // The rank may have ended, or close the connection before all is written.
                let Ok(mut stream) = TcpStream::connect(address) else {
                    continue;
                };
                let _ = stream.write_all(garbage);
                if garbage.len() >= 48 {
                    let mut said = Vec::new();
                    let _ = stream.read_to_end(&mut said);
                    check(said.is_empty(), || format!("it is told {said:?}"))?;
                }
            }
        }
    }
    check(ports >= 8, || format!("only {ports} ports"))?;
    all_right(&ranks.finish()?)
}
