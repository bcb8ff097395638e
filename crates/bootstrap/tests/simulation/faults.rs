//! The effects of faults on a simulated job.

use std::time::Duration;

use bootstrap::{Conn, Ending, Key, Kind};

use crate::scenario::Fault;
use crate::world::{Event, LATENCY, Participant, Pipe, State, Traffic, World, address};

impl<T: Traffic> World<T> {
    /// Applies a fault.
    pub(crate) fn fault(&mut self, fault: Fault) {
        let soon = self.now + LATENCY;
        let picked = |pipe: u64| (pipe % (self.pipes.len() as u64).max(1)) as usize;
        match fault {
            Fault::Kill(rank) | Fault::Stop(rank) | Fault::Restart(rank) => {
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
                if matches!(fault, Fault::Restart(_)) {
                    let again = self.nodes.iter().rposition(|it| it.rank == rank);
                    self.at(soon, Event::Start(again.expect("a rank has a process")));
                }
            }
            Fault::Pause(rank, by) => {
                let resumes = self.now + Duration::from_millis(by);
                let nodes = self.nodes.iter_mut().filter(|it| it.process == rank);
                nodes.for_each(|it| it.resumes = resumes);
            }
            Fault::Cut(_) | Fault::Oversized(_) if self.pipes.is_empty() => {}
            Fault::Cut(pipe) => {
                let at = picked(pipe);
                for side in 0..2 {
                    let why = Ending::Broken("connection reset".to_owned());
                    self.at(soon, Event::Ended(at, side, why));
                }
            }
            Fault::Oversized(pipe) => {
                let at = picked(pipe);
                self.at(soon, Event::Bytes(at, 1, vec![0xff; 64]));
            }
            Fault::Stall(pipe) => self.change(picked(pipe), |it| it.stalled = true),
            Fault::Delay(pipe, by) => {
                self.change(picked(pipe), |it| it.delay = Duration::from_millis(by));
            }
            Fault::Alter(pipe) => self.change(picked(pipe), |it| it.alter = true),
            Fault::Stranger(rank) => {
                let node = self.nodes.len();
                let key = Key::of_secret(b"a stranger");
                self.add(Participant::Stranger, u32::MAX, u32::MAX, key);
                self.nodes[node].state = State::Running;
                self.connect(node, Conn(0), &address(rank as usize), Kind::Ring);
                if let Some(at) = self.nodes[node].pipes.get(&Conn(0)).copied() {
                    let garbage = (0..64).map(|_| self.random.u8(..)).collect();
                    self.at(soon, Event::Bytes(at, 1, garbage));
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

    fn change(&mut self, at: usize, change: impl FnOnce(&mut Pipe)) {
        if let Some(pipe) = self.pipes.get_mut(at) {
            change(pipe);
        }
    }
}
