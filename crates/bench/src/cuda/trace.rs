//! The actions of GPUs' lanes over time, as a file.

use device_runtime::Span;

use crate::Spec;

/// Spans as a Chrome trace: a process per rank, a thread per lane, µs from the first span.
pub(super) fn chrome(spans: &[Span], spec: &Spec) -> String {
    let first = spans.iter().map(|span| span.begin_ns).min().unwrap_or(0);
    let us = |ns: u64| ns.saturating_sub(first) as f64 / 1e3;
    let events = spans.iter().map(|span| {
        serde_json::json!({
            "name": format!("{} launch {} channel {}", spec.collective.command_name(), span.launch, span.channel),
            "ph": "X",
            "pid": span.rank,
            "tid": span.lane,
            "ts": us(span.begin_ns),
            "dur": us(span.end_ns) - us(span.begin_ns),
        })
    });
    let events: Vec<serde_json::Value> = events.collect();
    serde_json::json!({ "traceEvents": events, "displayTimeUnit": "ns" }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_begins_at_0() {
        let spec = Spec::new(2, program::Collective::AllReduce);
        let span = Span {
            rank: 1,
            launch: 4,
            channel: 2,
            lane: 3,
            begin_ns: 7_000,
            end_ns: 9_500,
        };
        let early = Span {
            begin_ns: 5_000,
            ..span
        };
        let text = chrome(&[span, early], &spec);
        let trace: serde_json::Value = serde_json::from_str(&text).unwrap();
        let event = &trace["traceEvents"][0];
        assert_eq!(
            (event["ts"].as_f64(), event["dur"].as_f64()),
            (Some(2.0), Some(2.5))
        );
        assert_eq!(event["name"], "all-reduce launch 4 channel 2");
        assert_eq!(trace["traceEvents"][1]["ts"], 0.0);
    }
}
