//! Runs a model: lanes execute their steps, transfers share links, time jumps from event to event.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::flows::Flows;
use crate::lanes::{LaneState, Lanes};
use crate::model::{Connection, Model, Transport, Use};
use crate::outcome::{Deadlock, LaneTimes, Need, Outcome, Span, SpanContent};
use crate::path::{Cause, Path};
use crate::units::Time;

/// An event at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    /// A lane begins.
    Start(u32),
    /// A slot or signal is seen by its receiver; the second is the place of its path.
    Arrive(u32, u32),
}

/// An event in the order of time; of events at one time, the one that was told first.
#[derive(Debug, Clone, Copy)]
struct TimedEvent {
    at: Time,
    number: u64,
    event: Event,
}

impl TimedEvent {
    const fn key(&self) -> (Time, u64) {
        (self.at, self.number)
    }
}

impl PartialEq for TimedEvent {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for TimedEvent {}

impl PartialOrd for TimedEvent {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for TimedEvent {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

/// Slots of a connection.
#[derive(Debug, Clone, Copy, Default)]
struct Slots {
    /// Slots of the sender that are filled or being filled.
    filled: u32,
    /// Slots of the receiver's window that are taken.
    window: u32,
    /// Slots that arrived and were not received.
    arrived: u32,
    /// Filled slots that wait for the network, oldest first, as places of `Run::waiting`.
    first_waiting: u32,
    waiting: u32,
    /// Whether the network sends one now.
    sending: bool,
    /// When it began, or the step of a direct transfer.
    since: Time,
    /// Data bytes of the slot.
    bytes: u64,
}

/// Most filled slots of a connection that wait for the network.
const MOST_WAITING: u32 = 64;

struct Run<'a> {
    model: &'a Model,
    flows: Flows,
    lanes: Lanes,
    slots: Vec<Slots>,
    /// Bytes of the slots that wait for the network, [`MOST_WAITING`] for each connection over it.
    waiting: Vec<u64>,
    /// For each connection its place in `waiting` and in `sent`.
    network: Vec<u32>,
    /// The path of the latest transfer over each network connection.
    sent: Vec<Path>,
    events: BinaryHeap<Reverse<TimedEvent>>,
    numbered: u64,
    now: Time,
    /// Paths of slots that have not arrived, and free places among them.
    paths: Vec<Path>,
    free: Vec<u32>,
    /// Lanes that may begin their next step, and why.
    ready: Vec<(u32, Path)>,
    link_bytes: Vec<u64>,
    trace: Vec<Span>,
    trace_limit: usize,
    untraced: u64,
    end: Path,
    handled: u64,
}

impl Model {
    /// Runs all lanes to their ends. `spans` is the largest number of spans to record.
    ///
    /// # Errors
    /// Lanes wait for each other for ever.
    pub fn run(&self, spans: usize) -> Result<Outcome, Deadlock> {
        let mut run = Run::new(self, spans);
        run.all();
        run.outcome()
    }
}

impl<'a> Run<'a> {
    fn new(model: &'a Model, spans: usize) -> Self {
        let mut networks = 0;
        let network = model.connections.iter().map(|connection| {
            if matches!(connection.transport, Transport::Network { .. }) {
                networks += 1;
                networks - 1
            } else {
                u32::MAX
            }
        });
        let network: Vec<u32> = network.collect();
        let mut run = Self {
            model,
            flows: Flows::new(model),
            lanes: Lanes::new(model),
            slots: vec![Slots::default(); model.connections.len()],
            waiting: vec![0; networks as usize * MOST_WAITING as usize],
            network,
            sent: vec![Path::default(); networks as usize],
            events: BinaryHeap::new(),
            numbered: 0,
            now: Time::ZERO,
            paths: Vec::new(),
            free: Vec::new(),
            ready: Vec::new(),
            link_bytes: vec![0; model.links.len()],
            trace: Vec::new(),
            trace_limit: spans,
            untraced: 0,
            end: Path::default(),
            handled: 0,
        };
        for (lane, number) in model.lanes.iter().zip(0..) {
            run.at(lane.start, Event::Start(number));
        }
        run
    }

    fn at(&mut self, at: Time, event: Event) {
        let number = self.numbered;
        self.numbered += 1;
        self.events.push(Reverse(TimedEvent { at, number, event }));
    }

    fn all(&mut self) {
        loop {
            let event = self.events.peek().map(|next| next.0.at);
            let end = self.flows.next();
            let next = event.into_iter().chain(end).min();
            // Rates count for all that happens at one time, and need not be known before.
            if next != Some(self.now) && self.flows.is_unsettled() {
                self.flows.settle(self.now);
                continue;
            }
            let Some(next) = next else {
                return;
            };
            self.now = next;
            if end == Some(next) {
                if let Some((connection, limit)) = self.flows.end_next(next) {
                    self.handled += 1;
                    self.transferred(connection, limit);
                }
            } else if let Some(Reverse(TimedEvent { event, .. })) = self.events.pop() {
                self.handled += 1;
                self.handle(event);
            }
            while let Some((lane, path)) = self.ready.pop() {
                self.advance(lane, path);
            }
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Start(lane) => {
                self.lanes.start(lane, self.now);
                let path = Path::default().and(Cause::Start, self.now);
                self.ready.push((lane, path));
            }
            Event::Arrive(connection, place) => {
                self.free.push(place);
                let path = self.paths[place as usize];
                self.slots[connection as usize].arrived += 1;
                let receiver = self.model.connections[connection as usize].receiver;
                self.wake(receiver, path);
            }
        }
    }

    fn wake(&mut self, lane: u32, path: Path) {
        if self.lanes.is_waiting(lane) {
            self.ready.push((lane, path));
        }
    }

    /// Begins the next step of a lane if nothing is missing, and those after it that take no time.
    fn advance(&mut self, lane: u32, path: Path) {
        if !self.lanes.is_waiting(lane) {
            return;
        }
        let Some(step) = self.lanes.next(self.model, lane) else {
            self.lanes.finish(lane, self.now);
            if path.total() >= self.end.total() {
                self.end = path;
            }
            return;
        };
        if let Some(missing) = self.missing(lane, step.uses) {
            self.lanes.wait(lane, missing, self.now);
            return;
        }
        self.lanes.begin(lane, path, self.now);
        self.begin(lane, step.bytes, step.work, step.uses);
        if self.lanes.pending(lane) == 0 {
            self.complete(lane);
        }
    }

    fn ends(&self, lane: u32) -> &'a [u32] {
        self.model.ends_of(&self.model.lanes[lane as usize])
    }

    /// The uses of a step, with the connections.
    fn uses(&self, lane: u32, uses: (u32, u32)) -> impl Iterator<Item = (Use, u32)> + use<'a> {
        let ends = self.ends(lane);
        let shape = &self.model.shapes[self.model.lanes[lane as usize].shape as usize];
        let uses = &shape.uses[uses.0 as usize..uses.1 as usize];
        uses.iter()
            .map(move |(kind, end)| (*kind, ends[*end as usize]))
    }

    fn missing(&self, lane: u32, uses: (u32, u32)) -> Option<Need> {
        self.uses(lane, uses).find_map(|(kind, connection)| {
            let slots = &self.slots[connection as usize];
            let (fails, missing) = match kind {
                Use::Receive => (slots.arrived == 0, Need::Data(connection)),
                Use::Wait => (slots.arrived == 0, Need::Signal(connection)),
                Use::Send => {
                    let slots_of = self.model.connections[connection as usize].slots;
                    (slots.filled >= slots_of, Need::Slot(connection))
                }
                Use::Notify | Use::Access => return None,
            };
            fails.then_some(missing)
        })
    }

    fn begin(&mut self, lane: u32, bytes: u64, work: u64, uses: (u32, u32)) {
        for (kind, connection) in self.uses(lane, uses) {
            let link = &self.model.connections[connection as usize];
            match (kind, link.transport) {
                (Use::Send, Transport::Direct) => {
                    self.slots[connection as usize].filled += 1;
                    self.transfer(connection, bytes);
                    self.lanes.add_pending(lane);
                }
                (Use::Send, _) => self.slots[connection as usize].filled += 1,
                (Use::Access, _) => {
                    self.transfer(connection, bytes);
                    self.lanes.add_pending(lane);
                }
                _ => {}
            }
        }
        if let Some(connection) = self.model.lanes[lane as usize].work
            && work > 0
        {
            self.transfer(connection, work);
            self.lanes.add_pending(lane);
        }
    }

    fn transfer(&mut self, connection: u32, bytes: u64) {
        let link = &self.model.connections[connection as usize];
        let wire = link.wire_bytes(bytes);
        for (at, weight) in self.model.route(link) {
            self.link_bytes[*at as usize] += wire * u64::from(*weight);
        }
        let slots = &mut self.slots[connection as usize];
        (slots.since, slots.bytes) = (self.now, wire);
        self.flows.begin(connection, wire, self.now);
    }

    /// The path with the transfer that just ended, which a link limited.
    fn after_transfer(
        &self,
        path: Path,
        connection: &Connection,
        slots: &Slots,
        limit: Option<u32>,
    ) -> Path {
        let took = self.now - slots.since;
        let (rate, kind) = self.model.alone(connection);
        let kind = limit.map_or(kind, |link| self.model.links[link as usize].kind);
        let alone = rate.time(slots.bytes).min(took);
        path.and(Cause::of(kind), took).and_shared(took - alone)
    }

    fn transferred(&mut self, number: u32, limit: Option<u32>) {
        let connection = &self.model.connections[number as usize];
        let slots = self.slots[number as usize];
        if let Transport::Network { .. } = connection.transport {
            let place = self.network[number as usize] as usize;
            let path = self.after_transfer(self.sent[place], connection, &slots, limit);
            self.sent[place] = path;
            self.span(SpanContent::Network(number), slots.since, slots.bytes);
            self.arrive(number, path, connection.latency);
            let state = &mut self.slots[number as usize];
            state.sending = false;
            state.filled -= 1;
            self.send(number, path);
            self.wake(connection.sender, path);
            return;
        }
        let lane = connection.sender;
        if self.lanes.transferred(lane) == 0 {
            let path = self.after_transfer(self.lanes.path(lane), connection, &slots, limit);
            self.lanes.set_path(lane, path);
            self.complete(lane);
        }
    }

    /// Tells the receiver of a slot or signal after a latency.
    fn arrive(&mut self, connection: u32, path: Path, latency: Time) {
        let path = path.and(Cause::Latency, latency);
        let place = self.free.pop().unwrap_or_else(|| {
            self.paths.push(path);
            (self.paths.len() - 1) as u32
        });
        self.paths[place as usize] = path;
        self.at(self.now + latency, Event::Arrive(connection, place));
    }

    /// Sends the oldest waiting slot if the network is free and the receiver has room.
    fn send(&mut self, number: u32, path: Path) {
        let Transport::Network { window } = self.model.connections[number as usize].transport
        else {
            return;
        };
        let slots = &mut self.slots[number as usize];
        if slots.sending || slots.waiting == 0 || slots.window >= window {
            return;
        }
        let place = self.network[number as usize];
        let bytes = self.waiting[(place * MOST_WAITING + slots.first_waiting) as usize];
        slots.first_waiting = (slots.first_waiting + 1) % MOST_WAITING;
        slots.waiting -= 1;
        slots.window += 1;
        slots.sending = true;
        self.sent[place as usize] = path;
        self.transfer(number, bytes);
    }

    /// The end of a lane's step: gives back what it received and passes on what it sends.
    fn complete(&mut self, lane: u32) {
        let Some(step) = self.lanes.next(self.model, lane) else {
            return;
        };
        let path = self.lanes.path(lane);
        self.span(
            SpanContent::Step(lane, step.number),
            self.lanes.since(lane),
            step.bytes,
        );
        for (kind, number) in self.uses(lane, step.uses) {
            let connection = &self.model.connections[number as usize];
            match (kind, connection.transport) {
                (Use::Receive, Transport::Network { .. }) => {
                    let slots = &mut self.slots[number as usize];
                    slots.arrived -= 1;
                    slots.window -= 1;
                    self.send(number, path);
                }
                (Use::Receive, _) => {
                    let slots = &mut self.slots[number as usize];
                    slots.arrived -= 1;
                    slots.filled -= 1;
                    self.wake(connection.sender, path);
                }
                (Use::Wait, _) => self.slots[number as usize].arrived -= 1,
                (Use::Send, Transport::Network { .. }) => {
                    let slots = &mut self.slots[number as usize];
                    let place = self.network[number as usize] * MOST_WAITING
                        + (slots.first_waiting + slots.waiting) % MOST_WAITING;
                    slots.waiting += 1;
                    self.waiting[place as usize] = step.bytes;
                    self.send(number, path);
                }
                (Use::Send | Use::Notify, _) => self.arrive(number, path, connection.latency),
                (Use::Access, _) => {}
            }
        }
        self.lanes.complete(self.model, lane, self.now);
        self.ready.push((lane, path));
    }

    fn span(&mut self, what: SpanContent, began: Time, bytes: u64) {
        if self.trace_limit == 0 || began == self.now {
            return;
        }
        if self.trace.len() >= self.trace_limit {
            self.untraced += 1;
            return;
        }
        self.trace.push(Span {
            what,
            began,
            ended: self.now,
            bytes,
        });
    }

    fn outcome(self) -> Result<Outcome, Deadlock> {
        if let Some((lane, missing)) = self.lanes.first_stuck() {
            return Err(Deadlock::of(self.model, lane, missing));
        }
        let lanes = self.lanes.states().iter().map(LaneState::times);
        let lanes: Vec<LaneTimes> = lanes.collect();
        let time = lanes.iter().map(|lane| lane.end).max().unwrap_or_default();
        Ok(Outcome {
            time,
            path: self.end,
            lanes,
            link_bytes: self.link_bytes,
            steps: self.model.executed(),
            events: self.handled,
            spans: self.trace,
            spans_left_out: self.untraced,
        })
    }
}
