//! Steps, and the lanes in which they follow each other.

use super::operand::{ConnectionEnd, Operand};

/// A range of the pieces of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pieces {
    /// The first.
    pub first: u16,
    /// How many; never 0.
    pub count: u16,
}

impl Pieces {
    /// One piece.
    pub const fn one(first: u16) -> Self {
        Self { first, count: 1 }
    }
}

/// One step: wait for signals, take the sources, reduce them, store the result in every destination, signal.
///
/// NCCL's primitives are the shapes of this: `recvReduceSend` has the sources FIFO and input, and the destination FIFO.
/// A step without sources and destinations only waits and signals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Signals that must have come; each wait takes one.
    pub waits: Vec<ConnectionEnd>,
    /// Which pieces of the blocks.
    pub pieces: Pieces,
    /// What is reduced together, in this order: at most three FIFOs, at most four in all.
    pub sources: Vec<Operand>,
    /// Whether the result is final, so that the operation's last part (the division of an average) is applied.
    pub finish: bool,
    /// Where the result goes: at most three FIFOs, at most four in all.
    pub destinations: Vec<Operand>,
    /// Signals that are given when the data is stored.
    pub notifies: Vec<ConnectionEnd>,
}

impl Step {
    /// Most sources, and most destinations.
    pub const MOST_OPERANDS: usize = 4;

    /// Most FIFOs among the sources, and among the destinations.
    pub const MOST_FIFOS: usize = 3;

    /// Most signals that are awaited, and most that are given.
    pub const MOST_SIGNALS: usize = 4;

    /// What NCCL would call it: the primitive with the same shape, such as `recvReduceCopySend`. A step that reads or writes
    /// a peer's memory is `direct`, at once that of all ranks `multicast`; one that moves no data is a `signal`.
    pub fn primitive(&self) -> String {
        let remote = |operand: &Operand| !matches!(operand, Operand::Local { .. });
        let direct = self
            .operands()
            .any(|operand| matches!(operand, Operand::Peer { .. }));
        let multicast = |operand: &Operand| matches!(operand, Operand::Multicast { .. });
        let words = [
            ("multicast", self.operands().any(multicast)),
            ("direct", direct),
            ("Recv", self.sources.iter().any(remote)),
            (
                "Reduce",
                self.sources.len() > 1 || self.sources.iter().any(multicast),
            ),
            ("Copy", self.copies()),
            ("Send", self.destinations.iter().any(remote)),
        ];
        let name: String = words
            .iter()
            .filter(|(_, said)| *said)
            .map(|(word, _)| *word)
            .collect();
        let mut letters = name.chars();
        match letters.next() {
            Some(first) => first.to_lowercase().chain(letters).collect(),
            None => "signal".to_owned(),
        }
    }

    /// Whether the name says that the result is stored here: NCCL's plain `recv` stores, too, but says nothing of it.
    fn copies(&self) -> bool {
        let local = |operand: &Operand| matches!(operand, Operand::Local { .. });
        let only_received = self.sources.len() == 1 && !self.sources.iter().any(local);
        self.destinations.iter().any(local) && !(only_received && self.destinations.len() == 1)
    }

    /// All sources and destinations.
    pub fn operands(&self) -> impl Iterator<Item = &Operand> {
        self.sources.iter().chain(&self.destinations)
    }
}

/// Steps in order. The lanes of a program run concurrently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lane {
    /// The channel whose share of the message it works on.
    pub channel: u16,
    /// Once, before the turns, even for an empty message. Moves no data.
    pub prologue: Vec<Step>,
    /// In every turn.
    pub body: Vec<Step>,
    /// Once, after the turns, even for an empty message. Moves no data.
    pub epilogue: Vec<Step>,
}

impl Lane {
    /// All its steps.
    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        self.prologue.iter().chain(&self.body).chain(&self.epilogue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BufferKind;

    #[test]
    fn names_of_primitives() {
        let fifo = Operand::Fifo(ConnectionEnd {
            peer: 1,
            channel: 0,
            port: 0,
        });
        let (input, output) = (Operand::input(0), Operand::output(0));
        let peer = Operand::peer(1, BufferKind::Input, 0);
        let everywhere = Operand::Multicast { block: 0 };
        for (sources, destinations, name) in [
            (vec![input], vec![fifo], "send"),
            (vec![fifo], vec![output], "recv"),
            (vec![fifo], vec![fifo], "recvSend"),
            (vec![input], vec![output], "copy"),
            (vec![input], vec![output, fifo], "copySend"),
            (vec![fifo], vec![output, fifo], "recvCopySend"),
            (vec![fifo, input], vec![fifo], "recvReduceSend"),
            (vec![fifo, input], vec![output], "recvReduceCopy"),
            (vec![fifo, input], vec![output, fifo], "recvReduceCopySend"),
            (vec![peer, input], vec![output], "directRecvReduceCopy"),
            (vec![peer], vec![output], "directRecv"),
            (
                vec![everywhere],
                vec![everywhere],
                "multicastRecvReduceSend",
            ),
            (vec![input], vec![everywhere], "multicastSend"),
            (vec![], vec![], "signal"),
        ] {
            let step = Step {
                waits: Vec::new(),
                pieces: Pieces::one(0),
                sources,
                finish: false,
                destinations,
                notifies: Vec::new(),
            };
            assert_eq!(step.primitive(), name);
        }
    }
}
