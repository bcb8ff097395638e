//! Counting what is equal and keeping what is not.

use std::fmt::Display;

use serde::{Serialize, Serializer};

use crate::JsonSchema;

/// A compared field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// Whether there is a communicator.
    Outcome,
    /// Numbers of channels, nodes, chunks.
    Channels,
    /// The searched graphs of rank 0, with their NICs.
    Graphs,
    /// The rings over all ranks.
    Rings,
    /// The trees over all ranks.
    Trees,
    /// Heads and trees of NVLink SHARP.
    Nvls,
    /// How neighbors are connected.
    Transports,
    /// The network ports of connections, who drives them, and GPUDirect RDMA.
    Nics,
    /// Latency and bandwidth of each algorithm and protocol.
    Costs,
    /// The predicted time of each choice for each size.
    Times,
    /// Algorithm, protocol and channels for each size.
    Choices,
    /// The kernels for registered windows.
    Windows,
    /// The channels of point-to-point connections between all ranks.
    Peers,
    /// The memory on each GPU, and multicast objects. A plan alone does not say it.
    Memory,
}

impl Field {
    /// Those that a plan alone decides, in the order of a page.
    pub const ALL: [Self; 13] = [
        Self::Outcome,
        Self::Channels,
        Self::Graphs,
        Self::Rings,
        Self::Trees,
        Self::Nvls,
        Self::Transports,
        Self::Nics,
        Self::Costs,
        Self::Times,
        Self::Choices,
        Self::Windows,
        Self::Peers,
    ];

    /// Its name on pages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Outcome => "outcome",
            Self::Channels => "channels",
            Self::Graphs => "graphs",
            Self::Rings => "rings",
            Self::Trees => "trees",
            Self::Nvls => "NVLS",
            Self::Transports => "transports",
            Self::Nics => "NICs",
            Self::Costs => "costs",
            Self::Times => "times",
            Self::Choices => "choices",
            Self::Windows => "windows",
            Self::Peers => "peers",
            Self::Memory => "memory",
        }
    }
}

/// A value that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Difference {
    /// Which value.
    #[serde(rename = "value")]
    pub what: String,
    /// NCCL's.
    pub nccl: String,
    /// The plan's.
    pub plan: String,
}

/// A field that was compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FieldComparison {
    /// Its name.
    #[serde(serialize_with = "by_name")]
    #[schemars(with = "String")]
    pub field: Field,
    /// Values that were compared.
    pub values: u64,
    /// Nothing differs, and nothing is lacking that this version can say.
    pub agrees: bool,
    /// Values that differ.
    pub differences: Vec<Difference>,
    /// Why the field, or a part of it, was not compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_compared: Option<String>,
}

fn by_name<S: Serializer>(field: &Field, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(field.name())
}

/// The comparison of a field.
#[derive(Debug, Clone)]
pub struct Tally {
    compared: FieldComparison,
}

impl Tally {
    /// Nothing is compared yet.
    pub const fn new(field: Field) -> Self {
        Self {
            compared: FieldComparison {
                field,
                values: 0,
                agrees: true,
                differences: Vec::new(),
                not_compared: None,
            },
        }
    }

    /// The field.
    pub const fn field(&self) -> Field {
        self.compared.field
    }

    /// Counts an equal value.
    pub fn agree(&mut self) {
        self.compared.values += 1;
    }

    /// Keeps a value that differs.
    pub fn differ(&mut self, what: impl Display, nccl: impl Display, plan: impl Display) {
        self.compared.values += 1;
        self.compared.agrees = false;
        self.compared.differences.push(Difference {
            what: what.to_string(),
            nccl: nccl.to_string(),
            plan: plan.to_string(),
        });
    }

    /// Compares two values, which are shown by a function.
    pub fn compare<T: PartialEq + ?Sized>(
        &mut self,
        what: impl Display,
        nccl: &T,
        plan: &T,
        show: impl Fn(&T) -> String,
    ) {
        match nccl == plan {
            true => self.agree(),
            false => self.differ(what, show(nccl), show(plan)),
        }
    }

    /// Says why there is nothing to compare, or a part that this NCCL cannot say.
    pub fn absent(&mut self, why: &str) {
        self.not_compared(why, false);
    }

    /// Says why there is nothing to compare, if nothing was.
    pub fn absent_if_empty(&mut self, why: &str) {
        if self.compared.values == 0 {
            self.absent(why);
        }
    }

    /// Says what NCCL could have said.
    pub fn lacking(&mut self, why: &str) {
        self.not_compared(why, true);
    }

    /// The first reason counts. What NCCL could have said is lacking: without it there is no
    /// agreement.
    fn not_compared(&mut self, why: &str, is_lacking: bool) {
        if self.compared.not_compared.is_none() {
            self.compared.not_compared = Some(why.to_owned());
            self.compared.agrees &= !is_lacking;
        }
    }

    /// The result. A field without values is not compared.
    pub fn finish(mut self) -> FieldComparison {
        if self.compared.values == 0 {
            self.lacking("NCCL does not say");
        }
        self.compared
    }
}

/// A rank, or none.
pub fn rank(rank: Option<u32>) -> String {
    rank.map_or_else(|| "none".to_owned(), |rank| rank.to_string())
}

/// A list with spaces.
pub fn list<T: Display>(items: &[T]) -> String {
    let items: Vec<String> = items.iter().map(T::to_string).collect();
    items.join(" ")
}
