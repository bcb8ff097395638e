//! Costs of collectives in accesses, compared with `counts.toml`. `TOPO_BLESS=1` rewrites the
//! numbers in it; its limits stay and are checked.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use device_runtime::{Kernels, LaunchOptions, ProcessRanks};
use executor::check::Check;
use executor::{Choice, Communicator, Settings};
use kernel_emulator::counts::LaunchCounts;
use kernel_emulator::{Bug, Emulator};
use program::{Collective, Protocol, Reduction, Schedule, Transfer};
use serde::{Deserialize, Serialize};

/// The expectations.
const FILE: &str = "tests/counts.toml";

/// The comment at their begin.
const HEAD: &str = "\
# Accesses of the second launch of collectives of f32, one rank per device, on the emulator.
#
# Bytes are those of all ranks per byte of the message, the longer of a rank's buffers: a direct
# all-reduce of n ranks reads n and writes n at least.
#
# read, written             loads and stores of the message's data
# memory                    both, behind the cache of each device's memory: sectors of 32 bytes, of
#                           `cache_bytes` the least recently used replaced, written at the end
# read_width, write_width   bytes of an access
# lines_written             lines of LL and LL128
# lines_in_flight           bytes of lines that a thread loads before it looks at a flag
# later_remote_loads        loads of counters and buffer tables of other devices in direct steps
#                           after a block's first
# remote_loads              such loads of all steps
# switch                    bytes that a switch reduces or stores to all
# launches                  kernels
# blocks                    blocks of all kernels
# steps                     steps of a block, on average
# end_uses                  ends of FIFOs and signals in a block's steps, on average
# end_loads                 of these, those that are read in global memory
# line_loads                bytes of lines that are loaded for each stored byte, also before they
#                           have come
";

/// The file.
#[derive(Debug, Serialize, Deserialize)]
struct File {
    case: Vec<Row>,
}

/// A case and its numbers.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    collective: String,
    /// Schedule, transfer and protocol; the default choice without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    choice: Option<[String; 3]>,
    #[serde(default)]
    piece_bytes: u32,
    ranks: u32,
    channels: u16,
    /// Elements of a block.
    count: usize,
    /// Elements between a multiple of 256 bytes and the output.
    #[serde(default)]
    offset: usize,
    /// Whether all ranks registered their buffers.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    registered: bool,
    /// Whether buffers are staged in a window.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    staged: bool,
    cache_bytes: u64,
    /// Limits of numbers.
    #[serde(default)]
    most: BTreeMap<String, f64>,
    /// Least values of numbers.
    #[serde(default)]
    least: BTreeMap<String, f64>,
    /// The numbers.
    #[serde(default)]
    is: BTreeMap<String, f64>,
}

impl Row {
    fn collective(&self) -> Collective {
        let mut all = Collective::ALL.into_iter();
        let found = all.find(|it| it.command_name() == self.collective);
        found.unwrap_or_else(|| panic!("{FILE}: no collective `{}`", self.collective))
    }

    fn choice(&self) -> Option<Choice> {
        let [schedule, transfer, protocol] = self.choice.as_ref()?;
        Some(Choice {
            schedule: schedule.parse::<Schedule>().unwrap(),
            transfer: transfer.parse::<Transfer>().unwrap(),
            protocol: protocol.parse::<Protocol>().unwrap(),
            channels: self.channels,
            piece_bytes: self.piece_bytes,
        })
    }

    /// Runs the case and counts its second launch.
    fn counts(&self) -> LaunchCounts {
        let settings = Settings {
            longest_wait: Duration::from_secs(60),
            ..Settings::default()
        };
        let devices = (0..self.ranks).collect();
        let emulator = Emulator::new(0, Bug::None).with_counts(self.cache_bytes);
        let options = LaunchOptions {
            threads: 64 + 2 * 32,
            most_blocks: 0,
            stages_in_window: self.staged,
            ..LaunchOptions::nccl()
        };
        let ranks = ProcessRanks::new(emulator, options, devices);
        let made = Communicator::local(self.ranks, &settings, |rank| {
            Kernels::new(Arc::clone(&ranks), rank)
        });
        let counted = std::sync::Barrier::new(self.ranks as usize);
        std::thread::scope(|scope| {
            for mut communicator in made.expect("there is memory") {
                let (ranks, counted) = (&ranks, &counted);
                scope.spawn(move || {
                    communicator.set_choice(self.choice());
                    let mut memory = self.memory(communicator.rank());
                    if self.registered {
                        let window = &memory[aligned(&memory)..][..memory.len() - LINE];
                        let address = window.as_ptr().addr() as u64;
                        let bytes = size_of_val(window) as u64;
                        communicator
                            .register(address, bytes)
                            .expect("it is registered");
                    }
                    self.launch(&mut communicator, &mut memory);
                    counted.wait();
                    if communicator.rank() == 0 {
                        ranks.driver.take_counts();
                    }
                    counted.wait();
                    self.launch(&mut communicator, &mut memory);
                });
            }
        });
        ranks.driver.take_counts()
    }

    fn check(&self) -> Check {
        Check {
            collective: self.collective(),
            reduction: Reduction::Sum,
            ranks: self.ranks,
            root: 0,
            count: self.count,
            seed: 1,
        }
    }

    /// Room for a rank's buffers.
    fn memory(&self, rank: u32) -> Vec<f32> {
        let check = self.check();
        let elements = check.input_elements(rank) + check.output_elements(rank);
        vec![0.0; elements + 3 * LINE + self.offset]
    }

    fn launch(&self, communicator: &mut Communicator<Kernels<Emulator>>, memory: &mut [f32]) {
        let (check, rank) = (self.check(), communicator.rank());
        let elements = check.input_elements(rank);
        let at = aligned(memory);
        let (input, memory) = memory[at..].split_at_mut(elements);
        check.fill(rank, 0, input);
        let elements = check.output_elements(rank);
        let at = aligned(memory) + self.offset;
        let output = &mut memory[at..at + elements];
        check
            .launch(communicator, (&*input, &mut *output))
            .expect("the launch ends");
        assert_eq!(check.wrong(rank, output), 0, "{self:?}");
    }

    fn numbers(&self, counts: &LaunchCounts) -> BTreeMap<String, f64> {
        let blocks = match self.collective() {
            Collective::AllReduce | Collective::Broadcast | Collective::Reduce => 1,
            _ => self.ranks as usize,
        };
        let message = (self.count * blocks * size_of::<f32>()) as f64;
        let sum = |of: fn(&kernel_emulator::counts::Counts) -> u64| counts.sum(of) as f64;
        let (read, written) = (sum(|it| it.read_bytes), sum(|it| it.written_bytes));
        let memory = sum(|it| it.cache_read_bytes) + sum(|it| it.cache_written_bytes);
        let switch = sum(|it| it.switch_read_bytes) + sum(|it| it.switch_written_bytes);
        let all = counts.devices.iter();
        let in_flight = all.map(|it| it.line_bytes_in_flight).max();
        let numbers = [
            ("read", read / message),
            ("written", written / message),
            ("memory", memory / message),
            ("read_width", read / sum(|it| it.reads).max(1.0)),
            ("write_width", written / sum(|it| it.writes).max(1.0)),
            ("lines_written", sum(|it| it.line_written_bytes) / message),
            ("lines_in_flight", in_flight.unwrap_or(0) as f64),
            (
                "later_remote_loads",
                sum(|it| it.later_remote_control_loads),
            ),
            ("remote_loads", sum(|it| it.remote_control_loads)),
            ("switch", switch / message),
            ("launches", counts.launches as f64),
            ("blocks", counts.blocks as f64),
            ("steps", sum(|it| it.steps) / counts.blocks.max(1) as f64),
            (
                "end_uses",
                sum(|it| it.end_uses) / counts.blocks.max(1) as f64,
            ),
            (
                "end_loads",
                sum(|it| it.end_loads) / counts.blocks.max(1) as f64,
            ),
            (
                "line_loads",
                sum(|it| it.line_read_bytes) / sum(|it| it.line_written_bytes).max(1.0),
            ),
        ];
        let said = numbers.into_iter().filter(|(_, it)| *it != 0.0);
        said.map(|(name, it)| (name.to_owned(), (it * 1000.0).round() / 1000.0))
            .collect()
    }
}

/// Elements of 256 bytes.
const LINE: usize = 64;

/// The first element at a multiple of 256 bytes.
fn aligned(elements: &[f32]) -> usize {
    let over = elements.as_ptr().addr() % 256;
    (256 - over) % 256 / size_of::<f32>()
}

#[test]
fn accesses_are_as_expected() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE);
    let text = fs::read_to_string(&path).expect("the file is there");
    let mut file: File = toml::from_str(&text).expect("the file is TOML of cases");
    let bless = std::env::var_os("TOPO_BLESS").is_some_and(|bless| bless == "1");
    let mut problems = Vec::new();
    for row in &mut file.case {
        let counts = row.counts();
        println!(
            "{} {} ranks: {}",
            row.collective,
            row.ranks,
            counts.to_json()
        );
        let numbers = row.numbers(&counts);
        let number = |name: &String| numbers.get(name).copied().unwrap_or(0.0);
        let name = format!(
            "{} of {} × {} {:?}",
            row.collective, row.ranks, row.count, row.choice
        );
        for (limit, most) in &row.most {
            if number(limit) > *most {
                let is = number(limit);
                problems.push(format!("{name}: {limit} {is}, expected at most {most}"));
            }
        }
        for (limit, least) in &row.least {
            if number(limit) < *least {
                let is = number(limit);
                problems.push(format!("{name}: {limit} {is}, expected at least {least}"));
            }
        }
        if !bless && numbers != row.is {
            problems.push(format!("{name}: {numbers:?}, expected {:?}", row.is));
        }
        row.is = numbers;
    }
    if bless {
        let text = toml::to_string(&file).expect("the cases are TOML");
        fs::write(&path, format!("{HEAD}\n{text}")).expect("the file can be written");
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
