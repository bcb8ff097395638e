//! The page of collectives that NCCL makes of point-to-point transfers.

use answers::cost::transfers::{PairTransfer, Transfers};
use answers::cost::{PricedJob, Sweep};
use program::Collective;

use crate::render::table::Columns;
use crate::render::{Look, microseconds, wrap};
use crate::sizes::short;

/// Peers of rank 0 that are shown.
const SHOWN_PEERS: usize = 12;

pub(super) fn section(job: &PricedJob, sweep: &Sweep, transfers: &Transfers, look: Look) -> String {
    let headers = [
        "",
        "size",
        "for a peer",
        "in the node",
        "to other nodes",
        "time µs",
        "alg GB/s",
    ];
    let mut table = Columns::new(look, &headers).right(&[1, 2, 5, 6]);
    let mut before = None;
    for size in &transfers.sizes {
        let now = Some((size.local, size.remote));
        let mark = if before.is_some() && before != now {
            "▸"
        } else {
            ""
        };
        before = now;
        let speed = size.time_us.filter(|time| *time > 0.0);
        let speed = speed.map(|time| format!("{:.2}", size.bytes as f64 / time / 1e3));
        table.row(vec![
            mark.to_owned(),
            short(size.bytes),
            short(size.pair_bytes),
            pair(size.local),
            pair(size.remote),
            size.time_us.map_or_else(String::new, microseconds),
            speed.unwrap_or_default(),
        ]);
    }
    let sentence = wrap(&sentence(job, sweep, transfers), "  ", "  ", look.width);
    look.section(
        sweep.collective.name(),
        "what NCCL takes for transfers of this size; the time is an estimate by the rings' bandwidth",
        &(table.finish() + &sentence),
    )
}

/// `4 × Simple, 512K`: channels, protocol and chunk.
fn pair(pair: Option<PairTransfer>) -> String {
    pair.map_or_else(String::new, |pair| {
        let (channels, protocol) = (pair.channels, pair.protocol);
        format!("{channels} × {protocol}, {}", short(pair.chunk))
    })
}

fn sentence(job: &PricedJob, sweep: &Sweep, transfers: &Transfers) -> String {
    let mut text = format!(
        "Two ranks have {} of {} channels, on which each moves its part in chunks.",
        transfers.per_peer, transfers.channels
    );
    if sweep.collective == Collective::AllToAll {
        let shown = transfers.order.iter().take(SHOWN_PEERS);
        let shown: Vec<String> = shown.map(u32::to_string).collect();
        let more = if transfers.order.len() > SHOWN_PEERS {
            " …"
        } else {
            ""
        };
        text.push_str(&format!(" Rank 0 sends to {}{more}.", shown.join(" ")));
    }
    if let Some((ranks, channels)) = transfers.fewer_beyond {
        let each = job.plan.rank_count() / u64::from(job.plan.request.hosts.max(1));
        let hosts = u64::from(ranks) / each.max(1);
        text.push_str(&format!(
            " With more than {ranks} ranks ({hosts} such hosts) they have {channels}."
        ));
    }
    text
}
