//! The calls of a training step by the sizes of a transformer and of its parallelism, as
//! Megatron-LM trains it. `docs/step.md` has the formulas with their sources.
//!
//! The step is that of a rank of the last stage: it has the output layer and the loss. All
//! micro-batches but the last are repetitions of a layer; the last one is listed layer by layer,
//! because gradients can be reduced during its backward pass.
//!
//! In reading order: this file, [`arguments`] (as they are given), [`script`] (where people have
//! them), `check` (sizes that do not fit), `layers`, `edges` (what is
//! before and after the layers, gradients and parameters).

pub mod arguments;
mod check;
mod edges;
mod layers;
pub mod script;

use crate::call::{Pipeline, Workload};
use crate::parallelism::Parallelism;
pub use arguments::Arguments;
use layers::Steps;

/// Largest size of a model or a batch.
pub const MOST_SIZE: u64 = 1 << 32;

/// Words of a rank are a multiple of this.
const VOCABULARY_MULTIPLE: u64 = 128;

/// A transformer and how it is trained. Names are those of Megatron's arguments.
#[derive(Debug, Clone, PartialEq)]
pub struct Training {
    /// The sizes of parallelism.
    pub parallelism: Parallelism,
    /// `--sequence-parallel`: activations between matrices are divided over tensor parallelism.
    pub sequence_parallel: bool,
    /// Chunks of layers on each stage (interleaved schedule).
    pub chunks: u32,
    /// `--num-layers`.
    pub layers: u64,
    /// `--hidden-size`.
    pub hidden: u64,
    /// `--ffn-hidden-size`.
    pub ffn: u64,
    /// `--num-attention-heads`.
    pub heads: u64,
    /// `--num-query-groups`: heads of keys and values.
    pub query_groups: u64,
    /// `--kv-channels`: width of a head.
    pub channels: u64,
    /// `--seq-length`.
    pub sequence: u64,
    /// `--vocab-size`; 0: without embedding, output layer and loss.
    pub vocabulary: u64,
    /// `--micro-batch-size`.
    pub micro_batch: u64,
    /// `--global-batch-size`.
    pub global_batch: u64,
    /// `--swiglu`: the first matrix of an MLP has two parts.
    pub swiglu: bool,
    /// `--untie-embeddings-and-output-weights`.
    pub untied: bool,
    /// `--num-experts`; 0: an MLP in each layer.
    pub experts: u64,
    /// `--moe-router-topk`.
    pub top_k: u64,
    /// `--moe-ffn-hidden-size`.
    pub expert_ffn: u64,
    /// `--use-distributed-optimizer`: optimizer state is divided over data parallelism.
    pub distributed_optimizer: bool,
    /// `--overlap-grad-reduce`: gradients of a layer are reduced as soon as they are there.
    pub overlap_gradients: bool,
    /// What a GPU computes, TFLOP/s; `None`: computation is left out.
    pub tflops: Option<f64>,
}

impl Training {
    /// Layers of a stage.
    pub fn stage_layers(&self) -> u64 {
        self.layers / u64::from(self.parallelism.pipeline.max(1))
    }

    /// Micro-batches of a step.
    pub fn micro_batches(&self) -> u64 {
        self.global_batch / (self.micro_batch * u64::from(self.parallelism.data())).max(1)
    }

    /// Width of all heads, and of all heads of keys.
    fn heads_width(&self) -> [u64; 2] {
        [self.heads, self.query_groups].map(|heads| heads * self.channels)
    }

    /// Parameters of the attention of a layer, whole.
    pub fn attention_parameters(&self) -> u64 {
        let [queries, keys] = self.heads_width();
        self.hidden * (queries + 2 * keys) + queries * self.hidden
    }

    /// Parameters of an MLP of this width, whole.
    fn mlp_parameters(&self, ffn: u64) -> u64 {
        let matrices = if self.swiglu { 3 } else { 2 };
        matrices * self.hidden * ffn
    }

    /// Parameters of a layer that all ranks of data parallelism share, whole.
    pub fn dense_parameters(&self) -> u64 {
        let mlp = match self.experts {
            0 => self.mlp_parameters(self.ffn),
            _ => 0,
        };
        self.attention_parameters() + mlp
    }

    /// Parameters of the experts of a layer, whole.
    pub fn expert_parameters(&self) -> u64 {
        self.experts * self.mlp_parameters(self.expert_ffn)
    }

    /// Words with those that Megatron adds, so that each rank of tensor parallelism has a multiple
    /// of 128 (`--make-vocab-size-divisible-by`, source: Megatron-LM
    /// `megatron/core/tokenizers/utils/build_tokenizer.py`).
    pub fn padded_vocabulary(&self) -> u64 {
        let multiple = VOCABULARY_MULTIPLE * u64::from(self.parallelism.tensor.max(1));
        self.vocabulary.next_multiple_of(multiple)
    }

    /// Parameters of the embedding, or of the output layer, whole.
    pub fn embedding_parameters(&self) -> u64 {
        self.padded_vocabulary() * self.hidden
    }

    /// The calls of a step.
    ///
    /// # Errors
    /// Sizes do not fit each other; a sentence.
    pub fn workload(&self) -> Result<Workload, String> {
        self.check()?;
        let mut steps = Steps::new(self);
        let layers = self.stage_layers();
        let repeated = self.micro_batches() - 1;
        if repeated > 0 {
            steps.forward(repeated, layers);
            steps.backward(repeated, layers);
        }
        for _ in 0..layers {
            steps.layer_forward(1);
        }
        steps.edges_forward(1);
        steps.edges_backward(1);
        for _ in 0..layers {
            steps.layer_backward(1);
            if self.overlap_gradients {
                steps.gradients(1, false);
            }
        }
        steps.embedding_backward(1);
        if !self.overlap_gradients {
            steps.gradients(layers, true);
        }
        steps.embedding_gradients();
        steps.parameters(layers);
        let pipeline = Pipeline {
            stages: self.parallelism.pipeline,
            chunks: self.chunks,
            micro_batches: u32::try_from(self.micro_batches()).unwrap_or(u32::MAX),
        };
        Ok(Workload {
            ranks: Some(self.parallelism.ranks),
            pipeline: (pipeline.stages > 1).then_some(pipeline),
            notes: self.notes(),
            ..steps.finish()
        })
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = vec![
            "The calls are those of Megatron-LM by the formulas of docs/step.md, for a rank of the \
             last stage; all but the last micro-batch are repetitions of a layer."
                .to_owned(),
            "Left out: gradients of norms, biases and routers, the norm of all gradients, and \
             recomputation."
                .to_owned(),
        ];
        if self.tflops.is_none() {
            notes.push(
                "Nothing says how fast the GPUs compute: all calls count as exposed.".to_owned(),
            );
        }
        notes
    }
}
