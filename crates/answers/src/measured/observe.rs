//! Measurements as transfers over the links of a machine.

use std::collections::{BTreeMap, BTreeSet};

use planner::View;
use records::bandwidth::Direction;
use records::{Bandwidths, Measurements};
use topology::{LinkId, LinkType, NodeId, PathTable};

use super::FitQuality;
use super::fit::{Fit, Observation, Observed};

/// Most GPUs of a machine whose links are inferred.
const MOST_GPUS: usize = 256;

/// Most remarks about transfers that nothing explains, and about pairs over which no data went.
const MOST_REMARKS: usize = 4;

/// What a value of 0 is taken for, GB/s: tools print 0.00 for less.
const PRINTED_AS_ZERO: f32 = 0.005;

/// The measurements of a machine's GPUs.
#[derive(Debug)]
pub struct Observations {
    /// Those that capacities are fitted to.
    pub fitted: Vec<Observation>,
    /// What each of these is, in words.
    names: Vec<String>,
    /// All values with what measured them, for comparison.
    compared: Vec<Compared>,
    /// What was not used, and what is odd.
    pub notes: Vec<String>,
    /// Pairs that were measured, each with whether no data went over it.
    measured: BTreeMap<(usize, usize), bool>,
}

/// The values of one matrix, or all totals.
#[derive(Debug)]
struct Compared {
    test: String,
    fitted: bool,
    observations: Vec<(String, Observation)>,
}

/// The links between the GPUs of a machine.
struct Paths<'a> {
    view: &'a View,
    table: PathTable,
    /// The GPU with each number.
    gpus: Vec<Option<NodeId>>,
}

impl<'a> Paths<'a> {
    /// The widest paths, as the driver takes them whatever NCCL's settings are: never through
    /// another GPU. `None` if some link has no counterpart.
    fn new(view: &'a View) -> Option<Self> {
        let system = view.system();
        let preference = view.routing().settings().rules.path_preference();
        let mut gpus: Vec<Option<NodeId>> = Vec::new();
        for (node, gpu) in system.gpus() {
            let Ok(number) = usize::try_from(gpu.dev) else {
                continue;
            };
            if number < records::measurements::MOST_GPUS {
                if number >= gpus.len() {
                    gpus.resize(number + 1, None);
                }
                gpus[number] = gpus[number].or(Some(node));
            }
        }
        Some(Self {
            view,
            table: PathTable::compute_by(system, false, preference).ok()?,
            gpus,
        })
    }

    /// The links between two GPUs by number; `None` if the machine lacks one or a path.
    fn between(&self, from: usize, to: usize) -> Option<Vec<u32>> {
        let gpu = |number: usize| self.gpus.get(number).copied().flatten();
        let path = self.table.path(gpu(from)?, gpu(to)?);
        let system = self.view.system();
        let counts = |link: &LinkId| {
            let kind = system.link(*link).kind;
            !matches!(kind, LinkType::Loc | LinkType::Net)
        };
        let links = path.hops.iter().filter(|link| counts(link));
        let links: Vec<u32> = links.map(|link| link.0).collect();
        (!links.is_empty()).then_some(links)
    }
}

impl Observations {
    /// The measurements of a machine's GPUs.
    pub fn of(view: &View, measurements: &Measurements) -> Self {
        let mut own = Self {
            fitted: Vec::new(),
            names: Vec::new(),
            compared: Vec::new(),
            notes: Vec::new(),
            measured: BTreeMap::new(),
        };
        let unread = measurements.unread.iter();
        own.notes.extend(unread.map(|cell| {
            let line = match cell.line {
                0 => String::new(),
                line => format!("line {line}: "),
            };
            format!("{line}{cell} is no number: what it belongs to is left out")
        }));
        let Some(paths) = Paths::new(view) else {
            return own;
        };
        if view.system().gpus().count() > MOST_GPUS {
            own.notes.push(format!(
                "links of more than {MOST_GPUS} GPUs are not inferred"
            ));
            return own;
        }
        let through_host = measurements.matrices.iter();
        let through_host = through_host.filter(|it| !it.method.by_peer_access).count();
        if through_host > 0 {
            own.notes.push(format!(
                "{through_host} of {} matrices left out: without peer access the data goes through \
                 the host's memory",
                measurements.matrices.len()
            ));
        }
        let mut left_out = 0;
        let mut known = vec![BTreeSet::new(); 3];
        for (direction, known) in [Direction::One, Direction::Both, Direction::All]
            .into_iter()
            .zip(&mut known)
        {
            for matrix in widest_first(&measurements.matrices, direction) {
                own.matrix(&paths, matrix, known, &mut left_out);
            }
        }
        own.use_sums(&known[0]);
        own.totals(&paths, measurements, &mut left_out);
        own.notes.extend(own.other_gpus(&paths));
        own.notes.extend(own.dead());
        if left_out > 0 {
            own.notes.push(format!(
                "{left_out} values left out: of GPUs that the machine lacks, or that no path joins"
            ));
        }
        own
    }

    fn fit(&mut self, name: &str, observation: &Observation) {
        self.names.push(name.to_owned());
        self.fitted.push(observation.clone());
    }

    /// Adds a matrix. Pairs are fitted to the first matrix that has them.
    fn matrix(
        &mut self,
        paths: &Paths<'_>,
        matrix: &Bandwidths,
        known: &mut BTreeSet<(usize, usize)>,
        left_out: &mut usize,
    ) {
        let mut pairs: Vec<(usize, usize, f32)> = matrix.pairs().collect();
        for (from, to, value) in &mut pairs {
            let dead = self.measured.entry((*from, *to)).or_default();
            *dead |= *value == 0.0;
            *value = at_least(*value);
        }
        let mut observations = Vec::new();
        let before = self.fitted.len();
        if matrix.direction == Direction::All {
            let joined = pairs.iter().filter_map(|(from, to, value)| {
                Some((paths.between(*from, *to)?, f64::from(*value)))
            });
            let (transfers, values): (Vec<Vec<u32>>, Vec<f64>) = joined.unzip();
            *left_out += pairs.len() - transfers.len();
            let observation = Observation {
                transfers,
                value: Observed::Each(values),
            };
            if !observation.transfers.is_empty() {
                let name = "all pairs at once".to_owned();
                if known.is_empty() {
                    self.fit(&name, &observation);
                }
                known.extend(pairs.iter().map(|pair| (pair.0, pair.1)));
                observations.push((name, observation));
            }
        } else {
            for (from, to, value) in pairs {
                let Some(there) = paths.between(from, to) else {
                    *left_out += 1;
                    continue;
                };
                let back = paths.between(to, from);
                let (name, transfers, value) = match (matrix.direction, back) {
                    (Direction::Both, Some(back)) => (
                        format!("GPU{from}↔GPU{to}"),
                        vec![there, back],
                        Observed::Total(f64::from(value)),
                    ),
                    _ => (
                        format!("GPU{from}→GPU{to}"),
                        vec![there],
                        Observed::Each(vec![f64::from(value)]),
                    ),
                };
                let observation = Observation { transfers, value };
                if known.insert((from, to)) && matrix.direction == Direction::One {
                    self.fit(&name, &observation);
                }
                observations.push((name, observation));
            }
        }
        if !observations.is_empty() {
            self.compared.push(Compared {
                test: matrix.method.test.clone(),
                fitted: self.fitted.len() > before,
                observations,
            });
        }
    }

    /// Where no pair was measured in one direction, half of the sum of both is taken for each.
    fn use_sums(&mut self, one_way: &BTreeSet<(usize, usize)>) {
        if !one_way.is_empty() {
            return;
        }
        let both = |it: &&mut Compared| {
            let first = it.observations.first();
            first.is_some_and(|it| it.1.transfers.len() == 2)
        };
        let Some(compared) = self.compared.iter_mut().find(both) else {
            return;
        };
        compared.fitted = true;
        for (name, observation) in &compared.observations {
            let Observed::Total(sum) = observation.value else {
                continue;
            };
            self.names.push(name.clone());
            self.fitted.push(Observation {
                transfers: observation.transfers.clone(),
                value: Observed::Each(vec![sum / 2.0; observation.transfers.len()]),
            });
        }
        self.notes.push(
            "no pair was measured in one direction: each direction is taken for half of both"
                .to_owned(),
        );
    }

    /// Adds transfers at once of which the total is known.
    fn totals(&mut self, paths: &Paths<'_>, measurements: &Measurements, left_out: &mut usize) {
        let mut observations = Vec::new();
        for total in &measurements.totals {
            for pair in &total.transfers {
                self.measured.entry(*pair).or_default();
            }
            let links = total.transfers.iter();
            let links: Option<Vec<Vec<u32>>> =
                links.map(|(from, to)| paths.between(*from, *to)).collect();
            let Some(transfers) = links else {
                *left_out += 1;
                continue;
            };
            let observation = Observation {
                transfers,
                value: Observed::Total(f64::from(at_least(total.gbps))),
            };
            let names = total.transfers.iter().take(3);
            let names = names.map(|(from, to)| format!("GPU{from}→GPU{to}"));
            let mut name = names.collect::<Vec<_>>().join(" + ");
            if total.transfers.len() > 3 {
                name.push_str(&format!(" + {} more", total.transfers.len() - 3));
            }
            self.fit(&name, &observation);
            observations.push((name, observation));
        }
        if !observations.is_empty() {
            self.compared.push(Compared {
                test: "transfers at once, their total".to_owned(),
                fitted: true,
                observations,
            });
        }
    }

    /// A remark if other GPUs were measured than those of the machine.
    fn other_gpus(&self, paths: &Paths<'_>) -> Option<String> {
        let measured = self.measured.keys().flat_map(|(from, to)| [*from, *to]);
        let measured: BTreeSet<usize> = measured.collect();
        let known = paths.gpus.iter().enumerate().filter(|it| it.1.is_some());
        let known: BTreeSet<usize> = known.map(|it| it.0).collect();
        let ranges = |gpus: &BTreeSet<usize>| {
            let gpus: Vec<i32> = gpus.iter().map(|it| *it as i32).collect();
            plan::ranges(&gpus, ",")
        };
        (!measured.is_empty() && measured != known).then(|| {
            format!(
                "bandwidths of {} GPUs ({}), and the job has {} on this machine ({}): expected the \
                 machine that was measured",
                measured.len(),
                ranges(&measured),
                known.len(),
                ranges(&known)
            )
        })
    }

    /// Remarks about GPUs and pairs over which no data went.
    fn dead(&self) -> Vec<String> {
        let mut by_gpu: BTreeMap<usize, (usize, usize)> = BTreeMap::new();
        for ((from, to), dead) in &self.measured {
            for gpu in [from, to] {
                let (all, none) = by_gpu.entry(*gpu).or_default();
                *all += 1;
                *none += usize::from(*dead);
            }
        }
        // With one peer, nobody knows which of both it is.
        let is_dead = |gpu: usize| by_gpu.get(&gpu).is_some_and(|it| it.0 > 2 && it.0 == it.1);
        let gpus = by_gpu.keys().filter(|gpu| is_dead(**gpu));
        let gpus = gpus.map(|gpu| {
            format!("GPU{gpu}: 0.00 GB/s to and from every other GPU: it or all its links are dead")
        });
        let pairs = self.measured.iter().filter(|it| *it.1).map(|it| *it.0);
        let pairs = pairs.filter(|(from, to)| !is_dead(*from) && !is_dead(*to));
        let pairs = pairs.map(|(from, to)| format!("GPU{from}→GPU{to}: 0.00 GB/s: no data went"));
        let all: Vec<String> = gpus.chain(pairs).collect();
        let mut remarks: Vec<String> = all.iter().take(MOST_REMARKS).cloned().collect();
        if all.len() > MOST_REMARKS {
            let more = all.len() - MOST_REMARKS;
            remarks.push(format!("{more} more are dead"));
        }
        if !all.is_empty() {
            remarks.push(format!(
                "NCCL does not know it and waits on these links, which count as {PRINTED_AS_ZERO} \
                 GB/s: repair them, or leave such GPUs out of the job"
            ));
        }
        remarks
    }

    /// What the capacities give beside what was measured.
    pub fn checks(&self, fit: &Fit) -> Vec<FitQuality> {
        let check = |compared: &Compared| {
            let mut values: Vec<(String, f64, f64)> = Vec::new();
            for (name, observation) in &compared.observations {
                let predicted = fit.predicted(observation);
                match &observation.value {
                    Observed::Each(measured) => {
                        let pairs = measured.iter().zip(predicted);
                        values.extend(pairs.map(|(measured, it)| (name.clone(), *measured, it)));
                    }
                    Observed::Total(measured) => {
                        values.push((name.clone(), *measured, predicted.iter().sum()));
                    }
                }
            }
            let off = |it: &(String, f64, f64)| (it.1 / it.2.max(f64::MIN_POSITIVE) - 1.0).abs();
            values.sort_by(|one, other| off(one).total_cmp(&off(other)));
            let median = values.get(values.len() / 2).map_or(0.0, off);
            let count = values.len();
            let (worst, worst_measured_gbps, worst_expected_gbps) = values.pop()?;
            Some(FitQuality {
                test: compared.test.clone(),
                values: count,
                fitted: compared.fitted,
                median_error: median,
                worst,
                worst_measured_gbps,
                worst_expected_gbps,
            })
        };
        self.compared.iter().filter_map(check).collect()
    }

    /// Remarks about transfers that are slower than their links explain.
    pub fn unexplained(&self, fit: &Fit) -> Vec<String> {
        let mut slow = fit.unexplained.clone();
        slow.sort_by(|one, other| (one.2 / one.1).total_cmp(&(other.2 / other.1)));
        let mut notes: Vec<String> = Vec::new();
        for (at, carried, measured) in slow.iter().take(MOST_REMARKS) {
            let name = self.names.get(*at).map_or("", String::as_str);
            notes.push(format!(
                "{name}: {measured:.1} GB/s where its links carry {carried:.1} elsewhere: no capacity \
                 of a link explains it"
            ));
        }
        let alone = |at: usize| {
            self.fitted
                .get(at)
                .is_some_and(|it| it.transfers.len() == 1)
        };
        let pairs = slow.iter().filter(|it| alone(it.0)).count();
        if slow.len() > MOST_REMARKS {
            let more = slow.len() - MOST_REMARKS;
            notes.push(format!(
                "{more} more transfers are slower than their links explain"
            ));
        }
        if pairs > 0 {
            let all = (0..self.fitted.len()).filter(|at| alone(*at)).count();
            notes.push(format!(
                "{pairs} of {all} pairs alone are slower than their links explain: the machine has \
                 other paths or limits than the topology file, and these capacities are too high for them"
            ));
        }
        notes
    }
}

/// A bandwidth that was measured, GB/s.
fn at_least(gbps: f32) -> f32 {
    match gbps {
        0.0 => PRINTED_AS_ZERO,
        gbps => gbps,
    }
}

/// The matrices of a direction by peer access, the one with the greatest median first.
fn widest_first(matrices: &[Bandwidths], direction: Direction) -> Vec<&Bandwidths> {
    let own = matrices.iter();
    let own = own.filter(|it| it.direction == direction && it.method.by_peer_access);
    let median = |matrix: &&Bandwidths| {
        let mut values: Vec<f32> = matrix.pairs().map(|pair| pair.2).collect();
        values.sort_unstable_by(f32::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(0.0)
    };
    let mut own: Vec<&Bandwidths> = own.collect();
    own.sort_by(|one, other| median(other).total_cmp(&median(one)));
    own
}
