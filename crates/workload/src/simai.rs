//! Workload text of SimAI and ASTRA-sim, as AICB writes it.
//!
//! The first line has a policy and sizes of parallelism (`HYBRID_TRANSFORMER_FWD_IN_BCKWD
//! model_parallel_NPU_group: 2 ep: 16 pp: 12 …`, or `MICRO`), the second the number of layers. A
//! layer has a name, a dependency that is not used, then computation (ns), collective and bytes of
//! its forward pass, of its input gradients and of its weight gradients, and the time of its update
//! (source: AICB `workload_generator/SimAI_training_workload_generator.py`, SimAI
//! `astra-sim/workload/Workload.cc`; both Apache-2.0).
//!
//! The step is that of SimAI's analytical mode without overlap: forward passes in order, then
//! weight and input gradients in reverse order, each collective after its computation. Collectives
//! of the first two passes belong to tensor parallelism, of the third to data parallelism, unless
//! they end with `_EP` or `_DP_EP`. The pipeline sends `pp_comm` bytes `vpp` × `ga` times in each
//! direction.

use plan::cost::DataType;
use program::Collective;

use crate::call::{Call, MOST_CALLS, MOST_REPEATS, MOST_US, Pipeline, Workload};
use crate::error::WorkloadError;
use crate::groups::Members;
use crate::list::from_one;
use crate::parallelism::{GroupKind, Parallelism};

/// The policy of transformers.
const TRANSFORMER: &str = "HYBRID_TRANSFORMER";

/// The policy of files in which all ranks make each collective.
const MICRO: &str = "MICRO";

/// Fields of a layer.
const FIELDS: usize = 12;

/// ns of a µs.
const NS: f64 = 1e3;

/// Whether a text begins as such a workload does.
pub fn is_one(text: &str) -> bool {
    let first = text.split_whitespace().next().unwrap_or("");
    first.starts_with(TRANSFORMER) || first == MICRO
}

/// Reads a workload. `ranks` is the number of ranks where the file does not say it.
///
/// # Errors
/// A line is wrong.
pub fn read(file: &str, text: &str, ranks: u32) -> Result<Workload, WorkloadError> {
    let wrong = |line: usize, why: String| WorkloadError::new(file, line as u64, why);
    let mut lines = text.lines().enumerate().map(|(at, line)| (at + 1, line));
    let (_, head) = lines.next().unwrap_or((1, ""));
    let header = Header::read(head, ranks).map_err(|why| wrong(1, why))?;
    let (_, number) = lines.next().unwrap_or((2, ""));
    let layers: usize = number.trim().parse().map_err(|_| {
        let why = format!("`{}`; expected the number of layers", number.trim());
        wrong(2, why)
    })?;
    if layers > MOST_CALLS / 4 {
        let why = format!("{layers} layers; expected at most {}", MOST_CALLS / 4);
        return Err(wrong(2, why));
    }
    let mut found = Vec::new();
    for (at, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
        if found.len() == layers {
            let why = format!("a line after the {layers} layers of line 2; expected the end");
            return Err(wrong(at, why));
        }
        found.push(Layer::read(line).map_err(|why| wrong(at, why))?);
    }
    if found.len() < layers {
        let why = format!(
            "the file ends after {} layers; expected {layers}, as line 2 says",
            found.len()
        );
        return Err(wrong(text.lines().count(), why));
    }
    Ok(header.workload(&found))
}

/// The first line.
#[derive(Debug)]
struct Header {
    is_micro: bool,
    parallelism: Parallelism,
    /// Ranks, if the line says them.
    ranks: Option<u32>,
    chunks: u32,
    micro_batches: u32,
    /// Bytes from a stage to the next.
    stage_bytes: u64,
}

impl Header {
    fn read(line: &str, ranks: u32) -> Result<Self, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let value = |name: &str| -> Result<Option<u32>, String> {
            let at = words.iter().position(|it| it.trim_end_matches(':') == name);
            let Some(at) = at else { return Ok(None) };
            let text = words.get(at + 1).copied().unwrap_or("");
            // AICB divides in floating point: 50331648.0.
            let whole = text.strip_suffix(".0").unwrap_or(text);
            let number = whole
                .parse()
                .map_err(|_| format!("{name}: `{text}`; expected a whole number in 32 bits"))?;
            Ok(Some(number))
        };
        let counted = |name| value(name)?.map(|it| from_one(name, it)).transpose();
        let size = |name| Ok::<u32, String>(counted(name)?.unwrap_or(1));
        let stated = counted("all_gpus")?;
        let tensor = size("model_parallel_NPU_group")?;
        let parallelism = Parallelism {
            ranks: stated.unwrap_or(ranks),
            tensor,
            context: 1,
            expert: size("ep")?,
            expert_tensor: tensor,
            pipeline: size("pp")?,
        };
        parallelism.check()?;
        let (chunks, micro_batches) = (size("vpp")?, size("ga")?);
        let messages = u64::from(chunks) * u64::from(micro_batches);
        if messages > MOST_REPEATS {
            return Err(format!(
                "vpp × ga is {messages}; expected at most {MOST_REPEATS}"
            ));
        }
        Ok(Self {
            is_micro: words.first() == Some(&MICRO),
            parallelism,
            ranks: stated,
            chunks,
            micro_batches,
            stage_bytes: value("pp_comm")?.unwrap_or(0).into(),
        })
    }

    fn workload(&self, layers: &[Layer]) -> Workload {
        let mut steps = Steps {
            header: self,
            workload: Workload::default(),
            compute_us: 0.0,
        };
        for layer in layers {
            steps.pass(layer, 0, GroupKind::Tensor);
        }
        steps.stages("forward");
        for layer in layers.iter().rev() {
            steps.pass(layer, 2, GroupKind::Data);
            steps.pass(layer, 1, GroupKind::Tensor);
        }
        steps.stages("backward");
        let pipeline = Pipeline {
            stages: self.parallelism.pipeline,
            chunks: self.chunks,
            micro_batches: self.micro_batches,
        };
        let mut notes = vec![
            "No collective overlaps with computation, as in SimAI's analytical mode with overlap \
             ratios of 0; collectives follow each other as in the file, the backward pass in reverse \
             order."
                .to_owned(),
            "The file has no types: bf16, and f32 for reductions of weight gradients.".to_owned(),
        ];
        if pipeline.stages > 1 {
            notes.push(format!(
                "The pipeline sends {} × {} messages in each direction (vpp × ga).",
                self.chunks, self.micro_batches
            ));
        }
        Workload {
            ranks: self.ranks,
            compute_after_us: steps.compute_us,
            pipeline: (pipeline.stages > 1).then_some(pipeline),
            notes,
            ..steps.workload
        }
    }
}

/// The step while it is made.
struct Steps<'a> {
    header: &'a Header,
    workload: Workload,
    /// Computation since the last call, µs.
    compute_us: f64,
}

impl Steps<'_> {
    /// Adds a pass of a layer.
    fn pass(&mut self, layer: &Layer, pass: usize, usual: GroupKind) {
        let Pass { compute_ns, call } = &layer.passes[pass];
        self.compute_us += compute_ns / NS;
        let Some((collective, suffix, bytes)) = *call else {
            return;
        };
        let kind = match suffix {
            Suffix::None => usual,
            Suffix::Expert => GroupKind::Expert,
            Suffix::ExpertData => GroupKind::ExpertData,
        };
        let is_gradient = pass == 2 && collective.reduces();
        let group = match self.header.is_micro {
            true => self.workload.group("all", Members::All),
            false => self
                .workload
                .group(kind.name(), self.header.parallelism.members(kind)),
        };
        self.workload.calls.push(Call {
            name: layer.name.clone(),
            data_type: if is_gradient {
                DataType::F32
            } else {
                DataType::Bf16
            },
            compute_us: std::mem::take(&mut self.compute_us),
            micro_batch: matches!(kind, GroupKind::Tensor | GroupKind::Expert),
            ..Call::new(group, collective, bytes)
        });
    }

    /// Adds the messages between stages of one direction.
    fn stages(&mut self, direction: &str) {
        let header = self.header;
        if header.parallelism.pipeline < 2 || header.stage_bytes == 0 {
            return;
        }
        let kind = GroupKind::Pipeline;
        let group = self
            .workload
            .group(kind.name(), header.parallelism.members(kind));
        self.workload.calls.push(Call {
            name: format!("pipeline {direction}"),
            data_type: DataType::Bf16,
            count: u64::from(header.chunks) * u64::from(header.micro_batches),
            micro_batch: true,
            ..Call::new(group, Collective::SendRecv, header.stage_bytes)
        });
    }
}

/// The group that the name of a collective ends with.
#[derive(Debug, Clone, Copy)]
enum Suffix {
    None,
    Expert,
    ExpertData,
}

/// A pass of a layer.
#[derive(Debug)]
struct Pass {
    compute_ns: f64,
    call: Option<(Collective, Suffix, u64)>,
}

/// A layer.
#[derive(Debug)]
struct Layer {
    name: String,
    /// Forward, input gradients, weight gradients.
    passes: [Pass; 3],
}

impl Layer {
    fn read(line: &str) -> Result<Self, String> {
        let fields: Vec<&str> = line.split_whitespace().take(FIELDS + 1).collect();
        if fields.len() != FIELDS {
            return Err(format!(
                "{} fields; expected {FIELDS}: name, dependency, three times computation, collective \
                 and bytes, and the time of the update",
                if fields.len() > FIELDS {
                    "more than 12".to_owned()
                } else {
                    fields.len().to_string()
                }
            ));
        }
        let pass = |at: usize| Pass::read(fields[at], fields[at + 1], fields[at + 2]);
        Ok(Self {
            name: fields[0].to_owned(),
            passes: [pass(2)?, pass(5)?, pass(8)?],
        })
    }
}

impl Pass {
    fn read(compute: &str, collective: &str, bytes: &str) -> Result<Self, String> {
        let ns: Option<u64> = compute.parse().ok();
        let ns = ns.filter(|ns| *ns as f64 / NS <= MOST_US);
        let compute_ns =
            ns.ok_or_else(|| format!("computation `{compute}`; expected a number of ns"))? as f64;
        let number: Option<u64> = bytes.parse().ok();
        let bytes = number
            .filter(|bytes| i64::try_from(*bytes).is_ok())
            .ok_or_else(|| format!("bytes `{bytes}`; expected a whole number in 63 bits"))?;
        let (name, suffix) = match collective {
            name if name.ends_with("_DP_EP") => (&name[..name.len() - 6], Suffix::ExpertData),
            name if name.ends_with("_EP") => (&name[..name.len() - 3], Suffix::Expert),
            name => (name, Suffix::None),
        };
        let collective = match name {
            "NONE" => None,
            "ALLREDUCE" => Some(Collective::AllReduce),
            "ALLGATHER" => Some(Collective::AllGather),
            "REDUCESCATTER" => Some(Collective::ReduceScatter),
            "ALLTOALL" => Some(Collective::AllToAll),
            "BROADCAST" => Some(Collective::Broadcast),
            "REDUCE" => Some(Collective::Reduce),
            _ => {
                return Err(format!(
                    "collective `{collective}`; expected NONE, ALLREDUCE, ALLGATHER, REDUCESCATTER, \
                     ALLTOALL, BROADCAST or REDUCE, and _EP or _DP_EP after it"
                ));
            }
        };
        Ok(Self {
            compute_ns,
            call: collective
                .filter(|_| bytes > 0)
                .map(|collective| (collective, suffix, bytes)),
        })
    }
}
