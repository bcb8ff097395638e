//! The most that rings of any bandwidths carry together: a linear program whose columns, the rings,
//! are found as they are needed (Ford and Fulkerson 1958), solved by the simplex method.
//!
//! Floating point only proposes: the lengths of links are rounded to whole numbers, and the
//! shortest walk for these proves the bound, whatever they are.

use plan::certificate::Fraction;

use super::rows::Rows;
use super::shortest::shortest;

/// Whole lengths in the length of the shortest walk.
const SCALE: f64 = (1u64 << 40) as f64;

/// Smaller numbers are taken for zero.
const NOTHING: f64 = 1e-9;

/// A bandwidth that is not worth a change, 0.1 MB/s.
const LITTLE: f64 = 1e-3;

/// Each row gets this part more, times a number of its own, so that no two bind at once.
const APART: f64 = 1e-7;

/// Most changes of the basis, and most searches for shortest walks.
const MOST_PIVOTS: usize = 4000;
const MOST_SEARCHES: usize = 60;

/// A ring: the stations that it visits and what it takes of each row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Column {
    /// The stations; a port is the first.
    pub stations: Vec<usize>,
    /// Where the last hop leads: the first station, or another port.
    pub last: usize,
    /// The load of a channel on each row.
    pub loads: Vec<u64>,
}

impl Column {
    /// A walk over stations that then goes to a last one; `None` if a hop of it is not allowed.
    pub(super) fn new(rows: &Rows, stations: Vec<usize>, last: usize) -> Option<Self> {
        Some(Self {
            loads: rows.loads_to(&stations, last)?,
            stations,
            last,
        })
    }
}

/// Rings with bandwidths of their own.
#[derive(Debug)]
pub(super) struct Relaxation {
    /// All rings that were found, those of the caller first.
    pub columns: Vec<Column>,
    /// Bandwidth of each, 0.1 MB/s.
    pub amounts: Vec<f64>,
    /// Lengths of rows with which the shortest walk is about 1 long.
    pub lengths: Vec<f64>,
    /// No rings carry more together, 0.1 MB/s.
    pub bound: Fraction,
}

/// Solves the program, beginning with these rings; `None` if there is no ring, or the numbers are
/// too large. With `crosses`, rings may leave through another port than they enter.
pub(super) fn solve(rows: &Rows, known: Vec<Column>, crosses: bool) -> Option<Relaxation> {
    let mut columns = known;
    let mut simplex = Simplex::new(rows);
    let mut bound: Option<Fraction> = None;
    let mut proof = Vec::new();
    for _ in 0..MOST_SEARCHES {
        simplex.optimize(&columns);
        let lengths = whole(&simplex.prices());
        let walks = shortest(rows, &lengths, crosses);
        // A walk of no length proves nothing, but is a ring.
        let found = of_lengths(rows, &lengths, walks.first()?.length);
        if let Some(found) = found.filter(|it| bound.is_none_or(|known| it.compare(known).is_lt()))
        {
            (bound, proof) = (Some(found), simplex.prices());
        }
        let before = columns.len();
        for walk in walks {
            if (walk.length as f64) < SCALE * (1.0 - NOTHING) {
                let column = Column::new(rows, walk.stations, walk.last)?;
                if columns.iter().all(|known| known.loads != column.loads) {
                    columns.push(column);
                }
            }
        }
        if columns.len() == before {
            break;
        }
    }
    Some(Relaxation {
        amounts: simplex.amounts(columns.len()),
        columns,
        lengths: proof,
        bound: bound?,
    })
}

/// Prices as whole lengths.
fn whole(prices: &[f64]) -> Vec<u64> {
    let whole = |price: &f64| (price * SCALE).round().max(0.0) as u64;
    prices.iter().map(whole).collect()
}

/// The sum of the links' offers at these lengths, over the least that one ring takes of it.
fn of_lengths(rows: &Rows, lengths: &[u64], shortest: u64) -> Option<Fraction> {
    let mut offered = 0u128;
    for (capacity, length) in rows.capacities.iter().zip(lengths) {
        offered = offered.checked_add(u128::from(*capacity).checked_mul((*length).into())?)?;
    }
    Fraction::new(offered, shortest.into())
}

/// The simplex method: amounts of rings, as large as possible together, on rows with capacities.
/// Column `n` is ring `n`; slack is numbered from the top.
struct Simplex {
    capacities: Vec<f64>,
    /// The inverse of the basis, row by row.
    inverse: Vec<Vec<f64>>,
    /// The columns of the basis.
    basis: Vec<Basic>,
    values: Vec<f64>,
    pivots: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Basic {
    Slack,
    Ring(usize),
}

impl Simplex {
    fn new(rows: &Rows) -> Self {
        let count = rows.capacities.len();
        let unit = |row: usize| {
            (0..count)
                .map(|at| f64::from(u8::from(at == row)))
                .collect()
        };
        let apart = |row: usize| 1.0 + APART * (row as f64 + 1.0) / count as f64;
        let capacities = rows.capacities.iter().enumerate();
        let capacities: Vec<f64> = capacities
            .map(|(row, all)| *all as f64 * apart(row))
            .collect();
        Self {
            values: capacities.clone(),
            capacities,
            inverse: (0..count).map(unit).collect(),
            basis: vec![Basic::Slack; count],
            pivots: 0,
        }
    }

    /// The price of one part of each row.
    fn prices(&self) -> Vec<f64> {
        let mut prices = vec![0.0; self.basis.len()];
        for (basic, row) in self.basis.iter().zip(&self.inverse) {
            if *basic != Basic::Slack {
                prices
                    .iter_mut()
                    .zip(row)
                    .for_each(|(price, it)| *price += it);
            }
        }
        prices
    }

    fn amounts(&self, columns: usize) -> Vec<f64> {
        let mut amounts = vec![0.0; columns];
        for (basic, value) in self.basis.iter().zip(&self.values) {
            if let Basic::Ring(column) = basic {
                amounts[*column] = value.max(0.0);
            }
        }
        amounts
    }

    /// Changes the basis until none of these rings is worth more than it takes.
    fn optimize(&mut self, columns: &[Column]) {
        while self.pivots < MOST_PIVOTS {
            self.pivots += 1;
            let prices = self.prices();
            let gain = |column: &Column| {
                let taken = column.loads.iter().zip(&prices);
                1.0 - taken.map(|(load, price)| *load as f64 * price).sum::<f64>()
            };
            let rings = columns.iter().enumerate();
            let rings = rings.map(|(at, column)| (gain(column), Basic::Ring(at), at));
            let ring = rings.max_by(|a, b| a.0.total_cmp(&b.0));
            let slacks = prices.iter().enumerate();
            let slacks =
                slacks.map(|(row, price)| (-price * self.capacities[row], Basic::Slack, row));
            let slack = || slacks.max_by(|a, b| a.0.total_cmp(&b.0));
            let ring = ring.filter(|(gain, ..)| *gain > NOTHING);
            let best = ring.or_else(|| slack().filter(|(gain, ..)| *gain > LITTLE));
            let Some((_, entering, at)) = best else {
                return;
            };
            let direction = self.direction(entering, at, columns);
            if !self.enter(entering, &direction) {
                return;
            }
        }
    }

    /// How the values in the basis change with a column.
    fn direction(&self, entering: Basic, at: usize, columns: &[Column]) -> Vec<f64> {
        let of = |row: &Vec<f64>| match entering {
            Basic::Slack => row[at],
            Basic::Ring(column) => {
                let loads = columns[column].loads.iter();
                loads.zip(row).map(|(load, it)| *load as f64 * it).sum()
            }
        };
        self.inverse.iter().map(of).collect()
    }

    /// Replaces what reaches zero first. Returns `false` if nothing does.
    fn enter(&mut self, entering: Basic, direction: &[f64]) -> bool {
        let rows = direction
            .iter()
            .enumerate()
            .filter(|(_, change)| **change > NOTHING);
        let steps = rows.map(|(row, change)| (self.values[row].max(0.0) / change, row));
        let Some((step, leaving)) = steps.min_by(|a, b| a.0.total_cmp(&b.0)) else {
            return false;
        };
        for (row, change) in direction.iter().enumerate() {
            self.values[row] -= step * change;
        }
        self.values[leaving] = step;
        self.basis[leaving] = entering;
        let pivot = direction[leaving];
        self.inverse[leaving].iter_mut().for_each(|it| *it /= pivot);
        let leaving_row = std::mem::take(&mut self.inverse[leaving]);
        for (row, change) in direction.iter().enumerate() {
            if row != leaving && *change != 0.0 {
                let pairs = self.inverse[row].iter_mut().zip(&leaving_row);
                pairs.for_each(|(it, of_leaving)| *it -= change * of_leaving);
            }
        }
        self.inverse[leaving] = leaving_row;
        true
    }
}
