//! Asks what a GPU and its driver do: litmus kernels (`kernels/litmus.cu`), and calls of the driver
//! while a kernel holds a stream. Collectives rely on the answers.
//!
//! `queue` has the launch queue, `pairs` the memory model, `mappings` virtual memory, `captures`
//! captures of graphs; the rest is here.

mod captures;
mod mappings;
mod pairs;
mod queue;

use std::sync::Arc;
use std::time::{Duration, Instant};

use cudarc::driver::{DriverError, result, sys};
use device_runtime::layout::{Launch, LaunchPart};
use device_runtime::{DeviceDriver, Kernel, LitmusKernel};

use crate::device::{Device, Stream};
use crate::driver::Cuda;
use crate::error::words;
use crate::feeder::{self, MOST_AHEAD};
use crate::graph::Graph;
use crate::launch::AbortWord;
use crate::memory::Plain;
use crate::module::Module;
use crate::presence;

pub use captures::Captures;
pub use mappings::Mappings;
pub use pairs::{Observed, Place};
pub use queue::{CallTime, Queue, QueueStage};

/// The shape of a timed launch: the blocks of eight channels, with a collective's threads.
const BLOCKS: u32 = 8;
const THREADS: u32 = 448;

/// Batches of launches whose host time is measured; the middle one counts.
const BATCHES: usize = 21;

/// Between two looks at a kernel.
const NAP: Duration = Duration::from_micros(200);

/// Bytes between the words of two kernels that meet, as in `kernels/litmus.cu`.
const APART: u64 = 128;

/// The first GPU in use, to be asked.
pub struct Litmus<'a> {
    cuda: &'a Cuda,
    // Dropped in this order, the context last.
    module: Module<LitmusKernel>,
    streams: [Stream; 2],
    device: Arc<Device>,
    /// Ends kernels that do not end by themselves.
    abort: AbortWord,
    /// How long a kernel waits for another one.
    patience: Duration,
}

// SAFETY: functions and streams are handles that the driver lets any thread use. The abort word is
// only written as a whole, by a volatile access.
unsafe impl Sync for Litmus<'_> {}

/// The time of a launch.
#[derive(Debug, Clone, PartialEq)]
pub struct LaunchTime {
    /// How it is launched.
    pub how: &'static str,
    /// Time of a launch on the GPU, many in a row, µs.
    pub gpu_us: f64,
    /// Time of the call on the host, µs.
    pub host_us: f64,
}

/// How two kernels met.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Meeting {
    /// How often they met.
    pub met: u64,
    /// How often they were to meet.
    pub rounds: u32,
    /// Time of a meeting, ns.
    pub ns: f64,
}

/// The clock of a GPU and the cost of a counter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Clock {
    /// Shortest step of the clock, ns.
    pub step_ns: u64,
    /// Mean step of the clock, ns.
    pub mean_step_ns: f64,
    /// Time of a store of a counter, ns.
    pub store_ns: f64,
}

impl Cuda {
    /// Loads the litmus kernels. A kernel waits at most `patience` for another one.
    ///
    /// # Errors
    /// There are none for this GPU, or the driver refuses them.
    pub fn litmus(&self, patience: Duration) -> Result<Litmus<'_>, String> {
        let device = self.device(0)?;
        let properties = &device.properties;
        let module = Module::litmus(properties.major, properties.minor)?;
        let stream = || {
            let made = Stream::new();
            made.map_err(|error| format!("making a stream: {}", words(error)))
        };
        let streams = [stream()?, stream()?];
        let mut words = AbortWord::page()?;
        Ok(Litmus {
            cuda: self,
            module,
            streams,
            device: Arc::clone(device),
            abort: words.pop().ok_or("a page has no words")?,
            patience,
        })
    }
}

impl Litmus<'_> {
    fn failed(&self, what: &str) -> impl Fn(DriverError) -> String {
        let prefix = format!("GPU {}: {what}: ", self.device.number);
        move |error| format!("{prefix}{}", words(error))
    }

    /// The time of a launch of a kernel that ends at once, in each way that collectives use, with
    /// as many launches in a row. The GPU is kept busy for `warm` before.
    ///
    /// # Errors
    /// The driver refuses a launch.
    pub fn launch_times(&self, launches: u32, warm: Duration) -> Result<Vec<LaunchTime>, String> {
        let plain = || self.launch_empty(self.device.stream(), false);
        let remote = || self.launch_empty(self.device.stream(), true);
        self.warm(warm, &plain)?;
        let mut times = vec![self.time("plain", launches, 1, &plain)?];
        if self.device.has_domains {
            times.push(self.time("remote domain", launches, 1, &remote)?);
        }
        let nodes = MOST_AHEAD.min(launches);
        let graph = Graph::capture(&self.device, || (0..nodes).try_for_each(|_| plain()))?;
        times.push(self.time("graph node", launches, nodes, &|| graph.launch())?);
        Ok(times)
    }

    /// Launches the kernel of collectives without parts, so that it ends at once.
    fn launch_empty(&self, stream: sys::CUstream, remote: bool) -> Result<(), DriverError> {
        let Some(function) = self.device.module.function(Kernel::Move) else {
            return Err(DriverError(sys::CUresult::CUDA_ERROR_NOT_FOUND));
        };
        // SAFETY: the function takes one `Launch`, which has no addresses.
        unsafe {
            feeder::launch(
                function,
                (BLOCKS, THREADS),
                &mut Launch::default(),
                stream,
                remote,
            )
        }
    }

    fn warm(
        &self,
        warm: Duration,
        submit: &dyn Fn() -> Result<(), DriverError>,
    ) -> Result<(), String> {
        let failed = self.failed("launching");
        // Drivers load a kernel when it is launched first.
        submit().map_err(&failed)?;
        let began = Instant::now();
        while began.elapsed() < warm {
            (0..MOST_AHEAD)
                .try_for_each(|_| submit())
                .map_err(&failed)?;
            self.cuda.synchronize(0)?;
        }
        self.cuda.synchronize(0)
    }

    /// Times launches, `each` of them per submission.
    fn time(
        &self,
        how: &'static str,
        launches: u32,
        each: u32,
        submit: &dyn Fn() -> Result<(), DriverError>,
    ) -> Result<LaunchTime, String> {
        let failed = self.failed("launching");
        let timed = self.cuda.events(&self.device, true)?;
        let stream = self.device.stream();
        let submissions = launches.div_ceil(each);
        // SAFETY: the events were made with the device's context, and the stream is its own.
        unsafe { result::event::record(timed.begin, stream) }.map_err(&failed)?;
        (0..submissions)
            .try_for_each(|_| submit())
            .map_err(&failed)?;
        // SAFETY: as above.
        unsafe { result::event::record(timed.end, stream) }.map_err(&failed)?;
        self.cuda.synchronize(0)?;
        let took = presence::elapsed_ms(timed.begin, timed.end).map_err(&failed)?;
        let batch = MOST_AHEAD.min(launches) / each;
        let batches = BATCHES.min(submissions as usize);
        let mut host = Vec::with_capacity(batches);
        for _ in 0..batches {
            let began = Instant::now();
            (0..batch).try_for_each(|_| submit()).map_err(&failed)?;
            host.push(began.elapsed());
            self.cuda.synchronize(0)?;
        }
        host.sort_unstable();
        Ok(LaunchTime {
            how,
            gpu_us: f64::from(took) * 1e3 / f64::from(submissions * each),
            host_us: host[batches / 2].as_secs_f64() * 1e6 / f64::from(batch * each),
        })
    }

    /// Lets a kernel on each of two streams wait for the other one, `rounds` times.
    ///
    /// # Errors
    /// The driver refuses a launch, or a kernel failed.
    pub fn meet(&self, rounds: u32) -> Result<Meeting, String> {
        let words = Plain::new(&self.device, 2 * APART)?;
        let results = Plain::new(&self.device, 2 * APART)?;
        let kernels: [u64; 2] = [0, 1];
        let mut begun = Ok(());
        for (number, stream) in kernels.into_iter().zip(&self.streams) {
            let part = LaunchPart {
                buffers: [words.address, 0, results.address + number * APART],
                launch: self.patience.as_nanos() as u64,
                lane_count: rounds,
                scalar: number,
                ..LaunchPart::default()
            };
            let launched = self.launch(
                LitmusKernel::Meet,
                (1, 1),
                part,
                stream.handle(),
                &self.abort,
            );
            begun = begun.and(launched);
        }
        // One that was launched ends after its patience.
        for stream in &self.streams {
            self.wait(stream.handle())?;
        }
        begun?;
        let mut met = u64::MAX;
        let mut longest = 0;
        for number in kernels {
            let [own, took] = self.numbers(results.address + number * APART)?;
            met = met.min(own);
            longest = longest.max(took);
        }
        Ok(Meeting {
            met,
            rounds,
            ns: longest as f64 / f64::from(rounds.max(1)),
        })
    }

    /// Reads the clock, and stores a counter many times.
    ///
    /// # Errors
    /// The driver refuses the launch, or the kernel failed.
    pub fn clock(&self, place: Place) -> Result<Clock, String> {
        let memory = self.memory(place, APART)?;
        let results = Plain::new(&self.device, APART)?;
        let part = LaunchPart {
            buffers: [memory.address, 0, results.address],
            ..LaunchPart::default()
        };
        self.run(LitmusKernel::Ticks, (1, 1), part, Duration::ZERO)?;
        let [steps, steps_ns, stores, stores_ns, step_ns] = self.numbers(results.address)?;
        let mean = |time: u64, count: u64| time as f64 / count.max(1) as f64;
        Ok(Clock {
            step_ns,
            mean_step_ns: mean(steps_ns, steps),
            store_ns: mean(stores_ns, stores),
        })
    }

    /// Runs a litmus kernel that takes about `time`. Ends it if it takes much longer.
    fn run(
        &self,
        kernel: LitmusKernel,
        size: (u32, u32),
        part: LaunchPart,
        time: Duration,
    ) -> Result<(), String> {
        let failed = self.failed(kernel.entry());
        let stream = self.device.stream();
        let timed = self.cuda.events(&self.device, true)?;
        self.launch(kernel, size, part, stream, &self.abort)?;
        // SAFETY: the event was made with the device's context, and the stream is its own.
        unsafe { result::event::record(timed.end, stream) }.map_err(&failed)?;
        let began = Instant::now();
        loop {
            // SAFETY: the event was recorded above.
            match unsafe { result::event::query(timed.end) } {
                // Some errors are found only by a call that waits.
                Ok(()) => return self.wait(stream),
                Err(error) if error.0 != sys::CUresult::CUDA_ERROR_NOT_READY => {
                    return Err(failed(error));
                }
                Err(_) if began.elapsed() > time + self.patience => break,
                Err(_) => std::thread::sleep(NAP),
            }
        }
        self.abort.set();
        self.wait(stream)?;
        let limit = (time + self.patience).as_secs_f64();
        Err(format!(
            "{} did not end within {limit:.1} s",
            kernel.entry()
        ))
    }

    /// Launches a litmus kernel. `abort` ends it early; it must live until the kernel has ended.
    fn launch(
        &self,
        kernel: LitmusKernel,
        size: (u32, u32),
        part: LaunchPart,
        stream: sys::CUstream,
        abort: &AbortWord,
    ) -> Result<(), String> {
        let function = self.module.function(kernel);
        let function = function.ok_or_else(|| format!("there is no kernel {kernel:?}"))?;
        let mut launch = Launch {
            abort: abort.word.expose_provenance() as u64,
            count: 1,
            ..Launch::default()
        };
        launch.parts[0] = part;
        // SAFETY: the function takes one `Launch` by value, and callers wait for the kernel before
        // they free its memory.
        unsafe { feeder::launch(function, size, &mut launch, stream, self.device.has_domains) }
            .map_err(self.failed(kernel.entry()))
    }

    fn wait(&self, stream: sys::CUstream) -> Result<(), String> {
        // SAFETY: callers give a stream of this device.
        unsafe { result::stream::synchronize(stream) }.map_err(self.failed("a kernel failed"))
    }

    /// Numbers in memory of the GPU.
    fn numbers<const COUNT: usize>(&self, address: u64) -> Result<[u64; COUNT], String> {
        let mut bytes = vec![0; 8 * COUNT];
        self.cuda.read(0, address, &mut bytes)?;
        let mut numbers = [0; COUNT];
        for (number, word) in numbers.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *number = u64::from_ne_bytes(*word);
        }
        Ok(numbers)
    }
}
