//! One case of the matrix, and how it is run.

use std::time::Duration;

use backend_cpu::Cpu;
use executor::check::{Check, Sample};
use executor::{Communicator, Settings, Way};
use half::{bf16, f16};
use plan::program::{Schedule, Transfer};
use plan::{Collective, ElementType, Protocol, Reduction};

/// Numbers of ranks.
const RANKS: [u32; 10] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 16];

/// Elements of a block: nothing, one, fewer than ranks, what divides nothing, and more than a slot of each protocol.
const COUNTS: [usize; 9] = [0, 1, 2, 7, 64, 1023, 4099, 20_011, 150_001];

/// One case.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Case {
    pub collective: Collective,
    pub way: Way,
    pub element: ElementType,
    pub reduction: Reduction,
    pub ranks: u32,
    pub root: u32,
    pub count: usize,
    pub in_place: bool,
}

/// All of them.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for ranks in RANKS {
        for collective in Collective::ALL {
            for way in ways(collective) {
                for (number, element) in ElementType::ALL.into_iter().enumerate() {
                    for reduction in Reduction::ALL {
                        if !collective.reduces() && reduction != Reduction::Sum {
                            continue;
                        }
                        for (size, count) in COUNTS.into_iter().enumerate() {
                            for in_place in [false, true] {
                                let case = Case {
                                    collective,
                                    way,
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

fn ways(collective: Collective) -> Vec<Way> {
    let mut ways = Vec::new();
    for schedule in Schedule::ALL {
        for transfer in Transfer::ALL {
            if !schedule.serves(collective, transfer) {
                continue;
            }
            for protocol in Protocol::ALL {
                if transfer == Transfer::Direct && protocol != Protocol::Simple {
                    continue;
                }
                for channels in [1, 2] {
                    for piece_bytes in [0, 4096] {
                        ways.push(Way {
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
    ways
}

impl Case {
    fn exists(&self) -> bool {
        let direct = self.way.transfer == Transfer::Direct;
        let own_scalars =
            self.collective.reduces() && self.reduction == Reduction::PreMultipliedSum;
        // Transfers are grouped, which goes through FIFOs, and have two buffers.
        let grouped = self.collective == Collective::SendRecv;
        let overwritten =
            self.collective == Collective::AllToAll && self.in_place && self.ranks > 1;
        // Long messages on many ranks with small pieces add time and no new paths.
        let long = self.count > 30_000 && (self.ranks > 4 || self.way.piece_bytes > 0);
        !(direct && (own_scalars || grouped || overwritten)) && !(grouped && self.in_place) && !long
    }
}

/// Runs cases on as few communicators as there are numbers of ranks among neighbours.
///
/// # Panics
/// A case gives a wrong element or fails.
pub fn run_all(cases: &[&Case]) {
    for group in cases.chunk_by(|one, other| one.ranks == other.ranks) {
        let Some(ranks) = group.first().map(|case| case.ranks) else {
            continue;
        };
        let settings = Settings {
            longest_wait: Duration::from_secs(60),
            buffer_bytes: Some(64 << 20),
            ..Settings::default()
        };
        let communicators = Communicator::local(ranks, &settings, |_| Cpu::default());
        let communicators = communicators.expect("threads can always meet");
        std::thread::scope(|scope| {
            for mut communicator in communicators {
                scope.spawn(move || {
                    for case in group {
                        if let Err(problem) = run(&mut communicator, case) {
                            panic!("rank {}: {case:?}: {problem}", communicator.rank());
                        }
                    }
                });
            }
        });
    }
}

/// Runs one rank's part of a case.
pub fn run(communicator: &mut Communicator<Cpu>, case: &Case) -> Result<(), String> {
    communicator.set_way(Some(case.way));
    match case.element {
        ElementType::I8 => of_type::<i8>(communicator, case),
        ElementType::U8 => of_type::<u8>(communicator, case),
        ElementType::I32 => of_type::<i32>(communicator, case),
        ElementType::U32 => of_type::<u32>(communicator, case),
        ElementType::I64 => of_type::<i64>(communicator, case),
        ElementType::U64 => of_type::<u64>(communicator, case),
        ElementType::F16 => of_type::<f16>(communicator, case),
        ElementType::Bf16 => of_type::<bf16>(communicator, case),
        ElementType::F32 => of_type::<f32>(communicator, case),
        ElementType::F64 => of_type::<f64>(communicator, case),
    }
}

fn of_type<T: Sample>(communicator: &mut Communicator<Cpu>, case: &Case) -> Result<(), String> {
    let rank = communicator.rank();
    let check = Check {
        collective: case.collective,
        reduction: case.reduction,
        ranks: case.ranks,
        root: case.root,
        count: case.count,
        seed: case.count as u64 + 11,
    };
    // Twice, so that what the first launch leaves behind meets the second.
    for _ in 0..2 {
        let (done, result) = if case.in_place {
            let (elements, from, to) = check.in_place(rank);
            let mut buffer = vec![T::default(); elements];
            check.fill(rank, 0, &mut buffer[from]);
            let done = check.launch_in_place(communicator, &mut buffer);
            (done, buffer[to].to_vec())
        } else {
            let mut input = vec![T::default(); check.input_elements(rank)];
            check.fill(rank, 0, &mut input);
            let mut output = vec![T::default(); check.output_elements(rank)];
            (check.launch(communicator, &input, &mut output), output)
        };
        done.map_err(|error| error.to_string())?;
        let wrong = check.wrong(rank, &result);
        if wrong > 0 {
            return Err(format!("{wrong} wrong elements"));
        }
    }
    Ok(())
}
