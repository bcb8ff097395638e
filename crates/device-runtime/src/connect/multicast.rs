//! Scratch memory with a multicast address (NVLS), made by all ranks together.
//!
//! There is one window, which grows: a program that needs more than it has gets a new one, of a
//! power of two of bytes or the device's granularity, which later programs use, too. The old ones
//! are kept until the last rank of the process is gone, because a kernel that does not end may
//! still use them; together they are shorter than the latest. A window is made while the program
//! that needs it is wired, which all ranks do together, so all know the same one. Rank 0 creates
//! the window and the others join. Once all are members, each binds its memory, and once all have
//! bound, kernels may use it. Both meetings exchange every rank's outcome, so if one rank fails,
//! all fail with its reason before anything runs.
//!
//! A rank runs one program at a time and waits in it for the others, so only one launch uses a
//! window at a time.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use executor::bootstrap::{Bootstrap, Offer};
use executor::error::Error;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Connector;
use crate::driver::{DeviceDriver, MulticastAddresses, Team};
use crate::process_ranks::ProcessRanks;

/// Bytes of the smallest window.
const LEAST_BYTES: u64 = 64 << 10;

/// The rank that creates multicast objects.
const FIRST: u32 = 0;

/// The handle type with which all ranks join a multicast, `None` if they are threads of one
/// process; or why they cannot.
pub(crate) type MulticastSupport = Result<Option<String>, String>;

/// The information of a rank about its device.
pub(super) struct Candidate {
    /// The device's identity.
    pub device: String,
    /// Handle types that it supports, or why multicast is not supported.
    pub kinds: Result<Vec<String>, String>,
}

/// Finds a multicast that all ranks can join. `within`: one device can hold several members.
/// `serves`: whether a handle type reaches all ranks; `None` if they are threads of one process.
pub(super) fn common(
    candidates: impl Iterator<Item = Candidate>,
    within: bool,
    serves: Option<&dyn Fn(&str) -> bool>,
) -> MulticastSupport {
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    for (rank, Candidate { device, kinds }) in (0_u32..).zip(candidates) {
        let kinds = kinds.map_err(|why| format!("rank {rank}: {why}"))?;
        let beside = found.iter().position(|(other, _)| *other == device);
        if let Some(beside) = beside.filter(|_| !within) {
            return Err(format!(
                "ranks {beside} and {rank} share a device ({device}), and a multicast (NVLS) takes one member per device; take as \
                 many devices as ranks"
            ));
        }
        found.push((device, kinds));
    }
    let Some(serves) = serves else {
        return Ok(None);
    };
    let of_all = |kind: &&String| found.iter().all(|(_, kinds)| kinds.contains(kind));
    let mut kinds = found.first().into_iter().flat_map(|(_, kinds)| kinds);
    match kinds.find(|kind| of_all(kind) && serves(kind)) {
        Some(kind) => Ok(Some(kind.clone())),
        None => {
            let said = (0..)
                .zip(&found)
                .map(|(rank, (_, kinds))| match &kinds[..] {
                    [] => format!("rank {rank} has none"),
                    kinds => format!("rank {rank} has {}", kinds.join(" and ")),
                });
            let said: Vec<String> = said.collect();
            Err(format!(
                "no kind of handle lets all ranks join one multicast (NVLS): {}",
                said.join(", ")
            ))
        }
    }
}

/// A window.
pub(crate) struct ScratchWindow {
    pub addresses: MulticastAddresses,
    /// This rank's part, released on drop.
    _part: Box<dyn Any + Send + Sync>,
}

/// The windows of a rank.
#[derive(Default)]
pub(crate) struct ScratchWindows {
    /// The window of the program that was wired last.
    pub of_program: Option<Arc<ScratchWindow>>,
    /// The window for later programs.
    pub latest: Option<Arc<ScratchWindow>>,
    /// Number of windows begun, equal on all ranks.
    begun: u64,
}

impl<M: DeviceDriver> Connector<'_, '_, M> {
    /// Sets the window of a program; all ranks make a missing one together.
    pub(super) fn meet_window(&mut self) -> Result<(), Error> {
        let bound = self.own.bound;
        self.known.windows.of_program = None;
        if !bound.multicasts {
            return Ok(());
        }
        let bytes = bound.scratch_bytes.max(LEAST_BYTES);
        let bytes = bytes.checked_next_power_of_two().unwrap_or(bytes);
        let latest = self.known.windows.latest.as_ref();
        let window = match latest.filter(|it| it.addresses.bytes >= bytes) {
            Some(long) => Arc::clone(long),
            None => Arc::new(self.make_window(bytes)?),
        };
        let before = self.known.windows.latest.replace(Arc::clone(&window));
        if let Some(old) = before.filter(|it| !Arc::ptr_eq(it, &window)) {
            self.shared.keep(old, None);
        }
        self.known.windows.of_program = Some(window);
        Ok(())
    }

    fn make_window(&mut self, bytes: u64) -> Result<ScratchWindow, Error> {
        // Programs are refused earlier if there is no multicast.
        let kind = self.known.peers.multicast.clone();
        let kind = kind.map_err(|why| self.failed(why))?;
        let (collective, ranks) = (self.own.collective, self.own.bootstrap.ranks());
        let number = self.known.windows.begun;
        self.known.windows.begun += 1;
        let mut meeting = Meeting {
            shared: self.shared,
            bootstrap: self.own.bootstrap,
            longest: self.own.longest,
            name: format!("device/multicast/{number}"),
        };
        let made = meeting.make(&Team {
            ranks,
            bytes,
            kind,
            memory: None,
        });
        let refused = |rank, why| Error::Unsupported {
            collective,
            ranks,
            why: format!(
                "rank {rank} cannot join a multicast (NVLS) of {bytes} bytes per rank: {why}"
            ),
        };
        let (part, addresses) = made.map_err(|why| why.error(refused))?;
        Ok(ScratchWindow {
            addresses,
            _part: Box::new(part),
        })
    }
}

/// Why there is no multicast.
pub(crate) enum NotMade {
    /// A rank has a reason, which all ranks hear.
    Refused { rank: u32, why: String },
    /// A rank failed.
    Failed(Error),
}

impl NotMade {
    /// The error; `refused` makes it of a rank and its reason.
    pub fn error(self, refused: impl FnOnce(u32, String) -> Error) -> Error {
        match self {
            Self::Refused { rank, why } => refused(rank, why),
            Self::Failed(error) => error,
        }
    }
}

impl From<Error> for NotMade {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// The ranks that make a multicast together.
pub(crate) struct Meeting<'a, M: DeviceDriver> {
    pub shared: &'a ProcessRanks<M>,
    pub bootstrap: &'a mut dyn Bootstrap,
    pub longest: Duration,
    /// The name of the meeting, equal on all ranks, and of no other one.
    pub name: String,
}

impl<M: DeviceDriver> Meeting<'_, M> {
    /// Makes a multicast, and binds memory of this rank's device to it.
    pub fn make(&mut self, team: &Team) -> Result<(M::Multicast, MulticastAddresses), NotMade> {
        let rank = self.bootstrap.rank();
        let driver = &self.shared.driver;
        let device = self.shared.device(rank);
        let failed = |why| NotMade::Failed(Error::Device { rank, why });
        let begun = format!("{}/begun", self.name);
        let joined = if rank == FIRST {
            let part = driver.begin_multicast(device, team);
            let word = part.as_ref().map(|(_, word)| word);
            self.bootstrap.publish(&begun, Offer::of(&word))?;
            part
        } else {
            let offer = self.bootstrap.fetch(FIRST, &begun, self.longest)?;
            match offer.read::<Result<String, String>>(&begun, (rank, FIRST))? {
                Ok(word) => driver.join_multicast(device, team, &word),
                // Rank 0 repeats it once all have joined.
                Err(why) => Err(why),
            }
        };
        let word = joined.as_ref().map(|(_, word)| word.clone());
        let words = self.exchange("joined", &word.map_err(String::clone))?;
        let (mut part, _) = joined.map_err(failed)?;
        let window = driver.bind_multicast(device, &mut part, &words);
        let outcome = window.as_ref().map(|_| ()).map_err(String::clone);
        self.exchange("bound", &outcome)?;
        Ok((part, window.map_err(failed)?))
    }

    /// Exchanges the outcome of a step. Fails alike on all ranks if any rank failed.
    pub fn exchange<T: Serialize + DeserializeOwned>(
        &mut self,
        step: &str,
        own: &Result<T, String>,
    ) -> Result<Vec<T>, NotMade> {
        let (own_rank, ranks) = (self.bootstrap.rank(), self.bootstrap.ranks());
        let name = format!("{}/{step}", self.name);
        let mut words = Vec::with_capacity(ranks as usize);
        self.bootstrap.publish(&name, Offer::of(own))?;
        // One after the other, so that the wait for a rank ends if it leaves.
        for rank in 0..ranks {
            let offer = self.bootstrap.fetch(rank, &name, self.longest)?;
            match offer.read::<Result<T, String>>(&name, (own_rank, rank))? {
                Ok(word) => words.push(word),
                Err(why) => return Err(NotMade::Refused { rank, why }),
            }
        }
        Ok(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(device: &str, kinds: &[&str]) -> Candidate {
        Candidate {
            device: device.to_owned(),
            kinds: Ok(kinds.iter().map(|kind| (*kind).to_owned()).collect()),
        }
    }

    #[test]
    fn the_best_kind_that_all_have_is_taken() {
        let all = || {
            [
                candidate("a", &["fabric", "descriptor"]),
                candidate("b", &["descriptor"]),
            ]
            .into_iter()
        };
        let any = |_: &str| true;
        let remote = |kind: &str| kind == "fabric";
        assert_eq!(
            common(all(), false, Some(&any)),
            Ok(Some("descriptor".to_owned()))
        );
        assert_eq!(
            common(all().take(1), false, Some(&any)),
            Ok(Some("fabric".to_owned()))
        );
        let none = common(all(), false, Some(&remote)).unwrap_err();
        assert!(none.contains("rank 1 has descriptor"), "{none}");
        assert_eq!(common(all(), false, None), Ok(None));
    }

    #[test]
    fn one_device_is_no_two_members() {
        let twice = || ["a", "b", "a"].map(|it| candidate(it, &[])).into_iter();
        let refused = common(twice(), false, None).unwrap_err();
        assert!(refused.contains("ranks 0 and 2"), "{refused}");
        assert_eq!(common(twice(), true, None), Ok(None));
    }

    #[test]
    fn who_has_none_is_named() {
        let without = Candidate {
            device: "b".to_owned(),
            kinds: Err("no switch".to_owned()),
        };
        let all = [candidate("a", &[]), without].into_iter();
        assert_eq!(
            common(all, false, None),
            Err("rank 1: no switch".to_owned())
        );
    }
}
