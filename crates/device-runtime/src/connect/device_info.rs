//! The descriptions of devices that ranks exchange before they connect.

use serde::{Deserialize, Serialize};

/// A rank's description of its device.
#[derive(Serialize, Deserialize)]
pub(super) struct DeviceInfo {
    pub device: String,
    /// Thread blocks that it can have resident at once.
    pub resident: u32,
    /// Whether NICs can access its memory.
    pub rdma: bool,
    /// A handle of its test memory, or why there is none.
    pub memory: Result<String, String>,
    /// Handle types of its multicasts, or why multicast is not supported.
    pub multicast: Result<Vec<String>, String>,
}

/// Resident blocks per rank on the device with the fewest.
pub(super) fn resident_blocks(infos: &[DeviceInfo]) -> u32 {
    let share = infos.iter().map(|own| {
        let beside = infos.iter().filter(|it| it.device == own.device).count();
        own.resident / u32::try_from(beside).unwrap_or(u32::MAX).max(1)
    });
    share.min().unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fullest_device_counts() {
        let info = |device: &str, resident| DeviceInfo {
            device: device.to_owned(),
            resident,
            rdma: false,
            memory: Ok(String::new()),
            multicast: Ok(Vec::new()),
        };
        assert_eq!(
            resident_blocks(&[info("a", 264), info("b", 264), info("a", 264)]),
            132
        );
        assert_eq!(resident_blocks(&[info("a", 264), info("b", 100)]), 100);
    }
}
