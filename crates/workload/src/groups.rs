//! The ranks of a group's communicators.

use std::fmt;
use std::str::FromStr;

/// Most axes of a grid.
const MOST_AXES: usize = 8;

/// Most ranks that are listed.
const MOST_LISTED: usize = 1 << 22;

/// The ranks of the communicators of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Members {
    /// One communicator of all ranks.
    All,
    /// Communicators that are grids of ranks. All together hold each rank once.
    Grid(Vec<Axis>),
    /// The ranks of each communicator, in the order of its own ranks.
    Listed(Vec<Vec<u32>>),
}

/// One direction of a grid of ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Axis {
    /// Ranks in this direction.
    pub size: u32,
    /// From one of them to the next.
    pub stride: u32,
}

/// Why communicators do not fit a job.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MembersError {
    /// The grid does not divide the ranks.
    #[error(
        "communicators {members} do not divide {ranks} ranks; expected sizes and strides of which each, and the product of \
         the last, divides the next and the number of ranks"
    )]
    NotDivided {
        /// The grid.
        members: Members,
        /// Ranks of the job.
        ranks: u32,
    },
    /// There is no such rank.
    #[error("rank {rank} is not in the job, which has {ranks} ranks")]
    NoSuchRank {
        /// The rank.
        rank: u32,
        /// Ranks of the job.
        ranks: u32,
    },
}

impl Members {
    /// Communicators of `size` ranks that are `stride` apart.
    pub fn strided(size: u32, stride: u32) -> Self {
        Self::Grid(vec![Axis { size, stride }])
    }

    /// Ranks of the largest communicator.
    pub fn size(&self, ranks: u32) -> u32 {
        match self {
            Self::All => ranks,
            Self::Grid(axes) => axes
                .iter()
                .map(|axis| axis.size)
                .fold(1, u32::saturating_mul),
            Self::Listed(lists) => lists.iter().map(|it| it.len() as u32).max().unwrap_or(0),
        }
    }

    /// The ranks of each communicator, in the order of its own ranks.
    ///
    /// # Errors
    /// They do not fit a job with this number of ranks.
    pub fn communicators(&self, ranks: u32) -> Result<Communicators<'_>, MembersError> {
        match self {
            Self::All => {}
            Self::Grid(axes) => {
                let mut below = 1u64;
                for axis in axes {
                    let (size, stride) = (u64::from(axis.size), u64::from(axis.stride));
                    if size == 0 || stride == 0 || !stride.is_multiple_of(below) {
                        return Err(self.not_divided(ranks));
                    }
                    below = size * stride;
                }
                if !u64::from(ranks).is_multiple_of(below) {
                    return Err(self.not_divided(ranks));
                }
            }
            Self::Listed(lists) => {
                if let Some(rank) = lists.iter().flatten().find(|rank| **rank >= ranks) {
                    return Err(MembersError::NoSuchRank { rank: *rank, ranks });
                }
            }
        }
        Ok(Communicators {
            members: self,
            ranks,
            next: 0,
        })
    }

    fn not_divided(&self, ranks: u32) -> MembersError {
        MembersError::NotDivided {
            members: self.clone(),
            ranks,
        }
    }
}

/// The communicators of a group, one after the other.
#[derive(Debug, Clone)]
pub struct Communicators<'a> {
    members: &'a Members,
    ranks: u32,
    /// The next communicator of a list, or the next rank that may be the first of one.
    next: u32,
}

impl Iterator for Communicators<'_> {
    type Item = Vec<u32>;

    fn next(&mut self) -> Option<Vec<u32>> {
        match self.members {
            Members::All => {
                let first = std::mem::replace(&mut self.next, 1) == 0 && self.ranks > 0;
                first.then(|| (0..self.ranks).collect())
            }
            Members::Listed(lists) => {
                let list = lists.get(self.next as usize)?;
                self.next += 1;
                Some(list.clone())
            }
            Members::Grid(axes) => {
                let is_first = |rank: u32| {
                    axes.iter()
                        .all(|it| (rank / it.stride).is_multiple_of(it.size))
                };
                let first = (self.next..self.ranks).find(|rank| is_first(*rank))?;
                self.next = first + 1;
                let mut found = vec![first];
                for axis in axes {
                    let below = found.len();
                    for step in 1..axis.size {
                        for at in 0..below {
                            found.push(found[at] + step * axis.stride);
                        }
                    }
                }
                Some(found)
            }
        }
    }
}

impl fmt::Display for Members {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Grid(axes) => {
                for (at, axis) in axes.iter().enumerate() {
                    let separator = if at > 0 { "x" } else { "" };
                    write!(f, "{separator}{}:{}", axis.size, axis.stride)?;
                }
                Ok(())
            }
            Self::Listed(lists) => lists.iter().try_for_each(|list| {
                let mut text = String::new();
                for run in list.chunk_by(|a, b| a.checked_add(1) == Some(*b)) {
                    let separator = if text.is_empty() { "" } else { " " };
                    match run {
                        [first, .., last] => text += &format!("{separator}{first}-{last}"),
                        [one] => text += &format!("{separator}{one}"),
                        [] => {}
                    }
                }
                write!(f, "{{{text}}}")
            }),
        }
    }
}

impl FromStr for Members {
    type Err = String;

    /// Reads `all`, `8` (8 ranks in a row), `16:8` (16 ranks, 8 apart), `2:8x4:64` (a grid), or
    /// `{0-3}{4-7}` (the ranks of each communicator).
    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.eq_ignore_ascii_case("all") {
            return Ok(Self::All);
        }
        match text.starts_with('{') {
            true => listed(text),
            false => grid(text),
        }
    }
}

fn grid(text: &str) -> Result<Members, String> {
    let wrong = || {
        format!(
            "`{text}` is no group of ranks; expected all, SIZE, SIZE:STRIDE, a grid such as 2:8x4:64 \
             with ascending strides, or ranks such as {{0-3}}{{4-7}}"
        )
    };
    let mut axes: Vec<Axis> = Vec::new();
    for part in text.split('x') {
        let (size, stride) = part.split_once(':').unwrap_or((part, "1"));
        let number = |text: &str| text.trim().parse().ok().filter(|number| *number > 0);
        let (size, stride) = number(size).zip(number(stride)).ok_or_else(wrong)?;
        axes.push(Axis { size, stride });
    }
    let ascend = axes.windows(2).all(|it| it[0].stride < it[1].stride);
    match ascend && axes.len() <= MOST_AXES {
        true => Ok(Members::Grid(axes)),
        false => Err(wrong()),
    }
}

fn listed(text: &str) -> Result<Members, String> {
    let wrong = |what: &str| {
        format!(
            "`{what}` is no list of ranks; expected ranks and ranges such as {{0-3 8}}{{4-7 9}}"
        )
    };
    let (mut lists, mut total) = (Vec::new(), 0);
    let inner = text.strip_prefix('{').and_then(|it| it.strip_suffix('}'));
    for list in inner.ok_or_else(|| wrong(text))?.split("}{") {
        let mut ranks: Vec<u32> = Vec::new();
        for item in list.split([' ', ',']).filter(|item| !item.is_empty()) {
            let (first, last) = item.split_once('-').unwrap_or((item, item));
            let number = |text: &str| text.trim().parse::<u32>().map_err(|_| wrong(item));
            let (first, last) = (number(first)?, number(last)?);
            let length = u64::from(last.saturating_sub(first)) + 1;
            total += usize::try_from(length)
                .unwrap_or(usize::MAX)
                .min(MOST_LISTED + 1);
            if last < first || total > MOST_LISTED {
                return Err(wrong(item));
            }
            ranks.extend(first..=last);
        }
        lists.push(ranks);
    }
    Members::listed(lists)
}

impl Members {
    /// Communicators with these ranks.
    ///
    /// # Errors
    /// There is no communicator, one has no rank, or a rank is in two.
    pub fn listed(lists: Vec<Vec<u32>>) -> Result<Self, String> {
        if lists.is_empty() {
            return Err("no communicator; expected the ranks of at least one".to_owned());
        }
        if lists.iter().any(Vec::is_empty) {
            return Err("a communicator has no rank; expected at least one".to_owned());
        }
        let mut all: Vec<u32> = lists.iter().flatten().copied().collect();
        all.sort_unstable();
        match all.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(format!(
                "rank {} is listed twice; expected each rank of a group in one communicator",
                pair[0]
            )),
            None => Ok(Self::Listed(lists)),
        }
    }
}
