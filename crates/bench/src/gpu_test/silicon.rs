//! Facts about the GPU, its memory and its driver on which collectives rely, asked by litmus
//! kernels and by calls of the driver while a kernel holds a stream.

use std::time::Duration;

use crate::cuda;
use anyhow::{Result, anyhow};
use backend_cuda::litmus::{CallTime, Litmus, Mappings, Observed, Place};
use program::Protocol;

use crate::gpu_test::page::Page;
use crate::gpu_test::report::{Fact, Verdict};
use crate::gpu_test::{captures, test};
use answers::gpu_test::{GpuTestQuestion, Part};

/// Longest time of one part, s.
const DEADLINE_S: u64 = 60;

/// Time of a litmus kernel per case of the test, µs.
const CASE: Duration = Duration::from_micros(2500);

/// Most pairs of blocks.
const MOST_PAIRS: usize = 64;

/// Launches that are timed per case of the test.
const LAUNCHES: u32 = 5;

/// Most launches into a queue.
const MOST_QUEUED: u32 = 4096;

/// Most meetings of two kernels, of which each case of the test is one.
const MOST_MEETINGS: usize = 10_000;

/// Longest wait of a kernel for another one.
const PATIENCE: Duration = Duration::from_secs(5);

/// Threads of the blocks that pass messages: those of the smallest block that moves data, and of
/// all others.
const THREADS: [u32; 2] = [64, 448];

/// Calls that a communicator makes while its launches are pending, and that must return.
const MUST_RETURN: [&str; 2] = ["cuEventQuery", "cuLaunchKernelEx on another stream"];

/// The parts, in order.
const PARTS: [Part; 8] = [
    Part::Launch,
    Part::Queue,
    Part::Overlap,
    Part::Captures,
    Part::Lines,
    Part::Messages,
    Part::Clock,
    Part::Mappings,
];

/// Asks the first GPU.
pub(crate) fn run(page: &mut Page<'_>) -> Result<()> {
    page.section(
        "Facts about the GPU",
        "Litmus kernels of the collectives' own loads, stores and barriers, and calls of the driver \
         while a kernel holds a stream. A part fails if collectives need another answer; a fact \
         without a need is only noted.",
    );
    for part in PARTS {
        page.facts(part.name(), DEADLINE_S, |test, deadline| {
            crate::child_process::json(test.part(part, 1), deadline)
        })?;
    }
    Ok(())
}

/// Answers the questions of a part.
pub(crate) fn ask(part: Part, options: &GpuTestQuestion) -> Result<Vec<Fact>> {
    let opened = cuda::open_on_first(1, &test::settings(options))?;
    let driver = &opened.process_ranks.driver;
    let asked = driver
        .litmus(PATIENCE.min(options.longest_wait()))
        .and_then(|litmus| Asked { litmus, options }.answer(part));
    asked.map_err(|why| anyhow!(why))
}

struct Asked<'a> {
    litmus: Litmus<'a>,
    options: &'a GpuTestQuestion,
}

impl Asked<'_> {
    fn answer(&self, part: Part) -> Result<Vec<Fact>, String> {
        match part {
            Part::Launch => self.launch(),
            Part::Queue => self.queue(),
            Part::Overlap => self.overlap(),
            Part::Captures => captures::facts(&self.litmus),
            Part::Lines => self.lines(),
            Part::Messages => self.messages(),
            Part::Mappings => self.mappings(),
            _ => self.clock(),
        }
    }

    /// How long a litmus kernel runs.
    fn time(&self) -> Duration {
        CASE.saturating_mul(u32::try_from(self.options.cases).unwrap_or(u32::MAX))
    }

    fn pairs(&self) -> u32 {
        self.options.cases.clamp(1, MOST_PAIRS) as u32
    }

    fn launch(&self) -> Result<Vec<Fact>, String> {
        let cases = u32::try_from(self.options.cases.max(1)).unwrap_or(u32::MAX);
        let launches = LAUNCHES.saturating_mul(cases);
        let times = self.litmus.launch_times(launches, self.options.warm_up())?;
        let facts = times.iter().flat_map(|it| {
            [
                Fact::noted(format!("launch, {}, on the GPU", it.how), it.gpu_us, "µs"),
                Fact::noted(format!("launch, {}, on the host", it.how), it.host_us, "µs"),
            ]
        });
        Ok(facts.collect())
    }

    fn queue(&self) -> Result<Vec<Fact>, String> {
        let queue = self.litmus.queue(MOST_QUEUED)?;
        let (in_flight, full) = (&queue.in_flight, &queue.full);
        let (collectives, launches) = queue.relied_on;
        let mut facts = vec![Fact::at_least(
            "collectives with events and copies that a held stream takes".to_owned(),
            in_flight.submitted,
            "collectives",
            collectives,
        )];
        let with = format!("with {} collectives in flight", in_flight.submitted);
        let calls = in_flight.calls.iter();
        facts.extend(calls.map(|call| {
            let fact = self::call(call, &with);
            match MUST_RETURN.contains(&call.call) {
                true => fact.needs("returns", call.returned_us.is_some()),
                false => fact,
            }
        }));
        let what = match full.is_full {
            true => "launches that a held stream takes before one blocks",
            false => "launches that a held stream takes, of which none blocks",
        };
        let unit = "launches";
        let depth = Fact::at_least(what.to_owned(), full.submitted, unit, launches);
        facts.push(depth);
        let calls = full.calls.iter();
        facts.extend(calls.map(|it| call(it, "with a full queue")));
        Ok(facts)
    }

    fn overlap(&self) -> Result<Vec<Fact>, String> {
        let meeting = self
            .litmus
            .meet(self.options.cases.clamp(1, MOST_MEETINGS) as u32)?;
        let met = u32::try_from(meeting.met).unwrap_or(u32::MAX);
        let what = "meetings of two kernels on two streams".to_owned();
        let mut facts = vec![Fact::at_least(what, met, "meetings", meeting.rounds)];
        if met == meeting.rounds {
            facts.push(Fact::noted("a meeting".to_owned(), meeting.ns, "ns"));
        }
        Ok(facts)
    }

    fn lines(&self) -> Result<Vec<Fact>, String> {
        let mut facts = Vec::new();
        for (place, name) in [(Place::Gpu, "GPU memory"), (Place::Host, "host memory")] {
            for (protocol, lines) in [(Protocol::Ll, "LL"), (Protocol::Ll128, "LL128")] {
                let (pairs, time) = (self.pairs(), self.time());
                let seen = self.litmus.lines(protocol as u32, place, pairs, time)?;
                let what = format!("{lines} lines in {name}");
                // PCIe may split a line, so collectives use no LL128 there.
                let relies = (place, protocol) != (Place::Host, Protocol::Ll128);
                facts.extend(observed(&what, &seen, relies));
            }
        }
        Ok(facts)
    }

    fn messages(&self) -> Result<Vec<Fact>, String> {
        let mut facts = Vec::new();
        for threads in THREADS {
            let seen = self.litmus.messages(threads, self.pairs(), self.time())?;
            let what = format!("messages of {threads} threads");
            facts.extend(observed(&what, &seen, true));
        }
        Ok(facts)
    }

    fn mappings(&self) -> Result<Vec<Fact>, String> {
        Ok(of_mappings(&self.litmus.mappings()?))
    }

    fn clock(&self) -> Result<Vec<Fact>, String> {
        let mut facts = Vec::new();
        for (place, name) in [(Place::Gpu, "GPU memory"), (Place::Host, "host memory")] {
            let clock = self.litmus.clock(place)?;
            if place == Place::Gpu {
                let (shortest, mean) = (clock.step_ns as f64, clock.mean_step_ns);
                let what = "step of the GPU's clock";
                facts.push(Fact::noted(format!("shortest {what}"), shortest, "ns"));
                facts.push(Fact::noted(format!("mean {what}"), mean, "ns"));
            }
            let what = format!("store of a counter in {name}");
            facts.push(Fact::noted(what, clock.store_ns, "ns"));
        }
        Ok(facts)
    }
}

/// Bytes of a MiB.
const MIB: f64 = (1 << 20) as f64;

/// What the driver says of two mappings, and of other memory in place of the second.
fn of_mappings(it: &Mappings) -> Vec<Fact> {
    let bytes = |what: &str, bytes: u64| Fact::noted(what.to_owned(), bytes as f64 / MIB, "MiB");
    let mapped = bytes("a mapping by cuMemGetAddressRange", it.found);
    let filled = Fact::noted(
        "a fill across two mappings".to_owned(),
        it.filled as f64,
        "bytes",
    );
    let count = |what: &str, count: u32, unit| Fact::noted(what.to_owned(), f64::from(count), unit);
    let mut facts = vec![
        mapped.needs(
            &format!("{:.0}", it.mapped as f64 / MIB),
            it.found == it.mapped,
        ),
        bytes("its attribute RANGE_SIZE", it.range),
        Fact::at_least(
            "addresses whose handle is that of their mapping".to_owned(),
            it.right_handles,
            "addresses",
            4,
        ),
        Fact::at_least(
            "handles of two mappings and of other memory in place of one".to_owned(),
            it.handles,
            "handles",
            3,
        ),
        count("buffer ids of these", it.buffer_ids, "ids"),
        filled.needs(&Mappings::FILLED.to_string(), it.filled == Mappings::FILLED),
        count(
            "written for ALLOWED_HANDLE_TYPES",
            it.handle_type_bytes,
            "bytes",
        ),
    ];
    if let Some([least, recommended]) = it.multicast {
        facts.push(bytes("least granularity of a multicast", least));
        facts.push(bytes("recommended granularity of a multicast", recommended));
    }
    facts
}

/// A call of another thread.
fn call(call: &CallTime, with: &str) -> Fact {
    Fact {
        what: format!("{}, {with}", call.call),
        value: call.returned_us,
        unit: "µs".to_owned(),
        verdict: Verdict::Noted,
        needed: None,
    }
}

/// What readers observed.
fn observed(what: &str, seen: &Observed, relies: bool) -> [Fact; 3] {
    let wrong = seen.wrong as f64;
    let wrong = Fact::noted(format!("{what}, wrong or old"), wrong, "words");
    [
        match relies {
            true => wrong.needs("0", seen.wrong == 0),
            false => wrong,
        },
        Fact::noted(
            format!("{what}, rounds of {} pairs of blocks", seen.pairs),
            seen.rounds as f64,
            "rounds",
        ),
        Fact::noted(format!("{what}, a round"), seen.round_us, "µs"),
    ]
}
