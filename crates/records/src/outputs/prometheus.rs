//! Metrics of NCCL's Inspector in the form of Prometheus.

/// With which a line of interest begins.
const NAME: &str = "nccl_bus_bandwidth_gbs{";

/// The bus bandwidth of a rank.
#[derive(Debug, Clone, PartialEq)]
pub struct Metric {
    /// The collective and its size, such as `AllReduce of 1GB`, and the ranks of its communicator.
    pub of: String,
    /// The rank.
    pub rank: u32,
    /// Its bus bandwidth, GB/s.
    pub gbps: f64,
}

/// Reads `nccl_bus_bandwidth_gbs{rank="0",n_ranks="16",collective="AllReduce",…} 212.5`.
pub(super) fn metric(line: &str) -> Option<Metric> {
    let (labels, value) = line.trim().strip_prefix(NAME)?.rsplit_once('}')?;
    let label = |name: &str| {
        let mut labels = labels.split(',').filter_map(|it| it.split_once('='));
        let value = labels.find(|it| it.0 == name)?.1;
        Some(value.trim_matches('"')).filter(|it| it.len() < 40)
    };
    let (collective, size) = (label("collective")?, label("message_size")?);
    let gbps: f64 = value.split_whitespace().next()?.parse().ok()?;
    Some(Metric {
        of: format!("{collective} of {size}, {} ranks", label("n_ranks")?),
        rank: label("rank")?.parse().ok()?,
        gbps,
    })
    .filter(|it| it.gbps.is_finite())
}
