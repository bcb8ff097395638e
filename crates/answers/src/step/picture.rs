//! The step of a rank as a picture: computation, and the calls of each group, over time.

use pages::draw::timeline::{Bar, Row, timeline};
use program::size::short;
use workload::{Call, Workload};

use super::StepReport;

/// A picture of the step: an SVG file, or an element of a page if it is not `alone`.
pub fn picture(answer: &StepReport, workload: &Workload, alone: bool) -> String {
    let compute = answer.timeline.compute.iter().map(|span| Bar {
        span_us: *span,
        hint: "computation".to_owned(),
    });
    let mut rows = vec![Row {
        name: "computation".to_owned(),
        bars: compute.collect(),
    }];
    rows.extend(answer.groups.iter().map(|group| Row {
        name: group.name.clone(),
        bars: Vec::new(),
    }));
    for (call, span) in workload.calls.iter().zip(&answer.timeline.spans) {
        rows[call.group + 1].bars.push(Bar {
            span_us: [span.start_us, span.end_us],
            hint: label(call),
        });
    }
    let title = format!("{}: one step", answer.name);
    timeline(&title, &rows, answer.timeline.end_us, alone)
}

/// A call in words.
pub fn label(call: &Call) -> String {
    let times = match call.count {
        1 => String::new(),
        more => format!("{more} × "),
    };
    let name = match call.name.is_empty() {
        true => String::new(),
        false => format!("{}: ", call.name),
    };
    let collective = call.operation();
    format!("{name}{times}{collective} {}", size(call.bytes))
}

/// A size, exact or in units.
pub fn size(bytes: u64) -> String {
    let exact = short(bytes);
    if exact.len() <= 7 {
        return exact;
    }
    let value = bytes as f64;
    match bytes.ilog2() {
        30.. => format!("{:.2}G", value / f64::from(1 << 30)),
        20.. => format!("{:.1}M", value / f64::from(1 << 20)),
        _ => format!("{:.1}K", value / 1024.0),
    }
}
