//! Many state machines at a time, and under faults.

mod faults;
mod pipes;
mod scale;
mod scenario;
mod world;

use std::time::Duration;

use bootstrap::member::Meeting;
use bootstrap::{Action, Conn, Ending, Infos, Member, Place, Timing};
use scenario::{Fault, Outcome, Scenario};

#[test]
fn each_rank_sends_as_many_messages_as_there_are_others() {
    for (ranks, roots) in [
        (1, 1),
        (2, 1),
        (3, 2),
        (8, 1),
        (97, 16),
        (600, 1),
        (600, 16),
    ] {
        let scale = scale::run(ranks, roots, 1).unwrap();
        // Every part travels ⌊n/2⌋ steps in one direction and ⌊(n−1)/2⌋ in the other.
        assert_eq!(scale.parts, (ranks - 1, ranks - 1), "{ranks} ranks");
        if ranks == 1 {
            continue;
        }
        // CheckIn, Done and Hello; the first rank of a group also checks in with the previous root.
        let first = if roots > 1 { 5 } else { 3 };
        assert_eq!(scale.others, (3, first), "{ranks} ranks, {roots} roots");
        assert_eq!(scale.of_roots, ranks);
        let registered = if roots > 1 { roots } else { 0 };
        assert_eq!(scale.connections, (2 * ranks + registered) as usize);
        assert!(scale.most_in_transit <= 6 * ranks as usize, "{scale:?}");
    }
}

/// `cargo test --release -p bootstrap --test simulation -- --ignored --nocapture`: time and memory
/// of a large job.
#[test]
#[ignore = "takes a minute: lets 16384 ranks meet"]
fn sixteen_thousand_ranks_meet() {
    for roots in [1, 16] {
        let began = std::time::Instant::now();
        let scale = scale::run(16_384, roots, 1).unwrap();
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        println!(
            "{roots} roots: {:.1?}, at most{}",
            began.elapsed(),
            peak.unwrap_or_default()
        );
        println!("{scale:?}");
    }
}

#[test]
fn five_hundred_seeded_faults_end_in_success_or_a_named_error() {
    let (mut done, mut failed, mut gone) = (0, 0, 0);
    for seed in 0..500 {
        let scenario = Scenario::random(seed);
        let outcomes = scenario
            .run()
            .unwrap_or_else(|problem| panic!("seed {seed}: {problem}"));
        for (outcome, at) in &outcomes {
            assert!(*at <= scenario.deadline(), "seed {seed}");
            match outcome {
                Outcome::Done => done += 1,
                Outcome::Failed(_) => failed += 1,
                Outcome::Gone => gone += 1,
            }
        }
        // The same seed gives the same run.
        if seed % 50 == 0 {
            assert_eq!(Ok(outcomes), scenario.run(), "seed {seed}");
        }
    }
    // Faults that never change the outcome would show nothing.
    assert!(
        done > 500 && failed > 500 && gone > 50,
        "{done} {failed} {gone}"
    );
}

/// Runs a job with one fault. Returns the failures that its ranks hear of.
fn heard(ranks: u32, roots: u32, at: Duration, fault: Fault) -> Vec<(u32, String)> {
    let scenario = Scenario {
        ranks,
        roots,
        faults: vec![(at, fault)],
        seed: 3,
    };
    let outcomes = scenario.run().unwrap();
    let failures = outcomes
        .into_iter()
        .filter_map(|(outcome, _)| match outcome {
            Outcome::Failed(failure) => Some((failure.rank, failure.what)),
            Outcome::Done | Outcome::Gone => None,
        });
    failures.collect()
}

#[test]
fn the_culprit_is_named_by_everyone() {
    let early = Duration::ZERO;
    for (fault, words) in [
        (Fault::Missing(5), "did not come within 60 s"),
        (Fault::OtherPlan(5), "give all ranks the same plan"),
        (Fault::SameDevice(5), "device 0, as does rank 0"),
        (
            Fault::Double(5),
            "two processes say that they are this rank",
        ),
        (Fault::WrongToken(5), "did not come within 60 s"),
    ] {
        let heard = heard(8, 1, early, fault);
        assert!(heard.len() >= 7, "{fault:?}: {heard:?}");
        let about = heard
            .iter()
            .filter(|(rank, what)| *rank == 5 && what.contains(words));
        // A rank with a wrong token or another plan hears of itself in other words.
        let least = if matches!(fault, Fault::OtherPlan(_) | Fault::SameDevice(_)) {
            1
        } else {
            7
        };
        assert!(about.count() >= least, "{fault:?}: {heard:?}");
    }
}

#[test]
fn a_rank_killed_or_stopped_before_all_have_met_is_reported() {
    for fault in [Fault::Kill(3), Fault::Stop(3)] {
        let heard = heard(8, 2, Duration::from_micros(300), fault);
        assert_eq!(heard.len(), 7, "{fault:?}: {heard:?}");
        assert!(
            heard.iter().all(|(rank, _)| *rank == 3),
            "{fault:?}: {heard:?}"
        );
    }
}

/// Rank 2 comes late; until then, another process may take the place of one that was killed.
#[test]
fn a_rank_may_be_started_again_while_others_are_missing() {
    let second = Duration::from_secs;
    for (ranks, roots, rank) in [(4, 1, 1), (4, 1, 3), (4, 2, 3), (8, 2, 5)] {
        let scenario = Scenario {
            ranks,
            roots,
            faults: vec![
                (Duration::ZERO, Fault::Pause(2, 5_000)),
                (Duration::ZERO, Fault::Pause(6, 5_000)),
                (second(1), Fault::Restart(rank)),
                (second(2), Fault::Stranger(rank)),
            ],
            seed: 3,
        };
        for (outcome, _) in scenario.run().unwrap() {
            assert_eq!(outcome, Outcome::Done, "{ranks} ranks, rank {rank}");
        }
    }
}

#[test]
fn a_rank_that_cannot_be_started_again_is_named() {
    // The root is in the process of rank 0.
    for (rank, words) in [
        (0, "the process that holds the root (rank 0) may have ended"),
        (1, "its connection to the root was closed by the other side"),
    ] {
        let late = (Duration::ZERO, Fault::Pause(2, 30_000));
        let fault = match rank {
            0 => Fault::Restart(rank),
            _ => Fault::Kill(rank),
        };
        let scenario = Scenario {
            ranks: 4,
            roots: 1,
            faults: vec![late, (Duration::from_secs(1), fault)],
            seed: 3,
        };
        let outcomes = scenario.run().unwrap();
        let Outcome::Failed(failure) = &outcomes[3].0 else {
            panic!("{outcomes:?}");
        };
        assert_eq!(failure.rank, rank);
        assert!(failure.what.contains(words), "{failure}");
        // Killed after a second, and abandoned after 15 more.
        let ended = outcomes[3].1.as_secs();
        assert_eq!(ended, if rank == 0 { 1 } else { 16 }, "{failure}");
    }
}

/// A rank of two that sees its ring closed, at time zero.
fn in_a_ring() -> (Member<Infos>, Conn) {
    let info = world::info(0, 1);
    let address = info.address;
    let place = Place {
        rank: 0,
        ranks: 2,
        width: 1,
        meeting: Meeting::Known(address),
        listens: address,
        version: info.version.clone(),
        name: info.place(),
    };
    let infos = Infos::new(info, 2);
    let own = infos.own_block();
    let mut member = Member::new(place, Timing::default(), infos, own);
    let Some(Action::Connect { conn, .. }) = member.poll_action() else {
        panic!("it does not connect to the next one");
    };
    member.connected(conn, Duration::ZERO);
    (member, conn)
}

#[test]
fn a_suspended_rank_blames_itself_and_others_blame_their_neighbor() {
    let second = Duration::from_secs;
    let (mut stopped, conn) = in_a_ring();
    stopped.tick(second(1));
    stopped.tick(second(40));
    // The other rank may have been suspended too.
    assert_eq!((stopped.failure(), stopped.own_stop()), (None, None));
    stopped.closed(conn, &Ending::Ended, second(41));
    let failure = stopped.failure().unwrap();
    assert_eq!(stopped.own_stop().as_ref(), Some(failure));
    assert_eq!(failure.rank, 0);
    assert!(failure.what.contains("did not run for 39 s"), "{failure}");

    let (mut awake, _) = in_a_ring();
    for at in 1..=15 {
        assert_eq!(awake.failure(), None);
        awake.tick(second(at));
    }
    let failure = awake.failure().unwrap();
    assert!(failure.rank == 1 && awake.own_stop().is_none(), "{failure}");

    // After a suspension the neighbor's timeout begins again, once.
    let (mut alone, _) = in_a_ring();
    for at in 40..55 {
        alone.tick(second(at));
        assert_eq!(alone.failure(), None);
    }
    alone.tick(second(55));
    assert_eq!(alone.failure().unwrap().rank, 1);
}

#[test]
fn a_machine_may_sleep() {
    for at in 1..50 {
        let pause = |rank| (Duration::from_millis(at * 10), Fault::Pause(rank, 40_000));
        let scenario = Scenario {
            ranks: 6,
            roots: 2,
            faults: (0..6).map(pause).collect(),
            seed: at,
        };
        for (outcome, _) in scenario.run().unwrap() {
            assert_eq!(outcome, Outcome::Done, "after {at}0 ms");
        }
    }
}

#[test]
fn without_faults_every_rank_succeeds() {
    for seed in 0..100 {
        let scenario = Scenario {
            faults: Vec::new(),
            ..Scenario::random(seed)
        };
        let outcomes = scenario.run().unwrap();
        let done = |(outcome, _): &(Outcome, Duration)| *outcome == Outcome::Done;
        assert!(outcomes.iter().all(done), "seed {seed}: {outcomes:?}");
    }
}

#[test]
fn strangers_change_nothing() {
    for rank in 0..4 {
        let heard = heard(4, 1, Duration::from_millis(250), Fault::Stranger(rank));
        assert_eq!(heard, []);
    }
}
