//! PCI links: rate and lanes.

use topology::bandwidth::GENERATIONS;

/// Rate of a lane of a generation of PCI Express, GT/s.
pub(crate) fn lane_rate(generation: u32) -> f32 {
    match generation {
        ..=1 => 2.5,
        2 => 5.0,
        3 => 8.0,
        4 => 16.0,
        5 => 32.0,
        _ => 64.0,
    }
}

/// A PCI link.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Link {
    /// Rate of a lane, GT/s.
    pub speed: f32,
    /// Number of lanes.
    pub width: u32,
}

impl Link {
    /// A link as `Speed 32GT/s, Width x16`.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let speed = text.split("Speed ").nth(1)?.split("GT/s").next()?;
        let width = text.split("Width x").nth(1)?;
        let width = width.split(|c: char| !c.is_ascii_digit()).next()?;
        let link = Self {
            speed: speed.trim().parse().ok()?,
            width: width.parse().ok()?,
        };
        (link.speed.is_finite() && link.speed > 0.0 && (1..=64).contains(&link.width))
            .then_some(link)
    }

    /// The rate as the kernel and NCCL write it.
    pub fn speed_text(self) -> String {
        let known = GENERATIONS.iter().find(|text| {
            let rate = text.split(' ').next().and_then(|it| it.parse().ok());
            rate == Some(self.speed)
        });
        known.map_or_else(
            || format!("{:.1} GT/s PCIe", self.speed),
            |it| (*it).to_owned(),
        )
    }

    /// The slower rate and the fewer lanes of both.
    pub fn narrower(self, other: Self) -> Self {
        Self {
            speed: self.speed.min(other.speed),
            width: self.width.min(other.width),
        }
    }
}
