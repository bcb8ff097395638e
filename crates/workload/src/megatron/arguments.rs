//! Megatron-LM's arguments as they are given, with the values of those that are not.

use super::Training;
use crate::parallelism::Parallelism;

/// Width of an MLP by that of the model, without a size of its own.
const FFN: u64 = 4;

/// Widths of gated MLPs are multiples of this (source: Megatron-LM `arguments.py`).
const GATED_FFN_UNIT: u64 = 64;

/// A transformer and how it is trained. Names are those of Megatron's arguments.
#[derive(Debug, Clone, PartialEq)]
pub struct Arguments {
    /// `--tensor-model-parallel-size`.
    pub tensor: u32,
    /// `--pipeline-model-parallel-size`.
    pub pipeline: u32,
    /// `--context-parallel-size`.
    pub context: u32,
    /// `--expert-model-parallel-size`.
    pub expert: u32,
    /// `--expert-tensor-parallel-size`; none: that of tensor parallelism.
    pub expert_tensor: Option<u32>,
    /// `--num-layers-per-virtual-pipeline-stage`; none: all of the stage.
    pub chunk_layers: Option<u64>,
    /// `--sequence-parallel`.
    pub sequence_parallel: bool,
    /// `--num-layers`.
    pub layers: u64,
    /// `--hidden-size`.
    pub hidden: u64,
    /// `--ffn-hidden-size`; none: 4 × hidden size, with `--swiglu` 8/3.
    pub ffn: Option<u64>,
    /// `--num-attention-heads`.
    pub heads: u64,
    /// `--num-query-groups`; none: as many as heads.
    pub query_groups: Option<u64>,
    /// `--kv-channels`; none: hidden size by heads.
    pub channels: Option<u64>,
    /// `--seq-length`.
    pub sequence: u64,
    /// `--vocab-size`; none: no embedding, output layer and loss.
    pub vocabulary: Option<u64>,
    /// `--micro-batch-size`.
    pub micro_batch: u64,
    /// `--global-batch-size`; none: one micro-batch of each rank of data parallelism.
    pub global_batch: Option<u64>,
    /// `--swiglu`.
    pub swiglu: bool,
    /// `--untie-embeddings-and-output-weights`.
    pub untied: bool,
    /// `--num-experts`; none: an MLP in each layer.
    pub experts: Option<u64>,
    /// `--moe-router-topk`.
    pub top_k: u64,
    /// `--moe-ffn-hidden-size`; none: that of an MLP.
    pub expert_ffn: Option<u64>,
    /// `--use-distributed-optimizer`.
    pub distributed_optimizer: bool,
    /// `--overlap-grad-reduce`.
    pub overlap_gradients: bool,
    /// What a GPU computes, TFLOP/s; none: computation is left out.
    pub tflops: Option<f64>,
}

impl Arguments {
    /// The training of a job with this number of ranks.
    pub fn training(&self, ranks: u32) -> Training {
        let stage = self.layers / u64::from(self.pipeline.max(1));
        let chunks = self.chunk_layers.map_or(1, |layers| stage / layers.max(1));
        let gated = FFN * self.hidden * 2 / 3 / GATED_FFN_UNIT * GATED_FFN_UNIT;
        let usual = match self.swiglu {
            true => gated,
            false => FFN * self.hidden,
        };
        let ffn = self.ffn.unwrap_or(usual);
        let parallelism = Parallelism {
            ranks,
            tensor: self.tensor,
            context: self.context,
            expert: self.expert,
            expert_tensor: self.expert_tensor.unwrap_or(self.tensor),
            pipeline: self.pipeline,
        };
        let one_each = self.micro_batch * u64::from(parallelism.data());
        Training {
            parallelism,
            sequence_parallel: self.sequence_parallel,
            chunks: u32::try_from(chunks.max(1)).unwrap_or(u32::MAX),
            layers: self.layers,
            hidden: self.hidden,
            ffn,
            heads: self.heads,
            query_groups: self.query_groups.unwrap_or(self.heads),
            channels: self.channels.unwrap_or(self.hidden / self.heads.max(1)),
            sequence: self.sequence,
            vocabulary: self.vocabulary.unwrap_or(0),
            micro_batch: self.micro_batch,
            global_batch: self.global_batch.unwrap_or(one_each),
            swiglu: self.swiglu,
            untied: self.untied,
            experts: self.experts.unwrap_or(0),
            top_k: self.top_k,
            expert_ffn: self.expert_ffn.unwrap_or(ffn),
            distributed_optimizer: self.distributed_optimizer,
            overlap_gradients: self.overlap_gradients,
            tflops: self.tflops,
        }
    }
}
