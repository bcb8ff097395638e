//! Events of a trace in Chrome's format, which Perfetto shows.

use serde::Serialize;

/// An event: a name of a process or thread, or a span of time.
#[derive(Serialize)]
pub(crate) struct Event<D> {
    ph: char,
    name: String,
    pid: u32,
    tid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    ts: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<f64>,
    args: Details<D>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Details<D> {
    Name { name: String },
    Span(D),
}

impl<D> Event<D> {
    /// The name of a process or a thread; `what` is `process_name` or `thread_name`.
    pub(crate) fn named(what: &str, (pid, tid): (u32, u32), name: String) -> Self {
        Self {
            ph: 'M',
            name: what.to_owned(),
            pid,
            tid,
            ts: None,
            dur: None,
            args: Details::Name { name },
        }
    }

    /// A span of a process and thread: its begin and its duration, µs.
    pub(crate) fn span(
        name: String,
        (pid, tid): (u32, u32),
        [began, took]: [f64; 2],
        details: D,
    ) -> Self {
        Self {
            ph: 'X',
            name,
            pid,
            tid,
            ts: Some(began),
            dur: Some(took),
            args: Details::Span(details),
        }
    }
}
