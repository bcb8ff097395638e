//! Rings, trees, heads of NVLink SHARP, and connections.

use super::{LineFault, Statement};
use crate::nccl_log::cursor::{Cursor, find, strip};
use crate::nccl_log::decisions::{Local, Neighbors, Port};

/// A connection as one of its ends logs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connection<'a> {
    /// The channel.
    pub channel: u32,
    /// 0 for rings and trees, 1 for point-to-point transfers; 0 where the line does not say.
    pub index: u32,
    /// The sender.
    pub from: u32,
    /// The receiver.
    pub to: u32,
    /// Which end logs it.
    pub end: End,
    /// The carrier of the data.
    pub transport: Transport<'a>,
}

/// Which end of a connection logs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    /// The line does not say.
    Unknown,
    /// The sender.
    Sender,
    /// The receiver.
    Receiver,
}

/// The carrier of a connection's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport<'a> {
    /// GPU to GPU or through the host's memory.
    Local {
        /// How.
        how: Local,
        /// In NCCL's words, such as `IPC` or `CUMEM`.
        kind: &'a str,
    },
    /// The network.
    Network {
        /// The net plug-in, such as `IB`.
        name: &'a str,
        /// The port.
        port: Port,
    },
    /// Another one, in NCCL's words.
    Other(&'a str),
}

impl<'a> Transport<'a> {
    /// The part of the line that names it.
    pub const fn text(&self) -> &'a str {
        match self {
            Self::Local { kind, .. } => kind,
            Self::Network { name, .. } => name,
            Self::Other(how) => how,
        }
    }
}

/// Reads a text that begins with `Channel ` or `Ring `, without that word.
pub(super) fn channel(text: &str) -> Statement<'_> {
    let mut cursor = Cursor::new(text);
    match numbered(&mut cursor) {
        Some(statement) => statement,
        None => Statement::Broken(LineFault::of(&cursor, text)),
    }
}

fn numbered<'a>(cursor: &mut Cursor<'a>) -> Option<Statement<'a>> {
    let channel: u32 = cursor.number()?;
    let second: Option<u32> = match cursor.skip("/") {
        true => Some(cursor.number()?),
        false => None,
    };
    cursor.spaces();
    cursor.word(":")?;
    if cursor.is_at_end() {
        // NCCL's own lines name ranks; forks print empty ones before a list.
        return Some(Statement::Ignored);
    }
    let first: Option<u32> = cursor.rank()?;
    if cursor.skip("[") {
        cursor.until(b']')?;
        return connection(cursor, channel, second, first?).map(Statement::Connection);
    }
    let mut next = *cursor;
    next.spaces();
    if !next.skip("->") {
        return order(cursor, channel, second, first?);
    }
    *cursor = next;
    let mut second_end = *cursor;
    let rank: u32 = second_end.number()?;
    let mut third = second_end;
    third.spaces();
    if third.skip("->") {
        *cursor = third;
        let next = cursor.number()?;
        end(cursor)?;
        return Some(Statement::RingNeighbors {
            channel,
            previous: first,
            rank,
            next,
        });
    }
    to(cursor, channel, second, first?).map(Statement::Connection)
}

/// The end of a line that NCCL has cut off.
const CUT: &str = "...";

/// `0 1 2 …`: the ranks of a ring. NCCL cuts long lines off, and writes `...`.
fn order<'a>(
    cursor: &mut Cursor<'a>,
    channel: u32,
    of: Option<u32>,
    first: u32,
) -> Option<Statement<'a>> {
    let mut ranks = vec![first];
    while !cursor.is_at_end() {
        let rest = cursor.rest().trim();
        if rest.starts_with("comm ") {
            break;
        }
        if rest == CUT {
            // The last number may be cut, too.
            ranks.pop();
            cursor.spaces();
            cursor.skip(CUT);
            break;
        }
        ranks.push(cursor.number()?);
    }
    Some(Statement::Ring { channel, of, ranks })
}

/// Nothing is left but what AMD's library adds: `comm 0x… nRanks 08 busId 3000`.
fn end(cursor: &mut Cursor<'_>) -> Option<()> {
    cursor.spaces();
    (cursor.is_at_end() || cursor.skip("comm ")).then_some(())
}

fn connection<'a>(
    cursor: &mut Cursor<'a>,
    channel: u32,
    index: Option<u32>,
    from: u32,
) -> Option<Connection<'a>> {
    cursor.spaces();
    cursor.word("->")?;
    to(cursor, channel, index, from)
}

/// `2[2] [send] via NET/IB/0/GDRDMA`: the receiver and the transport.
fn to<'a>(
    cursor: &mut Cursor<'a>,
    channel: u32,
    index: Option<u32>,
    from: u32,
) -> Option<Connection<'a>> {
    let to: u32 = cursor.number()?;
    if cursor.skip("[") {
        cursor.until(b']')?;
    }
    cursor.spaces();
    let mut end = End::Unknown;
    if cursor.rest().starts_with('[') {
        if strip(cursor.rest(), "[s").is_some() {
            cursor.word("[send]")?;
            end = End::Sender;
        } else {
            cursor.word("[receive]")?;
            end = End::Receiver;
        }
        cursor.spaces();
    }
    cursor.word("via")?;
    cursor.spaces();
    let how = cursor.rest();
    let has_space = memchr::memchr(b' ', how.as_bytes()).is_some();
    let comm = has_space.then(|| find(how, " ", "comm ")).flatten();
    let how = comm.map_or(how, |at| how[..at - 1].trim_end());
    let transport = transport(cursor, how, has_space, end, [from, to])?;
    Some(Connection {
        channel,
        index: index.unwrap_or(0),
        from,
        to,
        end,
        transport,
    })
}

/// Reads `P2P/direct pointer/read`, `P2P/indirect/2[2]`, `SHM/direct/direct`,
/// `NET/plug-in/1(3)/GDRDMA`.
fn transport<'a>(
    cursor: &mut Cursor<'a>,
    how: &'a str,
    has_space: bool,
    end: End,
    [from, to]: [u32; 2],
) -> Option<Transport<'a>> {
    let slash = how.bytes().position(|it| it == b'/');
    let (first, rest) = slash.map_or((how, ""), |at| (&how[..at], &how[at + 1..]));
    let transport = match first {
        "P2P" => {
            let mut parts = rest.split('/');
            let kind = parts.next().unwrap_or(rest);
            let via = (kind == "indirect")
                .then(|| parts.next().and_then(crate::nccl_log::cursor::number));
            let is_other_text = |it: &str| it.contains(' ') && !"direct pointer".starts_with(it);
            if kind.is_empty() || (has_space && rest.split('/').any(is_other_text)) {
                cursor.word("P2P/")?;
                return None;
            }
            let how = Local::Direct {
                via: via.flatten(),
                read: rest.ends_with("/read"),
            };
            Transport::Local { how, kind }
        }
        "SHM" => Transport::Local {
            how: Local::SharedMemory,
            kind: rest,
        },
        "direct shared memory" => Transport::Local {
            how: Local::SharedMemory,
            kind: how,
        },
        "NET" => return network(cursor, end, [from, to]),
        "" => return None,
        _ => Transport::Other(how),
    };
    Some(transport)
}

/// `NET/plug-in/1(3)/GDRDMA/flush=None`.
fn network<'a>(cursor: &mut Cursor<'a>, end: End, [from, to]: [u32; 2]) -> Option<Transport<'a>> {
    cursor.word("NET/")?;
    let name = cursor.until(b'/')?;
    let device: i32 = match cursor.skip("-") {
        true => cursor.number::<i32>().map(|it| -it)?,
        false => cursor.number()?,
    };
    let proxy = match cursor.skip("(") {
        true => {
            let proxy: u32 = cursor.number()?;
            cursor.word(")")?;
            Some(proxy)
        }
        false => None,
    };
    let mut gdr = false;
    while cursor.skip("/") {
        if cursor.rest().starts_with('G') {
            cursor.word("GDRDMA")?;
            gdr = true;
            if cursor.skip("(") {
                cursor.until(b')')?;
            }
        } else {
            // `Shared`, `flush=None` and what later versions add.
            let rest = cursor.rest();
            let length = rest.find(['/', ' ']).unwrap_or(rest.len());
            cursor.word(&rest[..length])?;
        }
    }
    self::end(cursor)?;
    let own = if end == End::Sender { from } else { to };
    let port = Port {
        device,
        proxy: proxy.unwrap_or(own),
        gdr,
    };
    Some(Transport::Network { name, port })
}

/// Reads `[0] 1/-1/-1->0->-1 [1] …` after `Trees `: below, the rank, above; before 2.5 above first.
/// NCCL cuts these lines at 1024 characters, so the last tree of a long line is left out.
pub(super) fn trees(text: &str) -> Statement<'_> {
    let is_long = text.len() >= LONG_LINE;
    let whole = match text.rfind('[') {
        Some(last) if is_long => &text[..last],
        _ => text,
    };
    let mut cursor = Cursor::new(whole);
    let mut trees = Vec::new();
    while !cursor.is_at_end() {
        cursor.spaces();
        if cursor.skip("comm ") {
            break;
        }
        match tree_of_channel(&mut cursor) {
            Some(tree) => trees.push(tree),
            None => return Statement::Broken(LineFault::of(&cursor, whole)),
        }
    }
    Statement::Trees {
        trees,
        is_cut: is_long,
    }
}

/// NCCL cuts lines with trees at 1024 characters, with their heads.
const LONG_LINE: usize = 960;

fn tree_of_channel(cursor: &mut Cursor<'_>) -> Option<(u32, u32, Neighbors)> {
    cursor.word("[")?;
    let channel = cursor.number()?;
    cursor.word("]")?;
    let (rank, neighbors) = tree(cursor)?;
    // 2.6 and 2.7 have the two directions of a tree; the second one is the first again.
    if cursor.skip("|") {
        tree(cursor)?;
    }
    Some((channel, rank, neighbors))
}

/// One side of a tree: one rank or several with slashes.
#[derive(Clone, Copy)]
struct Side {
    slots: [Option<u32>; 3],
    length: usize,
}

fn side(cursor: &mut Cursor<'_>) -> Option<Side> {
    let mut side = Side {
        slots: [None; 3],
        length: 0,
    };
    loop {
        let rank = cursor.rank()?;
        if let Some(slot) = side.slots.get_mut(side.length) {
            *slot = rank;
        }
        side.length += 1;
        if !cursor.skip("/") {
            return Some(side);
        }
    }
}

/// `1/-1/-1->0->-1` or `-1->0->1/-1/-1`, also with spaces.
fn tree(cursor: &mut Cursor<'_>) -> Option<(u32, Neighbors)> {
    let arrow = |cursor: &mut Cursor<'_>| {
        cursor.spaces();
        cursor.word("->")
    };
    let left = side(cursor)?;
    arrow(cursor)?;
    let rank = cursor.number()?;
    arrow(cursor)?;
    let right = side(cursor)?;
    let (down, up) = match left.length > right.length {
        true => (left, right),
        false => (right, left),
    };
    let neighbors = Neighbors {
        up: up.slots[0],
        down: down.slots,
    };
    Some((rank, neighbors))
}

/// Reads `0 : -1 -> 1 -> 0/-1/-1` after `Tree `: above, the rank, below.
pub(super) fn one_tree(text: &str) -> Statement<'_> {
    let mut cursor = Cursor::new(text);
    let mut read = || {
        let channel = cursor.number()?;
        cursor.spaces();
        cursor.word(":")?;
        let (rank, neighbors) = tree(&mut cursor)?;
        end(&mut cursor)?;
        Some((channel, rank, neighbors))
    };
    match read() {
        Some(tree) => Statement::Trees {
            trees: vec![tree],
            is_cut: false,
        },
        None => Statement::Broken(LineFault::of(&cursor, text)),
    }
}

/// Reads `0:  0  8` after `NVLS Head `: a head, and its rank in each node.
pub(super) fn nvls_head(text: &str) -> Statement<'_> {
    let mut cursor = Cursor::new(text);
    let mut ranks = Vec::new();
    let mut read = || {
        let head = cursor.number()?;
        cursor.word(":")?;
        while !cursor.is_at_end() {
            // A node may lack the head.
            ranks.extend(cursor.rank()?);
        }
        Some(head)
    };
    match read() {
        Some(head) => Statement::NvlsHead { head, ranks },
        None => Statement::Broken(LineFault::of(&cursor, text)),
    }
}

/// Reads the two trees over nodes after `NVLS Trees : `.
pub(super) fn nvls_trees(text: &str) -> Statement<'_> {
    let mut cursor = Cursor::new(text);
    let mut read = || {
        let (rank, first) = tree(&mut cursor)?;
        let (_, second) = tree(&mut cursor)?;
        Some((rank, [first, second]))
    };
    match read() {
        Some((rank, trees)) => Statement::NvlsTrees { rank, trees },
        None => Statement::Broken(LineFault::of(&cursor, text)),
    }
}
