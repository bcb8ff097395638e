//! Vector clocks: which steps are ordered by their lane, by FIFO slots and by signals.
//!
//! A wait for room in a FIFO orders nothing here, because the proof must hold for every depth.

use std::rc::Rc;

/// The clock of a lane when it sent a slot or a signal: steps done per lane.
pub(super) type KnownSteps = Option<Rc<[u32]>>;

/// A step of a lane, counted over all turns from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Epoch {
    pub lane: u32,
    pub clock: u32,
}

/// The clocks of all lanes; `None` if no accesses can race.
#[derive(Debug)]
pub(super) struct Clocks {
    lanes: Option<Vec<Vec<u32>>>,
}

impl Clocks {
    pub(super) fn new(lanes: usize, needed: bool) -> Self {
        let clock = |lane: usize| {
            let mut clock = vec![0; lanes];
            // The beginning of the launch counts as a step.
            clock[lane] = 1;
            clock
        };
        Self {
            lanes: needed.then(|| (0..lanes).map(clock).collect()),
        }
    }

    /// A lane takes its next step.
    pub(super) fn tick(&mut self, lane: u32) {
        if let Some(lanes) = &mut self.lanes {
            lanes[lane as usize][lane as usize] += 1;
        }
    }

    /// A lane merges a clock that it received.
    pub(super) fn learn(&mut self, lane: u32, known: &KnownSteps) {
        if let (Some(lanes), Some(known)) = (&mut self.lanes, known) {
            let clock = &mut lanes[lane as usize];
            for (own, known) in clock.iter_mut().zip(known.iter()) {
                *own = (*own).max(*known);
            }
        }
    }

    /// The clock of a lane, to be sent along.
    pub(super) fn known(&self, lane: u32) -> KnownSteps {
        let lanes = self.lanes.as_ref()?;
        Some(Rc::from(lanes[lane as usize].as_slice()))
    }

    /// The current step of a lane; `None` if no accesses can race.
    pub(super) fn now(&self, lane: u32) -> Option<Epoch> {
        let lanes = self.lanes.as_ref()?;
        let clock = lanes[lane as usize][lane as usize];
        Some(Epoch { lane, clock })
    }

    /// Whether a step is ordered before the current step of a lane.
    pub(super) fn before(&self, earlier: Epoch, lane: u32) -> bool {
        self.lanes
            .as_ref()
            .is_none_or(|lanes| lanes[lane as usize][earlier.lane as usize] >= earlier.clock)
    }
}
