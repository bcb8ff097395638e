//! Communicators of a job that are alike: as many ranks each, equally far apart.

use std::str::FromStr;

/// Communicators of `size` ranks, `stride` apart. Each rank of the job is in one of them: tensor
/// parallelism over 8 ranks is `8`, data parallelism beside it `16:8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupShape {
    /// Ranks of one communicator.
    pub size: u32,
    /// From one of its ranks to the next.
    pub stride: u32,
}

impl FromStr for GroupShape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || {
            format!(
                "`{text}` is no group; expected SIZE or SIZE:STRIDE, such as 8 or 16:8, of at least 1"
            )
        };
        let (size, stride) = text.split_once(':').unwrap_or((text, "1"));
        let number = |text: &str| text.parse().ok().filter(|number| *number > 0);
        Ok(Self {
            size: number(size).ok_or_else(expected)?,
            stride: number(stride).ok_or_else(expected)?,
        })
    }
}

impl std::fmt::Display for GroupShape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.size, self.stride)
    }
}

impl GroupShape {
    /// The ranks of the communicator that a rank is in.
    pub fn members(self, rank: u64) -> impl Iterator<Item = u64> {
        let (size, stride) = (u64::from(self.size), u64::from(self.stride));
        let first = rank / (size * stride) * (size * stride) + rank % stride;
        (0..size).map(move |member| first + member * stride)
    }

    /// Whether the communicators hold all ranks of a job.
    pub fn divides(self, ranks: u64) -> bool {
        ranks.is_multiple_of(u64::from(self.size) * u64::from(self.stride))
    }
}
