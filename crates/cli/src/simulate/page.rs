//! A simulated job as a page.

use answers::simulate::{LaneShares, SimulatedJob};
use program::Transfer;
use simulator::Cause;

use crate::render::table::Columns;
use crate::render::{Look, count, microseconds, version};
use crate::sizes;

/// The page, with so many of the busiest links.
pub(super) fn page(job: &SimulatedJob, links: usize, look: Look) -> String {
    let mut text = head(job, look);
    text.push_str(&look.section(
        "Where the time goes",
        "the chain of events that ended last",
        &causes(job, look),
    ));
    text.push_str(&look.section("Lanes", "what they did, on average", &lanes(job)));
    let shown = job.links.len().min(links);
    let remark = match job.links.len() - shown {
        0 => "the busiest first".to_owned(),
        more => format!("the busiest; --links {} shows {more} more", job.links.len()),
    };
    text.push_str(&look.section("Links", &remark, &loads(job, shown, look)));
    text
}

fn head(job: &SimulatedJob, look: Look) -> String {
    let how = match job.transfer {
        Transfer::Fifo => job.protocol.to_string(),
        Transfer::Direct | Transfer::Staged => job.transfer.to_string(),
        Transfer::Hierarchical => format!("{}, {}", job.transfer, job.protocol),
    };
    let title = format!(
        "{} of {} by {} ({how}): {} on {}",
        job.collective,
        sizes::short(job.bytes),
        job.schedule,
        count(job.ranks as usize, "rank"),
        count(job.hosts as usize, "host"),
    );
    let mut text = look.title(&title, "");
    if let Some(profile) = &job.profile {
        text.push_str(&version::of_profile(profile, look));
    }
    text.push_str(&look.field("time", &format!("{} µs", microseconds(job.time_us()))));
    if let (Some(algorithm), Some(bus)) = (job.algorithm_bandwidth(), job.bus_bandwidth()) {
        let words = format!("{} GB/s algorithm, {} GB/s bus", gbps(algorithm), gbps(bus));
        text.push_str(&look.field("speed", &words));
    }
    if let Some(predicted) = job.predicted_us {
        let share = 100.0 * (predicted / job.time_us() - 1.0);
        let words = format!(
            "NCCL's cost model predicts {} µs ({share:+.0} %)",
            microseconds(predicted)
        );
        text.push_str(&look.field("model", &words));
    }
    let slots = format!(
        "{}, FIFO slots of {} bytes",
        count(job.channels.into(), "channel"),
        job.slot_bytes
    );
    text.push_str(&look.field("channels", &slots));
    text.push_str(&look.field("network", &job.network));
    let (lanes, steps) = job.simulated.whole;
    let run = job.simulated.model.lanes.len();
    let ran = if run as u64 == lanes {
        format!(
            "all {}, {}",
            count(run, "lane"),
            count(steps as usize, "step")
        )
    } else {
        format!(
            "{run} of {lanes} lanes, since the others do the same: {} of {steps} steps",
            job.simulated.outcome.steps
        )
    };
    text.push_str(&look.field("run", &ran));
    text
}

const fn words(cause: Cause) -> &'static str {
    match cause {
        Cause::Start => "launch and late ranks",
        Cause::Latency => "latency",
        Cause::Work => "reductions and copies",
        Cause::NvLink => "bandwidth of NVLink",
        Cause::Pci => "bandwidth of PCI Express and host memory",
        Cause::Nic => "bandwidth of NICs",
        Cause::Fabric => "bandwidth between switches",
    }
}

fn causes(job: &SimulatedJob, look: Look) -> String {
    let path = &job.simulated.outcome.path;
    let total = path.total().us();
    let mut causes: Vec<(f64, &str)> = Cause::ALL
        .into_iter()
        .map(|cause| (path.of(cause).us(), words(cause)))
        .filter(|(time, _)| *time > 0.0)
        .collect();
    causes.sort_by(|one, other| other.0.total_cmp(&one.0));
    let mut table = Columns::new(look, &["µs", "share", "cause"]).right(&[0, 1]);
    for (time, cause) in causes {
        let share = format!("{:.1} %", 100.0 * time / total);
        table.row(vec![microseconds(time), share, cause.to_owned()]);
    }
    let mut text = table.finish();
    let shared = path.shared().us();
    if shared > 0.0005 * total {
        let words = format!(
            "  {} µs of this, {:.1} %, because transfers shared links with others\n",
            microseconds(shared),
            100.0 * shared / total
        );
        text.push_str(&words);
    }
    text
}

fn lanes(job: &SimulatedJob) -> String {
    let shares = LaneShares::of(job);
    let parts = [
        (shares.busy, "in steps"),
        (shares.data, "waiting for data"),
        (shares.slot, "waiting for a free slot"),
        (shares.signal, "waiting for a signal"),
        (shares.idle, "before their first step or after their last"),
    ];
    let parts = parts.iter().filter(|(share, _)| *share >= 0.0005);
    let parts: Vec<String> = parts
        .map(|(share, words)| format!("{:.1} % {words}", 100.0 * share))
        .collect();
    format!("  {}\n", parts.join(", "))
}

fn loads(job: &SimulatedJob, shown: usize, look: Look) -> String {
    let headers = ["link", "equal", "GB/s", "used", "bytes"];
    let mut table = Columns::new(look, &headers).right(&[1, 2, 3, 4]);
    for link in job.links.iter().take(shown) {
        table.row(vec![
            link.name.clone(),
            format!("× {}", link.count),
            if link.gbps.is_finite() {
                gbps(link.gbps)
            } else {
                "–".to_owned()
            },
            format!("{:.1} %", 100.0 * link.used),
            link.bytes.to_string(),
        ]);
    }
    table.finish()
}

/// GB/s with three digits that count.
fn gbps(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value if value >= 1.0 => format!("{value:.2}"),
        value => format!("{value:.4}"),
    }
}
