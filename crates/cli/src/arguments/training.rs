//! A transformer and how it is trained, under the names of Megatron-LM's arguments.

use clap::Args;
use workload::megatron::{Arguments, MOST_SIZE};

use crate::numbers::within;

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "A step by Megatron's arguments, instead of WORKLOAD")]
pub(crate) struct TrainingArguments {
    /// Ranks that share a layer's matrices
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = within::<u32>(1..=1 << 24))]
    pub tensor_model_parallel_size: u32,
    /// Stages
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = within::<u32>(1..=1 << 24))]
    pub pipeline_model_parallel_size: u32,
    /// Ranks that share a sequence
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = within::<u32>(1..=1 << 24))]
    pub context_parallel_size: u32,
    /// Ranks that share the experts
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = within::<u32>(1..=1 << 24))]
    pub expert_model_parallel_size: u32,
    /// Ranks that share an expert's matrices [default: those of --tensor-model-parallel-size]
    #[arg(long, value_name = "N", value_parser = within::<u32>(1..=1 << 24))]
    pub expert_tensor_parallel_size: Option<u32>,
    /// Layers of each chunk of a stage (interleaved schedule) [default: all of the stage]
    #[arg(long, value_name = "N", value_parser = within::<u64>(1..=MOST_SIZE))]
    pub num_layers_per_virtual_pipeline_stage: Option<u64>,
    /// Divide activations between matrices over tensor parallelism
    #[arg(long)]
    pub sequence_parallel: bool,
    /// Layers of the model
    #[arg(long, value_name = "N", value_parser = within::<u64>(1..=MOST_SIZE), requires_all = ["hidden_size", "num_attention_heads", "seq_length", "global_batch_size"])]
    pub num_layers: Option<u64>,
    /// Width of the model
    #[arg(long, value_name = "N", value_parser = within::<u64>(1..=MOST_SIZE), requires = "num_layers")]
    pub hidden_size: Option<u64>,
    /// Width of MLPs [default: 4 × hidden size, with --swiglu 8/3]
    #[arg(long, value_name = "N", value_parser = within::<u64>(1..=MOST_SIZE))]
    pub ffn_hidden_size: Option<u64>,
    /// Heads
    #[arg(long, value_name = "N", value_parser = within::<u64>(1..=MOST_SIZE), requires = "num_layers")]
    pub num_attention_heads: Option<u64>,
    /// Heads of keys and values [default: as many as heads]
    #[arg(long, value_name = "N", value_parser = within::<u64>(1..=MOST_SIZE))]
    pub num_query_groups: Option<u64>,
    /// Width of a head [default: hidden size by heads]
    #[arg(long, value_name = "N", value_parser = within::<u64>(1..=MOST_SIZE))]
    pub kv_channels: Option<u64>,
    /// Tokens of a sequence
    #[arg(long, value_name = "N", value_parser = within::<u64>(1..=MOST_SIZE), requires = "num_layers")]
    pub seq_length: Option<u64>,
    /// Words [default: no embedding, output layer and loss]
    #[arg(long, value_name = "N", value_parser = within::<u64>(1..=MOST_SIZE))]
    pub vocab_size: Option<u64>,
    /// Sequences of a micro-batch
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = within::<u64>(1..=MOST_SIZE))]
    pub micro_batch_size: u64,
    /// Sequences of a step
    #[arg(long, value_name = "N", value_parser = within::<u64>(1..=MOST_SIZE), requires = "num_layers")]
    pub global_batch_size: Option<u64>,
    /// The first matrix of an MLP has two parts
    #[arg(long)]
    pub swiglu: bool,
    /// Embedding and output layer are different matrices
    #[arg(long)]
    pub untie_embeddings_and_output_weights: bool,
    /// Experts of each layer [default: none]
    #[arg(long, value_name = "N", value_parser = within::<u64>(1..=MOST_SIZE))]
    pub num_experts: Option<u64>,
    /// Experts of a token
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = within::<u64>(1..=MOST_SIZE))]
    pub moe_router_topk: u64,
    /// Width of an expert [default: that of an MLP]
    #[arg(long, value_name = "N", value_parser = within::<u64>(1..=MOST_SIZE))]
    pub moe_ffn_hidden_size: Option<u64>,
    /// Divide the optimizer's state over data parallelism
    #[arg(long)]
    pub use_distributed_optimizer: bool,
    /// Reduce the gradients of a layer during the last backward pass
    #[arg(long)]
    pub overlap_grad_reduce: bool,
    /// What each GPU computes, TFLOP/s, also of a script or log of Megatron [default: computation
    /// is left out]
    #[arg(long, value_name = "X")]
    pub gpu_tflops: Option<f64>,
}

impl TrainingArguments {
    /// The arguments; `None` without a model.
    pub(crate) fn megatron(&self) -> Option<Arguments> {
        Some(Arguments {
            tensor: self.tensor_model_parallel_size,
            pipeline: self.pipeline_model_parallel_size,
            context: self.context_parallel_size,
            expert: self.expert_model_parallel_size,
            expert_tensor: self.expert_tensor_parallel_size,
            chunk_layers: self.num_layers_per_virtual_pipeline_stage,
            sequence_parallel: self.sequence_parallel,
            layers: self.num_layers?,
            hidden: self.hidden_size?,
            ffn: self.ffn_hidden_size,
            heads: self.num_attention_heads?,
            query_groups: self.num_query_groups,
            channels: self.kv_channels,
            sequence: self.seq_length?,
            vocabulary: self.vocab_size,
            micro_batch: self.micro_batch_size,
            global_batch: Some(self.global_batch_size?),
            swiglu: self.swiglu,
            untied: self.untie_embeddings_and_output_weights,
            experts: self.num_experts,
            top_k: self.moe_router_topk,
            expert_ffn: self.moe_ffn_hidden_size,
            distributed_optimizer: self.use_distributed_optimizer,
            overlap_gradients: self.overlap_grad_reduce,
            tflops: self.gpu_tflops,
        })
    }
}
