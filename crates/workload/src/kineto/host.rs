//! Calls of backends on the host, topo and Gloo, which PyTorch's profiler records as events of the
//! program (`topo:all_reduce`), and what its operators compute.
//!
//! Such an event begins with the call and ends when the call is done. It has the shapes of the
//! tensors if the profiler records shapes, and its end if the profiler looks at all threads. Calls
//! of one group run one after the other, so that a call begins no earlier than the one before ends.

use program::Collective;
use serde_json::Value;

use super::{Kernel, MOST_KERNELS, Trace};
use crate::pytorch_names::{collective, scalar};

/// Backends whose events are read, with the beginnings of their names.
const BACKENDS: [(&str, &str); 2] = [("topo", "topo:"), ("gloo", "gloo:")];

/// Operators that only start a call or wait for one.
const OF_CALLS: [&str; 2] = ["c10d::", "_c10d_functional::"];

/// The name of the events of a backend.
pub(super) fn prefix(backend: &str) -> Option<&'static str> {
    let known = BACKENDS.iter().find(|(name, _)| *name == backend);
    known.map(|(_, prefix)| *prefix)
}

/// What the host does, while a trace is read.
#[derive(Debug, Default)]
pub(super) struct Host {
    /// The beginning of the names of calls; none: the trace is of GPUs.
    pub(super) prefix: Option<&'static str>,
    calls: Vec<HostCall>,
    operators: Vec<Operator>,
}

#[derive(Debug)]
struct HostCall {
    span: [f64; 2],
    name: String,
    shapes: Value,
    types: Value,
}

#[derive(Debug)]
struct Operator {
    thread: f64,
    span: [f64; 2],
    computes: bool,
}

impl Host {
    /// Whether there is no room for more events.
    pub(super) fn is_full(&self) -> bool {
        self.calls.len() + self.operators.len() > MOST_KERNELS
    }

    /// Whether an event of this name is a call.
    pub(super) fn is_call(&self, name: &str) -> bool {
        self.prefix.is_some_and(|prefix| name.starts_with(prefix))
    }

    /// Adds a call.
    pub(super) fn call(&mut self, name: &str, span: [f64; 2], shapes: Value, types: Value) {
        let name = self.prefix.and_then(|prefix| name.strip_prefix(prefix));
        self.calls.push(HostCall {
            span,
            name: name.unwrap_or_default().to_owned(),
            shapes,
            types,
        });
    }

    /// Adds an operator of a thread.
    pub(super) fn operator(&mut self, name: &str, thread: f64, span: [f64; 2]) {
        self.operators.push(Operator {
            thread,
            span,
            computes: !OF_CALLS.iter().any(|prefix| name.starts_with(prefix)),
        });
    }

    /// Adds calls and computation to the trace.
    ///
    /// # Errors
    /// There are calls, and several groups that may have made them.
    pub(super) fn into_trace(mut self, trace: &mut Trace) -> Result<(), String> {
        let Some(prefix) = self.prefix.filter(|_| !self.calls.is_empty()) else {
            return Ok(());
        };
        if trace.groups.len() > 1 {
            return Err(format!(
                "{} groups of processes, and events `{prefix}…` do not name theirs; expected a job with one",
                trace.groups.len()
            ));
        }
        let ranks = trace.world_size.unwrap_or(0);
        let group = trace.groups.first().map_or("", |it| it.name.as_str());
        self.calls.sort_by(|a, b| a.span[0].total_cmp(&b.span[0]));
        let mut free = f64::MIN;
        for call in &self.calls {
            let start_us = call.span[0].max(free);
            free = free.max(call.span[1]);
            let found = call.kernel(ranks, group.to_owned());
            match found {
                Some(kernel) => trace.collectives.push(Kernel {
                    start_us,
                    time_us: (call.span[1] - start_us).max(0.0),
                    ..kernel
                }),
                None => trace.left_out += 1,
            }
        }
        trace.compute.extend(self.innermost());
        Ok(())
    }

    /// When operators compute that call no others.
    fn innermost(mut self) -> Vec<[f64; 2]> {
        let operators = &mut self.operators;
        operators.sort_by(|a, b| {
            let thread = a.thread.total_cmp(&b.thread);
            let begin = thread.then(a.span[0].total_cmp(&b.span[0]));
            // The longer one has the other within it.
            begin.then(b.span[1].total_cmp(&a.span[1]))
        });
        let mut found = Vec::new();
        for (at, operator) in operators.iter().enumerate() {
            let next = operators.get(at + 1);
            let calls = next.is_some_and(|next| {
                next.thread == operator.thread && next.span[0] < operator.span[1]
            });
            if operator.computes && !calls {
                found.push(operator.span);
            }
        }
        found
    }
}

impl HostCall {
    /// The call, without its time.
    fn kernel(&self, ranks: u32, group: String) -> Option<Kernel> {
        let collective = collective(&self.name)?;
        let (mut bytes, mut data_type) = (0u64, None);
        let shapes = self.shapes.as_array()?;
        for (shape, name) in shapes.iter().zip(self.types.as_array()?) {
            let Some((found, width)) = name.as_str().and_then(scalar) else {
                continue;
            };
            let sizes = shape.as_array()?.iter();
            let elements = sizes
                .map(Value::as_u64)
                .try_fold(1u64, |all, size| all.checked_mul(size?))?;
            bytes = bytes.checked_add(elements.checked_mul(width)?)?;
            data_type.get_or_insert(found);
        }
        if collective == Collective::AllGather {
            bytes = bytes.checked_mul(ranks.into())?;
        }
        i64::try_from(bytes).ok().filter(|bytes| *bytes > 0)?;
        Some(Kernel {
            start_us: 0.0,
            time_us: 0.0,
            collective,
            bytes,
            data_type: data_type?,
            group,
            size: Some(ranks).filter(|it| *it > 0)?,
            ranks: Vec::new(),
        })
    }
}
