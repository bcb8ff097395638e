//! Cases that can be computed by hand: ranks on hosts with one port each.

use program::lower::{Lowering, ProgramRequest};
use program::{Channels, Collective, MessageSize, Schedule, Transfer};
use simulator::build::build;
use simulator::{Cause, Fabric, PlainHosts, Simulation, Time, simulate};

/// Bytes of a FIFO slot.
const SLOT: u32 = 256 << 10;

/// A piece of 64 KiB at 1 GB/s.
const TAU: f64 = 65.536;

struct Job {
    ranks: u32,
    collective: Collective,
    schedule: Schedule,
    bytes: u64,
    channels: usize,
}

impl Job {
    const fn new(ranks: u32, collective: Collective, schedule: Schedule, bytes: u64) -> Self {
        Self {
            ranks,
            collective,
            schedule,
            bytes,
            channels: 1,
        }
    }

    fn try_run(&self, fabric: &str, collapse: bool) -> Result<Simulation, String> {
        let fabric = Fabric::from_toml("fabric.toml", fabric).map_err(|it| it.to_string())?;
        let channels = Channels::plain(self.ranks, self.channels).map_err(|it| it.to_string())?;
        let request = ProgramRequest {
            collective: self.collective,
            schedule: self.schedule,
            transfer: Transfer::Fifo,
            root: 0,
            in_place: false,
            channels: &channels,
        };
        let blocks = self.collective.blocks(self.ranks);
        let message = MessageSize {
            count: self.bytes / 4 / blocks,
            element_bytes: 4,
            slot_bytes: SLOT,
            piece_bytes: 0,
        };
        let lowering = Lowering::new(&request).map_err(|it| it.to_string())?;
        let hosts = PlainHosts::new(self.ranks, 1.0, &fabric);
        let model = build(&lowering, &message, &hosts).map_err(|it| it.to_string())?;
        simulate(model, 1000, collapse).map_err(|it| it.to_string())
    }

    /// The time in µs, which must not depend on collapsing.
    fn time(&self, fabric: &str) -> f64 {
        let [one, other] = [true, false].map(|it| self.try_run(fabric, it).expect("a job"));
        assert_eq!(one.outcome.time, other.outcome.time, "{fabric}");
        assert_eq!(one.outcome.path.total(), one.outcome.time);
        one.outcome.time.us()
    }
}

fn close(found: f64, expected: f64) {
    assert!(
        (found - expected).abs() < 1e-6 * expected,
        "found {found} µs, expected {expected} µs"
    );
}

const LATENCY: &str = "[network]\nlatency-us = 10\n";

#[test]
fn a_ring_takes_its_steps_one_after_the_other() {
    for ranks in [2, 3, 4, 8] {
        let bytes = u64::from(ranks) * (64 << 10);
        let job = Job::new(ranks, Collective::AllReduce, Schedule::Ring, bytes);
        // 2 (n - 1) steps of one piece and one latency.
        close(job.time(LATENCY), f64::from(2 * (ranks - 1)) * (TAU + 10.0));
        let gather = Job::new(ranks, Collective::AllGather, Schedule::Ring, bytes);
        close(gather.time(LATENCY), f64::from(ranks - 1) * (TAU + 10.0));
    }
}

#[test]
fn transfers_from_one_port_share_it() {
    // The root sends 64 KiB to two ranks at once, each at half of its port's rate.
    let job = Job::new(3, Collective::Broadcast, Schedule::Mesh, 64 << 10);
    close(job.time(LATENCY), 2.0 * TAU + 10.0);
    // With a slow receiver, the other gets the rest: 0.25 and 0.75 of the rate.
    let slow = "[[port]]\nhost = 1\nreceive-gbps = 0.25\n";
    close(job.time(slow), 4.0 * TAU);
}

#[test]
fn a_chain_is_a_pipeline() {
    // Four slots through two hops: five times a slot.
    let job = Job::new(3, Collective::Broadcast, Schedule::Ring, 1 << 20);
    close(job.time(""), 5.0 * 4.0 * TAU);
    close(job.time(LATENCY), 5.0 * 4.0 * TAU + 20.0);
    // The second hop is the bottleneck: the first slot, then four at a quarter of the rate.
    let slow = "[[port]]\nhost = 2\nreceive-gbps = 0.25\n";
    close(job.time(slow), (1.0 + 16.0) * 4.0 * TAU);
}

#[test]
fn free_slots_hold_a_sender_up() {
    // 64 slots to a slow host, through a host that is fast: it may be ahead by its own 8 slots and
    // the window, and the first hop ends that much earlier than the second.
    let job = Job::new(3, Collective::Broadcast, Schedule::Ring, 16 << 20);
    let slow = "[[port]]\nhost = 2\nreceive-gbps = 0.1\n";
    let run = job.try_run(slow, false).expect("a job");
    let slot = 4.0 * TAU;
    close(run.outcome.time.us(), slot + 64.0 * 10.0 * slot);
    let ends: Vec<f64> = run.outcome.lanes.iter().map(|lane| lane.end.us()).collect();
    // Rank 1 fills its last slot when its 8 slots are free but one: after 56 of the second hop
    // have left.
    close(ends[1], slot + 56.0 * 10.0 * slot);
    // Rank 0 fills its last slot when 56 have been sent; rank 1 had received 48 of them, when the
    // second hop had sent 40.
    close(ends[0], slot + 40.0 * 10.0 * slot + slot);
}

#[test]
fn an_oversubscribed_spine_is_shared() {
    // Two leaf switches of two hosts. Of the ring, one hop leaves each leaf. With an
    // oversubscription of 4 the uplink has half of a port, so the six pieces of these hops take
    // twice as long.
    let job = Job::new(4, Collective::AllReduce, Schedule::Ring, 256 << 10);
    let leaf = |factor: u32| format!("[leaf]\nhosts = 2\noversubscription = {factor}\n");
    close(job.time(&leaf(1)), 6.0 * TAU);
    close(job.time(&leaf(2)), 6.0 * TAU);
    close(job.time(&leaf(4)), 12.0 * TAU);
    // All to all: each host sends two of three messages through the spine; four transfers share
    // an uplink with the bandwidth of one port.
    let job = Job::new(4, Collective::AllToAll, Schedule::Mesh, 256 << 10);
    close(job.time(&leaf(2)), 4.0 * TAU);
    let spine = format!("{}spine-us = 7\n", leaf(1));
    close(job.time(&spine), 3.0 * TAU + 7.0);
}

#[test]
fn a_failed_uplink_leaves_its_transfers_to_the_others() {
    let job = Job::new(4, Collective::AllReduce, Schedule::Ring, 256 << 10);
    let fabric = "[leaf]\nhosts = 2\nuplinks = 4\n[[uplink]]\nleaf = 1\nfailed = 3\n";
    // Of 2 GB/s a quarter is left.
    close(job.time(fabric), 12.0 * TAU);
    let all = fabric.replace("failed = 3", "failed = 4");
    let error = job.try_run(&all, true).expect_err("no way");
    assert!(
        error.contains(
            "rank 3 sends to rank 0 on channel 0 through the uplinks of leaf 1, which has failed"
        ),
        "{error}"
    );
}

#[test]
fn a_failed_port_is_an_error() {
    let job = Job::new(4, Collective::AllReduce, Schedule::Ring, 256 << 10);
    let error = job.try_run("[[port]]\nhost = 2\nfailed = true\n", true);
    let error = error.expect_err("no way");
    assert!(error.contains("the port of host 2"), "{error}");
}

#[test]
fn others_wait_for_a_late_rank() {
    let job = Job::new(2, Collective::AllReduce, Schedule::Ring, 128 << 10);
    let late = format!("{LATENCY}[[delay]]\nrank = 1\nus = 500\n");
    close(job.time(&late), 500.0 + 2.0 * (TAU + 10.0));
    let run = job.try_run(&late, true).expect("a job");
    close(run.outcome.path.of(Cause::Start).us(), 500.0);
    close(run.outcome.path.of(Cause::Latency).us(), 20.0);
    close(run.outcome.path.of(Cause::Nic).us(), 2.0 * TAU);
    // Rank 0 sent at once and waited for the first piece of rank 1.
    // Both pieces of rank 1 leave one after the other.
    close(run.outcome.lanes[0].data.us(), 500.0 + 2.0 * TAU + 10.0);
}

#[test]
fn reductions_take_time_where_a_rate_is_given() {
    // Copy, reduce (two operands), copy; and two transfers.
    let job = Job::new(2, Collective::AllReduce, Schedule::Ring, 128 << 10);
    let work = format!("{LATENCY}[ranks]\nwork-gbps = 1\n");
    close(job.time(&work), 6.0 * TAU + 20.0);
}

#[test]
fn ranks_of_one_host_do_not_use_its_port() {
    let job = Job::new(4, Collective::AllReduce, Schedule::Ring, 256 << 10);
    // Two hosts: the hops inside them take no time. A piece crosses the network three times in six
    // hops; each port sends six pieces, one after the other.
    close(job.time("[ranks]\nper-host = 2\n"), 6.0 * TAU);
}

#[test]
fn equal_lanes_are_run_once_and_nothing_changes() {
    use Collective::{AllGather, AllReduce, AllToAll, Broadcast, ReduceScatter};
    for (ranks, collective, schedule) in [
        (8, AllReduce, Schedule::Ring),
        (8, AllReduce, Schedule::Tree),
        (8, AllReduce, Schedule::HalvingDoubling),
        (7, AllReduce, Schedule::TwoPhaseMesh),
        (6, AllReduce, Schedule::ReduceBroadcast),
        (8, AllGather, Schedule::Bruck),
        (5, AllToAll, Schedule::Mesh),
        (9, Broadcast, Schedule::Tree),
        (8, ReduceScatter, Schedule::Ring),
    ] {
        for fabric in [
            "",
            "[network]\nlatency-us = 3\nheader-bytes = 16\n[leaf]\nhosts = 2\noversubscription = 3\n",
            "[[delay]]\nrank = 2\nus = 40\n",
            "[ranks]\nper-host = 2\nwork-gbps = 5\n",
        ] {
            let job = Job {
                channels: 2,
                ..Job::new(ranks, collective, schedule, 3 << 20)
            };
            let one = job.try_run(fabric, true).expect("a job");
            let all = job.try_run(fabric, false).expect("a job");
            assert_eq!(one.outcome.time, all.outcome.time, "{schedule} {fabric}");
            for ((number, _), bytes) in one.links.iter().zip(&one.outcome.link_bytes) {
                assert_eq!(*bytes, all.outcome.link_bytes[*number as usize]);
            }
            for ((number, _), times) in one.lanes.iter().zip(&one.outcome.lanes) {
                assert_eq!(*times, all.outcome.lanes[*number as usize]);
            }
            let again = job.try_run(fabric, false).expect("a job");
            assert_eq!(again.outcome, all.outcome);
        }
    }
}

#[test]
fn pieces_of_a_short_message_are_left_out() {
    // Of eight pieces three exist: 64 bytes each, the last 32.
    for bytes in [160, 192, 448, 512, 640] {
        let job = Job::new(8, Collective::AllReduce, Schedule::Ring, bytes);
        // The last rank gets the piece that was reduced last after 14 hops.
        let time = job.time(LATENCY);
        assert!(time > 140.0 && time < 142.0, "{bytes}: {time}");
    }
}

#[test]
fn a_ring_of_equal_hosts_is_one_lane() {
    let job = Job::new(1000, Collective::AllReduce, Schedule::Ring, 1000 << 16);
    let run = job.try_run(LATENCY, true).expect("a job");
    assert_eq!((run.model.lanes.len(), run.lanes[0].1), (1, 1000));
    assert_eq!(run.whole, (1000, 1000 * 1999));
    assert_eq!(run.outcome.steps, 1999);
    close(run.outcome.time.us(), 1998.0 * (TAU + 10.0));
    assert!(run.outcome.time > Time::ZERO);
}
