//! The question about costs.

use plan::Algorithm;
use plan::cost::spread::MOST_CALLS;
use plan::cost::{Calls, DataType, Registration};
use program::{Collective, Protocol, Reduction};
use serde::Deserialize;

use crate::sizes::{Collectives, Sizes, expand};
use crate::values::{self, Flattened};
use crate::{Args, JsonSchema};

/// The type of elements, and how they are reduced.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema, Args)]
pub struct ElementOptions {
    /// Type of the elements: i8 u8 i32 u32 i64 u64 f16 bf16 f32 f64 fp8_e4m3 fp8_e5m2, or the names
    /// of nccl-tests
    #[serde(default, rename = "type", deserialize_with = "values::by_name")]
    #[arg(long = "type", value_name = "TYPE", default_value = "f32", value_parser = values::one::<DataType>)]
    #[schemars(with = "String")]
    pub data_type: DataType,
    /// How elements are reduced: sum prod min max avg mulsum
    #[serde(default, rename = "op", deserialize_with = "values::reduction_by_name")]
    #[arg(long = "op", value_name = "OPERATION", default_value = "sum", value_parser = values::reduction)]
    #[schemars(with = "String")]
    pub reduction: Reduction,
}

impl ElementOptions {
    /// One call.
    pub const fn calls(&self) -> Calls {
        Calls {
            data_type: self.data_type,
            reduction: self.reduction,
            ..Calls::ONE
        }
    }
}

/// The calls of a collective.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema, Args)]
pub struct CallOptions {
    /// The elements.
    #[serde(flatten)]
    #[command(flatten)]
    pub element: ElementOptions,
    /// Equal calls in one group (ncclGroupStart, ncclGroupEnd), each of the size
    #[serde(default, deserialize_with = "number_of_calls")]
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = values::within::<u32>(1..=u64::from(MOST_CALLS)))]
    pub calls: u32,
    /// How the buffers are registered: none, local (ncclCommRegister), or symmetric, as windows of
    /// all ranks (ncclCommWindowRegister)
    #[serde(default, deserialize_with = "values::by_name")]
    #[arg(long, value_name = "HOW", default_value = "none", value_parser = values::one::<Registration>)]
    #[schemars(with = "String")]
    pub window: Registration,
    /// The calls are in place: inputs are parts of outputs, or outputs of inputs
    #[serde(default)]
    #[arg(long)]
    pub in_place: bool,
}

impl CallOptions {
    /// The calls; 0 are one.
    pub fn calls(&self) -> Calls {
        Calls {
            number: self.calls.max(1),
            registration: self.window,
            in_place: self.in_place,
            ..self.element.calls()
        }
    }
}

fn number_of_calls<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    match u32::deserialize(deserializer)? {
        calls @ 0..=MOST_CALLS => Ok(calls),
        more => Err(serde::de::Error::custom(format!(
            "{more} calls in a group are too many; expected at most {MOST_CALLS}"
        ))),
    }
}

/// A question about costs.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema, Args)]
pub struct CostQuestion {
    /// Collectives: all-reduce, all-gather, reduce-scatter, broadcast, reduce, or all; all-to-all
    /// and send-recv, which NCCL makes of transfers
    #[serde(default, rename = "collectives")]
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        default_value = "all-reduce"
    )]
    #[schemars(with = "Vec<String>")]
    pub collective: Vec<Collectives>,
    /// Message sizes: 64K, a list 1M,8M or a range 1K..8G
    #[serde(default)]
    #[arg(
        long,
        value_name = "SIZES",
        value_delimiter = ',',
        default_value = "1K..8G"
    )]
    pub sizes: Vec<Sizes>,
    /// Factor from one size of a range to the next
    #[serde(default)]
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = values::within::<u64>(2..=u64::MAX))]
    pub factor: u64,
    /// The calls.
    #[serde(flatten)]
    #[command(flatten)]
    pub calls: CallOptions,
    /// Choose among these algorithms only
    #[serde(
        default,
        rename = "algorithms",
        deserialize_with = "values::list_by_name"
    )]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    #[schemars(with = "Vec<String>")]
    pub algorithm: Vec<Algorithm>,
    /// Choose among these protocols only
    #[serde(
        default,
        rename = "protocols",
        deserialize_with = "values::list_by_name"
    )]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    #[schemars(with = "Vec<String>")]
    pub protocol: Vec<Protocol>,
    /// Show bandwidth and latency of every algorithm and protocol instead of sizes
    #[serde(default)]
    #[arg(long)]
    pub table: bool,
}

impl Flattened for CostQuestion {
    const FIELDS: &[&[&str]] = &[Self::OF_CALLS, &["algorithms", "protocols", "table"]];
}

impl CostQuestion {
    /// The fields of JSON that say what is called.
    pub(crate) const OF_CALLS: &[&str] = &[
        "collectives",
        "sizes",
        "factor",
        "type",
        "op",
        "calls",
        "window",
        "in_place",
    ];

    /// A question about these collectives and sizes, bytes.
    pub fn about(collectives: &[Collective], sizes: &[u64]) -> Self {
        Self {
            collective: collectives.iter().map(|it| (*it).into()).collect(),
            sizes: Sizes::each(sizes),
            ..Self::default()
        }
    }

    /// The collectives; each once.
    pub fn collectives(&self) -> Vec<Collective> {
        Collectives::each_once(&self.collective)
    }

    /// Sizes of the whole message, bytes, ascending.
    ///
    /// # Errors
    /// There are too many; a sentence.
    pub fn sizes(&self) -> Result<Vec<u64>, String> {
        expand(&self.sizes, self.factor.max(2), Sizes::USUAL)
    }
}
