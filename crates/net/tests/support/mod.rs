//! Shared by tests of communicators: a sweep over all collectives, and ranks that forward for each
//! other and count what they hand over.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use backend_cpu::Cpu;
use executor::bootstrap::Bootstrap;
use executor::check::Check;
use executor::{Choice, Communicator, Error, HandedOver, Network, Reduction, Route};
use net::{Hosts, Ports, ReceiverPort, SenderPort};
use program::{Collective, Protocol};
use program::{Schedule, Transfer};
use shared_memory::fifo::relay::{SlotsIn, SlotsOut};
use shared_memory::{Alarms, Bell};

/// The two ranks of a host forward for each other.
#[derive(Debug)]
pub(crate) struct Neighbours;

impl Ports for Neighbours {
    fn leaves(&self, from: u32, _: u32, channel: u16) -> Option<SenderPort> {
        Some(SenderPort {
            nic: u32::from(channel),
            proxy: from ^ 1,
            rdma: true,
        })
    }

    fn arrives(&self, _: u32, to: u32, _: u16) -> Option<ReceiverPort> {
        Some(ReceiverPort {
            nic: to,
            rdma: true,
        })
    }
}

/// Hosts that count the FIFOs that they hand over.
pub(crate) struct Counting {
    hosts: Hosts,
    handed: Arc<AtomicUsize>,
    begun: bool,
    /// Connections are made only after this rank has left.
    awaited: Option<u32>,
}

impl Counting {
    /// Counts what `hosts` hand over.
    pub(crate) fn new(hosts: Hosts, handed: Arc<AtomicUsize>) -> Self {
        Self {
            hosts,
            handed,
            begun: false,
            awaited: None,
        }
    }

    /// Makes connections only after a rank has left.
    #[allow(dead_code, reason = "one of the two tests that share this needs it")]
    pub(crate) fn after(self, rank: u32) -> Self {
        let awaited = Some(rank);
        Self { awaited, ..self }
    }
}

impl Bootstrap for Counting {
    testkit::ask_hosts!();
    testkit::ask_hosts!(offers);

    fn sharing_cores(&self) -> u32 {
        self.hosts.sharing_cores()
    }

    fn network(&mut self) -> Option<&mut dyn Network> {
        self.hosts.network()?;
        while self.begun
            && self
                .awaited
                .is_some_and(|rank| self.hosts.failure(Some(rank)).is_none())
        {
            std::thread::yield_now();
        }
        Some(self)
    }
}

impl Network for Counting {
    fn begin(&mut self, bell: Bell) -> Result<Bell, Error> {
        self.begun = true;
        self.hosts.begin(bell)
    }

    fn pxn_proxy(&self, route: &Route) -> Option<u32> {
        self.hosts.pxn_proxy(route)
    }

    fn send(&mut self, route: &Route, slots: SlotsOut) -> Result<(), Error> {
        self.hosts.send(route, slots)
    }

    fn hand_over(
        &mut self,
        route: &Route,
        proxy: u32,
        handed: HandedOver,
    ) -> Result<Option<Alarms>, Error> {
        let taken = self.hosts.hand_over(route, proxy, handed)?;
        let count = usize::from(taken.is_some());
        self.handed.fetch_add(count, Ordering::Relaxed);
        Ok(taken)
    }

    fn receive(&mut self, route: &Route, slots: SlotsIn) -> Result<(), Error> {
        self.hosts.receive(route, slots)
    }
}

/// Runs every collective by every algorithm and protocol that serves it, with these numbers of
/// elements. Returns how many launches were right.
pub(crate) fn sweep(
    communicator: &mut Communicator<Cpu>,
    counts: &[usize],
) -> Result<usize, String> {
    let rank = communicator.rank();
    let mut launched = 0;
    let transfers = [Transfer::Fifo, Transfer::Hierarchical];
    for collective in Collective::ALL {
        let schedules = Schedule::ALL.into_iter();
        for (schedule, transfer) in schedules.flat_map(|it| transfers.map(|by| (it, by))) {
            for protocol in Protocol::ALL {
                if !schedule.serves(collective, transfer) {
                    continue;
                }
                communicator.set_choice(Some(Choice {
                    schedule,
                    transfer,
                    protocol,
                    channels: 2,
                    piece_bytes: 0,
                }));
                for &count in counts {
                    let check = Check {
                        collective,
                        reduction: Reduction::Sum,
                        ranks: communicator.ranks(),
                        root: 1 % communicator.ranks(),
                        count,
                        seed: count as u64,
                    };
                    let mut input = vec![0_i32; check.input_elements(rank)];
                    let mut output = vec![0_i32; check.output_elements(rank)];
                    check.fill(rank, 0, &mut input);
                    let name = format!("{collective} {schedule} {transfer} {protocol} {count}");
                    match check.launch(communicator, (&input, &mut output)) {
                        Ok(()) => launched += 1,
                        // Some algorithms need a power of two of ranks.
                        Err(Error::Unsupported { .. }) => continue,
                        Err(error) => return Err(format!("{name}: {error}")),
                    }
                    let wrong = check.wrong(rank, &output);
                    if wrong > 0 {
                        return Err(format!("{name}: {wrong} elements are wrong"));
                    }
                }
            }
        }
    }
    Ok(launched)
}
