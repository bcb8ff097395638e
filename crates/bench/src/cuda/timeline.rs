//! The begin and end of the last launch's channels, as a table.

use std::collections::BTreeMap;

use device_runtime::Span;

/// Begin and end of each channel of each rank's last launch by the device's clock, µs from the
/// rank's first channel. Several lanes of a channel are merged.
pub(super) fn table(spans: &[Span]) -> String {
    let mut last: BTreeMap<u32, u64> = BTreeMap::new();
    for span in spans {
        let launch = last.entry(span.rank).or_default();
        *launch = span.launch.max(*launch);
    }
    let mut text = String::from("channels of the last launch, µs from the first of the rank\n");
    text.push_str(&format!(
        "  {:>5} {:>8} {:>7} {:>6} {:>10} {:>10} {:>10}\n",
        "rank", "launch", "channel", "lanes", "begin", "end", "took"
    ));
    for (rank, launch) in last {
        let own = spans
            .iter()
            .filter(|span| (span.rank, span.launch) == (rank, launch));
        let first = own.clone().map(|span| span.begin_ns).min().unwrap_or(0);
        let mut channels: BTreeMap<u16, (usize, u64, u64)> = BTreeMap::new();
        for span in own {
            let (lanes, begin, end) =
                channels
                    .entry(span.channel)
                    .or_insert((0, span.begin_ns, span.end_ns));
            *lanes += 1;
            *begin = span.begin_ns.min(*begin);
            *end = span.end_ns.max(*end);
        }
        for (channel, (lanes, begin, end)) in channels {
            let us = |ns: u64| ns.saturating_sub(first) as f64 / 1e3;
            text.push_str(&format!(
                "  {rank:>5} {launch:>8} {channel:>7} {lanes:>6} {:>10.1} {:>10.1} {:>10.1}\n",
                us(begin),
                us(end),
                us(end) - us(begin)
            ));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_launch_counts_from_its_first_channel() {
        let span = |launch, channel, lane, begin_ns, end_ns| Span {
            rank: 1,
            launch,
            channel,
            lane,
            begin_ns,
            end_ns,
        };
        let text = table(&[
            span(3, 0, 0, 1_000, 2_000),
            span(4, 0, 0, 10_000, 12_500),
            span(4, 0, 1, 10_500, 13_000),
            span(4, 1, 2, 11_000, 12_000),
        ]);
        let rows: Vec<Vec<&str>> = text
            .lines()
            .skip(2)
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(
            rows,
            [
                ["1", "4", "0", "2", "0.0", "3.0", "3.0"],
                ["1", "4", "1", "1", "1.0", "2.0", "1.0"]
            ]
        );
    }
}
