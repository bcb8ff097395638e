//! A rank whose neighbors know the token but break the protocol.

use std::time::Duration;

use bootstrap::member::Meeting;
use bootstrap::{Infos, Kind, Member, Message, PeerInfo, Place, Timing};

/// Rank 0 of a job of two, whose neighbor has connected.
fn member() -> (Member<Infos>, bootstrap::Conn) {
    let address = ([127, 0, 0, 1], 1).into();
    let info = PeerInfo {
        rank: 0,
        version: "1".to_owned(),
        fingerprint: [0; 32],
        options: Vec::new(),
        host: 0,
        host_name: "host".to_owned(),
        machine: 0,
        cores: Vec::new(),
        process: 1,
        device: String::new(),
        address,
        nics: Vec::new(),
    };
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
    let Some(bootstrap::Action::Connect { conn, .. }) = member.poll_action() else {
        panic!("it does not connect to the next rank");
    };
    let before = member.accepted(Kind::Ring);
    member.received(before, Message::Hello(1), Duration::ZERO);
    member.connected(conn, Duration::ZERO);
    (member, before)
}

/// The first unexpected part fails the job; later ones change nothing.
#[test]
fn parts_that_are_not_due_are_reported_once() {
    let (mut member, before) = member();
    for _ in 0..8 {
        let part = Message::Block {
            exchange: 0,
            origin: 0,
            block: Vec::new(),
        };
        member.received(before, part, Duration::ZERO);
    }
    let failure = member.failure().expect("rank 1 is to blame");
    assert_eq!(failure.rank, 1);
    assert!(failure.what.contains("expected rank"), "{}", failure.what);
}

/// A part that arrives early belongs to the next exchange; there is at most one of each rank.
#[test]
fn parts_of_later_exchanges_are_not_hoarded() {
    let part = |exchange| Message::Block {
        exchange,
        origin: 1,
        block: Vec::new(),
    };
    for (exchange, most) in [(1, 3), (2, 1)] {
        let (mut member, before) = member();
        let mut count = 0;
        while member.failure().is_none() {
            member.received(before, part(exchange), Duration::ZERO);
            count += 1;
            assert!(count <= most, "{count} parts of exchange {exchange}");
        }
        let failure = member.failure().expect("rank 1 is to blame");
        assert_eq!(failure.rank, 1);
        assert!(
            failure.what.contains("expected exchange"),
            "{}",
            failure.what
        );
    }
}

/// Questions for offers that do not exist yet.
#[test]
fn questions_without_end_are_refused() {
    let long = "x".repeat(1000);
    for (name, most) in [("nothing", 20_000), (long.as_str(), 1)] {
        let (mut member, _) = member();
        let conn = member.accepted(Kind::Peer);
        member.received(conn, Message::Hello(1), Duration::ZERO);
        let mut count = 0;
        while member.failure().is_none() {
            let question = Message::Get(Box::new((count, name.to_owned())));
            member.received(conn, question, Duration::ZERO);
            count += 1;
            assert!(count <= most, "{count} questions");
        }
        let failure = member.failure().expect("rank 1 is to blame");
        assert_eq!(failure.rank, 1);
        assert!(failure.what.contains("it asks rank 0"), "{}", failure.what);
    }
}
