//! The methods of an engine on some GPUs: ranges of sizes, refusals, settings that change them.

use serde::Serialize;

use super::evaluate::{self, GRAIN, Setup, Taken};
use super::facts::{Mode, Sure};
use super::host::Peer;
use crate::JsonSchema;

/// Rows of a message in decoding: requests of a batch.
const DECODE: [u64; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];

/// Rows of a message in prefill: tokens of a chunk.
const PREFILL: [u64; 6] = [512, 1024, 2048, 4096, 8192, 16384];

/// What an engine takes.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Outcome {
    /// The peer access for which this holds; null: for any that is possible.
    pub peer_access: Option<Peer>,
    /// What takes the sizes that were asked for.
    pub messages: Vec<Message>,
    /// What takes which sizes, ascending.
    pub ranges: Vec<Range>,
    /// Methods that take nothing, and why.
    pub refused: Vec<Refused>,
    /// The share of messages that NCCL gets.
    pub nccl: Share,
    /// Settings that change what takes messages of decoding or prefill.
    pub changed_by: Vec<Change>,
}

/// What takes a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Message {
    /// Its size, bytes.
    pub bytes: u64,
    /// How it is called; null: however.
    pub mode: Option<Mode>,
    /// The method.
    pub method: String,
    /// Its kernel, where the method has several.
    pub kernel: Option<String>,
    /// NCCL is called.
    pub is_nccl: bool,
    /// What goes wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hazard: Option<String>,
}

/// What takes a range of sizes. Sizes are multiples of 16 bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Range {
    /// The least size, bytes.
    pub from: u64,
    /// The largest size, bytes; null: no limit.
    pub to: Option<u64>,
    /// How calls are made; null: however.
    pub mode: Option<Mode>,
    /// The method.
    pub method: String,
    /// Its kernel, where the method has several.
    pub kernel: Option<String>,
    /// NCCL is called.
    pub is_nccl: bool,
    /// NCCL may be called, as measured at the start.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub perhaps_nccl: bool,
    /// What is assumed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assumes: Option<String>,
    /// What goes wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hazard: Option<String>,
    /// How sure it is.
    pub sure: Sure,
}

/// A method that takes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Refused {
    /// The method.
    pub method: String,
    /// Why.
    pub why: String,
}

/// The share of messages that NCCL gets, by numbers of rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Share {
    /// Batches of 1 to 256 requests, captured unless other calls were asked for.
    pub decode: Part,
    /// Chunks of 512 to 16384 tokens, eager unless other calls were asked for.
    pub prefill: Part,
}

/// A part of sizes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Part {
    /// The numbers of rows.
    pub rows: Vec<u64>,
    /// Those for which NCCL is called.
    pub nccl: Vec<u64>,
    /// Those for which it may be, as measured at the start.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub perhaps: Vec<u64>,
    /// The methods, in order of size.
    pub methods: Vec<String>,
}

/// A setting that changes something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Change {
    /// The setting.
    pub set: String,
    /// The methods of decoding with it, in order of size.
    pub decode: Vec<String>,
    /// Those of prefill.
    pub prefill: Vec<String>,
}

impl Outcome {
    /// What an engine takes; `mode` limits it to calls of a kind.
    pub fn of(setup: &Setup<'_>, mode: Option<Mode>, sizes: &[u64]) -> Self {
        let modes = match &mode {
            Some(one) => std::slice::from_ref(one),
            None => &[Mode::Graph, Mode::Eager],
        };
        let nccl = share(setup, mode);
        let ranges = ranges(setup, modes);
        Self {
            peer_access: Some(setup.host.peer),
            messages: sizes
                .iter()
                .flat_map(|it| messages(setup, modes, *it))
                .collect(),
            refused: refused(setup, &ranges),
            ranges,
            changed_by: changes(setup, mode, &nccl),
            nccl,
        }
    }

    /// Whether all but peer access is equal.
    pub fn is_alike(&self, other: &Self) -> bool {
        self.messages == other.messages && self.ranges == other.ranges && self.nccl == other.nccl
    }
}

/// The answers of each way of calling, as one where they are equal.
fn merged<T: PartialEq>(modes: &[Mode], of: impl Fn(Mode) -> T) -> Vec<(Option<Mode>, T)> {
    let all: Vec<(Mode, T)> = modes.iter().map(|it| (*it, of(*it))).collect();
    let equal = all.windows(2).all(|it| it[0].1 == it[1].1);
    let several = all.len() > 1;
    let taken = if equal { 1 } else { all.len() };
    let all = all.into_iter().take(taken);
    all.map(|(mode, it)| ((!equal || !several).then_some(mode), it))
        .collect()
}

fn messages(setup: &Setup<'_>, modes: &[Mode], bytes: u64) -> Vec<Message> {
    let of = |mode| setup.taken(evaluate::Message { bytes, mode });
    let all = merged(modes, of).into_iter();
    all.filter_map(|(mode, taken)| {
        let taken = taken?;
        Some(Message {
            bytes,
            mode,
            hazard: setup.hazard(&taken),
            method: taken.method,
            kernel: taken.kernel,
            is_nccl: taken.is_nccl,
        })
    })
    .collect()
}

fn ranges(setup: &Setup<'_>, modes: &[Mode]) -> Vec<Range> {
    let edges = setup.edges();
    let of_mode = |mode: Mode| {
        let mut all: Vec<(u64, Taken)> = Vec::new();
        for bytes in &edges {
            let Some(taken) = setup.taken(evaluate::Message {
                bytes: *bytes,
                mode,
            }) else {
                continue;
            };
            if all.last().is_none_or(|it| it.1 != taken) {
                all.push((*bytes, taken));
            }
        }
        all
    };
    let all = merged(modes, of_mode).into_iter();
    all.flat_map(|(mode, all)| {
        let ends: Vec<Option<u64>> = all.iter().skip(1).map(|it| Some(it.0 - GRAIN)).collect();
        let ends = ends.into_iter().chain([None]);
        let made = all.into_iter().zip(ends).map(|((from, taken), to)| {
            let rule = &setup.engine.rules[taken.rule];
            Range {
                from,
                to,
                mode,
                perhaps_nccl: rule.perhaps_nccl,
                assumes: rule.assumes.clone(),
                hazard: setup.hazard(&taken),
                sure: rule.sure,
                method: taken.method,
                kernel: taken.kernel,
                is_nccl: taken.is_nccl,
            }
        });
        made.collect::<Vec<_>>()
    })
    .collect()
}

/// The methods that take nothing. Of several rules the one counts that a setting alone refuses.
fn refused(setup: &Setup<'_>, ranges: &[Range]) -> Vec<Refused> {
    let mut all: Vec<Refused> = Vec::new();
    for (at, rule) in setup.engine.rules.iter().enumerate() {
        let known = ranges.iter().any(|it| it.method == rule.method);
        if known || rule.table.is_some() || !setup.has(rule) {
            continue;
        }
        let probe = evaluate::Message {
            bytes: 1 << 16,
            mode: Mode::Graph,
        };
        let why = match setup
            .gates(rule)
            .and_then(|()| setup.takes(at, probe).map(|_| ()))
        {
            Ok(()) => "another method comes first".to_owned(),
            Err(why) => why,
        };
        let new = Refused {
            method: rule.method.clone(),
            why,
        };
        match all.iter_mut().find(|it| it.method == rule.method) {
            // A rule for special settings says less than the one for the usual ones.
            Some(known)
                if rule
                    .switches
                    .iter()
                    .all(|it| it.holds(setup.settings).is_ok()) =>
            {
                *known = new
            }
            Some(_) => {}
            None => all.push(new),
        }
    }
    all
}

fn share(setup: &Setup<'_>, mode: Option<Mode>) -> Share {
    let part = |rows: &[u64], usual: Mode| {
        let mut part = Part {
            rows: rows.to_vec(),
            nccl: Vec::new(),
            perhaps: Vec::new(),
            methods: Vec::new(),
        };
        for rows in rows {
            let bytes = rows * setup.row();
            let message = evaluate::Message {
                bytes,
                mode: mode.unwrap_or(usual),
            };
            let Some(taken) = setup.taken(message) else {
                continue;
            };
            if taken.is_nccl {
                part.nccl.push(*rows);
            } else if setup.engine.rules[taken.rule].perhaps_nccl {
                part.perhaps.push(*rows);
            }
            if part.methods.last() != Some(&taken.method) {
                part.methods.push(taken.method);
            }
        }
        part
    };
    Share {
        decode: part(&DECODE, Mode::Graph),
        prefill: part(&PREFILL, Mode::Eager),
    }
}

/// Each value of each setting that the rules name, if it changes a method.
fn changes(setup: &Setup<'_>, mode: Option<Mode>, now: &Share) -> Vec<Change> {
    let rules = setup.engine.rules.iter().filter(|it| setup.has(it));
    let switches = rules.flat_map(|it| it.switches.iter().chain(&it.write_test));
    let mut all: Vec<Change> = Vec::new();
    for switch in switches {
        for value in switch.is.iter().chain(&switch.not) {
            let set = format!("{}={value}", switch.name);
            let open = value == "unset" || value == "none" || all.iter().any(|it| it.set == set);
            if open {
                continue;
            }
            let mut settings = setup.settings.clone();
            settings.insert(switch.name.clone(), value.clone());
            let other = share(
                &Setup {
                    settings: &settings,
                    ..*setup
                },
                mode,
            );
            if other.decode.methods != now.decode.methods
                || other.prefill.methods != now.prefill.methods
            {
                all.push(Change {
                    set,
                    decode: other.decode.methods,
                    prefill: other.prefill.methods,
                });
            }
        }
    }
    all
}
