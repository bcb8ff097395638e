//! One question to NCCL's RAS, with deadlines.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use records::evidence::ras;

/// Suits all versions: 2.27 refuses JSON, and answers in text. It only reads.
const QUESTION: &[u8] = b"CLIENT PROTOCOL 2\nSET FORMAT json\nVERBOSE STATUS\n";

/// Until the first byte: a stopped process, which the connection may reach, is silent. On an idle
/// machine it comes within 2 ms; on an overloaded one some take longer than 1 s.
const GREETING: Duration = Duration::from_secs(2);

/// Until the end: RAS waits up to 5 s for processes that stopped.
const ANSWER: Duration = Duration::from_secs(12);

/// Bytes that are read at once.
const PIECE: usize = 64 << 10;

/// What became of a question.
#[derive(Debug)]
pub(super) enum Said {
    Bytes(Vec<u8>),
    Refused,
    Silent,
}

/// The addresses of a host, those of IPv4 first, where NCCL listens.
pub(super) fn addresses(host: &str, port: u16) -> Result<Vec<SocketAddr>> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let is_bare = host.matches(':').count() != 1 && !host.contains("]:");
    let found = match is_bare {
        true => (bare, port).to_socket_addrs(),
        false => host.to_socket_addrs(),
    };
    let found = found.with_context(|| format!("{host}: expected a host or HOST:PORT"))?;
    let mut all: Vec<SocketAddr> = found.collect();
    all.sort_by_key(SocketAddr::is_ipv6);
    if all.is_empty() {
        bail!("{host} has no address");
    }
    Ok(all)
}

/// Asks the first address that accepts.
pub(super) fn ask(addresses: &[SocketAddr]) -> Said {
    let mut is_refused = true;
    for address in addresses {
        match TcpStream::connect_timeout(address, GREETING) {
            Ok(stream) => return answer(stream).unwrap_or(Said::Silent),
            Err(error) => is_refused &= error.kind() == ErrorKind::ConnectionRefused,
        }
    }
    match is_refused {
        true => Said::Refused,
        false => Said::Silent,
    }
}

fn answer(mut stream: TcpStream) -> std::io::Result<Said> {
    stream.set_write_timeout(Some(GREETING))?;
    stream.write_all(QUESTION)?;
    let began = Instant::now();
    let mut bytes = Vec::new();
    let mut piece = vec![0; PIECE];
    loop {
        let limit = if bytes.is_empty() { GREETING } else { ANSWER };
        let left = limit.saturating_sub(began.elapsed());
        if left.is_zero() || bytes.len() > ras::MOST_BYTES {
            return Ok(Said::Silent);
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut piece) {
            Ok(0) => return Ok(Said::Bytes(bytes)),
            Ok(read) => bytes.extend_from_slice(&piece[..read]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
