//! Ranks that share memory of one host, one of which receives other offers than its peer made.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use backend_cpu::{Cpu, Profile};
use executor::bootstrap::{Bootstrap, Offer};
use executor::offered::{OfferedConnection, OfferedMemory, OfferedSegment};
use executor::{Choice, Communicator, Error, Reduction, Settings, Transport};
use net::{Hosts, Options};
use program::Protocol;
use program::{Schedule, Transfer};
use serde::Serialize;
use serde::de::DeserializeOwned;
use shared_memory::Item;

/// How long a rank waits for another.
const PATIENCE: Duration = Duration::from_secs(5);

/// A rank that receives other offers than its peers made.
struct Altered<F> {
    hosts: Hosts,
    alter: F,
}

impl<F: Fn(&str, Vec<u8>) -> Vec<u8> + Send> Bootstrap for Altered<F> {
    testkit::ask_hosts!();

    fn fetch(&mut self, from: u32, name: &str, longest: Duration) -> Result<Offer, Error> {
        let offer = self.hosts.fetch(from, name, longest)?;
        Ok(Offer {
            message: (self.alter)(name, offer.message),
            ..offer
        })
    }

    fn gather(&mut self, name: &str, own: &Offer, longest: Duration) -> Result<Vec<Offer>, Error> {
        let mut offers = self.hosts.gather(name, own, longest)?;
        for (peer, offer) in (0..).zip(&mut offers) {
            if peer != self.rank() {
                offer.message = (self.alter)(name, std::mem::take(&mut offer.message));
            }
        }
        Ok(offers)
    }
}

/// Runs two ranks and returns their results. Rank 0 receives `alter` of what rank 1 offers.
fn run(
    profiles: [&Profile; 2],
    alter: impl Fn(&str, Vec<u8>) -> Vec<u8> + Send + Clone + 'static,
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
        let results = run([&profile, &profile], |_, message| message, transfer);
        for (place, result) in results.iter().enumerate() {
            assert!(result.is_ok(), "rank {place}: {result:?}");
        }
    }
    let memory: [fn(&mut OfferedMemory); 10] = [
        |it| entries_of(it, u64::MAX as usize),
        |it| entries_of(it, 1 << 57),
        |it| items_of(it).reverse(),
        |it| items_of(it).truncate(1),
        |it| items_of(it).clear(),
        |it| it.base = None,
        |it| it.arena = None,
        |it| base_of(it).handle.inode += 1,
        |it| base_of(it).handle.bytes = u64::MAX,
        |it| base_of(it).handle.process = u32::MAX,
    ];
    let connections: [fn(&mut OfferedConnection); 5] = [
        |it| it.item = 1,
        |it| it.item = u32::MAX,
        |it| it.segment = None,
        |it| *fifo_of(it).1 += 1,
        |it| *fifo_of(it).0 = Protocol::Ll,
    ];
    let bytes: [fn(&mut Vec<u8>); 4] = [
        Vec::clear,
        |it| it.truncate(it.len() - 1),
        |it| it.push(0),
        |it| it.splice(.., [0xff; 4096]).for_each(drop),
    ];
    let mut cases: Vec<Case> = Vec::new();
    cases.extend(memory.map(|alter| Case::new("memory", Transfer::Fifo, alter)));
    cases.extend(connections.map(|alter| Case::new("0>1/", Transfer::Fifo, alter)));
    for name in ["memory", "0>1/"] {
        let alters = bytes.map(|alter| Case {
            name,
            transfer: Transfer::Fifo,
            alter: Arc::new(move |mut message| {
                alter(&mut message);
                message
            }),
        });
        cases.extend(alters);
    }
    // An arena is opened when it is used.
    let other_arena = |it: &mut OfferedMemory| {
        it.arena.as_mut().expect("it has one").device += 1;
    };
    cases.push(Case::new("memory", Transfer::Direct, other_arena));
    let threads = cases.into_iter().zip(0..).map(|(case, at)| {
        thread::spawn(move || {
            let Case {
                name,
                transfer,
                alter,
            } = case;
            let alter = move |offered: &str, message: Vec<u8>| match offered.contains(name) {
                true => alter(message),
                false => message,
            };
            let profile = Profile::default();
            let results = run([&profile, &profile], alter, transfer);
            let error = results[0].as_ref().expect_err("it is refused").to_string();
            assert!(error.contains("rank 1"), "case {at} of {name}: {error}");
            assert!(results[1].is_err());
        })
    });
    let threads: Vec<_> = threads.collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

/// An offer that is altered on its way.
struct Case {
    /// A part of its name.
    name: &'static str,
    transfer: Transfer,
    alter: Arc<dyn Fn(Vec<u8>) -> Vec<u8> + Send + Sync>,
}

impl Case {
    fn new<T: Serialize + DeserializeOwned>(
        name: &'static str,
        transfer: Transfer,
        alter: impl Fn(&mut T) + Send + Sync + 'static,
    ) -> Self {
        let alter = move |message: Vec<u8>| {
            let mut offered = postcard::from_bytes(&message).expect("an offer of this type");
            alter(&mut offered);
            postcard::to_allocvec(&offered).expect("it can be written")
        };
        Self {
            name,
            transfer,
            alter: Arc::new(alter),
        }
    }
}

fn base_of(memory: &mut OfferedMemory) -> &mut OfferedSegment {
    memory.base.as_mut().expect("it is offered")
}

fn items_of(memory: &mut OfferedMemory) -> &mut Vec<Item> {
    &mut base_of(memory).items
}

/// Claims so many entries of the buffer table.
fn entries_of(memory: &mut OfferedMemory, entries: usize) {
    items_of(memory)[1] = Item::BufferTable { entries };
}

fn fifo_of(connection: &mut OfferedConnection) -> (&mut Protocol, &mut usize) {
    let segment = connection.segment.as_mut().expect("it is offered");
    match &mut segment.items[0] {
        Item::Fifo {
            protocol,
            slot_bytes,
        } => (protocol, slot_bytes),
        other => panic!("{other:?}"),
    }
}

#[test]
fn slots_of_another_length_are_refused() {
    let own = Profile::default();
    let text = own.to_toml().unwrap();
    let other = text.replace("simple = 262144", "simple = 4096");
    assert_ne!(text, other);
    let other = Profile::from_toml("other", &other).unwrap();
    let results = run([&own, &other], |_, message| message, Transfer::Fifo);
    let told = |result: &Result<(), Error>| {
        let error = result
            .as_ref()
            .map_or_else(ToString::to_string, |()| String::new());
        error.contains("4096-byte slots") && error.contains("262144-byte slots")
    };
    assert!(results.iter().any(told), "{results:?}");
    assert!(results.iter().all(Result::is_err), "{results:?}");
}
