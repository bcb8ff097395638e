//! Jobs of many ranks with one planted fault: programs of ranks, run until nothing moves, written
//! as PyTorch's C++ code writes flight recorders. It shares no code with the readers.

use std::collections::HashMap;

/// A group, the two ranks of a transfer, and the number of the call.
type Meeting = (usize, Option<(usize, usize)>, u64);

/// A group of the job, with ranks in order.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    pub name: String,
    pub description: &'static str,
    pub ranks: Vec<usize>,
}

/// A call of a rank.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    pub group: usize,
    pub function: String,
    pub size: u64,
    pub dtype: &'static str,
    /// The sender and receiver of a point-to-point call.
    pub pair: Option<(usize, usize)>,
}

/// A job: what each rank calls, and where it stops.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub groups: Vec<Group>,
    pub programs: Vec<Vec<Call>>,
    /// By rank the call before which its program stops.
    pub program_stops: Vec<usize>,
    /// By rank the call that its GPU never starts.
    pub gpu_stops: Vec<usize>,
    /// The calls that never end, though all ranks are in them.
    pub stalls: Option<(usize, usize)>,
    /// Ranks without a recorder.
    pub silent: Vec<usize>,
    /// Calls that a program makes before it waits for the first.
    pub ahead: usize,
    /// Calls that a recorder keeps.
    pub kept: usize,
    /// Groups of one rank that name other ranks: rank, group, its ranks.
    pub other_lists: Vec<(usize, usize, Vec<usize>)>,
}

/// A small generator of numbers that look random.
#[derive(Debug, Clone)]
pub(crate) struct Dice(pub u64);

impl Dice {
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % end.max(1)
    }
}

impl Job {
    /// A healthy job: rows of `width` ranks, columns across them, and the group of all ranks.
    pub(crate) fn new(ranks: usize, width: usize, steps: usize, dice: &mut Dice) -> Self {
        let mut groups = vec![Group {
            name: "0".to_owned(),
            description: "default_pg",
            ranks: (0..ranks).collect(),
        }];
        let mut row_of = vec![0; ranks];
        let mut column_of = vec![0; ranks];
        for row in 0..ranks / width {
            groups.push(Group {
                name: format!("{}", groups.len()),
                description: "tensor_parallel",
                ranks: (row * width..(row + 1) * width).collect(),
            });
            (row * width..(row + 1) * width).for_each(|it| row_of[it] = groups.len() - 1);
        }
        for column in 0..width {
            groups.push(Group {
                name: format!("{}", groups.len()),
                description: "data_parallel",
                ranks: (0..ranks / width).map(|row| row * width + column).collect(),
            });
            (0..ranks / width).for_each(|row| column_of[row * width + column] = groups.len() - 1);
        }
        let hidden = 1024 * (1 + dice.below(8)) as u64;
        let mut programs = vec![Vec::new(); ranks];
        for step in 0..steps {
            for (rank, program) in programs.iter_mut().enumerate() {
                let (row, column) = (row_of[rank], column_of[rank]);
                let call = |group: usize, function: &str, size: u64| Call {
                    group,
                    function: function.to_owned(),
                    size,
                    dtype: "BFloat16",
                    pair: None,
                };
                program.push(call(row, "_all_gather_base", hidden));
                program.push(call(row, "all_reduce", 4 * hidden));
                // Each row sends to the next one.
                let place = rank / width;
                let rows = ranks / width;
                if rows > 1 {
                    let (next, previous) = (rank + width, rank.wrapping_sub(width));
                    let pair = |from: usize, to: usize, function: String| Call {
                        pair: Some((from, to)),
                        ..call(0, &function, hidden)
                    };
                    if place > 0 {
                        program.push(pair(previous, rank, format!("recv {rank}<-{previous}")));
                    }
                    if place + 1 < rows {
                        program.push(pair(rank, next, format!("send {rank}->{next}")));
                    }
                }
                program.push(call(row, "_reduce_scatter_base", 8 * hidden));
                program.push(call(column, "all_reduce", 16 * hidden));
                program.push(call(
                    0,
                    if step % 2 == 0 {
                        "all_reduce"
                    } else {
                        "broadcast"
                    },
                    1,
                ));
                program.push(call(0, "_all_gather_base", hidden / 2));
            }
        }
        Self {
            groups,
            program_stops: vec![usize::MAX; ranks],
            gpu_stops: vec![usize::MAX; ranks],
            stalls: None,
            programs,
            silent: Vec::new(),
            ahead: 12,
            kept: usize::MAX,
            other_lists: Vec::new(),
        }
    }

    /// The number of each call in its group, by rank and call.
    pub(crate) fn numbers(&self) -> Vec<Vec<u64>> {
        let of = |program: &Vec<Call>| {
            let mut counts: HashMap<(usize, bool), u64> = HashMap::new();
            let number = |call: &Call| {
                let count = counts.entry((call.group, call.pair.is_some())).or_default();
                *count += 1;
                *count
            };
            program.iter().map(number).collect()
        };
        self.programs.iter().map(of).collect()
    }

    /// Runs the programs until nothing moves. Returns how many calls each rank finished.
    pub(crate) fn run(&self) -> Vec<usize> {
        let numbers = self.numbers();
        let ranks = self.programs.len();
        let mut done = vec![0; ranks];
        let mut arrived: HashMap<Meeting, Vec<usize>> = HashMap::new();
        let mut pairs: HashMap<(usize, (usize, usize)), u64> = HashMap::new();
        let mut ready: Vec<usize> = (0..ranks).collect();
        while let Some(rank) = ready.pop() {
            let at = done[rank];
            if at >= self.programs[rank].len()
                || at >= self.program_stops[rank]
                || at >= self.gpu_stops[rank]
            {
                continue;
            }
            let call = &self.programs[rank][at];
            let number = match call.pair {
                // The n-th call of this rank for this pair.
                Some(pair) => {
                    let count = pairs.entry((rank, pair)).or_default();
                    *count += 1;
                    *count
                }
                None => numbers[rank][at],
            };
            let key = (call.group, call.pair, number);
            let here = arrived.entry(key).or_default();
            here.push(rank);
            let needed = call.pair.map_or(self.groups[call.group].ranks.len(), |_| 2);
            let is_equal = |it: &usize| {
                let other = &self.programs[*it][done[*it]];
                call.pair.is_some()
                    || (other.function == call.function
                        && other.size == call.size
                        && other.dtype == call.dtype)
            };
            let differs = self.other_lists.iter().any(|it| it.1 == call.group);
            let is_stalled = self.stalls == Some((rank, at))
                || here.iter().any(|it| self.stalls == Some((*it, done[*it])));
            if here.len() == needed && here.iter().all(is_equal) && !is_stalled && !differs {
                for member in std::mem::take(here) {
                    done[member] += 1;
                    ready.push(member);
                }
            }
        }
        done
    }

    /// The recorder of each rank, pickled; `age`: ns between the last call and the newest time.
    pub(crate) fn recorders(&self) -> Vec<(usize, Vec<u8>)> {
        let (numbers, done) = (self.numbers(), self.run());
        let all = (0..self.programs.len()).filter(|rank| !self.silent.contains(rank));
        all.map(|rank| {
            let program = &self.programs[rank];
            let called = (done[rank] + self.ahead)
                .min(program.len())
                .min(self.program_stops[rank]);
            let first = called.saturating_sub(self.kept);
            let mut pickle = Pickler::new();
            pickle.dictionary(|it| {
                it.text("version");
                it.text("2.10");
                it.text("pg_config");
                it.dictionary(|it| self.config(rank, it));
                it.text("entries");
                it.list(|it| {
                    let numbers = numbers[rank].iter().enumerate().take(called).skip(first);
                    for (at, number) in numbers {
                        self.entry(rank, at, *number, done[rank], it);
                    }
                });
            });
            (rank, pickle.finish())
        })
        .collect()
    }

    fn config(&self, rank: usize, pickle: &mut Pickler) {
        for (place, group) in self.groups.iter().enumerate() {
            let other = self
                .other_lists
                .iter()
                .find(|it| it.0 == rank && it.1 == place);
            let ranks = other.map_or(&group.ranks, |it| &it.2);
            if !group.ranks.contains(&rank) {
                continue;
            }
            pickle.text(&group.name);
            pickle.dictionary(|it| {
                it.text("name");
                it.text(&group.name);
                it.text("desc");
                it.text(group.description);
                it.text("ranks");
                let ranks: Vec<String> = ranks.iter().map(ToString::to_string).collect();
                it.text(&format!("[{}]", ranks.join(", ")));
            });
        }
    }

    fn entry(&self, rank: usize, at: usize, number: u64, done: usize, pickle: &mut Pickler) {
        let call = &self.programs[rank][at];
        let group = &self.groups[call.group];
        let state = match at {
            at if at < done => "completed",
            at if at == done && at < self.gpu_stops[rank] => "started",
            _ => "scheduled",
        };
        pickle.dictionary(|it| {
            it.text("frames");
            it.list(|it| {
                it.dictionary(|it| {
                    it.text("name");
                    it.text("train_step");
                    it.text("filename");
                    it.text("/home/user/train.py");
                    it.text("line");
                    it.int(100 + at as i64 % 8);
                });
            });
            it.text("record_id");
            it.int(at as i64);
            it.text("pg_id");
            it.int(call.group as i64);
            it.text("process_group");
            it.pair(&group.name, group.description);
            it.text("collective_seq_id");
            it.int(if call.pair.is_some() {
                0
            } else {
                number as i64
            });
            it.text("p2p_seq_id");
            it.int(if call.pair.is_some() {
                number as i64
            } else {
                0
            });
            it.text("op_id");
            it.int(at as i64 + 1);
            it.text("profiling_name");
            it.text(&format!("nccl:{}", call.function));
            it.text("time_created_ns");
            it.int(1_700_000_000_000_000_000 + at as i64 * 1_000_000);
            it.text("input_sizes");
            it.list(|it| it.list(|it| it.int(call.size as i64)));
            it.text("input_dtypes");
            it.list(|it| it.text(call.dtype));
            it.text("output_sizes");
            it.list(|it| it.list(|it| it.int(call.size as i64)));
            it.text("output_dtypes");
            it.list(|it| it.text(call.dtype));
            it.text("state");
            it.text(state);
            it.text("time_discovered_started_ns");
            it.none();
            it.text("time_discovered_completed_ns");
            it.none();
            it.text("retired");
            it.truth(state == "completed");
            it.text("timeout_ms");
            it.int(600_000);
            it.text("is_p2p");
            it.truth(call.pair.is_some());
        });
    }
}

/// Writes pickles of protocol 2, as PyTorch's C++ code does: each text is remembered when it is
/// first written, and later fetched.
pub(crate) struct Pickler {
    bytes: Vec<u8>,
    memo: HashMap<String, usize>,
    remembered: usize,
}

impl Pickler {
    pub(crate) fn new() -> Self {
        Self {
            bytes: vec![0x80, 2],
            memo: HashMap::new(),
            remembered: 0,
        }
    }

    fn remember(&mut self) -> usize {
        let number = self.remembered;
        self.remembered += 1;
        match u8::try_from(number) {
            Ok(short) => self.bytes.extend([b'q', short]),
            Err(_) => {
                self.bytes.push(b'r');
                self.bytes.extend((number as u32).to_le_bytes());
            }
        }
        number
    }

    pub(crate) fn text(&mut self, text: &str) {
        if let Some(&number) = self.memo.get(text) {
            match u8::try_from(number) {
                Ok(short) => self.bytes.extend([b'h', short]),
                Err(_) => {
                    self.bytes.push(b'j');
                    self.bytes.extend((number as u32).to_le_bytes());
                }
            }
            return;
        }
        self.bytes.push(b'X');
        self.bytes.extend((text.len() as u32).to_le_bytes());
        self.bytes.extend(text.as_bytes());
        let number = self.remember();
        self.memo.insert(text.to_owned(), number);
    }

    pub(crate) fn int(&mut self, number: i64) {
        if let Ok(small) = u8::try_from(number) {
            self.bytes.extend([b'K', small]);
        } else if let Ok(small) = i32::try_from(number) {
            self.bytes.push(b'J');
            self.bytes.extend(small.to_le_bytes());
        } else {
            self.bytes.extend([0x8a, 8]);
            self.bytes.extend(number.to_le_bytes());
        }
    }

    fn none(&mut self) {
        self.bytes.push(b'N');
    }

    fn truth(&mut self, value: bool) {
        self.bytes.push(if value { 0x88 } else { 0x89 });
    }

    fn pair(&mut self, first: &str, second: &str) {
        self.text(first);
        self.text(second);
        self.bytes.push(0x86);
        self.remember();
    }

    pub(crate) fn list(&mut self, items: impl FnOnce(&mut Self)) {
        self.bytes.push(b']');
        self.remember();
        self.bytes.push(b'(');
        items(self);
        self.bytes.push(b'e');
    }

    pub(crate) fn dictionary(&mut self, items: impl FnOnce(&mut Self)) {
        self.bytes.push(b'}');
        self.remember();
        self.bytes.push(b'(');
        items(self);
        self.bytes.push(b'u');
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.bytes.push(b'.');
        self.bytes
    }
}
