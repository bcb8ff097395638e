//! A step as JSON, as the page in the browser and Python send it.

use std::io::{BufRead, BufReader};

use flate2::read::MultiGzDecoder;
use serde::Deserialize;
use simulator::Fabric;
use workload::megatron::Arguments;
use workload::{Files, Workload};

use super::placement::place;
use super::{Measurements, StepError, StepQuestion, StepReport, ranks, step};
use crate::JsonSchema;
use crate::request::{Evidence, File, JobRequest};

/// The first bytes of a file that gzip wrote.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// A step, and the cluster that makes it.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct StepRequest {
    /// A list of calls, a workload of SimAI, the script that starts Megatron-LM or its log, or
    /// traces of PyTorch's profiler, one for each rank.
    #[serde(default)]
    pub files: Vec<Evidence>,
    /// A model instead of files.
    #[serde(default)]
    pub model: Option<Arguments>,
    /// The cluster.
    pub job: JobRequest,
    /// Hosts that form an NVLink domain, if several do; the next ones form the next domain.
    #[serde(default)]
    pub domain_hosts: Option<u32>,
    /// Bytes that each GPU has for communicators; 0: unknown.
    #[serde(default)]
    pub gpu_memory: u64,
    /// A fabric file (TOML), or Slurm's topology.conf; none: a network without contention.
    #[serde(default)]
    pub fabric: Option<File>,
    /// Measurements of the cluster: tables of nccl-tests, traces of PyTorch's profiler.
    #[serde(default)]
    pub measured: Vec<Evidence>,
    /// What a GPU computes, TFLOP/s, where a file has a model and not the time of its computation.
    #[serde(default)]
    pub gpu_tflops: Option<f64>,
    /// Look for a better placement among so many orders; 0: no.
    #[serde(default)]
    pub orders: usize,
}

/// The answer to a question about a step.
#[derive(Debug)]
pub struct PricedStep {
    /// The price.
    pub answer: StepReport,
    /// Its calls.
    pub workload: Workload,
}

impl StepRequest {
    /// The price of the step.
    ///
    /// # Errors
    /// A file cannot be read, or the step does not fit the cluster; a sentence.
    pub fn answer(&self) -> Result<PricedStep, String> {
        let (mut spec, _) = self.job.spec()?;
        spec.nvlink_domain |= self.domain_hosts.is_some();
        let layers = self.job.variables.over(&spec.machines);
        let job = spec.job().map_err(|why| why.to_string())?.job;
        let ranks = ranks(&job).map_err(|why| why.to_string())?;
        let mut workload = self.workload(ranks)?;
        workload.notes.extend(layers.notes.iter().cloned());
        let mut measurements = Measurements::default();
        for file in &self.measured {
            let bytes = file.bytes()?;
            measurements.add(&file.name, &mut unpacked(&bytes), ranks)?;
        }
        let fabric = self.fabric.as_ref().map(|file| {
            let text = file.text.as_deref().unwrap_or_default();
            Fabric::from_text(&file.name, text)
        });
        let fabric = fabric.transpose().map_err(|why| why.to_string())?;
        let question = StepQuestion {
            leaf: fabric.as_ref().and_then(|it| it.leaf.as_ref()),
            workload: &workload,
            measurements: Some(&measurements),
            domain_hosts: self.domain_hosts.unwrap_or_else(|| job.host_count()),
            room: self.gpu_memory,
        };
        let settings = layers.settings([]);
        let in_words = |why: StepError| why.to_string();
        let mut answer = step(&job, &settings, &question).map_err(in_words)?;
        if self.orders > 0 {
            let found = place(&job, &settings, &question, self.orders);
            answer.placement = Some(found.map_err(in_words)?);
        }
        Ok(PricedStep { answer, workload })
    }

    fn workload(&self, ranks: u32) -> Result<Workload, String> {
        if let Some(model) = &self.model {
            if !self.files.is_empty() {
                return Err("both files and a model; expected one of them".to_owned());
            }
            return model.training(ranks, self.gpu_tflops).workload();
        }
        let mut files = Files::new(self.gpu_tflops);
        for file in &self.files {
            let bytes = file.bytes()?;
            let added = files.add(&file.name, &mut unpacked(&bytes), ranks);
            added.map_err(|why| why.to_string())?;
        }
        files.workload(ranks).map_err(|why| why.to_string())
    }
}

/// The content of a file, without gzip's compression.
pub(crate) fn unpacked(bytes: &[u8]) -> Box<dyn BufRead + '_> {
    match bytes.starts_with(&GZIP) {
        true => Box::new(BufReader::new(MultiGzDecoder::new(bytes))),
        false => Box::new(bytes),
    }
}
