//! The descriptions of devices that ranks exchange before they connect.

use serde::{Deserialize, Serialize};

use crate::driver::DeviceDriver;
use crate::entry::Kernel;

/// A rank's description of its device.
#[derive(Serialize, Deserialize)]
pub(super) struct DeviceInfo {
    pub device: String,
    /// Thread blocks that it can have resident at once, of each kernel.
    pub resident: ResidentBlocks,
    /// Whether NICs can access its memory.
    pub rdma: bool,
    /// A handle of its test memory, or why there is none.
    pub memory: Result<String, String>,
    /// Handle types of its multicasts, or why multicast is not supported.
    pub multicast: Result<Vec<String>, String>,
}

/// Thread blocks of each kernel that are resident at once, in the order of [`Kernel::all`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct ResidentBlocks(Vec<u32>);

impl ResidentBlocks {
    /// Asks a device about all kernels.
    pub(super) fn on<M: DeviceDriver>(
        driver: &M,
        device: u32,
        threads: u32,
    ) -> Result<Self, String> {
        let blocks = |kernel| driver.resident_blocks(device, kernel, threads);
        let all: Result<Vec<u32>, String> = Kernel::all().into_iter().map(blocks).collect();
        all.map(Self)
    }

    /// The blocks of a kernel.
    pub fn of(&self, kernel: Kernel) -> u32 {
        let known = Kernel::all().into_iter().zip(&self.0);
        let found = known.filter(|(it, _)| *it == kernel);
        found.map(|(_, blocks)| *blocks).next().unwrap_or_default()
    }

    /// Those of each of `ranks` ranks that share the device.
    pub(super) fn shared_by(&self, ranks: u32) -> Self {
        let share = |blocks: &u32| blocks / ranks.max(1);
        Self(self.0.iter().map(share).collect())
    }

    /// The fewest of each kernel.
    pub(super) fn fewest(all: impl Iterator<Item = Self>) -> Self {
        let fewer = |one: Self, other: Self| {
            let both = one.0.into_iter().zip(other.0);
            Self(both.map(|(one, other)| one.min(other)).collect())
        };
        all.reduce(fewer).unwrap_or_default()
    }
}

/// Resident blocks per rank on the device with the fewest.
pub(super) fn resident_blocks(infos: &[DeviceInfo]) -> ResidentBlocks {
    ResidentBlocks::fewest(infos.iter().map(|own| {
        let beside = infos.iter().filter(|it| it.device == own.device).count();
        own.resident
            .shared_by(u32::try_from(beside).unwrap_or(u32::MAX))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fullest_device_counts() {
        let info = |device: &str, resident| DeviceInfo {
            device: device.to_owned(),
            resident: ResidentBlocks(vec![resident, resident / 2]),
            rdma: false,
            memory: Ok(String::new()),
            multicast: Ok(Vec::new()),
        };
        let fewest = |infos: &[DeviceInfo]| {
            let found = resident_blocks(infos);
            let [one, other, ..] = Kernel::all()[..] else {
                return [0, 0];
            };
            [found.of(one), found.of(other)]
        };
        let shared = [info("a", 264), info("b", 264), info("a", 264)];
        assert_eq!(fewest(&shared), [132, 66]);
        assert_eq!(fewest(&[info("a", 264), info("b", 100)]), [100, 50]);
    }
}
