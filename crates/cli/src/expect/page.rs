//! Expectations, as tables.

use answers::expect::{CollectiveExpectations, Expectations, Pairs};

use crate::cost::head;
use crate::render::table::Columns;
use crate::render::{Look, count, or_dash, trim_lines, wrap};
use crate::sizes::short;

/// Marks a size for which no run of this kind is published.
const GUESS: &str = "?";

pub(super) fn page(answer: &Expectations, notes: &[String], look: Look) -> String {
    let mut text = head(&answer.job, notes, look);
    for collective in &answer.collectives {
        text.push_str(&look.section(
            collective.collective.name(),
            "bus bandwidth, GB/s, as nccl-tests prints it",
            &sizes(collective, look),
        ));
    }
    let mut all = answer.collectives.iter().flat_map(|it| &it.sizes);
    if all.any(|it| it.expected.is_none_or(|it| !it.is_alike)) {
        let sentence = format!(
            "{GUESS} no healthy run of such a machine and size is published: by the one that is most like it. Below \
             the sizes of published runs there is no expectation."
        );
        text.push_str(&wrap(&sentence, "  ", "  ", look.width));
    }
    if let Some(pairs) = &answer.pairs {
        text.push_str(&look.section(
            "Pairs",
            "GB/s from a GPU to another on which NCCL counts, the least for nvbandwidth",
            &kinds(pairs, look),
        ));
    }
    if let Some(start) = &answer.start {
        let sentence = format!(
            "{} s for the first communicator of a process, {} s for others, which load no kernels. {} of jobs of \
             this size are published.",
            range(start.seconds),
            range(start.further),
            count(start.like.len(), "start")
        );
        let remark = "seconds until a communicator is ready, `Init timings` in NCCL's log";
        let body = wrap(&sentence, "  ", "  ", look.width);
        text.push_str(&look.section("Start", remark, &body));
    }
    let mut sources = answer.sources();
    let starts = answer.start.iter().flat_map(|it| &it.like);
    sources.extend(starts.map(|it| (it.name, it.source)));
    if !sources.is_empty() {
        let mut table = Columns::new(look, &["run", "source"]);
        for (name, source) in sources {
            table.row(vec![name.to_owned(), source.to_owned()]);
        }
        text.push_str(&look.section("Published runs", "", &table.finish()));
    }
    trim_lines(&text)
}

/// `0.7 to 1.0`, or one number.
fn range([least, most]: [f64; 2]) -> String {
    let [least, most] = [least, most].map(|it| format!("{it:.1}"));
    match least == most {
        true => least,
        false => format!("{least} to {most}"),
    }
}

fn sizes(collective: &CollectiveExpectations, look: Look) -> String {
    let headers = [
        "size",
        "predicted",
        "expected",
        "floor",
        "",
        "NCCL takes",
        "like",
    ];
    let mut table = Columns::new(look, &headers).right(&[0, 1, 2, 3]);
    for size in &collective.sizes {
        let gbps = |value: f64| format!("{value:.1}");
        let expected = size.expected;
        let is_alike = expected.is_some_and(|it| it.is_alike);
        table.row(vec![
            short(size.bytes),
            or_dash(size.choice.bus_bandwidth.map(gbps)),
            or_dash(expected.map(|it| gbps(it.bus_gbps))),
            or_dash(expected.map(|it| gbps(it.floor_gbps()))),
            (if is_alike { "" } else { GUESS }).to_owned(),
            format!("{} {}", size.choice.algorithm, size.choice.protocol),
            or_dash(expected.map(|it| it.run.name)),
        ]);
    }
    table.finish()
}

fn kinds(pairs: &Pairs, look: Look) -> String {
    let mut table = Columns::new(look, &["path", "GB/s", "pairs"]).right(&[1, 2]);
    for (kind, gbps, count) in pairs.kinds() {
        let count = count.to_string();
        table.row(vec![kind.to_owned(), format!("{gbps:.1}"), count]);
    }
    table.finish()
}
