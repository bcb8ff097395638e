//! What holds for every job, whatever its machines: rings visit every rank, trees span all of them, schedules match.

use std::path::PathBuf;

use plan::expand::double_tree;
use plan::{Connection, GraphKind, NotDirect, NotShared};
use planner::cluster::nvlink_domain;

use planner::{Cluster, Error, Joined, Settings};
use proptest::prelude::*;
use topology::xml::Document;
use topology::{PathType, System};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../topologies")
}

/// The machines with a topology file, by name.
fn machines() -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder())
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.join("topology.xml").is_file())
        .filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
        .collect();
    names.sort();
    assert!(!names.is_empty(), "no machines in {}", folder().display());
    names
}

fn document(name: &str) -> Document {
    let path = folder().join(name).join("topology.xml");
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    topology::xml::parse(name, &bytes).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn system(name: &str) -> System {
    System::from_document(&document(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn settings(variables: &[(&str, &str)]) -> Settings {
    Settings::from_variables(
        variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
    )
}

fn join(cluster: &Cluster, variables: &[(&str, &str)]) -> Result<Joined, Error> {
    let settings = settings(variables);
    Joined::new(cluster.plan(false, &settings)?, &settings)
}

fn check_rings(joined: &Joined) -> Result<(), TestCaseError> {
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

fn check_trees(joined: &Joined) -> Result<(), TestCaseError> {
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
    // The trees of a pair stand in channels c and c + searched.
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

fn check_schedule(joined: &Joined) -> Result<(), TestCaseError> {
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

fn check_connections(joined: &Joined, rank: u32) -> Result<(), TestCaseError> {
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_job_is_connected(
        runs in proptest::collection::vec((any::<prop::sample::Index>(), 1u32..20), 1..3),
        rank in any::<prop::sample::Index>(),
    ) {
        let names = machines();
        let mut cluster = Cluster::new();
        for (machine, hosts) in &runs {
            let machine = cluster.add_machine(system(machine.get::<String>(&names)));
            cluster.place(machine, *hosts);
        }
        match join(&cluster, &[]) {
            // NCCL refuses such a job too; the message says why.
            Err(error) => prop_assert!(!error.to_string().is_empty()),
            Ok(joined) => {
                check_rings(&joined)?;
                check_trees(&joined)?;
                check_schedule(&joined)?;
                check_connections(&joined, rank.index(joined.layout().ranks() as usize) as u32)?;
            }
        }
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
    let joined = join(&Cluster::equal(system("dgx-h100"), 16_384), &[]).expect("NCCL plans it");
    assert_eq!(joined.layout().ranks(), 131_072);
    assert_eq!(joined.plan.distinct().count(), 1);
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
    let first_send = |cluster: &Cluster, variables: &[(&str, &str)]| {
        let joined = join(cluster, variables).expect("NCCL plans it");
        let next = joined.expansion.ring_place(0, 0).expect("rank 0").next;
        (
            next,
            joined
                .expansion
                .connection(0, next, GraphKind::Ring, 0)
                .expect("connected"),
        )
    };
    let one = Cluster::equal(system("dgx-h100"), 1);
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
    let joined = join(&Cluster::equal(system("dgx-h100"), 2), &[]).expect("NCCL plans it");
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

#[test]
fn hosts_of_one_nvlink_domain_are_one_node() {
    let tray = document("gb200-nvl72-tray");
    let domain = nvlink_domain([&tray, &tray, &tray]).expect("three hosts");
    let joined = join(
        &Cluster::equal(System::from_document(&domain).expect("a machine"), 1),
        &[],
    )
    .expect("NCCL plans it");
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
    assert_eq!(join(&Cluster::new(), &[]).err(), Some(Error::NoHosts));
    assert_eq!(
        join(&Cluster::equal(system("dgx-h100"), 0), &[]).err(),
        Some(Error::NoHosts)
    );
    assert!(matches!(
        join(&Cluster::equal(system("dgx-h100"), u32::MAX), &[]).err(),
        Some(Error::TooManyRanks { .. })
    ));
    assert!(matches!(
        join(&Cluster::equal(system("pcie-8gpu-nonet"), 2), &[]).err(),
        Some(Error::NoNet { .. })
    ));
    let mut mixed = Cluster::new();
    for name in ["dgx-h100", "gb200-nvl72-tray"] {
        let machine = mixed.add_machine(system(name));
        mixed.place(machine, 1);
    }
    assert!(join(&mixed, &[]).is_ok());
    assert!(matches!(
        join(&mixed, &[("NCCL_IGNORE_NET_MISMATCH", "0")]).err(),
        Some(Error::NetMismatch { .. })
    ));
    let joined = join(&mixed, &[]).expect("NCCL plans it");
    assert!(matches!(
        joined.expansion.connection(0, 12, GraphKind::Ring, 0),
        Err(plan::Error::NoSuchRank {
            rank: 12,
            ranks: 12
        })
    ));
    assert_eq!(joined.expansion.schedule(12).count(), 0);
}
