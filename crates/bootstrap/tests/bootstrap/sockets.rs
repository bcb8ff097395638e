//! The state machines over real sockets of the loopback interface.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use bootstrap::member::Meeting;
use bootstrap::socket::accept::{Acceptor, Arrived, Until};
use bootstrap::socket::service::{Error, loopback_listener};
use bootstrap::socket::{Config, Service, blocking, listen};
use bootstrap::{Failure, Key, Kind, Link, PeerInfo, Timing};
use rustix::net::{AddressFamily, SocketType};

/// Generous, for a busy machine; nothing that succeeds takes as long.
const LONG: Duration = Duration::from_secs(600);

fn info(rank: u32) -> PeerInfo {
    PeerInfo {
        rank,
        version: "1".to_owned(),
        fingerprint: [1; 32],
        options: Vec::new(),
        host: u64::from(rank),
        host_name: format!("host{rank}"),
        machine: 0,
        cores: Vec::new(),
        process: rank,
        device: String::new(),
        address: SocketAddr::from(([0, 0, 0, 0], 0)),
        nics: Vec::new(),
    }
}

/// The configuration of each rank; the roots are in the first ranks' processes.
fn configs(ranks: u32, roots: u32, timing: Timing) -> Vec<Config> {
    let key = Key::of_secret(b"a test");
    let listeners: Vec<_> = (0..roots).map(|_| loopback_listener().unwrap()).collect();
    let addresses: Vec<_> = listeners
        .iter()
        .map(|it| it.local_addr().unwrap())
        .collect();
    let mut listeners = listeners.into_iter().zip(0..);
    (0..ranks)
        .map(|rank| Config {
            key: key.clone(),
            processes: ranks,
            meeting: Meeting::Roots(addresses.clone()),
            roots: listeners
                .next()
                .map(|(listener, index)| (index, listener))
                .into_iter()
                .collect(),
            listener: loopback_listener().unwrap().into(),
            infos: vec![info(rank)],
            timing,
        })
        .collect()
}

fn short() -> Timing {
    Timing {
        join: Duration::from_secs(2),
        ..Timing::default()
    }
}

/// Runs a function in every rank after all have met.
fn run<T: Send>(
    configs: Vec<Config>,
    work: impl Fn(u32, Result<Service, Error>) -> T + Sync,
) -> Vec<T> {
    let work = &work;
    thread::scope(|scope| {
        let threads: Vec<_> = configs
            .into_iter()
            .map(|config| {
                let rank = config.infos[0].rank;
                let joined = move || Service::join(config).map(|mut it| it.remove(0));
                scope.spawn(move || work(rank, joined()))
            })
            .collect();
        threads.into_iter().map(|it| it.join().unwrap()).collect()
    })
}

#[test]
fn ranks_meet_exchange_and_offer() {
    for (ranks, roots) in [(1, 1), (2, 1), (5, 2)] {
        let names = run(configs(ranks, roots, Timing::default()), |rank, service| {
            let service = service.unwrap();
            let all = service.exchange(vec![rank as u8; 3], LONG).unwrap();
            let right: Vec<Vec<u8>> = (0..ranks).map(|it| vec![it as u8; 3]).collect();
            assert_eq!(*all, *right);
            service.publish("mine", vec![rank as u8]);
            for from in 0..ranks {
                assert_eq!(service.fetch(from, "mine", LONG).unwrap(), [from as u8]);
            }
            let infos = service.infos();
            service.exchange(Vec::new(), LONG).unwrap();
            infos
                .iter()
                .map(|it| it.host_name.clone())
                .collect::<Vec<_>>()
        });
        let right: Vec<String> = (0..ranks).map(|rank| format!("host{rank}")).collect();
        assert!(names.iter().all(|it| *it == right), "{names:?}");
    }
}

#[test]
fn a_failure_reaches_everyone() {
    let heard = run(configs(4, 1, Timing::default()), |rank, service| {
        // The failure may arrive before the last rank has joined.
        let service = match service {
            Err(Error::Failed(failure)) => return failure,
            service => service.unwrap(),
        };
        if rank == 2 {
            service.fail(Failure::new(2, "its disk is full"));
        }
        match service.fetch(rank, "what nobody offers", LONG) {
            Err(Error::Failed(failure)) => failure,
            other => panic!("{other:?}"),
        }
    });
    assert!(
        heard
            .iter()
            .all(|it| *it == Failure::new(2, "its disk is full")),
        "{heard:?}"
    );
}

/// A rank that leaves during an exchange is reported long before the timeout.
#[test]
fn a_rank_that_leaves_during_an_exchange_is_reported() {
    let heard = run(configs(3, 1, Timing::default()), |rank, service| {
        let service = service.unwrap();
        service.exchange(Vec::new(), LONG).unwrap();
        if rank == 1 {
            return None;
        }
        match service.exchange(vec![1], LONG * 60) {
            Err(Error::Failed(failure)) => Some(failure.rank),
            other => panic!("{other:?}"),
        }
    });
    assert_eq!(heard, [Some(1), None, Some(1)]);
}

#[test]
fn a_missing_rank_is_named() {
    let mut all = configs(3, 1, short());
    all.pop();
    let heard = run(all, |_, service| service.err().unwrap().to_string());
    for what in heard {
        assert!(
            what.contains("rank 2") && what.contains("did not come within 2 s"),
            "{what}"
        );
    }
}

/// A listener whose queue is full: the kernel answers nobody.
#[test]
fn a_root_that_neither_accepts_nor_refuses_is_named() {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    rustix::net::listen(&socket, 0).unwrap();
    let listener = TcpListener::from(socket);
    let address = listener.local_addr().unwrap();
    let moment = Duration::from_millis(500);
    let connect = |_: u32| TcpStream::connect_timeout(&address, moment).ok();
    let queued: Vec<_> = (0..).map_while(connect).collect();
    let mut all = configs(2, 1, short());
    let mut last = all.remove(1);
    last.meeting = Meeting::Roots(vec![address]);
    let heard = run(vec![last], |_, service| service.err().unwrap().to_string());
    for words in [
        "rank 0",
        &address.to_string(),
        "neither answered nor refused",
    ] {
        assert!(heard[0].contains(words), "{}", heard[0]);
    }
    drop((queued, listener));
}

#[test]
fn a_rank_with_another_token_is_told_so_and_the_others_miss_it() {
    let mut all = configs(3, 1, short());
    all[2].key = Key::of_secret(b"another job");
    let heard = run(all, |_, service| service.err().unwrap().to_string());
    assert!(heard[2].contains("another token"), "{}", heard[2]);
    for what in &heard[..2] {
        assert!(
            what.contains("rank 2") && what.contains("did not come"),
            "{what}"
        );
    }
}

#[test]
fn two_processes_with_one_rank_are_both_named() {
    let mut all = configs(3, 1, Timing::default());
    all[2].infos[0].rank = 1;
    let heard = run(all, |_, service| service.err().unwrap().to_string());
    for what in heard {
        assert!(
            what.contains("rank 1: two processes say that they are this rank"),
            "{what}"
        );
    }
}

#[test]
fn another_plan_is_refused() {
    let mut all = configs(3, 1, Timing::default());
    all[1].infos[0].fingerprint = [2; 32];
    let heard = run(all, |_, service| service.err().unwrap().to_string());
    for what in heard {
        assert!(what.contains("give all ranks the same plan"), "{what}");
    }
}

#[test]
fn strangers_are_turned_away() {
    let all = configs(2, 1, Timing::default());
    let addresses: Vec<SocketAddr> = all
        .iter()
        .flat_map(|it| it.roots.iter().map(|(_, it)| it).chain([&*it.listener]))
        .map(|it| it.local_addr().unwrap())
        .collect();
    let strangers: Vec<TcpStream> = addresses
        .iter()
        .map(|address| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream
                .write_all(b"GET / HTTP/1.1\r\nHost: a.host.that.speaks.something.else\r\n\r\n")
                .unwrap();
            stream
        })
        .collect();
    let mut oversized = TcpStream::connect(addresses[0]).unwrap();
    oversized
        .write_all(&vec![0xff; 100_000])
        .unwrap_or_default();
    let silent = TcpStream::connect(addresses[0]).unwrap();
    run(all, |_, service| {
        let service = service.unwrap();
        service.exchange(Vec::new(), LONG).unwrap();
    });
    for mut stranger in strangers {
        // The other side hears only that the connection ended.
        let mut said = Vec::new();
        let _ = stranger.read_to_end(&mut said);
        assert_eq!(said, b"");
    }
    drop(silent);
}

#[test]
fn a_taken_port_is_named() {
    let first = loopback_listener().unwrap();
    let address = first.local_addr().unwrap();
    let error = listen(address).unwrap_err().to_string();
    assert!(error.contains(&address.to_string()), "{error}");
}

/// The first connection that an acceptor lets in.
fn arrives(listener: TcpListener, key: &Key, kinds: &'static [Kind], until: Until) -> Arrived {
    let mut acceptor = Acceptor::new(listener, key, kinds, until).unwrap();
    let end = Instant::now() + LONG;
    loop {
        acceptor.sleep(None, Some(end));
        if let Some(arrived) = acceptor.accept().pop() {
            return arrived;
        }
        assert!(Instant::now() < end, "nobody arrives");
    }
}

#[test]
fn a_socket_after_the_proofs_carries_anything() {
    let listener = loopback_listener().unwrap();
    let address = listener.local_addr().unwrap();
    let key = Key::of_secret(b"a test");
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut one = blocking::Connection::open(address, &key, Kind::Net, LONG).unwrap();
            one.send(b"first").unwrap();
            one.into_stream().write_all(b"then raw bytes").unwrap();
        });
        let arrived = arrives(listener, &key, &[Kind::Net], Until::Heard);
        assert_eq!(arrived.kind, Kind::Net);
        assert_eq!(arrived.frame, b"first");
        let mut raw = Vec::new();
        let stream = arrived.into_stream();
        stream.set_nonblocking(false).unwrap();
        (&stream).read_to_end(&mut raw).unwrap();
        assert_eq!(raw, b"then raw bytes");
    });
}

/// A rank with a slow proof keeps its place while others crowd the listener from another address.
#[test]
fn strangers_of_one_address_do_not_push_out_a_rank_of_another() {
    let listener = loopback_listener().unwrap();
    let address = listener.local_addr().unwrap();
    let key = Key::of_secret(b"a test");
    thread::scope(|scope| {
        let arrived = scope.spawn(|| arrives(listener, &key, &[Kind::Net], Until::Proved));
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        rustix::net::bind(&socket, &SocketAddr::from(([127, 0, 0, 2], 0))).unwrap();
        rustix::net::connect(&socket, &address).unwrap();
        let mut stream = TcpStream::from(socket);
        let mut link = Link::connect(&key, Kind::Net, [1; 32]);
        stream.write_all(link.outgoing()).unwrap();
        link.sent(link.outgoing().len());
        let mut challenge = vec![0; link.wanted()];
        stream.read_exact(&mut challenge).unwrap();
        let strangers = testkit::network::strangers::hold(&[address], 3000).unwrap();
        // Far longer than a connection may keep a place that others want. Nothing is to happen, so
        // there is no event; a busy machine cannot make it fail.
        thread::sleep(Duration::from_secs(1));
        link.push(&challenge).unwrap();
        stream.write_all(link.outgoing()).unwrap();
        assert_eq!(arrived.join().unwrap().kind, Kind::Net);
        drop(strangers);
    });
}

/// Two processes of three ranks each: exchanges, offers and failures are those of ranks.
#[test]
fn processes_have_several_ranks() {
    let (processes, width) = (2, 3);
    let mut all = configs(processes, 1, Timing::default());
    for (config, process) in all.iter_mut().zip(0..) {
        config.infos = (0..width).map(|it| info(process * width + it)).collect();
    }
    let joined = thread::scope(|scope| {
        let threads = all
            .into_iter()
            .map(|config| scope.spawn(|| Service::join(config).unwrap()));
        let threads: Vec<_> = threads.collect();
        let joined = threads.into_iter().flat_map(|it| it.join().unwrap());
        joined.collect::<Vec<Service>>()
    });
    let ranks = processes * width;
    thread::scope(|scope| {
        for (service, rank) in joined.into_iter().zip(0..) {
            scope.spawn(move || {
                assert_eq!((service.rank(), service.infos().len()), (rank, 6));
                for round in 0..3_u8 {
                    let all = service.exchange(vec![rank as u8, round], LONG).unwrap();
                    let right: Vec<Vec<u8>> = (0..ranks).map(|it| vec![it as u8, round]).collect();
                    assert_eq!(*all, *right);
                }
                // Ranks of one process offer under one name.
                service.publish("mine", vec![rank as u8]);
                for from in 0..ranks {
                    assert_eq!(service.fetch(from, "mine", LONG).unwrap(), [from as u8]);
                }
                service.exchange(Vec::new(), LONG).unwrap();
                if rank == 4 {
                    return;
                }
                // A rank that left while its process continues is no longer waited for.
                let error = service.fetch(4, "nothing", LONG).err().unwrap();
                let Error::Failed(failure) = error else {
                    panic!("{error}");
                };
                assert_eq!(failure.rank, 4);
                assert!(service.failure(None).is_none());
            });
        }
    });
}

/// A process with another number of ranks is named by its first.
#[test]
fn processes_have_equally_many_ranks() {
    let mut all = configs(3, 1, short());
    for (config, process) in all.iter_mut().zip(0..) {
        let own = if process == 2 { 1 } else { 2 };
        config.infos = (0..own).map(|it| info(process * own + it)).collect();
    }
    let heard = run(all, |_, service| service.err().unwrap().to_string());
    assert!(
        heard
            .iter()
            .any(|it| it.contains("start all processes with the same -t and -g")),
        "{heard:?}"
    );
}
