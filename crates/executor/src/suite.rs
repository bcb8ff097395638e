//! The suite that every backend must pass: each collective with every choice, type, operation,
//! number of ranks and odd sizes, in place and not. Each element is checked.
//!
//! ```
//! use backend_cpu::Cpu;
//! use executor::{Communicator, Settings, suite};
//!
//! let cases = suite::cases(&[2], &[64]);
//! let ranks = Communicator::local(2, &Settings::default(), |_| Cpu::default())?;
//! suite::run(ranks, &suite::sample(&cases, 3, 1)).unwrap();
//! # Ok::<(), executor::Error>(())
//! ```

use program::{Collective, ElementType, Protocol, Reduction};
use program::{Schedule, Transfer};

use crate::backend::Backend;
use crate::check::{self, Check, ForType, Sample};
use crate::communicator::Communicator;
use crate::request::Choice;

/// Elements of a block: none, one, fewer than ranks, odd numbers, and more than a slot of each
/// protocol.
pub const COUNTS: [usize; 9] = [0, 1, 2, 7, 64, 1023, 4099, 20_011, 150_001];

/// One case.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Case {
    /// The collective.
    pub collective: Collective,
    /// The choice.
    pub choice: Choice,
    /// Type of the elements.
    pub element: ElementType,
    /// The reduction.
    pub reduction: Reduction,
    /// Ranks.
    pub ranks: u32,
    /// The root; for transfers, the distance from sender to receiver.
    pub root: u32,
    /// Elements of a block.
    pub count: usize,
    /// Whether input and output are one buffer.
    pub in_place: bool,
}

/// All cases with these numbers of ranks and these counts, but not those by hierarchical
/// algorithms.
pub fn cases(all_ranks: &[u32], counts: &[usize]) -> Vec<Case> {
    all_cases(all_ranks, counts, choices)
}

/// The cases by hierarchical algorithms, for backends that run them.
pub fn hierarchical(all_ranks: &[u32], counts: &[usize]) -> Vec<Case> {
    let choices = |collective| choices_by(collective, &[Transfer::Hierarchical]);
    all_cases(all_ranks, counts, choices)
}

fn all_cases(
    all_ranks: &[u32],
    counts: &[usize],
    choices: impl Fn(Collective) -> Vec<Choice>,
) -> Vec<Case> {
    let mut cases = Vec::new();
    for ranks in all_ranks.iter().copied() {
        for collective in Collective::ALL {
            for choice in choices(collective) {
                for (number, element) in ElementType::ALL.into_iter().enumerate() {
                    for reduction in Reduction::ALL {
                        if !collective.reduces() && reduction != Reduction::Sum {
                            continue;
                        }
                        if collective.reduces() && !reduction.suits(element) {
                            continue;
                        }
                        for (size, count) in counts.iter().copied().enumerate() {
                            for in_place in [false, true] {
                                let case = Case {
                                    collective,
                                    choice,
                                    element,
                                    reduction,
                                    ranks,
                                    root: if collective.has_root()
                                        || collective == Collective::SendRecv
                                    {
                                        (number + size) as u32 % ranks
                                    } else {
                                        0
                                    },
                                    count,
                                    in_place,
                                };
                                if case.exists() {
                                    cases.push(case);
                                }
                            }
                        }
                    }
                }
            }
        }
    }
    cases
}

/// The cases through scratch memory, for backends that run them.
pub fn staged(all_ranks: &[u32], counts: &[usize]) -> Vec<Case> {
    let choices = |collective| choices_by(collective, &[Transfer::Staged]);
    all_cases(all_ranks, counts, choices)
}

/// All choices for a collective but hierarchical ones, each with one channel and with two, with
/// long and with short pieces.
pub fn choices(collective: Collective) -> Vec<Choice> {
    choices_by(collective, &[Transfer::Fifo, Transfer::Direct])
}

fn choices_by(collective: Collective, transfers: &[Transfer]) -> Vec<Choice> {
    let mut choices = Vec::new();
    for schedule in Schedule::ALL {
        for transfer in transfers.iter().copied() {
            if !schedule.serves(collective, transfer) {
                continue;
            }
            for protocol in Protocol::ALL {
                if !transfer.has_protocol() && protocol != Protocol::Simple {
                    continue;
                }
                for channels in [1, 2] {
                    for piece_bytes in [0, 4096] {
                        choices.push(Choice {
                            schedule,
                            transfer,
                            protocol,
                            channels,
                            piece_bytes,
                        });
                    }
                }
            }
        }
    }
    choices
}

impl Case {
    /// Whether GPUs carry it out: NCCL has its type and its reduction.
    pub fn is_of_nccl(&self) -> bool {
        let known = Reduction::OF_NCCL.contains(&self.reduction);
        !self.collective.reduces() || known && ElementType::OF_NCCL.contains(&self.element)
    }

    /// Whether it is possible and worth its time.
    pub fn exists(&self) -> bool {
        let direct = self.choice.transfer != Transfer::Fifo;
        let own_scalars =
            self.collective.reduces() && self.reduction == Reduction::PreMultipliedSum;
        // Transfers run in groups, over FIFOs and with two buffers.
        let grouped = self.collective == Collective::SendRecv;
        let overwritten = self.collective == Collective::AllToAll
            && self.in_place
            && self.ranks > 1
            && self.choice.transfer.accesses_buffers();
        // Switches (NVLS) do not reduce all types.
        let unserved = self.collective.reduces()
            && !self.choice.schedule.reduces(self.element, self.reduction);
        // Long messages with many ranks or small pieces take time and test nothing new.
        let long = self.count > 30_000 && (self.ranks > 4 || self.choice.piece_bytes > 0);
        !(direct && (own_scalars || grouped || overwritten))
            && !(grouped && self.in_place)
            && !long
            && !unserved
    }
}

/// Draws `size` cases from a seed, ordered by their numbers of ranks.
pub fn sample(all: &[Case], size: usize, seed: u64) -> Vec<Case> {
    let mut random = seed;
    let mut drawn: Vec<Case> = (0..size)
        .filter_map(|_| {
            // splitmix64
            random = random.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut x = random;
            x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            let at = (x ^ (x >> 31)).checked_rem(all.len() as u64)?;
            Some(all[at as usize])
        })
        .collect();
    drawn.sort_by_key(|case| case.ranks);
    drawn
}

/// Runs cases on the communicators of all ranks, each with a thread of its own.
///
/// # Errors
/// The first wrong or failed case. Of several ranks' errors, one that is no consequence of
/// another's.
pub fn run<B: Backend>(ranks: Vec<Communicator<B>>, cases: &[Case]) -> Result<(), String> {
    let results: Vec<Result<(), String>> = std::thread::scope(|scope| {
        let threads: Vec<_> = ranks
            .into_iter()
            .map(|mut communicator| {
                scope.spawn(move || {
                    for case in cases {
                        run_rank(&mut communicator, case).map_err(|problem| {
                            format!("rank {}: {case:?}: {problem}", communicator.rank())
                        })?;
                    }
                    Ok(())
                })
            })
            .collect();
        let joined = threads.into_iter().map(|thread| {
            thread
                .join()
                .unwrap_or_else(|_| Err("a rank's thread panicked".to_owned()))
        });
        joined.collect()
    });
    // Ranks that gave up only report a failure of another rank.
    let mut errors: Vec<String> = results.into_iter().filter_map(Result::err).collect();
    errors.sort_by_key(|error| error.contains("gave up"));
    errors.into_iter().next().map_or(Ok(()), Err)
}

/// Runs one rank's part of a case.
///
/// # Errors
/// Elements are wrong, or the launch fails.
pub fn run_rank<B: Backend>(communicator: &mut Communicator<B>, case: &Case) -> Result<(), String> {
    communicator.set_choice(Some(case.choice));
    check::of_type(case.element, OfCase { communicator, case })
}

struct OfCase<'a, B: Backend> {
    communicator: &'a mut Communicator<B>,
    case: &'a Case,
}

impl<B: Backend> ForType for OfCase<'_, B> {
    type Output = Result<(), String>;

    fn run<T: Sample>(self) -> Self::Output {
        launch_twice::<T, B>(self.communicator, self.case)
    }
}

fn launch_twice<T: Sample, B: Backend>(
    communicator: &mut Communicator<B>,
    case: &Case,
) -> Result<(), String> {
    let rank = communicator.rank();
    let check = Check {
        collective: case.collective,
        reduction: case.reduction,
        ranks: case.ranks,
        root: case.root,
        count: case.count,
        seed: case.count as u64 + 11,
    };
    // Twice, because the second launch meets the state that the first leaves.
    for _ in 0..2 {
        let (done, result) = if case.in_place {
            let (elements, from, to) = check.in_place(rank);
            let mut buffer = vec![T::default(); elements];
            check.fill(rank, 0, &mut buffer[from]);
            let done = check.launch(communicator, &mut buffer);
            (done, buffer[to].to_vec())
        } else {
            let mut input = vec![T::default(); check.input_elements(rank)];
            check.fill(rank, 0, &mut input);
            let mut output = vec![T::default(); check.output_elements(rank)];
            (check.launch(communicator, (&input, &mut output)), output)
        };
        done.map_err(|error| error.to_string())?;
        let wrong = check.wrong(rank, &result);
        if wrong > 0 {
            return Err(format!("{wrong} wrong elements"));
        }
    }
    Ok(())
}
