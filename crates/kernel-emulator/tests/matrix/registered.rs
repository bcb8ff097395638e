//! NVLS on buffers that all ranks registered: where they are, or copied if a rank's are elsewhere.

use device_runtime::Kernels;
use executor::check::{Check, Sample};
use executor::{Choice, Communicator, Error};
use kernel_emulator::{Bug, Emulator, communicators};
use program::{Collective, Protocol, Reduction, Schedule, Transfer};

use super::{settings, small};

const COLLECTIVES: [Collective; 3] = [
    Collective::AllReduce,
    Collective::AllGather,
    Collective::ReduceScatter,
];

/// Bytes to whose multiples windows and most buffers are aligned.
const ALIGNMENT: usize = 256;

/// Where a rank has its buffers.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Place {
    /// As many elements behind the begin of the window.
    Behind(usize),
    /// In memory that is not registered.
    Elsewhere,
}

/// Launches on registered memory.
#[derive(Debug, Clone, Copy)]
struct Launches {
    collective: Collective,
    reduction: Reduction,
    ranks: u32,
    count: usize,
    in_place: bool,
    /// The place of the buffers of all ranks but the last.
    most: Place,
    last: Place,
}

impl Launches {
    /// Elements of both buffers, each beginning at a multiple of [`ALIGNMENT`].
    fn elements<T>(&self) -> usize {
        let blocks = self.count * self.ranks as usize;
        2 * (blocks + ALIGNMENT / size_of::<T>())
    }

    /// Runs the collective twice, before and after the memory is registered, and once after it is
    /// not any more. Returns what was wrong.
    fn run<T: Sample>(&self, communicator: &mut Communicator<Kernels<Emulator>>) -> Vec<String> {
        let rank = communicator.rank();
        let room = ALIGNMENT / size_of::<T>();
        let most = self.elements::<T>() + 4 * room;
        let (mut window, mut other) = (vec![T::default(); most], vec![T::default(); most]);
        let at = window.as_ptr().align_offset(ALIGNMENT);
        let (address, bytes) = (window[at..].as_ptr().addr(), (most - room) * size_of::<T>());
        let own = match rank + 1 == self.ranks {
            true => self.last,
            false => self.most,
        };
        communicator.set_choice(Some(Choice {
            schedule: Schedule::Nvls,
            transfer: Transfer::Direct,
            protocol: Protocol::Simple,
            channels: 2,
            piece_bytes: 4096,
        }));
        let mut problems = Vec::new();
        let mut number = None;
        for (seed, when) in [(1, "before"), (2, "registered"), (3, "again"), (4, "after")] {
            match when {
                "registered" => {
                    number = Some(communicator.register(address as u64, bytes as u64));
                }
                "after" => {
                    let ended = number
                        .take()
                        .map(|it| it.and_then(|it| communicator.deregister(it)));
                    problems.extend(ended.and_then(Result::err).map(|error| error.to_string()));
                }
                _ => {}
            }
            let memory = match own {
                Place::Behind(elements) => &mut window[at + elements..],
                Place::Elsewhere => {
                    let at = other.as_ptr().align_offset(ALIGNMENT);
                    &mut other[at..]
                }
            };
            match self.launch(communicator, memory, seed) {
                Ok(0) => {}
                Ok(wrong) => problems.push(format!("{when}: {wrong} wrong elements")),
                Err(error) => {
                    problems.push(format!("{when}: {error}"));
                    break;
                }
            }
        }
        problems
    }

    /// Returns the number of wrong elements.
    fn launch<T: Sample>(
        &self,
        communicator: &mut Communicator<Kernels<Emulator>>,
        memory: &mut [T],
        seed: u64,
    ) -> Result<usize, Error> {
        let rank = communicator.rank();
        let check = Check {
            collective: self.collective,
            reduction: self.reduction,
            ranks: self.ranks,
            root: 0,
            count: self.count,
            seed,
        };
        if self.in_place {
            let (elements, input, output) = check.in_place(rank);
            let memory = &mut memory[..elements];
            memory.fill(T::default());
            check.fill(rank, 0, &mut memory[input]);
            check.launch(communicator, &mut *memory)?;
            return Ok(check.wrong(rank, &memory[output]));
        }
        let (elements, room) = (check.input_elements(rank), ALIGNMENT / size_of::<T>());
        let (input, output) = memory.split_at_mut(elements.next_multiple_of(room));
        let input = &mut input[..elements];
        check.fill(rank, 0, input);
        let (output, behind) = output.split_at_mut(check.output_elements(rank));
        let before = behind[..room].to_vec();
        check.launch(communicator, (&*input, &mut *output))?;
        let touched = behind[..room] != before[..];
        Ok(check.wrong(rank, output) + usize::from(touched))
    }

    /// Runs them on ranks that are threads. Returns what was wrong.
    fn on<T: Sample>(&self, emulator: Emulator) -> Vec<String> {
        let made = communicators(self.ranks, &settings(), emulator, small(1));
        std::thread::scope(|scope| {
            let start = |mut it: Communicator<Kernels<Emulator>>| {
                scope.spawn(move || self.run::<T>(&mut it))
            };
            let ranks: Vec<_> = made
                .expect("there is memory")
                .into_iter()
                .map(start)
                .collect();
            let ended = ranks
                .into_iter()
                .map(|it| it.join().expect("no rank panics"));
            ended.flatten().collect()
        })
    }

    fn expect_right<T: Sample>(&self, emulator: Emulator) {
        let problems = self.on::<T>(emulator);
        assert!(problems.is_empty(), "{self:?}: {}", problems.join(", "));
    }
}

const LAUNCHES: Launches = Launches {
    collective: Collective::AllReduce,
    reduction: Reduction::Sum,
    ranks: 3,
    count: 3000,
    in_place: false,
    most: Place::Behind(64),
    last: Place::Behind(64),
};

/// Each collective, with counts that fill vectors and others, on 1 to 8 ranks in turn.
fn all() -> Vec<Launches> {
    let mut all = Vec::new();
    for collective in COLLECTIVES {
        // With 64, the last of 3 ranks has no piece of a channel.
        for count in [3000, 64, 8, 2501] {
            for in_place in [false, true] {
                let number = all.len();
                all.push(Launches {
                    collective,
                    reduction: match collective.reduces() {
                        true => [Reduction::Sum, Reduction::Average][number % 2],
                        false => Reduction::Sum,
                    },
                    ranks: [2, 3, 8, 5, 1][number % 5],
                    count,
                    in_place,
                    ..LAUNCHES
                });
            }
        }
    }
    all
}

#[test]
fn buffers_in_a_window_are_right() {
    for (launches, seed) in all().into_iter().zip(1..) {
        launches.expect_right::<f32>(Emulator::new(seed, Bug::None));
        launches.expect_right::<i32>(Emulator::new(seed + 100, Bug::None).with_weak_memory());
    }
}

/// A rank has its buffers at another place of its window, or in no window.
#[test]
fn buffers_apart_are_copied() {
    for (launches, seed) in all().into_iter().zip(1..) {
        for last in [Place::Behind(128), Place::Elsewhere] {
            Launches { last, ..launches }.expect_right::<f32>(Emulator::new(seed, Bug::None));
        }
    }
}

/// If all took the lanes for registered buffers without a look at the others', this would be wrong.
#[test]
fn places_that_are_not_compared_are_found() {
    let apart = Launches {
        last: Place::Behind(128),
        ..LAUNCHES
    };
    let problems = apart.on::<i32>(Emulator::new(7, Bug::NoComparison));
    assert!(
        problems.iter().any(|it| it.contains("wrong elements")),
        "{problems:?}"
    );
    let problems = apart.on::<i32>(Emulator::new(7, Bug::None));
    assert!(problems.is_empty(), "{problems:?}");
}
