//! Sizes that do not fit each other.

use super::{MOST_SIZE, Training};
use crate::call::{MOST_CALLS, MOST_REPEATS};
use crate::parallelism::Parallelism;

impl Training {
    /// Checks all sizes; a sentence says what does not fit.
    pub(super) fn check(&self) -> Result<(), String> {
        let Parallelism {
            tensor,
            expert,
            expert_tensor,
            ..
        } = self.parallelism;
        self.parallelism.check()?;
        self.check_sizes()?;
        self.check_shares()?;
        if self.experts == 0 && (expert > 1 || expert_tensor != tensor) {
            return Err("expert parallelism without num-experts; expected it".to_owned());
        }
        if self.experts > 0 && tensor > 1 && !self.sequence_parallel {
            return Err(
                "experts with tensor parallelism need sequence-parallel, as in Megatron".to_owned(),
            );
        }
        if self.tflops.is_some_and(|it| !(it > 0.0 && it.is_finite())) {
            return Err("gpu-tflops; expected more than 0".to_owned());
        }
        self.check_limits()
    }

    /// Checks that sizes are there and not too large.
    fn check_sizes(&self) -> Result<(), String> {
        let sizes = [
            ("num-layers", self.layers),
            ("hidden-size", self.hidden),
            ("num-attention-heads", self.heads),
            ("num-query-groups", self.query_groups),
            ("kv-channels", self.channels),
            ("seq-length", self.sequence),
            ("micro-batch-size", self.micro_batch),
            ("global-batch-size", self.global_batch),
        ];
        for (name, size) in sizes {
            if !(1..=MOST_SIZE).contains(&size) {
                return Err(format!("{name} {size}; expected 1 to {MOST_SIZE}"));
            }
        }
        let others = [
            ("ffn-hidden-size", self.ffn),
            ("vocab-size", self.vocabulary),
            ("num-experts", self.experts),
            ("moe-router-topk", self.top_k),
            ("moe-ffn-hidden-size", self.expert_ffn),
        ];
        for (name, size) in others {
            if size > MOST_SIZE {
                return Err(format!("{name} {size}; expected at most {MOST_SIZE}"));
            }
        }
        Ok(())
    }

    /// Checks that sizes are divided by those of parallelism.
    fn check_shares(&self) -> Result<(), String> {
        let Parallelism {
            tensor,
            context,
            expert,
            pipeline,
            ..
        } = self.parallelism;
        let divided = |what: &str, size: u64, by: &str, parts: u64| match size.is_multiple_of(parts)
        {
            true => Ok(()),
            false => Err(format!(
                "{what} {size} is not divided by {by}, {parts}; expected a multiple"
            )),
        };
        let stages = u64::from(pipeline) * u64::from(self.chunks.max(1));
        divided("num-layers", self.layers, "stages and their chunks", stages)?;
        divided(
            "num-attention-heads",
            self.heads,
            "tensor parallelism",
            tensor.into(),
        )?;
        let share = match self.sequence_parallel {
            true => u64::from(tensor) * u64::from(context),
            false => context.into(),
        };
        divided(
            "seq-length",
            self.sequence,
            "context (and sequence) parallelism",
            share,
        )?;
        divided(
            "num-experts",
            self.experts,
            "expert parallelism",
            expert.into(),
        )?;
        let batch = self
            .micro_batch
            .saturating_mul(self.parallelism.data().into());
        divided(
            "global-batch-size",
            self.global_batch,
            "micro-batch times data parallelism",
            batch,
        )?;
        Ok(())
    }

    /// Checks that the calls can be listed and counted.
    fn check_limits(&self) -> Result<(), String> {
        let context = self.parallelism.context;
        let listed = self.stage_layers().saturating_mul(24);
        if listed > MOST_CALLS as u64 {
            return Err(format!(
                "{} layers on a stage are too many; expected at most {}",
                self.stage_layers(),
                MOST_CALLS / 24
            ));
        }
        let repeats = self.micro_batches().saturating_mul(self.layers);
        if repeats.saturating_mul(context.into()) > MOST_REPEATS {
            return Err("too many micro-batches; expected fewer".to_owned());
        }
        // Sums of products below stay in 63 bits.
        let sizes = [
            self.micro_batch,
            self.sequence,
            self.hidden.max(self.heads_wide()),
            self.top_k.max(1),
            64,
        ];
        let widest = sizes.map(u128::from).into_iter();
        let widest = widest.fold(1, u128::saturating_mul);
        let parameters = u128::from(self.dense_parameters_wide()) * u128::from(self.layers);
        match widest.max(parameters * 16) > i64::MAX as u128 {
            true => {
                Err("the model or the batch is too large; expected messages in 63 bits".to_owned())
            }
            false => Ok(()),
        }
    }

    /// Width of all heads, of queries or of keys; it does not overflow.
    fn heads_wide(&self) -> u64 {
        let heads = self.heads.max(self.query_groups);
        heads.saturating_mul(self.channels)
    }

    /// An upper bound of a layer's parameters that does not overflow.
    fn dense_parameters_wide(&self) -> u64 {
        let width = self.ffn.max(self.expert_ffn).max(self.heads_wide());
        let matrix = self.hidden.saturating_mul(width).saturating_mul(8);
        matrix
            .saturating_mul(self.experts.max(1))
            .max(self.hidden.saturating_mul(self.padded_vocabulary()))
    }
}
