//! Steps, and lanes of steps.

use serde::{Serialize, Serializer};

use super::operand::{ConnectionEnd, Operand};
use crate::JsonSchema;

/// A range of the pieces of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, JsonSchema)]
pub struct Pieces {
    /// The first piece.
    #[serde(rename = "first_piece")]
    pub first: u16,
    /// The number of pieces; never 0.
    #[serde(rename = "pieces")]
    pub count: u16,
}

impl Pieces {
    /// One piece.
    pub const fn one(first: u16) -> Self {
        Self { first, count: 1 }
    }
}

/// Waits for signals, reduces the sources, stores the result in every destination, and signals.
///
/// NCCL's primitives are special cases: `recvReduceSend` has a FIFO and the input as sources and a
/// FIFO as destination. A step without sources and destinations only waits and signals.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Step {
    /// Signals to await; each wait consumes one.
    #[serde(rename = "awaits")]
    pub waits: Vec<ConnectionEnd>,
    /// The pieces of the blocks that the step moves.
    #[serde(flatten)]
    pub pieces: Pieces,
    /// The sources, reduced in this order: at most four, of them at most three FIFOs.
    pub sources: Vec<Operand>,
    /// Whether the result is final: then the operation's last part, an average's division, is
    /// applied.
    #[serde(rename = "final")]
    pub finish: bool,
    /// The destinations: at most four, of them at most three FIFOs.
    pub destinations: Vec<Operand>,
    /// Signals to send after the data is stored.
    #[serde(rename = "signals")]
    pub notifies: Vec<ConnectionEnd>,
}

impl Step {
    /// Most sources, and most destinations.
    pub const MOST_OPERANDS: usize = 4;

    /// Most FIFOs among the sources, and among the destinations.
    pub const MOST_FIFOS: usize = 3;

    /// Most signals that are awaited, and most that are sent.
    pub const MOST_SIGNALS: usize = 4;

    /// The name of NCCL's primitive with the same operands, such as `recvReduceCopySend`.
    ///
    /// The name of a step that accesses a peer's memory begins with `direct`, that of a multicast
    /// with `multicast`. A step that moves no data is a `signal`.
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

    /// Whether the name contains `Copy`. NCCL's plain `recv` stores the data too, but its name has
    /// none.
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

/// A sequence of steps. The lanes of a program run concurrently.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Lane {
    /// The channel whose share of the message the lane works on.
    pub channel: u16,
    /// Steps before the turns. They run even for an empty message, and move no data.
    #[serde(serialize_with = "named")]
    #[schemars(with = "Vec<NamedStep>")]
    pub prologue: Vec<Step>,
    /// Steps of every turn.
    #[serde(serialize_with = "named")]
    #[schemars(with = "Vec<NamedStep>")]
    pub body: Vec<Step>,
    /// Steps after the turns. They run even for an empty message, and move no data.
    #[serde(serialize_with = "named")]
    #[schemars(with = "Vec<NamedStep>")]
    pub epilogue: Vec<Step>,
}

/// A step with its name.
#[derive(Serialize, JsonSchema)]
struct NamedStep<'s> {
    /// NCCL's name, such as `recvReduceSend`.
    primitive: String,
    #[serde(flatten)]
    step: &'s Step,
}

/// Writes steps with their names.
fn named<S: Serializer>(steps: &[Step], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(steps.iter().map(|step| NamedStep {
        primitive: step.primitive(),
        step,
    }))
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
        let everywhere = Operand::everywhere(BufferKind::Scratch, 0);
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
