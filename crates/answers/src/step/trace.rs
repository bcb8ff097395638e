//! The predicted time line of a step in Chrome's Trace Event format, which Perfetto reads.

use super::StepReport;
use super::picture::label;
use serde::Serialize;
use workload::Workload;

use crate::perfetto::Event;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Trace {
    display_time_unit: &'static str,
    trace_events: Vec<Event<Details>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Details {
    Computation {},
    Call {
        layer: String,
        bytes: u64,
        count: u64,
        exposed_us: f64,
    },
}

/// A thread for the computation of a rank, and one for each group.
///
/// # Errors
/// None is known.
pub fn perfetto(answer: &StepReport, workload: &Workload) -> Result<String, serde_json::Error> {
    let mut events = vec![
        Event::named("process_name", (0, 0), answer.name.clone()),
        Event::named("thread_name", (0, 0), "computation".to_owned()),
    ];
    let groups = answer.groups.iter().enumerate();
    events.extend(
        groups.map(|(at, group)| Event::named("thread_name", (0, thread(at)), group.name.clone())),
    );
    events.extend(answer.timeline.compute.iter().map(|[start, end]| {
        let name = "computation".to_owned();
        Event::span(name, (0, 0), [*start, end - start], Details::Computation {})
    }));
    for (call, span) in workload.calls.iter().zip(&answer.timeline.spans) {
        let details = Details::Call {
            layer: call.name.clone(),
            bytes: call.bytes,
            count: call.count,
            exposed_us: span.exposed_us,
        };
        let time = [span.start_us, span.end_us - span.start_us];
        let place = (0, thread(call.group));
        events.push(Event::span(label(call), place, time, details));
    }
    serde_json::to_string(&Trace {
        display_time_unit: "ms",
        trace_events: events,
    })
}

/// The thread of a group; the first one is that of computation.
fn thread(group: usize) -> u32 {
    u32::try_from(group).unwrap_or(u32::MAX).saturating_add(1)
}
