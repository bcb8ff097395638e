//! Megatron-LM's arguments as they are given, with the values of those that are not.

use serde::Deserialize;

#[cfg(feature = "arguments")]
use super::MOST_SIZE;
use super::Training;
use crate::parallelism::Parallelism;
use crate::{Args, JsonSchema};

/// Width of an MLP by that of the model, without a size of its own.
const FFN: u64 = 4;

/// Widths of gated MLPs are multiples of this (source: Megatron-LM `arguments.py`).
const GATED_FFN_UNIT: u64 = 64;

/// Largest size of a kind of parallelism.
pub(super) const MOST_RANKS: u64 = 1 << 24;

/// A transformer and how it is trained, by Megatron's arguments: in scripts, on the command line
/// and as JSON.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema, Args)]
#[serde(deny_unknown_fields)]
#[command(next_help_heading = "A step by Megatron's arguments, instead of WORKLOAD")]
pub struct Arguments {
    /// Ranks that share a layer's matrices
    #[serde(default = "one::<u32>")]
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = ranks)]
    pub tensor_model_parallel_size: u32,
    /// Stages
    #[serde(default = "one::<u32>")]
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = ranks)]
    pub pipeline_model_parallel_size: u32,
    /// Ranks that share a sequence
    #[serde(default = "one::<u32>")]
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = ranks)]
    pub context_parallel_size: u32,
    /// Ranks that share the experts
    #[serde(default = "one::<u32>")]
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = ranks)]
    pub expert_model_parallel_size: u32,
    /// Ranks that share an expert's matrices [default: those of --tensor-model-parallel-size]
    #[serde(default)]
    #[arg(long, value_name = "N", value_parser = ranks)]
    pub expert_tensor_parallel_size: Option<u32>,
    /// Layers of each chunk of a stage (interleaved schedule) [default: all of the stage]
    #[serde(default)]
    #[arg(long, value_name = "N", value_parser = size)]
    pub num_layers_per_virtual_pipeline_stage: Option<u64>,
    /// Divide activations between matrices over tensor parallelism
    #[serde(default)]
    #[arg(long)]
    pub sequence_parallel: bool,
    /// Layers of the model
    #[arg(long, value_name = "N", required = false, value_parser = size, requires_all = ["hidden_size", "num_attention_heads", "seq_length", "global_batch_size"])]
    pub num_layers: u64,
    /// Width of the model
    #[arg(long, value_name = "N", required = false, value_parser = size, requires = "num_layers")]
    pub hidden_size: u64,
    /// Width of MLPs [default: 4 × hidden size, with --swiglu 8/3]
    #[serde(default)]
    #[arg(long, value_name = "N", value_parser = size)]
    pub ffn_hidden_size: Option<u64>,
    /// Heads
    #[arg(long, value_name = "N", required = false, value_parser = size, requires = "num_layers")]
    pub num_attention_heads: u64,
    /// Heads of keys and values [default: as many as heads]
    #[serde(default)]
    #[arg(long, value_name = "N", value_parser = size)]
    pub num_query_groups: Option<u64>,
    /// Width of a head [default: hidden size by heads]
    #[serde(default)]
    #[arg(long, value_name = "N", value_parser = size)]
    pub kv_channels: Option<u64>,
    /// Tokens of a sequence
    #[arg(long, value_name = "N", required = false, value_parser = size, requires = "num_layers")]
    pub seq_length: u64,
    /// Words [default: no embedding, output layer and loss]
    #[serde(default)]
    #[arg(long, value_name = "N", value_parser = size)]
    pub vocab_size: Option<u64>,
    /// Sequences of a micro-batch
    #[serde(default = "one::<u64>")]
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = size)]
    pub micro_batch_size: u64,
    /// Sequences of a step
    #[serde(default)]
    #[arg(long, value_name = "N", value_parser = size, requires = "num_layers")]
    pub global_batch_size: Option<u64>,
    /// The first matrix of an MLP has two parts
    #[serde(default)]
    #[arg(long)]
    pub swiglu: bool,
    /// Embedding and output layer are different matrices
    #[serde(default)]
    #[arg(long)]
    pub untie_embeddings_and_output_weights: bool,
    /// Experts of each layer [default: none]
    #[serde(default)]
    #[arg(long, value_name = "N", value_parser = size)]
    pub num_experts: Option<u64>,
    /// Experts of a token
    #[serde(default = "two")]
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = size)]
    pub moe_router_topk: u64,
    /// Width of an expert [default: that of an MLP]
    #[serde(default)]
    #[arg(long, value_name = "N", value_parser = size)]
    pub moe_ffn_hidden_size: Option<u64>,
    /// Divide the optimizer's state over data parallelism
    #[serde(default)]
    #[arg(long)]
    pub use_distributed_optimizer: bool,
    /// Reduce the gradients of a layer during the last backward pass
    #[serde(default)]
    #[arg(long)]
    pub overlap_grad_reduce: bool,
}

fn one<N: From<u8>>() -> N {
    N::from(1)
}

const fn two() -> u64 {
    2
}

/// Reads a size of the command line.
#[cfg(feature = "arguments")]
fn size(text: &str) -> Result<u64, String> {
    number(text, MOST_SIZE)
}

/// Reads a number of ranks of the command line.
#[cfg(feature = "arguments")]
fn ranks(text: &str) -> Result<u32, String> {
    number(text, MOST_RANKS).map(|it| it as u32)
}

/// Reads a number from 1 to `most`.
pub(super) fn number(text: &str, most: u64) -> Result<u64, String> {
    let number = text.parse().ok().filter(|it| (1..=most).contains(it));
    number.ok_or_else(|| format!("expected a whole number from 1 to {most}"))
}

impl Arguments {
    /// The training of a job with this number of ranks. `tflops` is what a GPU computes, TFLOP/s;
    /// none: computation is left out.
    pub fn training(&self, ranks: u32, tflops: Option<f64>) -> Training {
        let stage = self.num_layers / u64::from(self.pipeline_model_parallel_size.max(1));
        let chunks = self
            .num_layers_per_virtual_pipeline_stage
            .map_or(1, |layers| stage / layers.max(1));
        let mlp = FFN.saturating_mul(self.hidden_size);
        let gated = mlp.saturating_mul(2) / 3 / GATED_FFN_UNIT * GATED_FFN_UNIT;
        let usual = match self.swiglu {
            true => gated,
            false => mlp,
        };
        let ffn = self.ffn_hidden_size.unwrap_or(usual);
        let parallelism = Parallelism {
            ranks,
            tensor: self.tensor_model_parallel_size,
            context: self.context_parallel_size,
            expert: self.expert_model_parallel_size,
            expert_tensor: self
                .expert_tensor_parallel_size
                .unwrap_or(self.tensor_model_parallel_size),
            pipeline: self.pipeline_model_parallel_size,
        };
        let one_each = self
            .micro_batch_size
            .saturating_mul(u64::from(parallelism.data()));
        Training {
            parallelism,
            sequence_parallel: self.sequence_parallel,
            chunks: u32::try_from(chunks.max(1)).unwrap_or(u32::MAX),
            layers: self.num_layers,
            hidden: self.hidden_size,
            ffn,
            heads: self.num_attention_heads,
            query_groups: self.num_query_groups.unwrap_or(self.num_attention_heads),
            channels: self
                .kv_channels
                .unwrap_or(self.hidden_size / self.num_attention_heads.max(1)),
            sequence: self.seq_length,
            vocabulary: self.vocab_size.unwrap_or(0),
            micro_batch: self.micro_batch_size,
            global_batch: self.global_batch_size.unwrap_or(one_each),
            swiglu: self.swiglu,
            untied: self.untie_embeddings_and_output_weights,
            experts: self.num_experts.unwrap_or(0),
            top_k: self.moe_router_topk,
            expert_ffn: self.moe_ffn_hidden_size.unwrap_or(ffn),
            distributed_optimizer: self.use_distributed_optimizer,
            overlap_gradients: self.overlap_grad_reduce,
            tflops,
        }
    }
}
