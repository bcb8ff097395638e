//! The place of each lane in its program, and what it waited for.

use crate::model::{Model, Shape};
use crate::outcome::{LaneTimes, Need};
use crate::path::Path;
use crate::units::Time;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before its start.
    Asleep,
    /// Between two steps.
    Waiting,
    /// In a step, with so many transfers that have not ended.
    Running(u32),
    Done,
}

/// One lane.
#[derive(Debug, Clone)]
pub(crate) struct LaneState {
    state: State,
    /// The next step in the shape's list, and the turns that are left.
    at: u32,
    turns: u64,
    missing: Option<Need>,
    /// Since when the lane is in its step, or waits.
    since: Time,
    path: Path,
    times: LaneTimes,
}

impl LaneState {
    /// The time of the lane by activity.
    pub(crate) const fn times(&self) -> LaneTimes {
        self.times
    }
}

/// The next step of a lane.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NextStep {
    /// Its place in the shape's list.
    pub number: u32,
    pub bytes: u64,
    pub work: u64,
    pub uses: (u32, u32),
}

/// All lanes.
#[derive(Debug)]
pub(crate) struct Lanes(Vec<LaneState>);

impl Lanes {
    /// All lanes before their first steps.
    pub(crate) fn new(model: &Model) -> Self {
        let state = |shape: &Shape| LaneState {
            state: State::Asleep,
            at: if shape.turns == 0 && shape.marks[0] == 0 {
                shape.marks[1]
            } else {
                0
            },
            turns: shape.turns,
            missing: None,
            since: Time::ZERO,
            path: Path::default(),
            times: LaneTimes::default(),
        };
        let shapes = model.lanes.iter().map(|lane| lane.shape as usize);
        Self(shapes.map(|shape| state(&model.shapes[shape])).collect())
    }

    fn of(&mut self, lane: u32) -> &mut LaneState {
        &mut self.0[lane as usize]
    }

    /// The lane may begin.
    pub(crate) fn start(&mut self, lane: u32, now: Time) {
        let state = self.of(lane);
        state.state = State::Waiting;
        state.since = now;
    }

    /// Whether the lane is between two steps.
    pub(crate) fn is_waiting(&self, lane: u32) -> bool {
        self.0[lane as usize].state == State::Waiting
    }

    /// The step that the lane is in or waits for; `None` after the last.
    pub(crate) fn next(&self, model: &Model, lane: u32) -> Option<NextStep> {
        let shape = &model.shapes[model.lanes[lane as usize].shape as usize];
        let number = self.0[lane as usize].at;
        let step = shape.steps.get(number as usize)?;
        Some(NextStep {
            number,
            bytes: step.bytes,
            work: step.work,
            uses: step.uses,
        })
    }

    /// The lane lacks something.
    pub(crate) fn wait(&mut self, lane: u32, missing: Need, now: Time) {
        let state = self.of(lane);
        state.waited(now);
        state.missing = Some(missing);
    }

    /// The lane begins its step.
    pub(crate) fn begin(&mut self, lane: u32, path: Path, now: Time) {
        let state = self.of(lane);
        state.waited(now);
        state.missing = None;
        state.state = State::Running(0);
        state.path = path;
    }

    /// A transfer of the lane's step began.
    pub(crate) fn add_pending(&mut self, lane: u32) {
        if let State::Running(pending) = &mut self.of(lane).state {
            *pending += 1;
        }
    }

    /// Transfers of the lane's step that have not ended.
    pub(crate) fn pending(&self, lane: u32) -> u32 {
        match self.0[lane as usize].state {
            State::Running(pending) => pending,
            State::Asleep | State::Waiting | State::Done => 0,
        }
    }

    /// A transfer of the lane's step ended. Returns how many have not.
    pub(crate) fn transferred(&mut self, lane: u32) -> u32 {
        if let State::Running(pending) = &mut self.of(lane).state {
            *pending -= 1;
        }
        self.pending(lane)
    }

    /// The chain of events that let the lane's step begin or end last.
    pub(crate) fn path(&self, lane: u32) -> Path {
        self.0[lane as usize].path
    }

    /// Sets that chain.
    pub(crate) fn set_path(&mut self, lane: u32, path: Path) {
        self.of(lane).path = path;
    }

    /// When the lane's step began.
    pub(crate) fn since(&self, lane: u32) -> Time {
        self.0[lane as usize].since
    }

    /// The lane's step is over.
    pub(crate) fn complete(&mut self, model: &Model, lane: u32, now: Time) {
        let shape = &model.shapes[model.lanes[lane as usize].shape as usize];
        let state = self.of(lane);
        state.times.busy = state.times.busy + (now - state.since);
        state.since = now;
        state.state = State::Waiting;
        state.at += 1;
        if state.at == shape.marks[0] && state.turns == 0 {
            state.at = shape.marks[1];
        } else if state.at == shape.marks[1] && state.turns > 0 {
            state.turns -= 1;
            if state.turns > 0 {
                state.at = shape.marks[0];
            }
        }
    }

    /// The lane has no more steps.
    pub(crate) fn finish(&mut self, lane: u32, now: Time) {
        let state = self.of(lane);
        state.state = State::Done;
        state.times.end = now;
    }

    /// The first lane that is not done, and what it lacks.
    pub(crate) fn first_stuck(&self) -> Option<(u32, Option<Need>)> {
        let mut lanes = self.0.iter().zip(0..);
        lanes.find_map(|(lane, number)| {
            (lane.state != State::Done).then_some((number, lane.missing))
        })
    }

    /// All lanes.
    pub(crate) fn states(&self) -> &[LaneState] {
        &self.0
    }
}

impl LaneState {
    /// Counts the time since the lane began to wait.
    fn waited(&mut self, now: Time) {
        let time = now - self.since;
        self.since = now;
        let total = match self.missing {
            None => return,
            Some(Need::Data(_)) => &mut self.times.data,
            Some(Need::Slot(_)) => &mut self.times.slot,
            Some(Need::Signal(_)) => &mut self.times.signal,
        };
        *total = *total + time;
    }
}
