//! Other forms in JSON: lists instead of maps, names in tuples, words instead of numbers.

use std::collections::BTreeMap;

use findings::facts::Meaning;
use plan::Algorithm;
use program::{Collective, Protocol};
use serde::{Serialize, Serializer};

use crate::JsonSchema;
use crate::nccl_log::decisions::{ChannelCounts, Neighbors, pattern};
use crate::nccl_log::rebuilt;

/// Whether a device uses GPUDirect RDMA.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Gdr<'a> {
    /// A port, or a pair of GPU and port.
    device: &'a str,
    /// It is used.
    enabled: bool,
    /// Why, in NCCL's words.
    why: &'a str,
}

/// A function that failed.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Failed<'a> {
    /// In NCCL's sources.
    place: &'a str,
    /// NCCL's number of the error.
    code: u32,
    /// How often.
    count: u64,
}

/// A GPU.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Gpu<'a> {
    /// The rank.
    rank: u32,
    /// The host.
    host: &'a str,
    /// The model.
    model: &'a str,
}

/// The meaning of a warning.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Meant {
    /// Its meaning.
    #[serde(skip_serializing_if = "Option::is_none")]
    means: Option<&'static str>,
    /// Advice.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<&'static str>,
}

pub(crate) fn keys<S: Serializer>(map: &BTreeMap<String, u64>, to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(map.keys())
}

pub(crate) fn gdr<S: Serializer>(
    all: &BTreeMap<String, (bool, String)>,
    to: S,
) -> Result<S::Ok, S::Error> {
    to.collect_seq(all.iter().map(|(device, (enabled, why))| Gdr {
        device,
        enabled: *enabled,
        why,
    }))
}

pub(crate) fn failed<S: Serializer>(
    all: &BTreeMap<(String, u32), u64>,
    to: S,
) -> Result<S::Ok, S::Error> {
    to.collect_seq(all.iter().map(|((place, code), count)| Failed {
        place,
        code: *code,
        count: *count,
    }))
}

pub(crate) fn gpus<S: Serializer>(
    all: &BTreeMap<u32, (String, String)>,
    to: S,
) -> Result<S::Ok, S::Error> {
    to.collect_seq(all.iter().map(|(rank, (host, model))| Gpu {
        rank: *rank,
        host,
        model,
    }))
}

pub(crate) fn meaning<S: Serializer>(it: &Option<Meaning>, to: S) -> Result<S::Ok, S::Error> {
    let meant = Meant {
        means: it.map(|it| it.means),
        advice: it.map(|it| it.advice),
    };
    meant.serialize(to)
}

pub(crate) fn channels<S: Serializer>(
    counts: &Option<ChannelCounts>,
    to: S,
) -> Result<S::Ok, S::Error> {
    let counts = counts.map(|it| [it.collectives, it.nvls, it.p2p, it.per_peer]);
    counts.serialize(to)
}

pub(crate) fn trees<S: Serializer>(
    trees: &BTreeMap<(u32, u32), Neighbors>,
    to: S,
) -> Result<S::Ok, S::Error> {
    rebuilt::trees(trees).serialize(to)
}

pub(crate) fn costs<S: Serializer>(
    model: &BTreeMap<(Collective, Algorithm, Protocol), [f32; 2]>,
    to: S,
) -> Result<S::Ok, S::Error> {
    to.collect_seq(
        model
            .iter()
            .map(|((collective, algorithm, protocol), cost)| {
                let [latency, bandwidth] = cost;
                let of = (algorithm.to_string(), protocol.to_string());
                (collective.to_string(), of.0, of.1, latency, bandwidth)
            }),
    )
}

pub(crate) fn choices<S: Serializer>(
    choices: &BTreeMap<(Collective, u64), (Algorithm, Protocol)>,
    to: S,
) -> Result<S::Ok, S::Error> {
    to.collect_seq(
        choices
            .iter()
            .map(|((collective, bytes), (algorithm, protocol))| {
                let of = (algorithm.to_string(), protocol.to_string());
                (collective.to_string(), bytes, of.0, of.1)
            }),
    )
}

pub(crate) fn hexadecimal<S: Serializer>(it: &Option<u64>, to: S) -> Result<S::Ok, S::Error> {
    it.map(|it| format!("{it:x}")).serialize(to)
}

pub(crate) fn ports<S: Serializer>(
    ports: &BTreeMap<(String, i32), [u64; 2]>,
    to: S,
) -> Result<S::Ok, S::Error> {
    let ports = ports.iter();
    to.collect_seq(ports.map(|((network, port), [with, without])| (network, port, with, without)))
}

pub(crate) fn name<S: Serializer>(number: &u32, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(pattern(*number))
}

pub(crate) fn is_set<S: Serializer>(number: &u32, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_bool(*number != 0)
}
