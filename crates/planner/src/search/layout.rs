//! The demand of an attempt on each link, in units of its own.
//!
//! A link of 12 GB/s carries one channel of 10, 9 or 7 GB/s: what counts is how many amounts fit,
//! not how large they are. An [`AttemptLayout`] says that for all links. Two attempts whose layouts
//! have the same key take the same steps, and each link's bandwidth left fits into a few bits,
//! which [`PackedLinks`](super::packed::Packed) uses.

use super::fingerprint::{StateFingerprint, weight};
use super::residual::PortsLeft;
use super::route_map::{RouteMap, SearchRoute};
use super::thousandths::{Amount, Thousandths};

/// The demand on a route: one of the bandwidths of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    Intra,
    Inter,
    HalfInter,
}

/// Kinds of amounts: three bandwidths times three kinds of charges.
const KINDS: usize = 9;

/// Numbers a kind of amount.
const fn kind(which: Which, charge: u8) -> usize {
    which as usize * 3 + charge as usize
}

/// The possible demand of the allowed routes on each link.
#[derive(Debug)]
pub(super) struct Uses {
    /// The links that can be the first to lack bandwidth, and those whose bandwidth shows.
    links: Vec<UsedLink>,
    /// The demand of each route on them.
    pub asks: Vec<Ask>,
    /// For each GPU its PCI link up and the one back down to it, if GPUs are sorted by what these
    /// have left.
    pub uplinks: Vec<Option<[GpuPciLink; 2]>>,
}

/// A link that is used.
#[derive(Debug)]
struct UsedLink {
    place: u32,
    /// Kinds of amounts, as bits.
    kinds: u16,
    /// GPUs are sorted by what it has left.
    shown: bool,
}

/// The demand of a route on a link.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ask {
    pub route: u32,
    /// The place of the field.
    pub field: u16,
    pub kind: u8,
}

/// A PCI link of a GPU.
#[derive(Debug, Clone, Copy)]
pub(super) struct GpuPciLink {
    pub place: u32,
    /// The place of the field, if anything is asked of the link.
    pub field: Option<u16>,
}

impl Uses {
    /// Looks through the routes that are allowed. `sorts` says that GPUs are sorted by what their
    /// PCI links have left.
    pub(super) fn new<'r>(
        route_map: &RouteMap,
        links: &Thousandths,
        allowed: impl Iterator<Item = (Which, &'r SearchRoute)>,
        sorts: bool,
    ) -> Self {
        let mut kinds = vec![0; links.len()];
        // Links that are always used together, and for the same, have the same sum.
        let mut users = vec![StateFingerprint::default(); links.len()];
        let mut asks = Vec::new();
        for (which, route) in allowed {
            for (place, charge) in links.charges(route) {
                let kind = kind(which, charge);
                kinds[place] |= 1 << kind;
                users[place].add(weight(route.number as usize * KINDS + kind), 1);
                asks.push(Ask {
                    route: route.number,
                    field: place as u16,
                    kind: kind as u8,
                });
            }
        }
        let place_of = |link: u32| links.places()[link as usize];
        let mut shown = vec![false; links.len()];
        let sorted_by = if sorts { &route_map.uplink[..] } else { &[] };
        for (up, down) in sorted_by.iter().flatten() {
            shown[place_of(*up) as usize] = true;
            shown[place_of(*down) as usize] = true;
        }
        // Only the link that has least can bind.
        let mut order: Vec<usize> = (0..links.len())
            .filter(|place| kinds[*place] != 0)
            .collect();
        order.sort_unstable_by_key(|place| (users[*place].0, links.left(*place), !shown[*place]));
        for pair in order.windows(2) {
            if users[pair[0]] == users[pair[1]] && !shown[pair[1]] {
                kinds[pair[1]] = 0;
            }
        }
        let mut fields = vec![None; links.len()];
        let mut used = Vec::new();
        for place in (0..links.len()).filter(|place| kinds[*place] != 0) {
            fields[place] = Some(used.len() as u16);
            used.push(UsedLink {
                place: place as u32,
                kinds: kinds[place],
                shown: shown[place],
            });
        }
        asks.retain_mut(|ask| match fields[usize::from(ask.field)] {
            Some(field) => {
                ask.field = field;
                true
            }
            None => false,
        });
        let end = |link| {
            let place = place_of(link);
            let field = fields[place as usize];
            GpuPciLink { place, field }
        };
        let ends = |uplink: &Option<(u32, u32)>| uplink.map(|(up, down)| [end(up), end(down)]);
        Self {
            links: used,
            asks,
            uplinks: sorted_by.iter().map(ends).collect(),
        }
    }
}

/// One link.
#[derive(Debug, Clone, Copy)]
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
pub(super) struct AttemptLayout {
    /// The links of [`Uses`].
    pub fields: Vec<Field>,
    /// Equal for attempts that take the same steps; `None` where that is unknown.
    pub key: Option<Vec<u64>>,
}

/// The amounts of an attempt.
pub(super) struct Amounts {
    pub intra: Amount,
    pub inter: Amount,
    pub half_inter: Amount,
    /// The amount that ports lose, whole GB/s.
    pub of_port: i32,
}

impl Amounts {
    /// The least that a link must have, and what is taken, by kind.
    fn amounts(&self) -> [(i32, i32); KINDS] {
        let mut amounts = [(0, 0); KINDS];
        for (at, amount) in [self.intra, self.inter, self.half_inter].iter().enumerate() {
            amounts[at * 3..at * 3 + 3].copy_from_slice(&amount.0[..3]);
        }
        amounts
    }
}

impl AttemptLayout {
    /// Lays out an attempt. `None` if some amount and some link do not go together in whole units.
    pub(super) fn new(
        links: &Thousandths,
        ports: &PortsLeft,
        uses: &Uses,
        asked: &Amounts,
    ) -> Option<Self> {
        let amounts = asked.amounts();
        let mut fields = Vec::with_capacity(uses.links.len());
        let mut key = Vec::with_capacity(2 * uses.links.len());
        for used in &uses.links {
            let field = Field::new(links.left(used.place as usize), used.kinds, &amounts)?;
            let simple = field.simplified(used.kinds);
            simple.write_key(used.kinds, &mut key);
            fields.push(if used.shown { field } else { simple });
        }
        let comparable = ports.write_key(asked.of_port, &mut key)
            && write_order_key(links, uses, &amounts, &mut key);
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
    fn new(left: i32, used: u16, amounts: &[(i32, i32); KINDS]) -> Option<Self> {
        let unit = kinds(used).fold(0, |unit, kind| gcd(unit, amounts[kind].1));
        if unit < 1 || left < 0 {
            return None;
        }
        let mut field = Self {
            left: (left / unit) as u32,
            needs: [0; KINDS],
            unit,
            rest: left % unit,
        };
        for kind in kinds(used) {
            let (least, taken) = amounts[kind];
            // Rounding may ask for a thousandth more or less than is taken. In units that makes no
            // difference, unless a link can have exactly that much left.
            if least > taken && field.rest < least - taken
                || least < taken && field.rest >= unit - (taken - least)
            {
                return None;
            }
            field.needs[kind] = ((taken / unit) as u32).min(field.left + 1);
        }
        Some(field)
    }

    /// Reduces the link to what makes a difference: the most that can be used up, and in which
    /// steps.
    fn simplified(mut self, used: u16) -> Self {
        self.left = self.most(used);
        let smallest = kinds(used).map(|kind| self.needs[kind]).min();
        // With room for one, it does not matter how much of the room it takes.
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

/// Writes what the order of GPUs by their PCI links depends on. Returns `false` if it depends on
/// the bandwidth itself.
fn write_order_key(
    links: &Thousandths,
    uses: &Uses,
    amounts: &[(i32, i32); KINDS],
    key: &mut Vec<u64>,
) -> bool {
    /// The least amount that shows in whole GB/s, thousandths.
    const SHOWS: i32 = 1000;
    let ends = || uses.uplinks.iter().flatten().flatten();
    let Some(first) = ends().next() else {
        return true;
    };
    let shown = uses.links.iter().filter(|used| used.shown);
    let asked = shown.fold(0, |all, used| all | used.kinds);
    let unit = kinds(asked).fold(0, |unit, kind| gcd(unit, amounts[kind].1));
    key.extend(kinds(asked).map(|kind| (amounts[kind].1 / unit.max(1)) as u64));
    // From the same start, the one that more units were taken of has less.
    let start = |end: &GpuPciLink| links.left(end.place as usize);
    (asked == 0 || unit >= SHOWS) && ends().all(|end| start(end) == start(first))
}

const fn gcd(mut a: i32, mut b: i32) -> i32 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
