//! Scratch memory that all ranks reach at once (NVLS), and how they come to it together.
//!
//! What a program needs is rounded up to a power of two, and there is one window for each. A new one is made while the
//! program is wired that first wants it, which all ranks do together: windows stay as long as a rank, so all know the
//! same. Rank 0 begins it and the others join; when all are members, each binds its memory; when all have bound, kernels
//! may use it. At both meetings every rank says how it went with it. So if one fails, all refuse alike, with its reason,
//! before anything runs.
//!
//! A rank runs one program at a time, and one that is ahead waits in the program for the others, so a window is used by
//! one launch at a time.

use executor::error::Error;
use rustc_hash::FxHashMap;

use super::Connector;
use super::peers::{signed, unsigned};
use crate::machine::{DeviceDriver, Everywhere, Team};

/// Least bytes of a window.
const LEAST_BYTES: u64 = 64 << 10;

/// The rank that begins a multicast.
const FIRST: u32 = 0;

/// How all ranks can be members of a multicast: the kind of handle by which they join, none if they are threads of one
/// process; or why they cannot.
pub(crate) type Multicasting = Result<Option<String>, String>;

/// What a rank says of its device.
pub(super) struct Candidate {
    /// What tells the device from others.
    pub device: String,
    /// Kinds of handles of its multicasts, or why it has none.
    pub kinds: Result<Vec<String>, String>,
}

/// What all ranks can take part in, from what all said, in the order of ranks. `within` is whether several may be on one
/// device, `serves` whether a kind reaches all of them; none if they are threads of one process.
pub(super) fn common(
    candidates: impl Iterator<Item = Candidate>,
    within: bool,
    serves: Option<&dyn Fn(&str) -> bool>,
) -> Multicasting {
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    for (rank, Candidate { device, kinds }) in (0_u32..).zip(candidates) {
        let kinds = kinds.map_err(|why| format!("rank {rank}: {why}"))?;
        let beside = found.iter().position(|(other, _)| *other == device);
        if let Some(beside) = beside.filter(|_| !within) {
            return Err(format!(
                "ranks {beside} and {rank} are on one device ({device}), and a multicast (NVLS) has one memory of each; take as \
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
                    [] => format!("rank {rank} none"),
                    kinds => format!("rank {rank} {}", kinds.join(" and ")),
                });
            let said: Vec<String> = said.collect();
            Err(format!(
                "no kind of handle lets all ranks join one multicast (NVLS): of those that reach other processes has {}",
                said.join(", ")
            ))
        }
    }
}

/// The windows that a rank knows.
#[derive(Debug, Default)]
pub(crate) struct Windows {
    /// That of the program that was wired last, if it has one.
    pub of_program: Option<Everywhere>,
    /// By their bytes.
    known: FxHashMap<u64, Everywhere>,
    /// Windows that were begun, equal on all ranks.
    begun: u64,
}

impl<M: DeviceDriver> Connector<'_, '_, M> {
    /// Finds the window of a program, or makes it with the others.
    pub(super) fn meet_window(&mut self) -> Result<(), Error> {
        let bound = self.own.bound;
        self.known.windows.of_program = None;
        if !bound.multicasts {
            return Ok(());
        }
        let bytes = bound.scratch_bytes.max(LEAST_BYTES);
        let bytes = bytes.checked_next_power_of_two().unwrap_or(bytes);
        let window = match self.known.windows.known.get(&bytes) {
            Some(known) => *known,
            None => self.make_window(bytes)?,
        };
        self.known.windows.known.insert(bytes, window);
        self.known.windows.of_program = Some(window);
        Ok(())
    }

    fn make_window(&mut self, bytes: u64) -> Result<Everywhere, Error> {
        let (rank, device) = (self.rank(), self.device());
        // Where there is no multicast, its programs were refused before.
        let kind = self.known.peers.multicast.clone();
        let kind = kind.map_err(|why| self.failed(why))?;
        let team = Team {
            ranks: self.own.bootstrap.ranks(),
            bytes,
            kind,
        };
        let process_ranks = self.process_ranks;
        let machine = &process_ranks.machine;
        let number = self.known.windows.begun;
        self.known.windows.begun += 1;
        let name = |step: &str| format!("device/multicast/{number}/{step}");
        let begun = name("begun");
        let joined = if rank == FIRST {
            let part = machine.begin_multicast(device, &team);
            self.say(&begun, told(part.as_ref().map(|(_, word)| word.as_str())))?;
            part
        } else {
            let offer = self.own.bootstrap.fetch(FIRST, &begun, self.own.longest)?;
            match unsigned(&offer.text).ok_or_else(|| self.unknown_form(FIRST))? {
                Ok(word) => machine.join_multicast(device, &team, &word),
                // It says so again when all have joined.
                Err(why) => Err(why),
            }
        };
        let word = told(joined.as_ref().map(|(_, word)| word.as_str()));
        let words = self.all_well(&name("joined"), word, bytes)?;
        let (mut part, _) = joined.map_err(|why| self.failed(why))?;
        let window = machine.bind_multicast(device, &mut part, &words);
        let word = told(window.as_ref().map(|_| ""));
        self.all_well(&name("bound"), word, bytes)?;
        let window = window.map_err(|why| self.failed(why))?;
        process_ranks.keep(part, None);
        Ok(window)
    }

    /// What all ranks say of a step, if all say that it went well; else all refuse alike.
    fn all_well(&mut self, name: &str, own: String, bytes: u64) -> Result<Vec<String>, Error> {
        let ranks = self.own.bootstrap.ranks();
        let mut words = Vec::with_capacity(ranks as usize);
        self.say(name, own)?;
        // One by one: whoever waits for a rank hears that it left.
        for peer in 0..ranks {
            let offer = self.own.bootstrap.fetch(peer, name, self.own.longest)?;
            match unsigned(&offer.text).ok_or_else(|| self.unknown_form(peer))? {
                Ok(word) => words.push(word),
                Err(why) => {
                    return Err(Error::Unsupported {
                        collective: self.own.collective,
                        ranks,
                        why: format!(
                            "rank {peer} has no part in a multicast (NVLS) of {bytes} bytes on each rank: {why}; take another \
                             algorithm"
                        ),
                    });
                }
            }
        }
        Ok(words)
    }

    fn unknown_form(&self, peer: u32) -> Error {
        self.failed(format!(
            "rank {peer} speaks of a multicast in an unknown form"
        ))
    }
}

fn told(result: Result<&str, &String>) -> String {
    signed(result.map_err(String::as_str))
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
        let far = |kind: &str| kind == "fabric";
        assert_eq!(
            common(all(), false, Some(&any)),
            Ok(Some("descriptor".to_owned()))
        );
        assert_eq!(
            common(all().take(1), false, Some(&any)),
            Ok(Some("fabric".to_owned()))
        );
        let none = common(all(), false, Some(&far)).unwrap_err();
        assert!(none.contains("rank 1 descriptor"), "{none}");
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
