//! Ranks of several processes that say something else than they should. Here they are threads that know each other through
//! sockets only, as processes do.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use backend_cpu::{Cpu, Profile};
use executor::bootstrap::process::{Client, Server};
use executor::bootstrap::{Bootstrap, Offer};
use executor::{Choice, Communicator, Error, Failure, Reduction, Settings};
use program::Protocol;
use program::{Schedule, Transfer};

/// How long a rank waits for another.
const PATIENCE: Duration = Duration::from_secs(5);

/// Time that a busy machine may need besides.
const SLACK: Duration = Duration::from_secs(10);

/// A rank that hears something else than the others said.
struct Altered<F> {
    client: Client,
    alter: F,
}

impl<F: Fn(&str, String) -> String + Send> Bootstrap for Altered<F> {
    fn rank(&self) -> u32 {
        self.client.rank()
    }

    fn ranks(&self) -> u32 {
        self.client.ranks()
    }

    fn shares_memory(&self, peer: u32) -> bool {
        self.client.shares_memory(peer)
    }

    fn publish(&mut self, name: &str, offer: Offer) -> Result<(), Error> {
        self.client.publish(name, offer)
    }

    fn fetch(&mut self, from: u32, name: &str, longest: Duration) -> Result<Offer, Error> {
        let offer = self.client.fetch(from, name, longest)?;
        Ok(Offer {
            text: (self.alter)(name, offer.text),
            ..offer
        })
    }

    fn fail(&mut self, failure: &Failure) {
        self.client.fail(failure);
    }

    fn failure(&mut self, waiting_for: Option<u32>) -> Option<Failure> {
        self.client.failure(waiting_for)
    }
}

/// Two ranks of which rank 0 hears `alter` of what rank 1 offers, and what came of it on each.
fn run(
    profiles: [&Profile; 2],
    alter: impl Fn(&str, String) -> String + Send + Clone + 'static,
) -> Vec<Result<(), Error>> {
    let pairs = [UnixStream::pair().unwrap(), UnixStream::pair().unwrap()];
    let (own, served): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
    let _server = Server::start(served).unwrap();
    let ranks = own.into_iter().zip(0..).zip(profiles);
    let threads: Vec<_> = ranks
        .map(|((stream, rank), profile)| {
            let alter = alter.clone();
            let backend = Cpu::new(profile.clone().into());
            thread::spawn(move || {
                let client = Client::new(rank, 2, stream);
                let bootstrap: Box<dyn Bootstrap> = match rank {
                    0 => Box::new(Altered { client, alter }),
                    _ => Box::new(client),
                };
                let settings = Settings {
                    longest_wait: PATIENCE,
                    buffer_bytes: Some(1 << 20),
                    ..Settings::default()
                };
                let mut communicator = Communicator::join(backend, bootstrap, &settings)?;
                communicator.set_choice(Some(Choice {
                    schedule: Schedule::Ring,
                    transfer: Transfer::Fifo,
                    protocol: Protocol::Simple,
                    channels: 1,
                    piece_bytes: 0,
                }));
                let mut numbers = vec![rank; 10_000];
                communicator.all_reduce(&mut numbers, Reduction::Sum)?;
                assert_eq!(numbers, [1; 10_000]);
                Ok(())
            })
        })
        .collect();
    let joined = threads.into_iter().map(|thread| thread.join());
    joined.map(|result| result.expect("no panic")).collect()
}

#[test]
fn offers_that_are_not_what_they_should_be_are_refused() {
    let profile = Profile::default();
    for (place, result) in run([&profile, &profile], |_, text| text).iter().enumerate() {
        assert!(result.is_ok(), "rank {place}: {result:?}");
    }
    // What is offered, what of it is replaced, and by what.
    let cases = [
        ("base", " b d2", " b d18446744073709551615"),
        ("base", " b d2", " b d144115188075855872"),
        ("base", " b d2", " d2 b"),
        ("base", " b d2", " b"),
        ("base", " b d2", ""),
        ("base", ":", ": "),
        ("buffers", ":", ":1"),
        ("buffers", ":", "::"),
        ("1", " ", "1 "),
        ("1", "0 ", "18446744073709551616 "),
        ("1", " s", " s1"),
        ("1", " s", " l"),
        ("1", " s", " x"),
    ];
    let threads = cases.map(|case| {
        thread::spawn(move || {
            let (offered, from, to) = case;
            let results = run([&Profile::default(), &Profile::default()], {
                move |name, text| match name.contains(offered) {
                    true => text.replacen(from, to, 1),
                    false => text,
                }
            });
            let error = results[0].as_ref().expect_err("it is refused").to_string();
            assert!(error.contains("rank 1"), "{case:?}: {error}");
            assert!(results[1].is_err());
        })
    });
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn slots_of_another_length_are_refused() {
    let own = Profile::default();
    let text = own.to_toml().unwrap();
    let other = text.replace("simple = 262144", "simple = 4096");
    assert_ne!(text, other);
    let other = Profile::from_toml("other", &other).unwrap();
    let results = run([&own, &other], |_, text| text);
    let told = |result: &Result<(), Error>| {
        let error = result
            .as_ref()
            .map_or_else(ToString::to_string, |()| String::new());
        error.contains("4096-byte slots") && error.contains("262144-byte slots")
    };
    assert!(results.iter().any(told), "{results:?}");
    assert!(results.iter().all(Result::is_err), "{results:?}");
}

#[test]
fn a_line_without_end_is_not_kept() {
    let (own, mut other) = UnixStream::pair().unwrap();
    let writer = thread::spawn(move || {
        let bytes = [b'x'; 1 << 16];
        (0..160).find(|_| other.write_all(&bytes).is_err())
    });
    let mut client = Client::new(0, 2, own);
    let error = client.fetch(1, "base", PATIENCE).unwrap_err().to_string();
    assert!(error.contains("a line that is too long"), "{error}");
    drop(client);
    writer.join().unwrap();
}

#[test]
fn a_rank_that_offers_without_end_is_named() {
    let (mut own, served) = UnixStream::pair().unwrap();
    let server = Server::start(vec![served]).unwrap();
    let text = "x".repeat(1 << 20);
    for number in 0..70 {
        // Later ones may not be taken any more.
        let _ = own.write_all(format!("put {number} {text}\n").as_bytes());
    }
    let until = Instant::now() + SLACK;
    while server.failure().is_none() && Instant::now() < until {
        thread::sleep(Duration::from_millis(5));
    }
    let failure = server.failure().expect("it is refused");
    assert_eq!(failure.rank, 0);
    assert!(failure.what.contains("offers more than"), "{failure}");
}

#[test]
fn a_rank_that_does_not_listen_holds_up_nobody() {
    let (mut own, first) = UnixStream::pair().unwrap();
    let (mut deaf, second) = UnixStream::pair().unwrap();
    let server = Server::start(vec![first, second]).unwrap();
    let text = "x".repeat(1 << 20);
    writeln!(own, "put long {text}").unwrap();
    for _ in 0..4 {
        writeln!(deaf, "get 0 long").unwrap();
    }
    // The answers fill its socket. Rank 0 is served all the same, in time.
    thread::sleep(Duration::from_millis(200));
    writeln!(own, "put short it\nget 0 short").unwrap();
    own.set_read_timeout(Some(PATIENCE + SLACK)).unwrap();
    let mut heard = Vec::new();
    let mut byte = [0];
    while !heard.ends_with(b"value it\n") {
        assert_eq!(own.read(&mut byte).expect("rank 0 is served"), 1);
        heard.push(byte[0]);
    }
    let failure = server.failure().expect("it is noticed");
    assert_eq!(failure.rank, 1);
    assert!(failure.what.contains("does not listen"), "{failure}");
}
