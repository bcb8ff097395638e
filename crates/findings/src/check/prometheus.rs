//! Numbers and checks in Prometheus' text format, for the node exporter's folder of text files.

use std::collections::BTreeSet;

use super::Check;

/// A file of metrics.
#[derive(Debug, Default)]
pub struct Metrics {
    /// The file.
    pub text: String,
}

impl Metrics {
    /// Adds a metric with its samples: labels and values. Of samples with equal labels the first
    /// counts, since readers refuse a file with both.
    pub fn add<'l>(
        &mut self,
        [name, kind, help]: [&str; 3],
        samples: impl IntoIterator<Item = (Vec<(&'l str, String)>, u64)>,
    ) {
        self.text += &format!("# HELP {name} {help}\n# TYPE {name} {kind}\n");
        let mut known = BTreeSet::new();
        for (labels, value) in samples {
            let labels = labels.iter().map(|(name, value)| {
                let value = value.replace('\\', "\\\\").replace('"', "\\\"");
                format!("{name}=\"{}\"", value.replace('\n', "\\n"))
            });
            let labels: Vec<String> = labels.collect();
            let labels = match labels.is_empty() {
                true => String::new(),
                false => format!("{{{}}}", labels.join(",")),
            };
            if known.insert(labels.clone()) {
                self.text += &format!("{name}{labels} {value}\n");
            }
        }
    }
}

/// The checks of a command at a time, seconds since 1970.
pub fn prometheus(command: &str, checks: &[Check], now: u64) -> String {
    let mut metrics = Metrics::default();
    let labels = |mut more: Vec<(&'static str, String)>| {
        more.insert(0, ("command", command.to_owned()));
        more
    };
    let each = checks.iter().map(|it| {
        let (id, looked_at) = (it.id.clone(), it.looked_at.clone());
        let verdict = it.verdict.word().to_owned();
        let of = vec![("id", id), ("looked_at", looked_at), ("verdict", verdict)];
        (labels(of), 1)
    });
    let help = "1 for the verdict of a check: pass, fail, unknown or skipped.";
    metrics.add(["topo_check", "gauge", help], each);
    let counts = ["pass", "fail", "unknown", "skipped"].map(|word| {
        let count = checks.iter().filter(|it| it.verdict.word() == word).count();
        (labels(vec![("verdict", word.to_owned())]), count as u64)
    });
    metrics.add(["topo_checks", "gauge", "Checks by verdict."], counts);
    let help = "When this was checked, since 1970.";
    let time = [(labels(Vec::new()), now)];
    metrics.add(["topo_checked_time_seconds", "gauge", help], time);
    metrics.text
}
