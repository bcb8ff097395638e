//! What faults do to a simulated job.

use std::collections::BTreeMap;
use std::time::Duration;

use super::faulty::{Event, LATENCY, Node, Participant, State, Work, World, address};
use crate::id::Key;
use crate::link::Kind;
use crate::machine::Ending;
use crate::message::Conn;
use crate::simulation::scenario::Fault;

impl World {
    /// Does what a fault says.
    pub(super) fn fault(&mut self, fault: Fault) {
        let live = self.pipes.len() as u64;
        let pick = |pipe: u64| (live > 0).then(|| (pipe % live.max(1)) as usize);
        match fault {
            Fault::Kill(rank) | Fault::Stop(rank) => {
                for node in 0..self.nodes.len() {
                    let it = &mut self.nodes[node];
                    if it.process != rank || it.outcome.is_some() {
                        continue;
                    }
                    if matches!(fault, Fault::Stop(_)) {
                        it.state = State::Stopped;
                    } else {
                        self.end(node);
                    }
                }
            }
            Fault::Pause(rank, by) => {
                let resumes = self.now + Duration::from_millis(by);
                let nodes = self.nodes.iter_mut().filter(|it| it.process == rank);
                nodes.for_each(|it| it.resumes = resumes);
            }
            Fault::Cut(pipe) => {
                if let Some(at) = pick(pipe) {
                    for side in 0..2 {
                        let why = Ending::Broken("connection reset".to_owned());
                        self.at(self.now + LATENCY, Event::Ended(at, side, why));
                    }
                }
            }
            Fault::Stall(pipe) => {
                if let Some(at) = pick(pipe) {
                    self.pipes[at].stalled = true;
                }
            }
            Fault::Delay(pipe, by) => {
                if let Some(at) = pick(pipe) {
                    self.pipes[at].delay = Duration::from_millis(by);
                }
            }
            Fault::Alter(pipe) => {
                if let Some(at) = pick(pipe) {
                    self.pipes[at].alter = true;
                }
            }
            Fault::Oversized(pipe) => {
                if let Some(at) = pick(pipe) {
                    let bytes = vec![0xff; 64];
                    self.at(self.now + LATENCY, Event::Bytes(at, 1, bytes));
                }
            }
            Fault::Stranger(rank) => {
                let node = self.nodes.len();
                self.nodes.push(Node {
                    machine: Participant::Stranger,
                    state: State::Running,
                    process: u32::MAX,
                    key: Key::of_secret(b"a stranger"),
                    address: address(node),
                    pipes: BTreeMap::new(),
                    timer: None,
                    resumes: Duration::ZERO,
                    work: Work::Meeting,
                    outcome: None,
                });
                let to = self.nodes[rank as usize].address;
                self.connect(node, Conn(0), &to, Kind::Ring);
                if let Some(at) = self.nodes[node].pipes.get(&Conn(0)).copied() {
                    let mut garbage = self.random.bytes().to_vec();
                    garbage.extend(self.random.bytes());
                    self.at(self.now + LATENCY, Event::Bytes(at, 1, garbage));
                }
            }
            Fault::Missing(_)
            | Fault::Double(_)
            | Fault::WrongToken(_)
            | Fault::OtherPlan(_)
            | Fault::SameDevice(_)
            | Fault::LateRoots => {}
        }
    }
}
