//! The calls before and after the layers: embedding, output layer, loss, stages, gradients and
//! parameters.

use plan::cost::DataType;
use program::{Collective, Reduction};

use super::layers::{ELEMENT, Steps};
use crate::call::Call;
use crate::groups::Members;
use crate::parallelism::{GroupKind, Parallelism};

/// Bytes of a gradient (f32).
const GRADIENT: u64 = 4;

impl Steps<'_> {
    /// The embedding where there is one stage, the output layer, the loss, and what comes from the
    /// stage before.
    pub(super) fn edges_forward(&mut self, count: u64) {
        use Collective::{AllGather, AllReduce, ReduceScatter};
        let training = self.training;
        let tensor = GroupKind::Tensor;
        let bytes = self.activations();
        self.stage(count);
        if training.vocabulary == 0 {
            return;
        }
        if training.parallelism.pipeline == 1 {
            match training.sequence_parallel {
                true => self.call(tensor, ReduceScatter, bytes, count, "embedding"),
                false => self.call(tensor, AllReduce, bytes, count, "embedding"),
            }
        }
        if training.sequence_parallel {
            self.call(tensor, AllGather, bytes, count, "output layer");
        }
        let flops = self.flops(training.embedding_parameters());
        self.computes(flops * count as f64);
        for (name, reduction) in [
            ("loss: maximum", Reduction::Maximum),
            ("loss: target", Reduction::Sum),
            ("loss: sum", Reduction::Sum),
        ] {
            let before = self.workload.calls.len();
            self.call(tensor, AllReduce, GRADIENT * self.tokens(), count, name);
            for call in &mut self.workload.calls[before..] {
                (call.data_type, call.reduction) = (DataType::F32, reduction);
            }
        }
    }

    pub(super) fn edges_backward(&mut self, count: u64) {
        use Collective::{AllGather, AllReduce, ReduceScatter};
        let training = self.training;
        let tensor = GroupKind::Tensor;
        let bytes = self.activations();
        if training.vocabulary > 0 {
            if training.sequence_parallel {
                self.call(tensor, AllGather, bytes, count, "output layer input again");
            }
            let flops = 2.0 * self.flops(training.embedding_parameters());
            self.computes(flops * count as f64);
            match training.sequence_parallel {
                true => self.call(
                    tensor,
                    ReduceScatter,
                    bytes,
                    count,
                    "output layer gradients",
                ),
                false => self.call(tensor, AllReduce, bytes, count, "output layer gradients"),
            }
        }
        self.stage(count);
    }

    pub(super) fn embedding_backward(&mut self, count: u64) {
        let training = self.training;
        let is_first = training.parallelism.pipeline == 1 && training.vocabulary > 0;
        if is_first && training.sequence_parallel {
            let bytes = self.activations();
            let collective = Collective::AllGather;
            self.call(
                GroupKind::Tensor,
                collective,
                bytes,
                count,
                "embedding gradients",
            );
        }
    }

    /// Messages of a direction between stages.
    fn stage(&mut self, count: u64) {
        let training = self.training;
        let share = match training.sequence_parallel {
            true => u64::from(training.parallelism.tensor),
            false => 1,
        };
        let bytes = self.activations() / share;
        let messages = count * u64::from(training.chunks);
        let collective = Collective::SendRecv;
        self.call(GroupKind::Pipeline, collective, bytes, messages, "stage");
    }

    /// Reduces the gradients of some layers.
    pub(super) fn gradients(&mut self, layers: u64, blocks: bool) {
        let training = self.training;
        let Parallelism {
            tensor,
            expert,
            expert_tensor,
            ..
        } = training.parallelism;
        let dense = layers * training.dense_parameters() / u64::from(tensor);
        let shared = u64::from(expert) * u64::from(expert_tensor);
        let sparse = layers * training.expert_parameters() / shared;
        self.reduce(GroupKind::Data, dense, blocks, "gradients");
        self.reduce(GroupKind::ExpertData, sparse, blocks, "expert gradients");
    }

    fn reduce(&mut self, kind: GroupKind, parameters: u64, blocks: bool, name: &str) {
        let collective = match self.training.distributed_optimizer {
            true => Collective::ReduceScatter,
            false => Collective::AllReduce,
        };
        let before = self.workload.calls.len();
        self.call(kind, collective, GRADIENT * parameters, 1, name);
        for call in &mut self.workload.calls[before..] {
            call.data_type = DataType::F32;
            call.blocks = blocks;
            call.micro_batch = false;
        }
    }

    /// Gradients of the embedding and the output layer.
    pub(super) fn embedding_gradients(&mut self) {
        let training = self.training;
        let Parallelism {
            ranks,
            tensor,
            pipeline,
            ..
        } = training.parallelism;
        let parameters = training.embedding_parameters() / u64::from(tensor);
        if parameters == 0 {
            return;
        }
        if pipeline > 1 && !training.untied {
            // The first and the last stage hold the same matrix.
            let stage = ranks / pipeline;
            let pairs = (0..stage).map(|rank| vec![rank, rank + stage * (pipeline - 1)]);
            let group = self
                .workload
                .group("embd", Members::Listed(pairs.collect()));
            self.workload.calls.push(Call {
                name: "tied embedding".to_owned(),
                compute_us: std::mem::take(&mut self.compute_us),
                ..Call::new(group, Collective::AllReduce, GRADIENT * parameters)
            });
        }
        let both = training.untied && pipeline == 1;
        let matrices = if both { 2 } else { 1 };
        self.reduce(
            GroupKind::Data,
            matrices * parameters,
            true,
            "embedding gradients",
        );
    }

    /// Gathers the parameters that the distributed optimizer updated.
    pub(super) fn parameters(&mut self, layers: u64) {
        let training = self.training;
        if !training.distributed_optimizer {
            return;
        }
        let Parallelism {
            tensor,
            expert,
            expert_tensor,
            pipeline,
            ..
        } = training.parallelism;
        let both = training.untied && pipeline == 1;
        let matrices = if both { 2 } else { 1 };
        let whole =
            layers * training.dense_parameters() + matrices * training.embedding_parameters();
        let dense = whole / u64::from(tensor);
        let shared = u64::from(expert) * u64::from(expert_tensor);
        let sparse = layers * training.expert_parameters() / shared;
        for (kind, parameters) in [(GroupKind::Data, dense), (GroupKind::ExpertData, sparse)] {
            let before = self.workload.calls.len();
            self.call(
                kind,
                Collective::AllGather,
                ELEMENT * parameters,
                1,
                "parameters",
            );
            for call in &mut self.workload.calls[before..] {
                call.micro_batch = false;
            }
        }
    }
}
