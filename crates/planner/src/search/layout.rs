//! What an attempt asks of each link, in units of its own.
//!
//! A link of 12 GB/s carries one channel of 10, 9 or 7 GB/s: what counts is how many amounts fit, not how large they are.
//! A [`Layout`] says that for all links. Two attempts whose layouts have the same key walk the same way step by step, and
//! what links have left fits into a few bits each, which [`Packed`](super::packed::Packed) makes use of.

use super::fingerprint::{Fingerprint, weight};
use super::residual::PortsLeft;
use super::thousandths::{Amount, Thousandths};
use super::wiring::{Route, Wiring};

/// What is asked of a route: one of the bandwidths of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    Intra,
    Inter,
    HalfInter,
}

/// Kinds of amounts: three bandwidths times three kinds of charges.
const KINDS: usize = 9;

/// Numbers a kind of amount.
pub(super) const fn kind(which: Which, charge: u8) -> usize {
    which as usize * 3 + charge as usize
}

/// What the routes that are allowed may ask of each link.
#[derive(Debug)]
pub(super) struct Uses {
    /// For each link the kinds of amounts, as bits. Links that cannot be the first to lack bandwidth have none.
    kinds: Vec<u16>,
    /// Links whose bandwidth must be known.
    shown: Vec<bool>,
}

impl Uses {
    /// Looks through the routes that are allowed. `sorts` says that GPUs are sorted by what their PCI links have left.
    pub fn new<'r>(
        wiring: &Wiring,
        links: &Thousandths,
        allowed: impl Iterator<Item = (Which, &'r Route)>,
        sorts: bool,
    ) -> Self {
        let mut kinds = vec![0; links.len()];
        // Links that are always used together, and for the same, have the same sum.
        let mut users = vec![Fingerprint::default(); links.len()];
        for (which, route) in allowed {
            for (place, charge) in links.charges(route) {
                let kind = kind(which, charge);
                kinds[place] |= 1 << kind;
                users[place].add(weight(route.number as usize * KINDS + kind), 1);
            }
        }
        let mut shown = vec![false; links.len()];
        if sorts {
            for (up, down) in wiring.uplink.iter().flatten() {
                for link in [up, down] {
                    shown[links.places()[*link as usize] as usize] = true;
                }
            }
        }
        // The one that has least stands for all.
        let mut order: Vec<usize> = (0..links.len())
            .filter(|place| kinds[*place] != 0)
            .collect();
        order.sort_unstable_by_key(|place| (users[*place].0, links.left(*place), !shown[*place]));
        for pair in order.windows(2) {
            if users[pair[0]] == users[pair[1]] && !shown[pair[1]] {
                kinds[pair[1]] = 0;
            }
        }
        Self { kinds, shown }
    }
}

/// One link.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Field {
    /// Units left.
    pub left: u32,
    /// Units that each kind of amount takes; more than is left at first means never.
    pub needs: [u32; KINDS],
    /// Thousandths of GB/s in a unit, and what is left besides.
    pub unit: i32,
    pub rest: i32,
}

/// All links of an attempt.
#[derive(Debug)]
pub(super) struct Layout {
    /// For each link that can bind its field; a link that no route uses has no units.
    pub fields: Vec<Field>,
    /// Equal for attempts that walk the same way; `None` when that cannot be told.
    pub key: Option<Vec<u64>>,
}

/// The amounts of an attempt.
pub(super) struct Asked {
    pub intra: Amount,
    pub inter: Amount,
    pub half_inter: Amount,
    /// What is taken from ports, whole GB/s.
    pub of_port: i32,
}

impl Asked {
    /// The least that a link must have, and what is taken, by kind.
    fn amounts(&self) -> [(i32, i32); KINDS] {
        let mut amounts = [(0, 0); KINDS];
        for (at, amount) in [self.intra, self.inter, self.half_inter].iter().enumerate() {
            amounts[at * 3..at * 3 + 3].copy_from_slice(&amount.0[..3]);
        }
        amounts
    }
}

impl Layout {
    /// Lays out an attempt. `sorts` says that it sorts GPUs by what their PCI links have left. `None` if some amount and
    /// some link do not go together in whole units.
    pub fn new(
        wiring: &Wiring,
        links: &Thousandths,
        ports: &PortsLeft,
        uses: &Uses,
        asked: &Asked,
        sorts: bool,
    ) -> Option<Self> {
        let amounts = asked.amounts();
        let mut fields = Vec::with_capacity(uses.kinds.len());
        let mut key = Vec::with_capacity(2 * uses.kinds.len());
        for (place, used) in uses.kinds.iter().enumerate() {
            let left = links.left(place);
            let mut field = Field {
                rest: left,
                ..Field::default()
            };
            if *used != 0 {
                field.fill(left, *used, &amounts)?;
                let simple = field.simplified(*used);
                simple.write_key(*used, &mut key);
                if !uses.shown[place] {
                    field = simple;
                }
            }
            fields.push(field);
        }
        let comparable = ports.write_key(asked.of_port, &mut key)
            && (!sorts || write_order_key(wiring, links, uses, &amounts, &mut key));
        Some(Self {
            fields,
            key: comparable.then_some(key),
        })
    }
}

/// The kinds in a set.
fn kinds(set: u16) -> impl Iterator<Item = usize> {
    (0..KINDS).filter(move |kind| set & 1 << kind != 0)
}

impl Field {
    fn fill(&mut self, left: i32, used: u16, amounts: &[(i32, i32); KINDS]) -> Option<()> {
        let unit = kinds(used).fold(0, |unit, kind| gcd(unit, amounts[kind].1));
        if unit < 1 || left < 0 {
            return None;
        }
        (self.unit, self.rest) = (unit, left % unit);
        self.left = (left / unit) as u32;
        for kind in kinds(used) {
            let (least, taken) = amounts[kind];
            // Rounding may ask for a thousandth more or less than is taken. In units that makes no difference, unless a
            // link can have exactly that much left.
            if least > taken && self.rest < least - taken
                || least < taken && self.rest >= unit - (taken - least)
            {
                return None;
            }
            self.needs[kind] = ((taken / unit) as u32).min(self.left + 1);
        }
        Some(())
    }

    /// The same as far as it makes a difference: what can be used up at most, and in which steps.
    fn simplified(mut self, used: u16) -> Self {
        self.left = self.most(used);
        let smallest = kinds(used).map(|kind| self.needs[kind]).min();
        // With room for one, it does not matter how much of the room that takes.
        let room_for_one = smallest.is_some_and(|smallest| 2 * smallest > self.left);
        for kind in kinds(used) {
            let need = &mut self.needs[kind];
            *need = match *need {
                need if need > self.left => u32::MAX,
                _ if room_for_one => 1,
                need => need,
            };
        }
        if room_for_one {
            self.left = self.left.min(1);
        }
        for kind in kinds(used) {
            self.needs[kind] = self.needs[kind].min(self.left + 1);
        }
        self
    }

    fn write_key(&self, used: u16, key: &mut Vec<u64>) {
        key.push(u64::from(used) << 32 | u64::from(self.left));
        if used.count_ones() > 1 {
            key.extend(kinds(used).map(|kind| u64::from(self.needs[kind])));
        }
    }

    /// The most units that amounts add up to.
    fn most(&self, used: u16) -> u32 {
        if self.left >= u128::BITS {
            return self.left;
        }
        // Bit n: some amounts add up to n.
        let mut sums = 1u128;
        for kind in kinds(used) {
            let mut step = self.needs[kind];
            while step <= self.left {
                sums |= sums << step;
                step *= 2;
            }
        }
        sums &= u128::MAX >> (u128::BITS - 1 - self.left);
        u128::BITS - 1 - sums.leading_zeros()
    }
}

/// Writes what the order of GPUs by their PCI links depends on. Answers no if it depends on the bandwidth itself.
fn write_order_key(
    wiring: &Wiring,
    links: &Thousandths,
    uses: &Uses,
    amounts: &[(i32, i32); KINDS],
    key: &mut Vec<u64>,
) -> bool {
    /// What shows in whole GB/s, thousandths.
    const SHOWS: i32 = 1000;
    let places = || {
        let ends = wiring.uplink.iter().flatten();
        ends.flat_map(|(up, down)| [*up, *down])
            .map(|link| links.places()[link as usize] as usize)
    };
    let Some(first) = places().next() else {
        return true;
    };
    let all_used = places().fold(0, |all, place| all | uses.kinds[place]);
    let unit = kinds(all_used).fold(0, |unit, kind| gcd(unit, amounts[kind].1));
    key.extend(kinds(all_used).map(|kind| (amounts[kind].1 / unit.max(1)) as u64));
    // From the same start, the one that more units were taken of has less.
    unit >= SHOWS && places().all(|place| links.left(place) == links.left(first))
}

const fn gcd(mut a: i32, mut b: i32) -> i32 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
