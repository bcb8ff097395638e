//! Starts kernels on GPUs: one launch on each, or a graph of launches.

use std::sync::Arc;

use cudarc::driver::{result, sys};
use device_runtime::driver::Start;
use device_runtime::layout::{Launch, MOST_PARTS};
use device_runtime::{DeviceDriver, Repeats, Running};

use crate::device::Device;
use crate::driver::Cuda;
use crate::error::words;
use crate::feeder::{Feeders, MARKS, Ready};
use crate::graph::Graph;
use crate::handles::lock;
use crate::launch::{AbortWord, LaunchEvents, RunningLaunch};
use crate::memory::Plain;

impl Cuda {
    /// Starts one kernel per GPU.
    ///
    /// # Errors
    /// As [`DeviceDriver::start`].
    pub(crate) fn start_all(
        &self,
        starts: &[Start<'_>],
        repeats: Repeats,
    ) -> Result<RunningLaunch, String> {
        for start in starts {
            let resident = self.resident_blocks(start.device, start.kernel, start.threads)?;
            let blocks = start.blocks();
            if blocks > resident {
                let device = self.device(start.device)?;
                return Err(format!(
                    "GPU {} ({}) runs {resident} blocks of {} threads at a time, and the ranks on it need {blocks}, which \
                     wait for each other; take fewer channels or fewer ranks on this GPU",
                    device.number, device.properties.name, start.threads
                ));
            }
        }
        if let Some(first) = starts.first() {
            self.device(first.device)?;
        } else if self.devices().next().is_some() {
            self.device(0)?;
        }
        let mut words = lock(&self.spare.words);
        if words.is_empty() {
            words.append(&mut AbortWord::page()?);
        }
        let abort = words.pop();
        drop(words);
        let mut launched = RunningLaunch {
            spare: Arc::clone(&self.spare),
            abort,
            aborted: false,
            timed: Vec::with_capacity(starts.len()),
            more: Vec::new(),
            submitted: Vec::new(),
            feeders: Feeders::default(),
            without_graph: None,
            in_order: false,
        };
        // Allocations and captures come first: a kernel that already runs may wait for another.
        let ready: Result<Vec<Ready>, String> = starts
            .iter()
            .map(|start| self.make_ready(start, repeats, &mut launched))
            .collect();
        let ready = ready?;
        if repeats.count > 1 {
            launched.feeders = Feeders::start(ready, repeats)?;
            return Ok(launched);
        }
        for (mut ready, start) in ready.into_iter().zip(starts) {
            let submitted = ready.submit(start);
            launched.submitted.push(ready);
            if submitted.is_err() {
                // Kernels that already run wait for this one and must end before drop frees memory.
                launched.abort();
            }
            submitted?;
        }
        launched.in_order = starts.iter().any(|it| !it.streams.is_empty());
        Ok(launched)
    }

    fn make_ready(
        &self,
        start: &Start<'_>,
        repeats: Repeats,
        launched: &mut RunningLaunch,
    ) -> Result<Ready, String> {
        let mut launch = Box::new(Launch {
            // Pinned memory has the same address on host and devices.
            abort: launched
                .abort
                .as_ref()
                .map_or(0, |abort| abort.word.expose_provenance() as u64),
            count: u32::try_from(start.parts.len()).unwrap_or(u32::MAX),
            ..Launch::default()
        });
        let device = self.device(start.device)?;
        if start.parts.len() <= MOST_PARTS {
            launch.parts[..start.parts.len()].copy_from_slice(start.parts);
        } else {
            let block = Plain::new(device, size_of_val(start.parts) as u64)?;
            // SAFETY: parts are plain numbers without padding.
            let bytes = unsafe {
                std::slice::from_raw_parts(
                    start.parts.as_ptr().cast::<u8>(),
                    size_of_val(start.parts),
                )
            };
            self.write(start.device, block.address, bytes)?;
            launch.more = block.address;
            launched.more.push(block);
        }
        let function = device.module.function(start.kernel);
        let function = function.ok_or_else(|| format!("there is no kernel {:?}", start.kernel))?;
        let timed = self.events(device, start.streams.is_empty())?;
        let mut ready = Ready {
            device: Arc::clone(device),
            launch,
            function,
            blocks: start.blocks(),
            threads: start.threads,
            begin: timed.begin,
            end: timed.end,
            marks: timed.marks,
            graph: None,
        };
        launched.timed.push(timed);
        let together = repeats.graph.min(repeats.count);
        if together > 0 {
            let captured =
                Graph::capture(device, || (0..together).try_for_each(|_| ready.launch()));
            match captured {
                Ok(graph) => ready.graph = Some(graph),
                Err(why) => launched.without_graph = Some(why),
            }
        }
        Ok(ready)
    }

    /// Makes what so many launches in the order of streams need, because making it blocks while a
    /// stream of this process is full.
    ///
    /// # Errors
    /// The device reports an error.
    pub fn reserve(&self, place: u32, launches: u32) -> Result<(), String> {
        let device = self.device(place)?;
        let events: Result<Vec<LaunchEvents>, String> =
            (0..launches).map(|_| self.events(device, false)).collect();
        lock(&self.spare.events).append(&mut events?);
        let mut words = lock(&self.spare.words);
        while words.len() < launches as usize {
            words.append(&mut AbortWord::page()?);
        }
        Ok(())
    }

    /// Events for a launch, new or reused. Those without times cost less.
    pub(crate) fn events(&self, device: &Arc<Device>, timed: bool) -> Result<LaunchEvents, String> {
        let mut spare = lock(&self.spare.events);
        let fits = |it: &LaunchEvents| it.device.number == device.number && it.timed == timed;
        let found = spare.iter().position(fits);
        if let Some(found) = found {
            return Ok(spare.swap_remove(found));
        }
        drop(spare);
        let event = |flags| {
            result::event::create(flags).map_err(|error| {
                format!("making an event on GPU {}: {}", device.number, words(error))
            })
        };
        let untimed = || event(sys::CUevent_flags_enum::CU_EVENT_DISABLE_TIMING);
        let outer = || match timed {
            true => event(sys::CUevent_flags_enum::CU_EVENT_DEFAULT),
            false => untimed(),
        };
        // What was made before an error is destroyed.
        let mut made = LaunchEvents {
            device: Arc::clone(device),
            timed,
            begin: outer()?,
            end: std::ptr::null_mut(),
            marks: [std::ptr::null_mut(); MARKS],
        };
        made.end = outer()?;
        for mark in &mut made.marks {
            *mark = untimed()?;
        }
        Ok(made)
    }
}
