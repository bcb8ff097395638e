//! Compares one value with the expected one.

use std::fmt;

use plan::GraphKind;
use serde_json::Value;

/// NCCL computed the values in 32 bits, and the cases have nine digits.
const RELATIVE_TOLERANCE: f64 = 1e-4;

/// The first value that differs.
#[derive(Debug)]
pub(super) struct Difference {
    path: String,
    mine: String,
    expected: String,
}

impl Difference {
    pub(crate) fn new(
        path: impl Into<String>,
        mine: impl Into<String>,
        expected: impl Into<String>,
    ) -> Self {
        Self {
            path: path.into(),
            mine: mine.into(),
            expected: expected.into(),
        }
    }

    /// Prefixes the path with the name of the value's container.
    pub(crate) fn within(mut self, outer: &str) -> Self {
        self.path = format!("{outer}.{}", self.path);
        self
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} instead of {}",
            self.path, self.mine, self.expected
        )
    }
}

/// Returns an error unless the values agree.
fn check(
    agrees: bool,
    name: &str,
    mine: impl ToString,
    expected: &Value,
) -> Result<(), Difference> {
    let differs = || Difference::new(name, mine.to_string(), expected.to_string());
    if agrees { Ok(()) } else { Err(differs()) }
}

pub(super) fn integer(name: &str, mine: i64, expected: &Value) -> Result<(), Difference> {
    // Flags are numbers or booleans.
    let flag = || expected.as_bool().map(i64::from);
    let number = expected.as_i64().or_else(flag);
    check(number == Some(mine), name, mine, expected)
}

pub(super) fn float(name: &str, mine: f32, expected: &Value) -> Result<(), Difference> {
    let close = expected.as_f64().is_some_and(|expected| {
        let mine = f64::from(mine);
        (mine - expected).abs() <= RELATIVE_TOLERANCE * mine.abs().max(expected.abs())
    });
    check(close, name, mine, expected)
}

/// Compares a number that the answer has with one decimal.
pub(super) fn decimal(name: &str, mine: f32, expected: &Value) -> Result<(), Difference> {
    let close = |expected: f64| {
        let mine = f64::from(mine);
        (mine - expected).abs() <= 0.0501_f64.max(1e-5 * expected.abs())
    };
    if expected.as_f64().is_some_and(close) {
        return Ok(());
    }
    Err(Difference::new(
        name,
        mine.to_string(),
        expected.to_string(),
    ))
}

pub(super) fn text(name: &str, mine: &str, expected: &Value) -> Result<(), Difference> {
    check(expected.as_str() == Some(mine), name, mine, expected)
}

/// The kinds of graphs with their names in a case.
pub(super) const GRAPHS: [(GraphKind, &str); 5] = [
    (GraphKind::Ring, "ring"),
    (GraphKind::Tree, "tree"),
    (GraphKind::Nvls, "nvls"),
    (GraphKind::CollnetChain, "collnetChain"),
    (GraphKind::CollnetDirect, "collnetDirect"),
];

/// Compares a graph or a summary of one with this number of channels.
macro_rules! graph {
    ($graph:expr, $channels:expr, $expected:expr) => {
        (|| {
            let (graph, expected) = ($graph, $expected);
            compare::integer("pattern", graph.pattern as i64, &expected["pattern"])?;
            compare::integer(
                "crossNic",
                i64::from(graph.cross_nic),
                &expected["crossNic"],
            )?;
            compare::integer("nChannels", $channels as i64, &expected["nChannels"])?;
            compare::float("bwIntra", graph.bw_intra, &expected["bwIntra"])?;
            compare::float("bwInter", graph.bw_inter, &expected["bwInter"])?;
            compare::float(
                "latencyInter",
                graph.latency_inter,
                &expected["latencyInter"],
            )?;
            compare::text("typeIntra", graph.type_intra.name(), &expected["typeIntra"])?;
            compare::text("typeInter", graph.type_inter.name(), &expected["typeInter"])?;
            let same = i64::from(graph.same_channels);
            compare::integer("sameChannels", same, &expected["sameChannels"])
        })()
    };
}
pub(super) use graph;
