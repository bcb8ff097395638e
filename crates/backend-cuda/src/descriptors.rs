//! Hands file descriptors to other processes of the host, over a Unix socket.
//!
//! Each process has one socket with an abstract name, made when the first descriptor is offered. A
//! descriptor's word has the socket's name, a secret and a number; ranks exchange words over
//! connections that the job's token protects. A process gets the descriptor if it runs as the same
//! user (`SO_PEERCRED`) and knows the secret. Containers allow this, and do not allow
//! `pidfd_getfd`.

use std::collections::HashMap;
use std::fs::File;
use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg, sockopt,
};

use crate::handles::{digits, lock, unknown};

/// Bytes of a name and of a secret.
const RANDOM: usize = 16;

/// A request: the secret and the descriptor's number.
const REQUEST: usize = RANDOM + 8;

/// Time limit for one message.
const MESSAGE_TIME: Duration = Duration::from_secs(5);

/// Sent with a descriptor, and without one that is no longer offered.
const GIVEN: u8 = 1;
const GONE: u8 = 0;

/// Offered descriptors, by number.
type OfferedDescriptors = Mutex<HashMap<u64, Arc<OwnedFd>>>;

/// The socket of this process.
#[derive(Debug)]
struct Server {
    name: String,
    secret: [u8; RANDOM],
    offered: Arc<OfferedDescriptors>,
    next: AtomicU64,
}

static SERVER: OnceLock<Result<Server, String>> = OnceLock::new();

/// A descriptor that other processes can take until this is dropped.
#[derive(Debug)]
pub(crate) struct Offer {
    descriptor: Arc<OwnedFd>,
    number: u64,
    word: String,
}

impl Offer {
    /// Offers a descriptor.
    ///
    /// # Errors
    /// The socket cannot be made.
    pub fn new(descriptor: OwnedFd) -> Result<Self, String> {
        let server = SERVER.get_or_init(Server::start);
        let server = server.as_ref().map_err(Clone::clone)?;
        let number = server.next.fetch_add(1, Ordering::Relaxed);
        let descriptor = Arc::new(descriptor);
        lock(&server.offered).insert(number, Arc::clone(&descriptor));
        Ok(Self {
            descriptor,
            number,
            word: format!("{}.{}.{number}", server.name, digits(&server.secret)),
        })
    }

    /// The text with which another process takes it, without spaces and colons.
    pub fn word(&self) -> &str {
        &self.word
    }

    /// A duplicate for this process.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn duplicate(&self) -> Result<OwnedFd, String> {
        self.descriptor
            .try_clone()
            .map_err(|error| format!("duplicating a descriptor: {error}"))
    }
}

impl Drop for Offer {
    fn drop(&mut self) {
        if let Some(Ok(server)) = SERVER.get() {
            lock(&server.offered).remove(&self.number);
        }
    }
}

/// Random bytes of the kernel.
fn random() -> Result<[u8; RANDOM], String> {
    let mut bytes = [0; RANDOM];
    let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.map(|()| bytes)
        .map_err(|error| format!("reading /dev/urandom: {error}"))
}

impl Server {
    fn start() -> Result<Self, String> {
        let failed = |error: std::io::Error| {
            format!("making a socket that hands out descriptors of memory: {error}")
        };
        let name = digits(&random()?);
        let address = SocketAddr::from_abstract_name(&name).map_err(failed)?;
        let listener = UnixListener::bind_addr(&address).map_err(failed)?;
        let server = Self {
            name,
            secret: random()?,
            offered: Arc::default(),
            next: AtomicU64::new(0),
        };
        let (secret, offered) = (server.secret, Arc::clone(&server.offered));
        let thread = std::thread::Builder::new().name("descriptors".to_owned());
        let serve = move || {
            for connection in listener.incoming().flatten() {
                // A connection that fails is that process's problem, which learns it there.
                let _ = answer(&connection, &secret, &offered);
            }
        };
        thread.spawn(serve).map_err(failed)?;
        Ok(server)
    }
}

/// Answers one request.
fn answer(
    connection: &UnixStream,
    secret: &[u8],
    offered: &OfferedDescriptors,
) -> std::io::Result<()> {
    let peer = sockopt::socket_peercred(connection)?;
    if peer.uid != rustix::process::geteuid() {
        return Ok(());
    }
    connection.set_read_timeout(Some(MESSAGE_TIME))?;
    connection.set_write_timeout(Some(MESSAGE_TIME))?;
    let mut request = [0; REQUEST];
    let mut reader = connection;
    reader.read_exact(&mut request)?;
    let (told, number) = request.split_at(RANDOM);
    // All bytes are compared, so that the time tells nothing.
    let differs = told
        .iter()
        .zip(secret)
        .fold(0, |all, (one, other)| all | (one ^ other));
    if differs != 0 {
        return Ok(());
    }
    let number = number.try_into().map_or(u64::MAX, u64::from_le_bytes);
    let found = lock(offered).get(&number).cloned();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors = found.as_ref().map(|found| [found.as_fd()]);
    if let Some(descriptors) = &descriptors {
        ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    let message = [if descriptors.is_some() { GIVEN } else { GONE }];
    sendmsg(
        connection,
        &[IoSlice::new(&message)],
        &mut ancillary,
        SendFlags::NOSIGNAL,
    )?;
    Ok(())
}

/// Takes a descriptor that another process of this user offers.
///
/// # Errors
/// The word has another form, the process has ended or no longer offers the descriptor.
pub(crate) fn take(word: &str) -> Result<OwnedFd, String> {
    let mut parts = word.split('.');
    let (name, secret, number) = (parts.next(), parts.next(), parts.next());
    let (Some(name), Some(secret), Some(number)) = (name, secret, number) else {
        return Err(unknown());
    };
    let number: u64 = number.parse().map_err(|_| unknown())?;
    let mut request = Vec::with_capacity(REQUEST);
    for at in (0..2 * RANDOM).step_by(2) {
        let pair = secret.get(at..at + 2).ok_or_else(unknown)?;
        request.push(u8::from_str_radix(pair, 16).map_err(|_| unknown())?);
    }
    request.extend(number.to_le_bytes());
    let failed = |error: std::io::Error| {
        format!("taking a descriptor from another process, over a Unix socket: {error}")
    };
    let address = SocketAddr::from_abstract_name(name).map_err(failed)?;
    let connection = UnixStream::connect_addr(&address).map_err(failed)?;
    connection
        .set_read_timeout(Some(MESSAGE_TIME))
        .map_err(failed)?;
    let mut writer = &connection;
    writer.write_all(&request).map_err(failed)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut message = [GONE];
    let received = recvmsg(
        &connection,
        &mut [IoSliceMut::new(&mut message)],
        &mut ancillary,
        RecvFlags::CMSG_CLOEXEC,
    );
    received.map_err(|errno| failed(errno.into()))?;
    let mut taken = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    taken.next().ok_or_else(|| {
        "the other process no longer offers the memory, or takes this one for a stranger".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pipe() -> (std::io::PipeReader, OwnedFd) {
        let (read, write) = std::io::pipe().unwrap();
        (read, write.into())
    }

    #[test]
    fn a_descriptor_is_handed_over() {
        let (mut read, write) = pipe();
        let offer = Offer::new(write).unwrap();
        let taken = take(offer.word()).unwrap();
        drop(offer);
        File::from(taken).write_all(b"hello").unwrap();
        let mut text = String::new();
        read.read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello");
    }

    #[test]
    fn strangers_get_nothing() {
        let (_read, write) = pipe();
        let offer = Offer::new(write).unwrap();
        let mut parts: Vec<String> = offer.word().split('.').map(str::to_owned).collect();
        parts[1] = "00".repeat(RANDOM);
        assert!(take(&parts.join(".")).is_err());
        let word = offer.word().to_owned();
        drop(offer);
        assert!(take(&word).is_err());
        for wrong in ["", "a.b", "a.zz.1", "a.b.c"] {
            assert!(take(wrong).is_err());
        }
    }
}
