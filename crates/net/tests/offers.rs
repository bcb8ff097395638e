//! Ranks that share memory of one host, one of which receives other offers than its peer made.

use std::thread;
use std::time::Duration;

use backend_cpu::{Cpu, Profile};
use executor::bootstrap::{Bootstrap, Crowd, Offer};
use executor::{Choice, Communicator, Error, Failure, Reduction, Settings, Transport};
use net::{Hosts, Options};
use program::Protocol;
use program::{Schedule, Transfer};

/// How long a rank waits for another.
const PATIENCE: Duration = Duration::from_secs(5);

/// A rank that receives other offers than its peers made.
struct Altered<F> {
    hosts: Hosts,
    alter: F,
}

impl<F: Fn(&str, String) -> String + Send> Bootstrap for Altered<F> {
    fn rank(&self) -> u32 {
        self.hosts.rank()
    }

    fn ranks(&self) -> u32 {
        self.hosts.ranks()
    }

    fn shares_memory(&self, peer: u32) -> bool {
        self.hosts.shares_memory(peer)
    }

    fn transport(&self, peer: u32) -> Transport {
        self.hosts.transport(peer)
    }

    fn host(&self, peer: u32) -> u32 {
        self.hosts.host(peer)
    }

    fn crowd(&self) -> Crowd {
        self.hosts.crowd()
    }

    fn publish(&mut self, name: &str, offer: Offer) -> Result<(), Error> {
        self.hosts.publish(name, offer)
    }

    fn fetch(&mut self, from: u32, name: &str, longest: Duration) -> Result<Offer, Error> {
        let offer = self.hosts.fetch(from, name, longest)?;
        Ok(Offer {
            text: (self.alter)(name, offer.text),
            ..offer
        })
    }

    fn has_offer(&mut self, from: u32, name: &str) -> Result<bool, Error> {
        self.hosts.has_offer(from, name)
    }

    fn gather(&mut self, name: &str, own: &Offer, longest: Duration) -> Result<Vec<Offer>, Error> {
        let mut offers = self.hosts.gather(name, own, longest)?;
        for (peer, offer) in (0..).zip(&mut offers) {
            if peer != self.rank() {
                offer.text = (self.alter)(name, std::mem::take(&mut offer.text));
            }
        }
        Ok(offers)
    }

    fn fail(&mut self, failure: &Failure) {
        self.hosts.fail(failure);
    }

    fn failure(&mut self, waiting_for: Option<u32>) -> Option<Failure> {
        self.hosts.failure(waiting_for)
    }
}

/// Runs two ranks and returns their results. Rank 0 receives `alter` of what rank 1 offers.
fn run(
    profiles: [&Profile; 2],
    alter: impl Fn(&str, String) -> String + Send + Clone + 'static,
    transfer: Transfer,
) -> Vec<Result<(), Error>> {
    let (id, root) = net::loopback_id().unwrap();
    let mut root = Some((0, root));
    let threads: Vec<_> = (0..2)
        .zip(profiles)
        .map(|(rank, profile)| {
            let alter = alter.clone();
            let backend = Cpu::new(profile.clone().into());
            let options = Options {
                roots: root.take().into_iter().collect(),
                ..Options::loopback(rank, 2, &id)
            };
            thread::spawn(move || {
                let mut hosts = Hosts::join(options)?;
                assert_eq!(hosts.transport(1 - rank), Transport::Shm);
                // So there are no proxies.
                assert!(hosts.network().is_none());
                let bootstrap: Box<dyn Bootstrap> = match rank {
                    0 => Box::new(Altered { hosts, alter }),
                    _ => Box::new(hosts),
                };
                let settings = Settings {
                    longest_wait: PATIENCE,
                    buffer_bytes: Some(1 << 20),
                    ..Settings::default()
                };
                let mut communicator = Communicator::join(backend, bootstrap, &settings)?;
                communicator.set_choice(Some(Choice {
                    schedule: match transfer {
                        Transfer::Direct => Schedule::TwoPhaseMesh,
                        _ => Schedule::Ring,
                    },
                    transfer,
                    protocol: Protocol::Simple,
                    channels: 1,
                    piece_bytes: 0,
                }));
                let mut numbers = communicator.buffer(10_000)?;
                numbers.fill(rank);
                communicator.all_reduce(&mut numbers, Reduction::Sum)?;
                assert_eq!(*numbers, [1; 10_000]);
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
    for transfer in [Transfer::Fifo, Transfer::Direct] {
        let results = run([&profile, &profile], |_, text| text, transfer);
        for (place, result) in results.iter().enumerate() {
            assert!(result.is_ok(), "rank {place}: {result:?}");
        }
    }
    // What is offered, what of it is replaced, and by what.
    let cases = [
        ("memory", " b d2", " b d18446744073709551615"),
        ("memory", " b d2", " b d144115188075855872"),
        ("memory", " b d2", " d2 b"),
        ("memory", " b d2", " b"),
        ("memory", " b d2", ""),
        ("memory", "\n", ""),
        ("memory", ":", ": "),
        ("memory", "\n", "\n1"),
        ("memory", "\n", "\n:"),
        ("1", " ", "1 "),
        ("1", "0 ", "18446744073709551616 "),
        ("1", " s", " s1"),
        ("1", " s", " l"),
        ("1", " s", " x"),
    ];
    let threads = cases.map(|case| {
        thread::spawn(move || {
            let (offered, from, to) = case;
            let alter = move |name: &str, text: String| match name.contains(offered) {
                true => text.replacen(from, to, 1),
                false => text,
            };
            // An arena is opened when it is used.
            let transfer = match to {
                "\n1" => Transfer::Direct,
                _ => Transfer::Fifo,
            };
            let profile = Profile::default();
            let results = run([&profile, &profile], alter, transfer);
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
    let results = run([&own, &other], |_, text| text, Transfer::Fifo);
    let told = |result: &Result<(), Error>| {
        let error = result
            .as_ref()
            .map_or_else(ToString::to_string, |()| String::new());
        error.contains("4096-byte slots") && error.contains("262144-byte slots")
    };
    assert!(results.iter().any(told), "{results:?}");
    assert!(results.iter().all(Result::is_err), "{results:?}");
}
