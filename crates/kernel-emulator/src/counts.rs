//! Accesses of launches: bytes read and written in global memory, in memory of other devices,
//! through a switch, and, by a model of a cache, between a device's memory and its cache.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The accesses of one device's kernels. `host/counts.h` has the same structure.
///
/// The fields of the cache belong to the device whose memory it is, all others to the device whose
/// blocks made the accesses. Reads of program steps are not counted.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Loads of message data.
    pub reads: u64,
    /// Stores of message data.
    pub writes: u64,
    /// Bytes of messages that were read, those of other devices included.
    pub read_bytes: u64,
    /// Bytes of messages that were written, those in memory of other devices included.
    pub written_bytes: u64,
    /// Bytes of messages that were read from memory of other devices.
    pub remote_read_bytes: u64,
    /// Bytes of messages that were written to memory of other devices.
    pub remote_written_bytes: u64,
    /// Bytes of LL and LL128 lines that were read, also before they had come.
    pub line_read_bytes: u64,
    /// Bytes of LL and LL128 lines that were written.
    pub line_written_bytes: u64,
    /// Bytes that a switch read and reduced for this device.
    pub switch_read_bytes: u64,
    /// Bytes that a switch stored to all devices for this one.
    pub switch_written_bytes: u64,
    /// Loads of counters and buffer tables, those that did not find what they waited for included.
    pub control_loads: u64,
    /// Stores of counters and buffer tables.
    pub control_stores: u64,
    /// Of these loads, those from memory of other devices.
    pub remote_control_loads: u64,
    /// Of these stores, those to memory of other devices.
    pub remote_control_stores: u64,
    /// Of the remote loads, those in a block's direct steps after its first.
    pub later_remote_control_loads: u64,
    /// Most bytes of lines that a thread loads before it looks at a flag.
    pub line_bytes_in_flight: u64,
    /// Bytes that the cache read from the device's memory.
    pub cache_read_bytes: u64,
    /// Bytes that the cache wrote to the device's memory.
    pub cache_written_bytes: u64,
    /// Steps of all blocks.
    pub steps: u64,
    /// Ends of connections that steps used.
    pub end_uses: u64,
    /// Of these, those that were in global memory.
    pub end_loads: u64,
}

impl Counts {
    /// The numbers by the names of the fields.
    pub const fn by_name(&self) -> [(&'static str, u64); 21] {
        [
            ("reads", self.reads),
            ("writes", self.writes),
            ("read_bytes", self.read_bytes),
            ("written_bytes", self.written_bytes),
            ("remote_read_bytes", self.remote_read_bytes),
            ("remote_written_bytes", self.remote_written_bytes),
            ("line_read_bytes", self.line_read_bytes),
            ("line_written_bytes", self.line_written_bytes),
            ("switch_read_bytes", self.switch_read_bytes),
            ("switch_written_bytes", self.switch_written_bytes),
            ("control_loads", self.control_loads),
            ("control_stores", self.control_stores),
            ("remote_control_loads", self.remote_control_loads),
            ("remote_control_stores", self.remote_control_stores),
            (
                "later_remote_control_loads",
                self.later_remote_control_loads,
            ),
            ("line_bytes_in_flight", self.line_bytes_in_flight),
            ("cache_read_bytes", self.cache_read_bytes),
            ("cache_written_bytes", self.cache_written_bytes),
            ("steps", self.steps),
            ("end_uses", self.end_uses),
            ("end_loads", self.end_loads),
        ]
    }
}

/// The counts of launches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LaunchCounts {
    /// Kernels that were launched.
    pub launches: u64,
    /// Their blocks.
    pub blocks: u64,
    /// By device.
    pub devices: Vec<Counts>,
}

impl LaunchCounts {
    /// The sum of a number over the devices.
    pub fn sum(&self, of: impl Fn(&Counts) -> u64) -> u64 {
        self.devices.iter().map(of).sum()
    }

    /// The counts as JSON: the launches, and an object for each device.
    pub fn to_json(&self) -> String {
        let devices = self.devices.iter().map(|device| {
            let numbers = device
                .by_name()
                .map(|(name, it)| format!("\"{name}\":{it}"));
            format!("{{{}}}", numbers.join(","))
        });
        let devices: Vec<String> = devices.collect();
        format!(
            "{{\"launches\":{},\"blocks\":{},\"devices\":[{}]}}",
            self.launches,
            self.blocks,
            devices.join(",")
        )
    }
}

/// Memory of a device. `host/counts.h` has the same structure.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Home {
    begin: u64,
    end: u64,
    device: u64,
}

/// The counts of an emulator.
#[derive(Debug)]
pub struct AccessCounter {
    /// Bytes of each device's cache.
    pub cache_bytes: u64,
    /// By begin: the end and the device.
    homes: Mutex<BTreeMap<u64, (u64, u32)>>,
    counts: Mutex<LaunchCounts>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl AccessCounter {
    /// Counts nothing yet.
    pub fn new(cache_bytes: u64) -> Self {
        Self {
            cache_bytes,
            homes: Mutex::default(),
            counts: Mutex::default(),
        }
    }

    /// Notes whose memory this is. Memory that had these addresses before is gone.
    pub fn note(&self, device: u32, address: u64, bytes: u64) {
        let end = address.saturating_add(bytes);
        let mut homes = lock(&self.homes);
        let before = homes.range(..end).rev();
        let over = before.take_while(|(_, (other, _))| *other > address);
        let over: Vec<u64> = over.map(|(begin, _)| *begin).collect();
        for begin in over {
            homes.remove(&begin);
        }
        if bytes > 0 {
            homes.insert(address, (end, device));
        }
    }

    /// The memory of devices below a number, by address.
    pub fn homes(&self, devices: u32) -> Vec<Home> {
        let homes = lock(&self.homes);
        let homes = homes.iter().map(|(begin, (end, device))| Home {
            begin: *begin,
            end: *end,
            device: u64::from(*device),
        });
        homes
            .filter(|home| home.device < u64::from(devices))
            .collect()
    }

    /// Adds the counts of a launch of kernels, with their blocks, on `devices` devices.
    pub fn add(
        &self,
        (kernels, blocks): (u64, u64),
        devices: u32,
        run: impl FnOnce(&mut [Counts]) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut counts = lock(&self.counts);
        counts.launches += kernels;
        counts.blocks += blocks;
        let room = counts.devices.len().max(devices as usize);
        counts.devices.resize(room, Counts::default());
        run(&mut counts.devices)
    }

    /// Takes the counts since the last call.
    pub fn take(&self) -> LaunchCounts {
        std::mem::take(&mut lock(&self.counts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_used_again_has_its_last_device() {
        let counting = AccessCounter::new(0);
        counting.note(0, 100, 50);
        counting.note(1, 200, 50);
        counting.note(1, 140, 20);
        let homes = counting.homes(2);
        let known: Vec<_> = homes
            .iter()
            .map(|home| (home.begin, home.end, home.device))
            .collect();
        assert_eq!(known, [(140, 160, 1), (200, 250, 1)]);
    }
}
