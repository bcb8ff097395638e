//! The groups of ranks that Megatron makes of sizes of parallelism.
//!
//! Ranks count in the order tp-cp-ep-dp-pp (`--use-tp-pp-dp-mapping` is not given): tensor
//! parallelism is innermost, pipeline stages are outermost. Layers of experts divide the ranks of a
//! stage in their own way: expert tensor parallelism, experts, then copies of experts (source:
//! Megatron-LM `megatron/core/parallel_state.py`, `RankGenerator`).

use crate::groups::{Axis, Members};

/// The sizes of parallelism of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parallelism {
    /// Ranks of the job.
    pub ranks: u32,
    /// Ranks that share a layer's matrices (`--tensor-model-parallel-size`).
    pub tensor: u32,
    /// Ranks that share a sequence (`--context-parallel-size`).
    pub context: u32,
    /// Ranks that share the experts (`--expert-model-parallel-size`).
    pub expert: u32,
    /// Ranks that share an expert's matrices (`--expert-tensor-parallel-size`).
    pub expert_tensor: u32,
    /// Stages (`--pipeline-model-parallel-size`).
    pub pipeline: u32,
}

/// A group of Megatron's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupKind {
    /// Tensor parallelism.
    Tensor,
    /// Context parallelism.
    Context,
    /// Copies of the model, among which gradients are reduced: data and context parallelism.
    Data,
    /// Experts.
    Expert,
    /// Tensor parallelism of an expert.
    ExpertTensor,
    /// Copies of an expert.
    ExpertData,
    /// Stages.
    Pipeline,
}

impl GroupKind {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Tensor,
        Self::Context,
        Self::Data,
        Self::Expert,
        Self::ExpertTensor,
        Self::ExpertData,
        Self::Pipeline,
    ];

    /// The name in lists and on pages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tensor => "tp",
            Self::Context => "cp",
            Self::Data => "dp",
            Self::Expert => "ep",
            Self::ExpertTensor => "etp",
            Self::ExpertData => "edp",
            Self::Pipeline => "pp",
        }
    }
}

/// A product, or the largest number.
fn product(sizes: [u32; 3]) -> u32 {
    sizes.into_iter().fold(1, u32::saturating_mul)
}

impl Parallelism {
    /// Checks the sizes.
    ///
    /// # Errors
    /// They do not divide the ranks; a sentence.
    pub fn check(&self) -> Result<(), String> {
        let dense = product([self.tensor, self.context, self.pipeline]);
        let sparse = product([self.expert_tensor, self.expert, self.pipeline]);
        for (what, size) in [
            ("tensor, context and pipeline", dense),
            ("expert tensor, expert and pipeline", sparse),
        ] {
            if size == 0 || !self.ranks.is_multiple_of(size) {
                return Err(format!(
                    "the product of {what} parallelism is {size}, which does not divide {} ranks; \
                     expected sizes of at least 1 whose product does",
                    self.ranks
                ));
            }
        }
        Ok(())
    }

    /// Copies of the model (data parallelism without context parallelism).
    pub fn data(&self) -> u32 {
        self.ranks / product([self.tensor, self.context, self.pipeline]).max(1)
    }

    /// Copies of each expert.
    pub fn expert_data(&self) -> u32 {
        self.ranks / product([self.expert_tensor, self.expert, self.pipeline]).max(1)
    }

    /// The ranks of a group.
    pub fn members(&self, group: GroupKind) -> Members {
        let stage = self.ranks / self.pipeline.max(1);
        let copies = self.context * self.data();
        let (size, stride) = match group {
            GroupKind::Tensor => (self.tensor, 1),
            GroupKind::Context => (self.context, self.tensor),
            GroupKind::Data => (copies, self.tensor),
            GroupKind::ExpertTensor => (self.expert_tensor, 1),
            GroupKind::Expert => (self.expert, self.expert_tensor),
            GroupKind::ExpertData => (self.expert_data(), self.expert_tensor * self.expert),
            GroupKind::Pipeline => (self.pipeline, stage),
        };
        Members::Grid(vec![Axis { size, stride }])
    }
}
