//! The step of one rank on a virtual clock: its computation, and the calls of each group, which
//! follow each other.

use workload::{Wait, Workload};

/// A call on the clock; repeated calls together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    /// Start of the first, µs after the step begins.
    pub start_us: f64,
    /// End of the last, µs.
    pub end_us: f64,
    /// What computation waits for them, µs.
    pub exposed_us: f64,
}

/// The step on the clock.
#[derive(Debug, Clone, PartialEq)]
pub struct Timeline {
    /// One for each call of the workload.
    pub spans: Vec<Span>,
    /// Times in which computation runs, µs; of repeated calls the first.
    pub compute: Vec<[f64; 2]>,
    /// All computation, µs.
    pub compute_us: f64,
    /// Time that computation waits for communication, µs.
    pub exposed_us: f64,
    /// The same of what each micro-batch has, with its computation, µs.
    pub micro_batch_us: f64,
    /// The end, µs, without the bubble of a pipeline.
    pub end_us: f64,
}

impl Timeline {
    /// Runs the step; `times_us` has the time of one call of each entry.
    pub(super) fn of(workload: &Workload, times_us: &[f64]) -> Self {
        let mut clock = Clock {
            now: 0.0,
            free: vec![(0.0, None); workload.groups.len()],
            line: Self {
                spans: Vec::with_capacity(workload.calls.len()),
                compute: Vec::new(),
                compute_us: 0.0,
                exposed_us: 0.0,
                micro_batch_us: 0.0,
                end_us: 0.0,
            },
        };
        for (at, (call, time)) in workload.calls.iter().zip(times_us).enumerate() {
            clock.call(at, call, *time);
        }
        workload.waits_after.iter().for_each(|it| clock.waits(it));
        clock.computes(workload.compute_after_us);
        clock.wait_for_all();
        clock.line.end_us = clock.now;
        clock.line.exposed_us = clock.line.spans.iter().map(|it| it.exposed_us).sum();
        clock.line
    }
}

struct Clock {
    /// Computation is here.
    now: f64,
    /// When each group is free, and after which call.
    free: Vec<(f64, Option<usize>)>,
    line: Timeline,
}

impl Clock {
    fn call(&mut self, at: usize, call: &workload::Call, time: f64) {
        call.waits.iter().for_each(|it| self.waits(it));
        let count = call.count as f64;
        let (first, others) = match call.blocks {
            true => (call.compute_us, (count - 1.0) * call.compute_us),
            false => (count * call.compute_us, 0.0),
        };
        self.computes(first);
        let (free, last) = self.free[call.group];
        if call.blocks {
            // Computation waits for what this call waits for.
            call.after
                .iter()
                .copied()
                .chain(last)
                .for_each(|it| self.wait_for(it));
        }
        let after = call.after.iter().map(|it| self.line.spans[*it].end_us);
        let ready = after.fold(self.now.max(free), f64::max);
        let start = call.start_us.map_or(ready, |start| ready.max(start));
        let mut span = Span {
            start_us: start,
            end_us: start + count * time,
            exposed_us: 0.0,
        };
        if call.blocks {
            let each = time.max(call.overlap_us);
            span.end_us = start + time + (count - 1.0) * (each + call.compute_us);
            span.exposed_us = count * (time - call.overlap_us).max(0.0);
            self.line.compute_us += others + count * call.overlap_us;
            if call.overlap_us > 0.0 {
                self.line.compute.push([start, start + call.overlap_us]);
            }
            self.now = start + count * each + others;
        }
        self.free[call.group] = (span.end_us, Some(at));
        if call.micro_batch {
            self.line.micro_batch_us +=
                count * (call.compute_us + call.overlap_us) + span.exposed_us;
        }
        self.line.spans.push(span);
    }

    fn computes(&mut self, time: f64) {
        if time > 0.0 {
            self.line.compute_us += time;
            let begin = self.now;
            self.now += time;
            match self.line.compute.last_mut() {
                Some(last) if last[1] == begin => last[1] = self.now,
                _ => self.line.compute.push([begin, self.now]),
            }
        }
    }

    fn waits(&mut self, wait: &Wait) {
        self.computes(wait.compute_us);
        wait.after.iter().for_each(|it| self.wait_for(*it));
    }

    /// Computation waits for the end of a call, which exposes it.
    fn wait_for(&mut self, call: usize) {
        let span = &mut self.line.spans[call];
        if span.end_us > self.now {
            span.exposed_us += span.end_us - self.now;
            self.now = span.end_us;
        }
    }

    /// The step ends with the last call of each group.
    fn wait_for_all(&mut self) {
        let mut last: Vec<usize> = self.free.iter().filter_map(|(_, call)| *call).collect();
        last.sort_by(|a, b| {
            let end = |at: &usize| self.line.spans[*at].end_us;
            end(a).total_cmp(&end(b))
        });
        last.into_iter().for_each(|call| self.wait_for(call));
    }
}
