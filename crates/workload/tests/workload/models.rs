//! The bytes that each group of five published models sends equal closed formulas. `models.json`
//! has the models with their sources; docs/step.md has the formulas with theirs.

use serde::Deserialize;
use workload::megatron::Training;
use workload::{Parallelism, Workload};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Model {
    model: String,
    source: String,
    ranks: u32,
    tensor: u32,
    context: u32,
    expert: u32,
    pipeline: u32,
    chunks: u32,
    sequence_parallel: bool,
    layers: u64,
    hidden: u64,
    ffn: u64,
    heads: u64,
    query_groups: u64,
    channels: u64,
    sequence: u64,
    words: u64,
    padded_words: u64,
    micro_batch: u64,
    global_batch: u64,
    swiglu: bool,
    untied: bool,
    experts: u64,
    top_k: u64,
    distributed_optimizer: bool,
}

impl Model {
    fn workload(&self) -> Workload {
        let training = Training {
            parallelism: Parallelism {
                ranks: self.ranks,
                tensor: self.tensor,
                context: self.context,
                expert: self.expert,
                expert_tensor: self.tensor,
                pipeline: self.pipeline,
            },
            sequence_parallel: self.sequence_parallel,
            chunks: self.chunks,
            layers: self.layers,
            hidden: self.hidden,
            ffn: self.ffn,
            heads: self.heads,
            query_groups: self.query_groups,
            channels: self.channels,
            sequence: self.sequence,
            vocabulary: self.words,
            micro_batch: self.micro_batch,
            global_batch: self.global_batch,
            swiglu: self.swiglu,
            untied: self.untied,
            experts: self.experts,
            top_k: self.top_k,
            expert_ffn: self.ffn,
            distributed_optimizer: self.distributed_optimizer,
            overlap_gradients: false,
            tflops: None,
        };
        assert_eq!(
            training.padded_vocabulary(),
            self.padded_words,
            "{}",
            self.model
        );
        training
            .workload()
            .unwrap_or_else(|why| panic!("{}: {why}", self.model))
    }

    /// By group what each rank of the last stage sends in a step by the formulas, bytes.
    fn formulas(&self) -> Vec<(&'static str, f64)> {
        let number = |value: u64| value as f64;
        let [t, c, p, e] = [self.tensor, self.context, self.pipeline, self.expert].map(f64::from);
        let copies = f64::from(self.ranks) / (t * p);
        let m = number(self.global_batch) / (number(self.micro_batch) * copies / c);
        let l = number(self.layers) / p;
        let (b, s, h) = (
            number(self.micro_batch),
            number(self.sequence),
            number(self.hidden),
        );
        let (v, words) = (f64::from(self.chunks), number(self.padded_words));
        let bsh = 2.0 * b * s / c * h;
        let share = |ranks: f64| (ranks - 1.0) / ranks;
        // Narayanan et al., section 3.2: 8 b s h (t − 1) / t elements a layer and micro-batch. With
        // sequence parallelism 2 b s h (t − 1) / t more (Korthikanti et al., section 4.2.2).
        let again = if self.sequence_parallel { 2.0 } else { 0.0 };
        let layers = l * m * (8.0 + again) * bsh * share(t);
        // Outside layers: the output layer (an all-gather forward, another and a reduce-scatter
        // backward, or an all-reduce), three all-reduces of a number for each token, and with one
        // stage the embedding.
        let output = if self.sequence_parallel { 3.0 } else { 2.0 };
        let embedding = if self.pipeline == 1 { 2.0 } else { 0.0 };
        let loss = 3.0 * 2.0 * 4.0 * b * s / c;
        let edges = m * ((output + embedding) * bsh + loss) * share(t);
        // Narayanan et al., section 3.2 (b s h between two stages) and 4.1 (a t-th of it).
        let stage = if self.sequence_parallel { bsh / t } else { bsh };
        // Parameters of a rank.
        let (queries, keys) = (
            number(self.heads * self.channels),
            number(self.query_groups * self.channels),
        );
        let mlp = if self.swiglu { 3.0 } else { 2.0 } * h * number(self.ffn);
        let attention = h * (2.0 * queries + 2.0 * keys);
        let matrices = if self.untied && self.pipeline == 1 {
            2.0
        } else {
            1.0
        };
        let dense = if self.experts == 0 { mlp } else { 0.0 };
        let psi = (l * (attention + dense) + matrices * words * h) / t;
        let experts = l * number(self.experts) * mlp / (t * e);
        // Rajbhandari et al., section 7: a reduce-scatter of Ψ gradients (4 bytes) and an
        // all-gather of Ψ parameters (2 bytes), or an all-reduce.
        let bytes = if self.distributed_optimizer { 6.0 } else { 8.0 };
        let expert_copies = f64::from(self.ranks) / (t * e * p);
        let moe = if self.experts > 0 { 1.0 } else { 0.0 };
        vec![
            ("tp", layers + edges),
            ("pp", if p > 1.0 { 2.0 * v * m * stage } else { 0.0 }),
            ("dp", bytes * psi * share(copies)),
            ("edp", moe * bytes * experts * share(expert_copies)),
            // Dispatch and combine, forward and backward.
            (
                "ep",
                moe * l * m * 4.0 * bsh / t * number(self.top_k) * share(e),
            ),
            // c − 1 messages of keys and values, backward with their gradients.
            (
                "cp",
                l * m * (c - 1.0) * 3.0 * 2.0 * 2.0 * b * s / c * keys / t,
            ),
            (
                "embd",
                if p > 1.0 && !self.untied {
                    4.0 * words * h / t
                } else {
                    0.0
                },
            ),
        ]
    }
}

/// What each rank sends in the calls of a group, bytes.
fn sent(workload: &Workload, group: &str) -> f64 {
    let ranks = workload.ranks.unwrap_or(0);
    let of_group = workload
        .calls
        .iter()
        .filter(|call| workload.groups[call.group].name == group);
    of_group
        .map(|call| {
            let size = workload.groups[call.group].members.size(ranks);
            call.count as f64 * call.bytes as f64 * call.collective.bus_factor(size)
        })
        .sum()
}

#[test]
fn volumes_of_five_published_models() {
    let models: Vec<Model> = serde_json::from_str(include_str!("../models.json")).expect("models");
    assert_eq!(models.len(), 5);
    for model in &models {
        assert!(!model.source.is_empty());
        let workload = model.workload();
        for (group, expected) in model.formulas() {
            let found = sent(&workload, group);
            assert!(
                (found - expected).abs() <= 1e-9 * expected,
                "{}, {group}: {found} bytes instead of {expected}",
                model.model
            );
        }
        let known = ["tp", "pp", "dp", "edp", "ep", "cp", "embd"];
        let groups = workload.groups.iter();
        assert!(
            groups
                .into_iter()
                .all(|it| known.contains(&it.name.as_str()))
        );
    }
}
