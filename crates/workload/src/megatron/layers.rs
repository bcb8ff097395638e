//! The calls of layers.

use plan::cost::DataType;
use program::Collective;

use super::Training;
use crate::call::{Call, MOST_US, Workload};
use crate::parallelism::GroupKind;

/// Bytes of an activation or a parameter (bf16).
pub(super) const ELEMENT: u64 = 2;

/// The step while it is made.
pub(super) struct Steps<'a> {
    pub(super) training: &'a Training,
    pub(super) workload: Workload,
    /// Computation since the last call, µs.
    pub(super) compute_us: f64,
}

impl<'a> Steps<'a> {
    pub(super) fn new(training: &'a Training) -> Self {
        Self {
            training,
            workload: Workload::default(),
            compute_us: 0.0,
        }
    }

    /// The workload, with computation after the last call.
    pub(super) fn finish(self) -> Workload {
        Workload {
            compute_after_us: self.compute_us,
            ..self.workload
        }
    }

    /// Adds calls of a group; none if its communicators have one rank.
    pub(super) fn call(
        &mut self,
        kind: GroupKind,
        collective: Collective,
        bytes: u64,
        count: u64,
        name: &str,
    ) {
        let training = self.training;
        let members = training.parallelism.members(kind);
        if members.size(training.parallelism.ranks) < 2 || bytes == 0 || count == 0 {
            return;
        }
        let group = self.workload.group(kind.name(), members);
        self.workload.calls.push(Call {
            name: name.to_owned(),
            data_type: DataType::Bf16,
            count,
            compute_us: std::mem::take(&mut self.compute_us) / count as f64,
            micro_batch: true,
            ..Call::new(group, collective, bytes)
        });
    }

    /// Adds computation of `flops` floating-point operations.
    pub(super) fn computes(&mut self, flops: f64) {
        if let Some(tflops) = self.training.tflops {
            self.compute_us = (self.compute_us + flops / tflops / 1e6).min(MOST_US);
        }
    }

    /// Tokens of a micro-batch on a rank of context parallelism.
    pub(super) fn tokens(&self) -> u64 {
        let training = self.training;
        training.micro_batch * training.sequence / u64::from(training.parallelism.context)
    }

    /// Bytes of the activations of a micro-batch.
    pub(super) fn activations(&self) -> u64 {
        ELEMENT * self.tokens() * self.training.hidden
    }

    /// Operations of a forward pass over so many parameters that tensor parallelism divides.
    pub(super) fn flops(&self, parameters: u64) -> f64 {
        let shared = f64::from(self.training.parallelism.tensor);
        2.0 * self.tokens() as f64 * parameters as f64 / shared
    }

    /// Forward passes of all layers of a stage, and what is before and after them.
    pub(super) fn forward(&mut self, count: u64, layers: u64) {
        self.layer_forward(count * layers);
        self.edges_forward(count);
    }

    /// Backward passes.
    pub(super) fn backward(&mut self, count: u64, layers: u64) {
        self.edges_backward(count);
        self.layer_backward(count * layers);
        self.embedding_backward(count);
    }

    /// Operations of attention in a layer, forward: of its matrices, and of scores and values.
    fn attention_flops(&self) -> [f64; 2] {
        let training = self.training;
        let [queries, _] = training.heads_width();
        let scores = 4.0 * self.tokens() as f64 * training.sequence as f64 * queries as f64;
        [
            self.flops(training.attention_parameters()),
            scores / f64::from(training.parallelism.tensor),
        ]
    }

    /// Operations of the MLP or of the chosen experts, forward.
    fn mlp_flops(&self) -> f64 {
        let training = self.training;
        let parameters = match training.experts {
            0 => training.mlp_parameters(training.ffn),
            _ => training.top_k * training.mlp_parameters(training.expert_ffn),
        };
        self.flops(parameters)
    }

    pub(super) fn layer_forward(&mut self, count: u64) {
        use Collective::{AllGather, AllReduce, ReduceScatter};
        let tensor = GroupKind::Tensor;
        let bytes = self.activations();
        let mlp = self.mlp_flops();
        let sequence = self.training.sequence_parallel;
        if sequence {
            self.call(tensor, AllGather, bytes, count, "attention");
        }
        self.attention(count, 1);
        match sequence {
            true => self.call(tensor, ReduceScatter, bytes, count, "attention"),
            false => self.call(tensor, AllReduce, bytes, count, "attention"),
        }
        if self.training.experts > 0 {
            self.experts(count, mlp);
            return;
        }
        if sequence {
            self.call(tensor, AllGather, bytes, count, "mlp");
        }
        self.computes(mlp * count as f64);
        match sequence {
            true => self.call(tensor, ReduceScatter, bytes, count, "mlp"),
            false => self.call(tensor, AllReduce, bytes, count, "mlp"),
        }
    }

    pub(super) fn layer_backward(&mut self, count: u64) {
        use Collective::{AllGather, AllReduce, ReduceScatter};
        let tensor = GroupKind::Tensor;
        let bytes = self.activations();
        let mlp = 2.0 * self.mlp_flops();
        let sequence = self.training.sequence_parallel;
        if self.training.experts > 0 {
            self.experts(count, mlp);
        } else {
            if sequence {
                self.call(tensor, AllGather, bytes, count, "mlp gradients");
                self.call(tensor, AllGather, bytes, count, "mlp input again");
            }
            self.computes(mlp * count as f64);
            match sequence {
                true => self.call(tensor, ReduceScatter, bytes, count, "mlp gradients"),
                false => self.call(tensor, AllReduce, bytes, count, "mlp gradients"),
            }
        }
        if sequence {
            self.call(tensor, AllGather, bytes, count, "attention gradients");
            self.call(tensor, AllGather, bytes, count, "attention input again");
        }
        self.attention(count, 2);
        match sequence {
            true => self.call(tensor, ReduceScatter, bytes, count, "attention gradients"),
            false => self.call(tensor, AllReduce, bytes, count, "attention gradients"),
        }
    }

    /// Computes attention, `times` as long as forward. With context parallelism keys and values
    /// (backward also their gradients) go around the ranks of a sequence meanwhile.
    fn attention(&mut self, count: u64, times: u64) {
        let training = self.training;
        let [matrices, scores] = self.attention_flops().map(|it| it * (times * count) as f64);
        self.computes(matrices);
        if training.parallelism.context < 2 {
            self.computes(scores);
            return;
        }
        let [_, keys] = training.heads_width();
        let tensor = u64::from(training.parallelism.tensor);
        let bytes = times * 2 * ELEMENT * self.tokens() * keys / tensor;
        let calls = count * u64::from(training.parallelism.context - 1);
        let name = "keys and values";
        self.call(GroupKind::Context, Collective::SendRecv, bytes, calls, name);
        let overlap = training
            .tflops
            .map_or(0.0, |it| scores / it / 1e6 / calls as f64);
        if let Some(call) = self.workload.calls.last_mut() {
            call.overlap_us = overlap.min(MOST_US);
        }
    }

    /// Tokens go to the ranks of their experts and back.
    fn experts(&mut self, count: u64, flops: f64) {
        use Collective::{AllGather, AllToAll, ReduceScatter};
        let training = self.training;
        let tensor = u64::from(training.parallelism.tensor);
        let bytes = ELEMENT * self.tokens() / tensor * training.top_k * training.hidden;
        let gathered = bytes * u64::from(training.parallelism.expert_tensor);
        self.call(GroupKind::Expert, AllToAll, bytes, count, "dispatch");
        self.call(
            GroupKind::ExpertTensor,
            AllGather,
            gathered,
            count,
            "experts",
        );
        self.computes(flops * count as f64);
        self.call(
            GroupKind::ExpertTensor,
            ReduceScatter,
            gathered,
            count,
            "experts",
        );
        self.call(GroupKind::Expert, AllToAll, bytes, count, "combine");
    }
}
