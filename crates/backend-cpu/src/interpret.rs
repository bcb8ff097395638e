//! Runs programs: polls the lanes in turn and runs every step that is ready.

use executor::backend::{Attempt, LaunchContext, Part};
use executor::connections::Connections;
use executor::supervisor::{Fault, WaitsFor};
use executor::{Error, Waiting};
use program::Protocol;
use shared_memory::fifo::{LowLatency, LowLatency128, Simple};

use crate::bases::{Launch, PeerBases, refused_by};
use crate::program::{CpuLane, CpuProgram};
use crate::wires::WiredProtocol;

/// Prepares a launch.
pub fn begin(part: &mut Part<'_, CpuProgram>) {
    let memory = &part.memory;
    let (input, output) = (memory.input(), memory.output());
    part.program.begin(input, output, part.scratch, part.scalar);
}

/// Runs a program of one step that accesses no peer's memory, if the step is ready.
pub fn try_run(part: &mut Part<'_, CpuProgram>, connections: &mut Connections) -> Attempt {
    match part.program.protocol {
        Protocol::Simple => try_only_step::<Simple>(part, connections),
        Protocol::Ll => try_only_step::<LowLatency>(part, connections),
        Protocol::Ll128 => try_only_step::<LowLatency128>(part, connections),
    }
}

#[inline]
fn try_only_step<P: WiredProtocol>(
    part: &mut Part<'_, CpuProgram>,
    connections: &mut Connections,
) -> Attempt {
    let Some(at) = part.program.only_step() else {
        return Attempt::Refused;
    };
    let mut wires = P::ends(connections);
    if !wires.is_ready(&part.program.steps[at]) {
        return Attempt::NotReady;
    }
    begin(part);
    let program = &*part.program;
    let ran = wires.run(&program.steps[at], 0, &program.bases, &program.reduce);
    if wires.posted {
        connections.ring_proxies();
    }
    match ran {
        Ok(true) => Attempt::Moved,
        Ok(false) => Attempt::NotReady,
        // Only memory of peers is refused.
        Err(_) => Attempt::Refused,
    }
}

/// Runs programs that were begun until one has ended or `stop` returns `true`. If no step was run,
/// returns the reason of the wait.
pub fn run_some(
    parts: &mut [Part<'_, CpuProgram>],
    context: &mut LaunchContext<'_>,
    stop: &mut dyn FnMut() -> bool,
) -> Result<Option<Waiting>, Error> {
    let (mut spins, mut progress) = (0, false);
    loop {
        let launch = Launch::of(context);
        let pass = pass_all(parts, context.connections, launch);
        let pass = pass.map_err(|fault| context.supervisor.fault(*fault))?;
        if pass == Pass::Done {
            return Ok(None);
        }
        progress |= pass != Pass::Stuck;
        if has_ended(parts) || stop() {
            return Ok((!progress).then(|| Unmet::of(parts, context.connections).first));
        }
        match pass {
            Pass::Stuck if spins >= context.spins => {
                let mut stopped = false;
                wait(parts, context, &mut |parts| {
                    stopped = has_ended(parts) || stop();
                    stopped
                })?;
                if !stopped {
                    progress = true;
                    context.supervisor.restart();
                }
                spins = 0;
            }
            Pass::Stuck => {
                spins += 1;
                std::hint::spin_loop();
            }
            Pass::Done | Pass::Progress => {
                spins = 0;
                context.supervisor.restart();
            }
        }
    }
}

/// The result of polling all lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pass {
    /// All lanes have ended.
    Done,
    /// At least one step was run.
    Progress,
    /// No step could be run.
    Stuck,
}

/// Whether a program has ended.
fn has_ended(parts: &[Part<'_, CpuProgram>]) -> bool {
    parts.iter().any(|part| part.program.has_ended())
}

/// Waits with the supervisor's help until a step was run or `stop` returns `true`.
#[cold]
fn wait(
    parts: &mut [Part<'_, CpuProgram>],
    context: &mut LaunchContext<'_>,
    stop: &mut dyn FnMut(&[Part<'_, CpuProgram>]) -> bool,
) -> Result<(), Error> {
    let (launch, connections) = (Launch::of(context), &mut *context.connections);
    // Updated only after a pass without progress, so it does not change meanwhile.
    let unmet = std::cell::Cell::new(Unmet::of(parts, connections));
    let mut failed = None;
    let waited = context.supervisor.wait(
        &mut || match pass_all(parts, connections, launch) {
            Ok(Pass::Stuck) => {
                unmet.set(Unmet::of(parts, connections));
                stop(parts)
            }
            Ok(_) => true,
            Err(fault) => {
                failed = Some(fault);
                true
            }
        },
        || unmet.get().first,
        || unmet.get().waits_for,
    );
    match failed {
        Some(fault) => Err(context.supervisor.fault(*fault)),
        None => waited,
    }
}

/// The waits of unfinished lanes. Data that has arrived is not reported: its sender may have left
/// since.
#[derive(Debug, Clone, Copy)]
struct Unmet {
    /// The wait of the first lane.
    first: Waiting,
    waits_for: WaitsFor,
}

impl Unmet {
    fn of(parts: &[Part<'_, CpuProgram>], connections: &mut Connections) -> Self {
        let (mut first, mut remote, mut local) = (None, false, false);
        let mut add = |waiting: Waiting, is_remote: bool| {
            // That a certain rank left ends the wait, so it is the better reason.
            if matches!(first, None | Some(Waiting::AnyMessage)) {
                first = Some(waiting);
            }
            (remote, local) = (remote || is_remote, local || !is_remote);
        };
        for part in parts {
            match part.program.protocol {
                Protocol::Simple => unmet_of::<Simple>(part.program, connections, &mut add),
                Protocol::Ll => unmet_of::<LowLatency>(part.program, connections, &mut add),
                Protocol::Ll128 => unmet_of::<LowLatency128>(part.program, connections, &mut add),
            }
        }
        let none = Waiting::Signal {
            from: 0,
            channel: 0,
        };
        Self {
            first: first.unwrap_or(none),
            waits_for: match (remote, local) {
                (true, false) => WaitsFor::Remote,
                (true, true) if connections.wakes_by_all() => WaitsFor::Remote,
                (false, true) => WaitsFor::Local,
                _ => WaitsFor::Any,
            },
        }
    }
}

/// Calls `add` with the first unmet condition of each lane, and whether a rank of another host ends
/// it.
fn unmet_of<P: WiredProtocol>(
    program: &CpuProgram,
    connections: &mut Connections,
    add: &mut impl FnMut(Waiting, bool),
) {
    if program.listening.is_some() {
        let first = program.lanes.iter().filter_map(CpuLane::first).next();
        let waiting = first.and_then(|at| program.steps[at].waiting.first());
        let is_remote = waiting.is_some_and(|it| connections.ends_remotely(*it));
        return add(Waiting::AnyMessage, is_remote);
    }
    for lane in program.lanes.iter().filter(|lane| !lane.is_done()) {
        let step = &program.steps[lane.at as usize];
        let mut wires = P::ends(connections);
        let at = wires.unmet(step).or_else(|| wires.missing(step));
        if let Some(waiting) = at.and_then(|at| step.waiting.get(at)) {
            add(*waiting, connections.ends_remotely(*waiting));
        }
    }
}

#[inline]
fn pass_all(
    parts: &mut [Part<'_, CpuProgram>],
    connections: &mut Connections,
    launch: Launch<'_>,
) -> Result<Pass, Box<Fault>> {
    let mut all = Pass::Done;
    for part in parts {
        let program = &mut *part.program;
        let pass = match program.protocol {
            _ if program.listening.is_some() => Ok(listen(program, connections)),
            Protocol::Simple => pass::<Simple>(program, connections, launch),
            Protocol::Ll => pass::<LowLatency>(program, connections, launch),
            Protocol::Ll128 => pass::<LowLatency128>(program, connections, launch),
        };
        all = match (all, pass?) {
            (Pass::Progress, _) | (_, Pass::Progress) => Pass::Progress,
            (Pass::Stuck, _) | (_, Pass::Stuck) => Pass::Stuck,
            (Pass::Done, Pass::Done) => Pass::Done,
        };
    }
    Ok(all)
}

/// Looks whether a program could begin.
#[cold]
fn listen(program: &mut CpuProgram, connections: &mut Connections) -> Pass {
    let can_begin = match program.protocol {
        Protocol::Simple => can_begin::<Simple>(program, connections),
        Protocol::Ll => can_begin::<LowLatency>(program, connections),
        Protocol::Ll128 => can_begin::<LowLatency128>(program, connections),
    };
    program.listening = Some(can_begin);
    Pass::Stuck
}

fn can_begin<P: WiredProtocol>(program: &CpuProgram, connections: &mut Connections) -> bool {
    let mut wires = P::ends(connections);
    let mut first = program.lanes.iter().filter_map(CpuLane::first);
    first.any(|at| wires.is_ready(&program.steps[at]))
}

/// Runs all ready steps of one program.
#[inline]
fn pass<P: WiredProtocol>(
    program: &mut CpuProgram,
    connections: &mut Connections,
    launch: Launch<'_>,
) -> Result<Pass, Box<Fault>> {
    let mut wires = P::ends(connections);
    let CpuProgram {
        lanes,
        steps,
        peers,
        bases,
        extents,
        known,
        reduce,
        ..
    } = program;
    let (mut progress, mut done) = (false, true);
    for lane in lanes {
        while !lane.is_done() {
            let step = &steps[lane.at as usize];
            if !wires.is_ready(step) {
                done = false;
                break;
            }
            let turn = lane.turn as usize;
            let ran = match step.reaches {
                false => wires.run(step, turn, bases, reduce),
                true => {
                    wires.own_table().begin_access();
                    let mut reach = PeerBases {
                        peers,
                        bases,
                        extents,
                        known,
                        launch,
                    };
                    let ran = match reach.look_up(step, wires.buffer_tables) {
                        Ok(true) => wires.run(step, turn, bases, reduce),
                        // The failure of that rank ends the wait.
                        Ok(false) => Ok(false),
                        Err(fault) => {
                            wires.own_table().end_access();
                            return Err(fault);
                        }
                    };
                    wires.own_table().end_access();
                    ran
                }
            };
            if !ran.map_err(|refused| refused_by(*refused, peers))? {
                done = false;
                break;
            }
            lane.advance();
            progress = true;
        }
    }
    if wires.posted {
        connections.ring_proxies();
    }
    Ok(match (done, progress) {
        (true, _) => Pass::Done,
        (_, true) => Pass::Progress,
        _ => Pass::Stuck,
    })
}
