//! The predicted time line of a step in Chrome's Trace Event format, which Perfetto reads.

use answers::step::StepAnswer;
use anyhow::Result;
use serde::Serialize;
use workload::Workload;

use super::page;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Trace {
    display_time_unit: &'static str,
    trace_events: Vec<Event>,
}

#[derive(Serialize)]
struct Event {
    ph: char,
    name: String,
    pid: u32,
    tid: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    ts: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<f64>,
    args: Details,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Details {
    None {},
    Name {
        name: String,
    },
    Call {
        layer: String,
        bytes: u64,
        count: u64,
        exposed_us: f64,
    },
}

/// A thread for the computation of a rank, and one for each group.
pub(super) fn perfetto(answer: &StepAnswer, workload: &Workload) -> Result<String> {
    let mut events = vec![
        named("process_name", 0, answer.name.clone()),
        named("thread_name", 0, "computation".to_owned()),
    ];
    let groups = answer.groups.iter().enumerate();
    events.extend(groups.map(|(at, group)| named("thread_name", at + 1, group.name.clone())));
    events.extend(answer.timeline.compute.iter().map(|[start, end]| Event {
        ph: 'X',
        name: "computation".to_owned(),
        pid: 0,
        tid: 0,
        ts: Some(*start),
        dur: Some(end - start),
        args: Details::None {},
    }));
    for (call, span) in workload.calls.iter().zip(&answer.timeline.spans) {
        events.push(Event {
            ph: 'X',
            name: page::label(call),
            pid: 0,
            tid: call.group + 1,
            ts: Some(span.start_us),
            dur: Some(span.end_us - span.start_us),
            args: Details::Call {
                layer: call.name.clone(),
                bytes: call.bytes,
                count: call.count,
                exposed_us: span.exposed_us,
            },
        });
    }
    Ok(serde_json::to_string(&Trace {
        display_time_unit: "ms",
        trace_events: events,
    })?)
}

fn named(what: &str, tid: usize, name: String) -> Event {
    Event {
        ph: 'M',
        name: what.to_owned(),
        pid: 0,
        tid,
        ts: None,
        dur: None,
        args: Details::Name { name },
    }
}
