//! Properties of every job: rings visit every rank, trees span all ranks, schedules match.

use crate::common::{equal, machines, plan};
use plan::expand::double_tree;
use plan::{Connection, Expansion, GraphKind, NotDirect, NotShared, Plan, RankOrder, RankView};
use planner::{EqualHosts, Error, Job, JobPlan, Planned, RankPlacement};
use proptest::prelude::*;
use topology::{NodeType, PathType, System};

fn join(job: &Job, variables: &[(&str, &str)]) -> JobPlan {
    plan(job, variables).expect("NCCL plans it").job
}

fn check_rings(joined: &JobPlan) -> Result<(), TestCaseError> {
    let ranks = joined.layout().ranks();
    for channel in 0..joined.common().channels.count() {
        let ring: Vec<u32> = joined.expansion.ring(channel).collect();
        let mut sorted = ring.clone();
        sorted.sort_unstable();
        prop_assert!(
            sorted.iter().copied().eq(0..ranks),
            "channel {channel} visits {ring:?}"
        );
        prop_assert_eq!(ring[0], 0);
        for (index, rank) in ring.iter().enumerate() {
            let place = joined
                .expansion
                .ring_place(*rank, channel)
                .expect("a rank of the job");
            prop_assert_eq!(place.index as usize, index);
            prop_assert_eq!(place.next, ring[(index + 1) % ring.len()]);
            prop_assert_eq!(place.previous, ring[(index + ring.len() - 1) % ring.len()]);
        }
    }
    Ok(())
}

fn check_trees(joined: &JobPlan) -> Result<(), TestCaseError> {
    let ranks = joined.layout().ranks();
    let node = |rank| {
        joined
            .layout()
            .rank(rank)
            .expect("a rank of the job")
            .node
            .node
    };
    for channel in 0..joined.common().channels.count() {
        let places: Vec<_> = (0..ranks)
            .map(|rank| {
                joined
                    .expansion
                    .tree_place(rank, channel)
                    .expect("a rank of the job")
            })
            .collect();
        let roots: Vec<u32> = (0..ranks)
            .filter(|rank| places[*rank as usize].up.is_none())
            .collect();
        prop_assert_eq!(roots.len(), 1, "channel {} has roots {:?}", channel, roots);
        // Going down from the root reaches every rank once, and each child names its parent.
        let (mut reached, mut open) = (0, roots);
        while let Some(rank) = open.pop() {
            reached += 1;
            prop_assert!(reached <= ranks, "channel {channel} has a loop");
            for child in places[rank as usize].down.into_iter().flatten() {
                prop_assert_eq!(places[child as usize].up, Some(rank));
                open.push(child);
            }
        }
        prop_assert_eq!(reached, ranks, "channel {}", channel);
    }
    // The trees of a pair are in channels c and c + searched.
    let searched = joined.common().channels.searched;
    if joined.layout().nodes().is_multiple_of(2) && joined.common().channels.count() >= 2 * searched
    {
        for channel in 0..searched {
            let inner = |channel| -> Vec<u32> {
                let mut nodes: Vec<u32> = (0..ranks)
                    .filter(|rank| {
                        let place = joined
                            .expansion
                            .tree_place(*rank, channel)
                            .expect("a rank of the job");
                        place
                            .down
                            .into_iter()
                            .flatten()
                            .any(|child| node(child) != node(*rank))
                    })
                    .map(node)
                    .collect();
                nodes.dedup();
                nodes
            };
            let (first, second) = (inner(channel), inner(channel + searched));
            prop_assert!(
                !first.iter().any(|node| second.contains(node)),
                "channel {channel}: {first:?} {second:?}"
            );
        }
    }
    Ok(())
}

fn check_schedule(joined: &JobPlan) -> Result<(), TestCaseError> {
    let ranks = joined.layout().ranks();
    let schedules: Vec<Vec<_>> = (0..ranks)
        .map(|rank| joined.expansion.schedule(rank).collect())
        .collect();
    for (rank, schedule) in schedules.iter().enumerate() {
        let mut met: Vec<u32> = schedule.iter().map(|round| round.send).collect();
        met.sort_unstable();
        prop_assert!(
            met.iter().copied().eq(0..ranks),
            "rank {rank} sends to {met:?}"
        );
        prop_assert_eq!(schedule[0].send as usize, rank);
        for (round, meeting) in schedule.iter().enumerate() {
            prop_assert_eq!(
                schedules[meeting.send as usize][round].receive as usize,
                rank
            );
        }
    }
    Ok(())
}

fn check_connections(joined: &JobPlan, rank: u32) -> Result<(), TestCaseError> {
    for kind in [GraphKind::Ring, GraphKind::Tree] {
        for (channel, peer, connection) in joined
            .expansion
            .sends(rank, kind)
            .expect("planned jobs have connections")
        {
            let place = |rank| joined.layout().rank(rank).expect("a rank of the job");
            let same_host = place(rank).host == place(peer).host;
            match connection {
                Connection::Direct { path, .. } => prop_assert!(path < PathType::Net),
                Connection::SharedMemory { .. } => prop_assert!(same_host),
                Connection::Network {
                    not_shared,
                    sender,
                    receiver,
                    ..
                } => {
                    prop_assert_eq!(
                        not_shared == NotShared::OtherHost,
                        !same_host,
                        "channel {}",
                        channel
                    );
                    // A proxy drives a port of its own host; the receiver drives its port itself.
                    prop_assert_eq!(place(sender.proxy).host, place(rank).host);
                    prop_assert_eq!(receiver.proxy, peer);
                }
            }
        }
    }
    Ok(())
}

/// The order of ranks: host after host, dealt in turn, or shuffled.
#[derive(Debug, Clone, Copy)]
enum Order {
    Plain,
    Dealt,
    Shuffled(u64),
}

fn order() -> impl Strategy<Value = Order> {
    prop_oneof![
        Just(Order::Plain),
        Just(Order::Dealt),
        any::<u64>().prop_map(Order::Shuffled),
    ]
}

fn job(runs: &[(prop::sample::Index, u32)], order: Order) -> Job {
    let names = machines();
    let hosts = runs.iter().flat_map(|(machine, hosts)| {
        let machine = machine.get::<String>(&names);
        equal(machine, *hosts).hosts
    });
    let mut job = Job::of(hosts.collect());
    job.ranks = match order {
        Order::Plain => RankPlacement::HostByHost,
        Order::Dealt => RankPlacement::RoundRobin,
        Order::Shuffled(seed) => {
            let gpus = |hosts: &EqualHosts| {
                let system = System::from_document(&hosts.document).expect("a machine");
                system.count(NodeType::Gpu) as u32 * hosts.count
            };
            let mut slots: Vec<u32> = (0..job.hosts.iter().map(gpus).sum()).collect();
            slots.sort_by_key(|slot| (u64::from(*slot) ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            RankPlacement::Listed(RankOrder::new(slots))
        }
    };
    job
}

/// Each rank's view, read from the plan file, agrees with the joined job, and neighbors agree on
/// their connection.
fn check_views(joined: &JobPlan, read: &Expansion) -> Result<(), TestCaseError> {
    let ranks = joined.layout().ranks();
    let views: Result<Vec<RankView>, _> = (0..ranks).map(|rank| read.rank_view(rank)).collect();
    let views = match views {
        Ok(views) => views,
        // A host without NICs in a job of several hosts; the joined job says the same.
        Err(plan::Error::NoPort { .. }) => return Ok(()),
        Err(error) => return Err(TestCaseError::fail(error.to_string())),
    };
    for channel in 0..joined.common().channels.count() {
        let ring: Vec<u32> = joined.expansion.ring(channel).collect();
        for (rank, view) in views.iter().enumerate() {
            let rank = rank as u32;
            let view = &view.channels[channel as usize];
            let peer = |other: u32| &views[other as usize].channels[channel as usize];
            if let Some(own) = view.ring {
                prop_assert_eq!(ring[own.index as usize], rank);
                prop_assert_eq!(own.next.peer, ring[(own.index as usize + 1) % ring.len()]);
                let there = peer(own.next.peer).ring.expect("a ring of several ranks");
                prop_assert_eq!(there.previous.peer, rank);
                prop_assert_eq!(there.previous.receive, own.next.send);
            } else {
                prop_assert_eq!(ranks, 1);
            }
            let whole = joined.expansion.tree_place(rank, channel).expect("a rank");
            prop_assert_eq!(view.tree.up.map(|link| link.peer), whole.up);
            prop_assert_eq!(
                view.tree.down.map(|down| down.map(|link| link.peer)),
                whole.down
            );
            if let Some(up) = view.tree.up {
                let below = peer(up.peer).tree.down.into_iter().flatten();
                let back = below.into_iter().find(|link| link.peer == rank);
                prop_assert_eq!(
                    back.map(|link| (link.send, link.receive)),
                    Some((up.receive, up.send))
                );
            }
        }
    }
    for (rank, view) in views.iter().enumerate() {
        let rank = rank as u32;
        let nvls = joined.expansion.nvls_place(rank);
        prop_assert_eq!(
            view.nvls.as_ref().map(|view| view.head),
            nvls.map(|place| place.head)
        );
        prop_assert_eq!(
            view.collnet.as_ref().map(|view| view.place.clone()),
            joined.expansion.direct_place(rank)
        );
        prop_assert!(read.schedule(rank).eq(joined.expansion.schedule(rank)));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_job_is_connected(
        runs in proptest::collection::vec((any::<prop::sample::Index>(), 1u32..20), 1..3),
        rank in any::<prop::sample::Index>(),
        order in order(),
    ) {
        match plan(&job(&runs, order), &[]) {
            // NCCL refuses such a job too; the message says why.
            Err(error) => prop_assert!(!error.to_string().is_empty()),
            Ok(Planned { job: joined, .. }) => {
                check_rings(&joined)?;
                check_trees(&joined)?;
                check_schedule(&joined)?;
                check_connections(&joined, rank.index(joined.layout().ranks() as usize) as u32)?;
            }
        }
    }

    #[test]
    fn a_plan_file_says_what_the_joined_job_says(
        runs in proptest::collection::vec((any::<prop::sample::Index>(), 1u32..6), 1..3),
        order in order(),
        collnet in any::<bool>(),
    ) {
        let job = Job { collnet, ..job(&runs, order) };
        let Ok(planned) = plan(&job, &[]) else {
            return Ok(());
        };
        let plan = planned.plan();
        let text = plan.to_json().expect("a plan without contradictions");
        let read = Plan::from_json(&text).expect("the plan as it was written");
        prop_assert_eq!(&read, plan);
        check_views(&planned.job, read.expansion().expect("a whole plan"))?;
    }

    #[test]
    fn two_trees_share_no_inner_node(half in 1u32..200) {
        let nodes = 2 * half;
        for node in 0..nodes {
            let [first, second] = double_tree(nodes, node).map(|links| links.children.iter().any(Option::is_some));
            prop_assert!(!(first && second), "{node} of {nodes}");
        }
    }
}

#[test]
fn a_job_is_planned_once_per_machine() {
    let joined = join(&equal("dgx-h100", 16_384), &[]);
    assert_eq!(joined.layout().ranks(), 131_072);
    assert_eq!(joined.hosts.distinct().count(), 1);
    let last = joined
        .expansion
        .ring_place(131_071, 0)
        .expect("the last rank");
    assert_eq!(
        joined
            .expansion
            .ring_place(last.next, 0)
            .map(|place| place.previous),
        Some(131_071)
    );
}

#[test]
fn connections_say_why() {
    let first_send = |job: &Job, variables: &[(&str, &str)]| {
        let joined = join(job, variables);
        let next = joined.expansion.ring_place(0, 0).expect("rank 0").next;
        (
            next,
            joined
                .expansion
                .connection(0, next, GraphKind::Ring, 0)
                .expect("connected"),
        )
    };
    let one = equal("dgx-h100", 1);
    assert!(matches!(
        first_send(&one, &[]),
        (
            1,
            Connection::Direct {
                via: None,
                read: false,
                path: PathType::Nvl,
                ..
            }
        )
    ));
    let (_, shared) = first_send(
        &one,
        &[("NCCL_P2P_DISABLE", "1"), ("NCCL_NET_DISABLE_INTRA", "1")],
    );
    let not_direct = match shared {
        Connection::SharedMemory { not_direct, .. } => not_direct,
        other => panic!("{other:?}"),
    };
    assert!(
        matches!(
            not_direct,
            NotDirect::Path {
                limit: PathType::Loc,
                ..
            }
        ),
        "{not_direct:?}"
    );
    let joined = join(&equal("dgx-h100", 2), &[]);
    let edges = joined.expansion.ring_edges(1).expect("ports");
    let send = edges
        .iter()
        .find(|edge| edge.sends)
        .expect("rank 1 leaves its host");
    assert_eq!(
        (send.channel, send.peer, send.net.net, send.net.proxy),
        (0, 9, 1, 1)
    );
    let connection = joined
        .expansion
        .connection(1, 9, GraphKind::Ring, 0)
        .expect("connected");
    assert!(matches!(
        connection,
        Connection::Network {
            not_direct: NotDirect::OtherHost,
            not_shared: NotShared::OtherHost,
            ..
        }
    ));
}

/// The next rank of a ring, and the ports of the sender and the receiver.
fn ring_ports(joined: &JobPlan, rank: u32, channel: u32) -> (u32, [(i64, PathType); 2]) {
    let next = joined
        .expansion
        .ring_place(rank, channel)
        .expect("a rank of the job")
        .next;
    match joined
        .expansion
        .connection(rank, next, GraphKind::Ring, channel)
    {
        Ok(Connection::Network {
            sender, receiver, ..
        }) => {
            let port = |end: plan::NetEnd| (end.net, end.path_type);
            (next, [port(sender), port(receiver)])
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn merged_ports_leave_no_port_0() {
    let refused = plan(&equal("random-00162", 1), &[]).err();
    assert!(
        matches!(refused, Some(Error::NoFirstPort { .. })),
        "{refused:?}"
    );
}

#[test]
fn every_use_of_the_network_has_a_port() {
    // One host with two GPUs that reach each other faster through the network. Its graphs name no
    // port, which NCCL reads as port 0.
    let joined = join(&equal("random-00162", 1), &[("NCCL_IB_MERGE_NICS", "0")]);
    assert_eq!(
        ring_ports(&joined, 1, 0),
        (2, [(0, PathType::Sys), (0, PathType::Sys)])
    );
    // Alternating rings whose pair does not begin and end at the same GPUs: on the second host,
    // GPU 0 leaves in channel 2 as in channel 3, but by the port of channel 2.
    let joined = join(&equal("random-00184", 2), &[]);
    assert_eq!(
        ring_ports(&joined, 8, 2),
        (2, [(4, PathType::Sys), (1, PathType::Phb)])
    );
}

/// GPU 4 reaches the first CPU over NVLink and the C2C link of GPU 3, GPU 1 the second one only by
/// the link between CPUs. So GPU 4 sends to GPU 1 directly, and GPU 1 expects shared memory.
#[test]
fn hosts_of_one_nvlink_domain_are_one_node() {
    let domain = Job {
        nvlink_domain: true,
        ..equal("gb200-nvl72-tray", 3)
    };
    let joined = join(&domain, &[]);
    assert_eq!(
        (
            joined.layout().nodes(),
            joined.layout().hosts(),
            joined.layout().ranks()
        ),
        (1, 3, 12)
    );
    let places: Vec<u32> = (0..12)
        .filter_map(|rank| Some(joined.layout().rank(rank)?.host))
        .collect();
    assert_eq!(places, [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]);
    assert!(matches!(
        joined.expansion.connection(3, 4, GraphKind::Ring, 0),
        Ok(Connection::Direct {
            path: PathType::Nvl,
            ..
        })
    ));
}

#[test]
fn jobs_that_cannot_be() {
    assert_eq!(plan(&Job::of(Vec::new()), &[]).err(), Some(Error::NoHosts));
    assert_eq!(plan(&equal("dgx-h100", 0), &[]).err(), Some(Error::NoHosts));
    assert!(matches!(
        plan(&equal("dgx-h100", u32::MAX), &[]).err(),
        Some(Error::TooManyRanks { .. })
    ));
    let mixed = ["dgx-h100", "gb200-nvl72-tray"].map(|name| equal(name, 1).hosts);
    let mixed = Job::of(mixed.concat());
    assert!(plan(&mixed, &[]).is_ok());
    assert!(matches!(
        plan(&mixed, &[("NCCL_IGNORE_NET_MISMATCH", "0")]).err(),
        Some(Error::NetMismatch { .. })
    ));
    let joined = join(&mixed, &[]);
    assert!(matches!(
        joined.expansion.connection(0, 12, GraphKind::Ring, 0),
        Err(plan::Error::NoSuchRank {
            rank: 12,
            ranks: 12
        })
    ));
    assert_eq!(joined.expansion.schedule(12).count(), 0);
}
