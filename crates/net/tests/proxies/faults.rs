//! Pipes with faults, drawn from a seed: they delay, stall, drop, cut, and alter data.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::net::TcpStream;
use std::sync::Arc;

use fastrand::Rng;
use net::tcp::pipe::Pipe;

/// A fault of a pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// None.
    None,
    /// Writes take few bytes, and sometimes none.
    Trickle,
    /// After this many bytes all others are lost, without an error.
    Stall(u64),
    /// After this many bytes the connection is cut.
    Cut(u64),
    /// A bit after this many bytes is altered.
    Alter(u64),
    /// This many bytes, after as many, are lost.
    Drop(u64),
}

impl Fault {
    /// A random fault within this many bytes.
    pub(crate) fn random(random: &mut Rng, within: u64) -> Self {
        let at = random.u64(..within);
        match random.u32(..6) {
            0 => Self::Trickle,
            1 => Self::Stall(at),
            2 => Self::Cut(at),
            3 => Self::Alter(at),
            4 => Self::Drop(at),
            _ => Self::None,
        }
    }
}

/// A pipe that applies a fault to what is written to another pipe.
pub(crate) struct Faulty<P> {
    inner: P,
    fault: Fault,
    random: Rng,
    written: u64,
    /// Bytes that are still to be written.
    queue: VecDeque<u8>,
}

impl<P: Pipe> Faulty<P> {
    /// A pipe with a fault.
    pub(crate) fn new(inner: P, fault: Fault, seed: u64) -> Self {
        Self {
            inner,
            fault,
            random: Rng::with_seed(seed),
            written: 0,
            queue: VecDeque::new(),
        }
    }

    fn pass(&mut self, byte: u8) {
        let at = self.written;
        self.written += 1;
        match self.fault {
            Fault::Alter(hit) if hit == at => self.queue.push_back(byte ^ 1),
            Fault::Drop(hit) if (hit..hit * 2 + 1).contains(&at) => {}
            Fault::Stall(hit) if at >= hit => {}
            _ => self.queue.push_back(byte),
        }
    }
}

impl<P: Pipe> Pipe for Faulty<P> {
    fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        if self.fault == Fault::None {
            return self.inner.write(pieces);
        }
        if let Fault::Cut(hit) = self.fault
            && self.written >= hit
        {
            return Err(io::Error::new(ErrorKind::ConnectionReset, "cut by a fault"));
        }
        let all = pieces.iter().flat_map(|piece| piece.iter().copied());
        let most = match self.fault {
            Fault::Trickle => self.random.usize(..9),
            _ => 64 << 10,
        };
        let taken: Vec<u8> = all.take(most).collect();
        if self.queue.is_empty() {
            taken.iter().for_each(|byte| self.pass(*byte));
        }
        let took = !taken.is_empty();
        while !self.queue.is_empty() {
            let (front, _) = self.queue.as_slices();
            let written = self.inner.write(&[IoSlice::new(front)])?;
            self.queue.drain(..written);
        }
        if took {
            Ok(taken.len())
        } else {
            Err(ErrorKind::WouldBlock.into())
        }
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.inner.read(into)
    }

    fn socket(&self) -> Option<Arc<TcpStream>> {
        self.inner.socket()
    }
}
