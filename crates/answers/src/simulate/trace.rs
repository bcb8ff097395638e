//! The trace of a simulation in Chrome's Trace Event format, which Perfetto reads.

use super::SimulateReport;
use serde::Serialize;
use simulator::model::Use;
use simulator::outcome::SpanContent;

use crate::perfetto::Event;

/// The thread of the first network connection of a rank; lanes have lower numbers.
const FIRST_TRANSFER: u32 = 1000;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Trace {
    display_time_unit: &'static str,
    /// The rest that was left out.
    other_data: OmittedSpans,
    trace_events: Vec<Event<Details>>,
}

#[derive(Serialize)]
struct OmittedSpans {
    spans_left_out: u64,
}

#[derive(Serialize)]
struct Details {
    bytes: u64,
}

/// A process for each rank, a thread for each lane and each connection over the network.
///
/// # Errors
/// None is known.
pub fn perfetto(job: &SimulateReport) -> Result<String, serde_json::Error> {
    let simulated = &job.simulated;
    let model = &simulated.model;
    let mut events = Vec::new();
    let mut lane_of = vec![0; model.lanes.len()];
    let mut last = None;
    for (lane, place) in model.lanes.iter().zip(&mut lane_of) {
        *place = match last {
            Some((rank, number)) if rank == lane.rank => number + 1,
            _ => {
                let name = format!("rank {}", lane.rank);
                events.push(Event::named("process_name", (lane.rank, 0), name));
                0
            }
        };
        last = Some((lane.rank, *place));
        let name = format!("channel {}, lane {place}", lane.channel);
        events.push(Event::named("thread_name", (lane.rank, *place), name));
    }
    let mut named_connections = vec![false; model.connections.len()];
    for span in &simulated.outcome.spans {
        let (name, pid, tid) = match span.what {
            SpanContent::Step(lane, step) => {
                let own = &model.lanes[lane as usize];
                let name = step_name(job, own.shape, step);
                (name.to_owned(), own.rank, lane_of[lane as usize])
            }
            SpanContent::Network(number) => {
                let connection = &model.connections[number as usize];
                let lane = &model.lanes[connection.sender as usize];
                let (_, to) = simulated.connections[number as usize];
                let tid = FIRST_TRANSFER + number;
                let known = &mut named_connections[number as usize];
                if !*known {
                    *known = true;
                    let name = format!("network to rank {to}, channel {}", lane.channel);
                    events.push(Event::named("thread_name", (lane.rank, tid), name));
                }
                (format!("to rank {to}"), lane.rank, tid)
            }
        };
        let time = [span.began.us(), (span.ended - span.began).us()];
        let details = Details { bytes: span.bytes };
        events.push(Event::span(name, (pid, tid), time, details));
    }
    serde_json::to_string(&Trace {
        display_time_unit: "ns",
        other_data: OmittedSpans {
            spans_left_out: simulated.outcome.spans_left_out,
        },
        trace_events: events,
    })
}

/// The action of a step, in a word.
fn step_name(job: &SimulateReport, shape: u32, step: u32) -> &'static str {
    let shape = &job.simulated.model.shapes[shape as usize];
    let (first, end) = shape.steps[step as usize].uses;
    let uses = &shape.uses[first as usize..end as usize];
    let has = |wanted: Use| uses.iter().any(|(kind, _)| *kind == wanted);
    match (has(Use::Receive), has(Use::Send), has(Use::Access)) {
        (true, true, _) => "recvSend",
        (true, false, _) => "recv",
        (false, true, _) => "send",
        (false, false, true) => "access",
        (false, false, false) => "copy",
    }
}
