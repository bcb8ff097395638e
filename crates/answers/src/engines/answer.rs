//! The answer for one engine.

use std::collections::BTreeMap;

use plan::cost::{Calls, DataType};
use plan::{Plan, SizeChoice, compare};
use planner::{Job, Planned, Settings};
use program::{Collective, size};

use super::engine::Engine;
use super::evaluate::Setup;
use super::facts::{EngineFacts, EngineTable};
use super::host::{Host, Peer};
use super::outcome::Outcome;
use super::{Basis, CrossoverAnswer, EngineAnswer, EnginesQuestion, Safe, WIDTH};
use crate::export::{Crossovers, LARGEST};

/// Sizes at which NCCL's choices without and with an engine's settings are compared, bytes.
const SIZES: [u64; 6] = [64 << 10, 1 << 20, 16 << 20, 64 << 20, 256 << 20, 1 << 30];

/// What is asked of all engines.
pub(super) struct Asks<'a> {
    pub facts: &'static EngineTable,
    pub planned: &'a Planned,
    pub job: &'a Job,
    pub question: &'a EnginesQuestion,
    pub settings: &'a BTreeMap<String, String>,
    pub host: &'a Host,
    /// What peer access may do.
    pub peers: &'a [Peer],
    pub sizes: Vec<u64>,
}

impl Asks<'_> {
    pub(super) fn setup<'b>(&'b self, engine: &'static EngineFacts, host: &'b Host) -> Setup<'b> {
        let own = engine.types.as_ref().and_then(|it| it.0.first().copied());
        let data_type = self.question.data_type.or(own).unwrap_or(DataType::Bf16);
        Setup {
            facts: self.facts,
            engine,
            version: engine.version(self.question.engine_version.as_deref()).0,
            host,
            settings: self.settings,
            linux: !self.question.not_linux,
            data_type,
            width: self.question.width.unwrap_or(WIDTH).into(),
        }
    }

    pub(super) fn engine(&self, engine: &'static EngineFacts) -> EngineAnswer {
        let (version, version_note) = engine.version(self.question.engine_version.as_deref());
        let mut outcomes: Vec<Outcome> = Vec::new();
        for peer in self.peers {
            let host = Host {
                peer: *peer,
                ..self.host.clone()
            };
            let setup = self.setup(engine, &host);
            let outcome = Outcome::of(&setup, self.question.mode, &self.sizes);
            // Only what differs is said apart.
            match outcomes.first_mut() {
                Some(first) if first.is_alike(&outcome) => first.peer_access = None,
                _ => outcomes.push(outcome),
            }
        }
        let state = match self.peers {
            [one] => one.name(),
            _ => "unknown",
        };
        let safe = engine.safe.iter().filter(|it| it.peer == state);
        EngineAnswer {
            engine: &engine.id,
            name: &engine.name,
            version: engine.versions.get(version).map_or("", String::as_str),
            read: &engine.read,
            data_type: self.setup(engine, self.host).data_type.name(),
            version_note,
            crossovers: self.crossovers(engine, &outcomes),
            outcomes,
            sets: engine.sets.iter().map(String::as_str).collect(),
            sets_change: self.change(engine),
            safe: safe
                .map(|it| Safe {
                    set: it.set.iter().map(String::as_str).collect(),
                    why: &it.why,
                })
                .collect(),
            proof: engine.proof.as_deref(),
            notes: engine.notes.iter().map(String::as_str).collect(),
        }
    }

    /// What the engine's settings change in NCCL's plan.
    fn change(&self, engine: &EngineFacts) -> Option<String> {
        if engine.sets.is_empty() {
            return None;
        }
        let own = &self.planned.settings.in_force;
        let sets: Vec<(String, String)> = Engine(engine.id.clone()).sets();
        let base: Vec<_> = own
            .iter()
            .filter(|it| !sets.contains(it))
            .cloned()
            .collect();
        let plan = |set: Vec<(String, String)>| {
            planner::plan(
                self.job,
                &Settings::with_variables(self.planned.version(), set),
            )
        };
        let with = plan(sets.into_iter().chain(base.iter().cloned()).collect());
        Some(match (plan(base), with) {
            (Ok(without), Ok(with)) => changes(without.plan(), with.plan()),
            (_, Err(why)) => format!("NCCL does not start with them: {why}"),
            (Err(why), _) => format!("NCCL does not start without them: {why}"),
        })
    }

    fn crossovers(&self, engine: &EngineFacts, outcomes: &[Outcome]) -> Vec<CrossoverAnswer> {
        let mut methods: Vec<&str> = Vec::new();
        for range in outcomes
            .iter()
            .flat_map(|it| &it.ranges)
            .filter(|it| !it.is_nccl)
        {
            if !methods.contains(&range.method.as_str()) {
                methods.push(&range.method);
            }
        }
        methods
            .iter()
            .flat_map(|it| self.crossover(engine, it))
            .collect()
    }

    fn crossover(&self, engine: &EngineFacts, method: &str) -> Vec<CrossoverAnswer> {
        let host = self.host;
        let link = match (host.multicast, host.nvlink) {
            (true, _) => &["multicast", "nvlink"][..],
            (_, true) => &["nvlink"],
            _ => &["pcie"],
        };
        let all = self.facts.crossovers.iter();
        let alike = all.filter(|it| {
            it.engine == engine.id
                && it.method == method
                && link.contains(&it.link.as_str())
                && it.arch.as_ref().is_none_or(|it| it.has(host.sm))
                && it
                    .ranks
                    .as_ref()
                    .is_none_or(|it| it.0.contains(&host.ranks))
        });
        let measured: Vec<CrossoverAnswer> = alike
            .map(|it| CrossoverAnswer {
                method: method.to_owned(),
                basis: Basis::Measured,
                bytes: it
                    .bytes
                    .iter()
                    .filter_map(|it| size::parse(it).ok())
                    .collect(),
                text: format!("{} ({})", it.text, it.source),
            })
            .collect();
        if !measured.is_empty() {
            return measured;
        }
        // The model is of kernels that read all peers' memory in one step or two.
        let is_modelled = matches!(method, "CUSTOM" | "CUSTOM v1" | "CUSTOM v2");
        let calls = Calls {
            data_type: self.question.data_type.unwrap_or(DataType::Bf16),
            ..Calls::ONE
        };
        let model = is_modelled.then(|| Crossovers::modelled(self.planned.plan(), calls));
        let (basis, bytes, text) = match model.flatten() {
            Some([_, below]) if below >= LARGEST => (
                Basis::Modelled,
                Vec::new(),
                "faster than NCCL up to 128 MiB, where the model ends",
            ),
            Some([_, below]) => (
                Basis::Modelled,
                vec![below],
                "by NCCL's time of a step and bandwidth of its channels",
            ),
            None => (
                Basis::Unknown,
                Vec::new(),
                "nothing is published of such GPUs",
            ),
        };
        vec![CrossoverAnswer {
            method: method.to_owned(),
            basis,
            bytes,
            text: text.to_owned(),
        }]
    }
}

/// How a plan differs from another for all-reduces, in words.
fn changes(without: &Plan, with: &Plan) -> String {
    let compared = match compare::compare(without, with, &SIZES) {
        Ok(compared) => compared,
        Err(why) => return format!("the plans cannot be compared: {why}"),
    };
    let reduces = Collective::AllReduce;
    let taken = |it: &Option<SizeChoice>| it.as_ref().map(|it| (it.algorithm, it.protocol));
    let choices = compared
        .choices
        .iter()
        .filter(|it| it.collective == reduces);
    let choices = choices.filter(|it| taken(&it.first) != taken(&it.second));
    let choices: Vec<String> = choices
        .map(|it| {
            let name = |it: &Option<SizeChoice>| {
                it.as_ref().map_or("nothing".to_owned(), |it| {
                    format!("{} {}", it.algorithm, it.protocol)
                })
            };
            format!(
                "{} {} → {}",
                size::short(it.bytes),
                name(&it.first),
                name(&it.second)
            )
        })
        .collect();
    match choices.is_empty() {
        true => "NCCL takes the same algorithm and protocol with them".to_owned(),
        false => format!("NCCL's all-reduce changes: {}", choices.join(", ")),
    }
}
