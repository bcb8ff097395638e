//! Accepting connections: an [`Acceptor`] at every listener lets ranks in and keeps strangers out.
//!
//! Until a connection has proved that it belongs to the job, it may be a stranger's. An acceptor
//! waits for none of them, starts no thread for them, and holds a bounded number. When it is full,
//! it closes the oldest connection of the address with the most connections, silent ones first.
//! That may hit a rank whose proof is in transit, so a rank connects again if its connection ends
//! before both sides have proved.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::id::{Key, nonce};
use crate::link::{Kind, Link, LinkError};

/// Time for the proof, and for the first frame.
pub const PROOF_TIME: Duration = Duration::from_secs(10);

/// Most unproved connections of an acceptor.
const MOST_UNPROVED: usize = 1024;

/// Fewest unproved connections, even if the process may open few descriptors.
const LEAST_UNPROVED: usize = 16;

/// How long a connection that has begun its proof is kept while others want its place, for each
/// place: with 1024 places a quarter of a second, so 4000 strangers delay a rank by a second.
const KEPT_PER_PLACE: Duration = Duration::from_micros(250);

/// Most connections accepted before those that can make progress get their turn.
const AT_A_TIME: usize = 64;

/// Pause of accepting when the kernel has no descriptor or memory for it.
const PAUSE: Duration = Duration::from_millis(50);

/// The listener's number in epoll. Connections count from 0.
const LISTENER: u64 = u64::MAX;

/// Acceptors of this process, which share its descriptors.
static ACCEPTORS: AtomicUsize = AtomicUsize::new(0);

/// When an acceptor hands a connection over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// Both sides have proved that they know the key.
    Proved,
    /// After that a frame has arrived.
    Heard,
}

/// A connection on which both sides have proved that they know the key.
#[derive(Debug)]
pub struct Arrived {
    pub(super) stream: TcpStream,
    pub(super) link: Link,
    /// Its purpose.
    pub kind: Kind,
    /// Its first frame; empty with [`Until::Proved`].
    pub frame: Vec<u8>,
}

impl Arrived {
    /// The socket, non-blocking, for everything behind the bytes that were read.
    pub fn into_stream(self) -> TcpStream {
        self.stream
    }
}

/// A connection without a complete proof.
#[derive(Debug)]
struct Unproved {
    stream: TcpStream,
    link: Link,
    from: SocketAddr,
    since: Instant,
    /// Whether it has sent anything.
    began: bool,
}

/// A listener and its unproved connections.
#[derive(Debug)]
pub struct Acceptor {
    /// Another acceptor may use it later.
    listener: Arc<TcpListener>,
    key: Key,
    kinds: &'static [Kind],
    until: Until,
    /// Readable when there is something to do.
    epoll: OwnedFd,
    /// By number, so the oldest comes first.
    unproved: BTreeMap<u64, Unproved>,
    /// Unproved connections by address.
    counts: HashMap<IpAddr, usize>,
    next: u64,
    /// Nothing is accepted before this time.
    paused: Option<Instant>,
    turned_away: u32,
    /// The last connection that spoke this protocol and was turned away, and why.
    refused: Option<(IpAddr, LinkError)>,
}

impl Acceptor {
    /// Accepts connections for these purposes whose other side knows the key.
    ///
    /// # Errors
    /// The kernel has no descriptor left.
    pub fn new(
        listener: impl Into<Arc<TcpListener>>,
        key: &Key,
        kinds: &'static [Kind],
        until: Until,
    ) -> io::Result<Self> {
        let listener = listener.into();
        listener.set_nonblocking(true)?;
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let data = EventData::new_u64(LISTENER);
        epoll::add(&epoll, &listener, data, EventFlags::IN)?;
        ACCEPTORS.fetch_add(1, Ordering::Relaxed);
        Ok(Self {
            listener,
            key: key.clone(),
            kinds,
            until,
            epoll,
            unproved: BTreeMap::new(),
            counts: HashMap::new(),
            next: 0,
            paused: None,
            turned_away: 0,
            refused: None,
        })
    }

    /// When [`Self::accept`] must be called even if nothing became readable.
    pub fn next_deadline(&self) -> Option<Instant> {
        let first = self.unproved.values().next();
        let late = first.map(|it| it.since + PROOF_TIME);
        [late, self.paused].into_iter().flatten().min()
    }

    /// Connections that were turned away so far.
    pub const fn turned_away(&self) -> u32 {
        self.turned_away
    }

    /// Takes the last connection that spoke this protocol and was turned away, and why: it may be a
    /// rank with other arguments.
    pub fn take_refused(&mut self) -> Option<(IpAddr, LinkError)> {
        self.refused.take()
    }

    /// Sleeps until there is something to do, `stop` is readable, or `until`. Returns whether
    /// `stop` is readable.
    pub fn sleep(&self, stop: Option<BorrowedFd<'_>>, until: Option<Instant>) -> bool {
        let mut fds = vec![PollFd::new(self, PollFlags::IN)];
        fds.extend(stop.map(|it| PollFd::from_borrowed_fd(it, PollFlags::IN)));
        let until = [until, self.next_deadline()].into_iter().flatten().min();
        let left = until.map(|it| it.saturating_duration_since(Instant::now()));
        // Avoids a busy loop for a fraction of a millisecond.
        let left = left.map(|it| it.max(Duration::from_millis(1)));
        let timeout = left.and_then(|it| Timespec::try_from(it).ok());
        // A signal only ends the sleep early.
        let _ = poll(&mut fds, timeout.as_ref());
        fds.get(1).is_some_and(|it| !it.revents().is_empty())
    }

    /// Does everything that needs no waiting. Returns the connections that have proved themselves.
    pub fn accept(&mut self) -> Vec<Arrived> {
        let mut arrived = Vec::new();
        let mut events = Vec::with_capacity(4 * AT_A_TIME);
        // An error is a signal: epoll reports the events again.
        let _ = epoll::wait(
            &self.epoll,
            rustix::buffer::spare_capacity(&mut events),
            Some(&Timespec::default()),
        );
        for number in events.iter().map(|it| it.data.u64()) {
            if number != LISTENER {
                arrived.extend(self.step(number));
            }
        }
        let now = Instant::now();
        while let Some((number, it)) = self.unproved.first_key_value()
            && now >= it.since + PROOF_TIME
        {
            let number = *number;
            self.turn_away(number);
        }
        if self.paused.is_some_and(|until| now >= until) {
            self.listen(None);
        }
        if self.paused.is_none() {
            self.take_some(&mut arrived);
        }
        arrived
    }

    /// Accepts some connections.
    fn take_some(&mut self, arrived: &mut Vec<Arrived>) {
        let places = places();
        for _ in 0..AT_A_TIME {
            if self.unproved.len() >= places
                && let Err(until) = self.make_room(KEPT_PER_PLACE * places as u32)
            {
                self.listen(Some(until));
                return;
            }
            let (stream, from) = match self.listener.accept() {
                Ok(accepted) => accepted,
                Err(error) => match Errno::from_io_error(&error) {
                    Some(Errno::AGAIN) => return,
                    Some(Errno::INTR | Errno::CONNABORTED) => continue,
                    // Without descriptors or memory, the least useful connection makes room.
                    _ if self.make_room(Duration::ZERO).is_ok() => continue,
                    _ => {
                        self.listen(Some(Instant::now() + PAUSE));
                        return;
                    }
                },
            };
            let number = self.next;
            self.next += 1;
            // Without a descriptor for epoll, the connection is dropped.
            if let Ok(unproved) = self.begin(stream, from, number) {
                *self.counts.entry(network(from.ip())).or_default() += 1;
                self.unproved.insert(number, unproved);
                arrived.extend(self.step(number));
            }
        }
    }

    fn begin(&self, stream: TcpStream, from: SocketAddr, number: u64) -> io::Result<Unproved> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let link = Link::accept(&self.key, nonce()?);
        epoll::add(
            &self.epoll,
            &stream,
            EventData::new_u64(number),
            EventFlags::IN,
        )?;
        Ok(Unproved {
            stream,
            link,
            from,
            since: Instant::now(),
            began: false,
        })
    }

    /// Polls the listener, or pauses until a time.
    fn listen(&mut self, paused: Option<Instant>) {
        let flags = match paused {
            None => EventFlags::IN,
            Some(_) => EventFlags::empty(),
        };
        let data = EventData::new_u64(LISTENER);
        // Fails only for descriptors that were not added.
        let _ = epoll::modify(&self.epoll, &self.listener, data, flags);
        self.paused = paused;
    }

    /// Closes the connection with the least right to its place, or returns when one can be closed.
    fn make_room(&mut self, kept: Duration) -> Result<(), Instant> {
        let most = self.counts.values().copied().max();
        let held = |it: &Unproved| self.counts.get(&network(it.from.ip())).copied();
        let mut candidates = self.unproved.iter().filter(|(_, it)| held(it) == most);
        let oldest = candidates.clone().next();
        let silent = candidates.find(|(_, it)| !it.began);
        let Some((number, it)) = silent.or(oldest) else {
            return Err(Instant::now() + PAUSE);
        };
        let until = it.since + kept;
        if it.began && Instant::now() < until {
            return Err(until);
        }
        let number = *number;
        self.turn_away(number);
        Ok(())
    }

    fn turn_away(&mut self, number: u64) {
        self.remove(number);
        self.turned_away += 1;
    }

    fn remove(&mut self, number: u64) -> Option<Unproved> {
        let unproved = self.unproved.remove(&number)?;
        let address = network(unproved.from.ip());
        if let Some(count) = self.counts.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&address);
            }
        }
        Some(unproved)
    }

    /// Reads from a connection and answers it. Returns it if it has proved itself.
    fn step(&mut self, number: u64) -> Option<Arrived> {
        let unproved = self.unproved.get_mut(&number)?;
        match unproved.step(self.until) {
            Ok(None) => None,
            Ok(Some(frame)) => {
                let Unproved { stream, link, .. } = self.remove(number)?;
                // It would be polled as long as any descriptor of it is open.
                epoll::delete(&self.epoll, &stream).ok()?;
                let kind = link.is_open().filter(|it| self.kinds.contains(it))?;
                Some(Arrived {
                    stream,
                    link,
                    kind,
                    frame,
                })
            }
            Err(error) => {
                if let Some(error @ (LinkError::WrongToken | LinkError::Version { .. })) = error {
                    self.refused = Some((unproved.from.ip(), error));
                }
                self.turn_away(number);
                None
            }
        }
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        ACCEPTORS.fetch_sub(1, Ordering::Relaxed);
    }
}

impl AsFd for Acceptor {
    /// Readable when there is something to do.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl Unproved {
    /// Reads no further than needed, because the rest may be read in another format. Returns the
    /// first frame, or `None` if bytes are missing.
    fn step(&mut self, until: Until) -> Result<Option<Vec<u8>>, Option<LinkError>> {
        let mut bytes = [0; 4096];
        loop {
            if self.link.is_open().is_some() {
                if until == Until::Proved {
                    return Ok(Some(Vec::new()));
                }
                if let Some(frame) = self.link.next_frame()? {
                    return Ok(Some(frame));
                }
            }
            let wanted = self.link.wanted().clamp(1, bytes.len());
            match self.stream.read(&mut bytes[..wanted]) {
                Ok(0) => return Err(None),
                Ok(read) => {
                    self.began = true;
                    let pushed = self.link.push(&bytes[..read]);
                    let answer = self.link.outgoing().len();
                    if answer > 0 {
                        // A send buffer always has room for so few bytes. A connection that is
                        // turned away is told why.
                        let sent = self.stream.write(self.link.outgoing());
                        if sent.ok() != Some(answer) {
                            return Err(pushed.err());
                        }
                        self.link.sent(answer);
                    }
                    pushed?;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(_) => return Err(None),
            }
        }
    }
}

/// Most unproved connections of an acceptor: all together may use half of the process's
/// descriptors.
fn places() -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let acceptors = ACCEPTORS.load(Ordering::Relaxed).max(1) as u64;
    let share = usize::try_from(limit / 2 / acceptors).unwrap_or(usize::MAX);
    share.clamp(LEAST_UNPROVED, MOST_UNPROVED)
}

/// The unit in which addresses are counted: for IPv6 the network, because a host can have any
/// address in it.
fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => match address.to_ipv4_mapped() {
            Some(address) => IpAddr::V4(address),
            None => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        },
    }
}
