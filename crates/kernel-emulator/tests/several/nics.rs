//! Ranks on several hosts with a net plug-in: slots that it copies, slots that its NICs read and
//! write in place (GPUDirect RDMA), and FIFOs of kernels that another rank of the host forwards
//! (PXN), over sockets and the plug-in.

use std::sync::Arc;

use device_runtime::LaunchOptions;
use executor::suite::Case;
use executor::{Choice, Reduction};
use net::{PluginChoice, Ports, ReceiverPort, SenderPort};
use program::Protocol;
use program::{Schedule, Transfer};
use tempfile::TempDir;
use testkit::network::loopback;

use super::hosts::{Place, each_by, on};
use super::{every_choice, join, run, small};

/// A plug-in compiled with these settings. It exists as long as the folder.
fn plugin(version: u32, settings: &str) -> (TempDir, PluginChoice) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("libnccl-net-loopback.so");
    loopback::compile(version, settings, &[], &file).unwrap();
    let wanted = PluginChoice::parse(&file.display().to_string()).unwrap();
    (folder, wanted)
}

/// Runs some choices between these ranks. `rdma`: whether NICs reach the devices of all.
fn choices_by(
    places: &[Place],
    options: &LaunchOptions,
    with: &(impl Fn(net::Options) -> net::Options + Sync),
    rdma: bool,
    wanted: impl Fn(&Case) -> bool + Sync,
) {
    let results = each_by(places, with, |rank, hosts| {
        let (process_ranks, mut communicator) = join(hosts, options.clone(), 7).unwrap();
        let host = |rank: u32| places[rank as usize].host;
        for reached in process_ranks.reached() {
            let remote = host(rank) != host(reached.peer);
            assert_eq!(reached.rdma.is_ok(), rdma, "{reached:?}");
            assert_eq!(remote, reached.transport == executor::Transport::Net);
        }
        let mut cases = every_choice(places.len() as u32, false);
        cases.retain(&wanted);
        assert!(cases.len() > 10, "{}", cases.len());
        run(&mut communicator, &cases)
    });
    for result in results {
        result.unwrap();
    }
}

/// Every `one_of`-th choice.
fn every(count: usize) -> impl Fn(&Case) -> bool + Sync {
    let turn = std::sync::Mutex::new(std::collections::HashMap::new());
    move |_| {
        let mut turn = turn.lock().unwrap();
        let turn = turn.entry(std::thread::current().id()).or_insert(0_usize);
        *turn += 1;
        turn.is_multiple_of(count)
    }
}

fn by(plugin: &PluginChoice) -> impl Fn(net::Options) -> net::Options + Sync {
    let net_plugin = plugin.clone();
    move |options| net::Options {
        net_plugin: net_plugin.clone(),
        ..options
    }
}

#[test]
fn a_plugin_copies_slots_of_kernels() {
    let (_folder, plugin) = plugin(12, "");
    choices_by(&[on("a"), on("b")], &small(), &by(&plugin), false, every(8));
}

fn slots_in_place(one_of: usize) {
    for (version, settings) in [(8, "MEMORY=3"), (12, "MEMORY=5")] {
        let (_folder, plugin) = plugin(version, settings);
        let wanted = every(one_of);
        choices_by(&[on("a"), on("b")], &small(), &by(&plugin), true, wanted);
    }
}

#[test]
fn nics_read_and_write_slots_in_place() {
    slots_in_place(8);
}

mod deep {
    use super::*;

    #[test]
    #[ignore = "deep: cargo xtask deep"]
    fn a_plugin_copies_slots_of_kernels() {
        let (_folder, plugin) = plugin(12, "");
        choices_by(&[on("a"), on("b")], &small(), &by(&plugin), false, every(4));
    }

    #[test]
    #[ignore = "deep: cargo xtask deep"]
    fn nics_read_and_write_slots_in_place() {
        slots_in_place(4);
    }

    #[test]
    #[ignore = "deep: cargo xtask deep"]
    fn ranks_carry_fifos_of_kernels_for_each_other() {
        forwarded(8);
    }

    #[test]
    #[ignore = "deep: cargo xtask deep"]
    fn ranks_carry_fifos_of_kernels_by_a_plugin() {
        forwarded_by_a_plugin(&[("", false), ("MEMORY=5", true)], 12);
    }

    #[test]
    #[ignore = "deep: cargo xtask deep"]
    fn step_numbers_come_round_in_place() {
        round_in_place(1);
    }
}

/// Data that a NIC wrote is visible after it was flushed, and not before.
#[test]
fn what_came_is_flushed_before_kernels_read_it() {
    let (_folder, plugin) = plugin(12, "MEMORY=3;FLUSH=1");
    let simple = |case: &Case| case.choice.protocol == Protocol::Simple;
    choices_by(&[on("a"), on("b")], &small(), &by(&plugin), true, simple);
}

#[test]
fn settings_keep_nics_out_of_the_memory_of_devices() {
    let (_folder, plugin) = plugin(12, "MEMORY=7");
    let options = LaunchOptions {
        rdma: false,
        ..small()
    };
    choices_by(&[on("a"), on("b")], &options, &by(&plugin), false, every(8));
    let options = LaunchOptions {
        rdma_read: false,
        ..small()
    };
    choices_by(&[on("a"), on("b")], &options, &by(&plugin), true, every(8));
}

/// Slots in place while the low halves of step numbers wrap around.
fn round_in_place(one_of: usize) {
    let (_folder, plugin) = plugin(12, "MEMORY=5");
    for (first_step, stale_flag) in [(0x7fff_ffec, 0x8000_0002), (0xffff_ffec, 0x0000_0003)] {
        let options = LaunchOptions {
            first_step,
            stale_flag,
            ..small()
        };
        let turn = every(one_of);
        let long =
            |case: &Case| case.choice.protocol == Protocol::Ll && case.count > 400 && turn(case);
        choices_by(&[on("a"), on("b")], &options, &by(&plugin), true, long);
    }
}

#[test]
fn step_numbers_come_round_in_place() {
    round_in_place(2);
}

/// Device memory is registered by a DMA-BUF if the NIC supports it; a failure is reported.
#[test]
fn a_registration_that_fails_is_named() {
    let (_folder, plugin) = plugin(12, "MEMORY=7;REGMRDMABUF=3");
    let heard = each_by(&[on("a"), on("b")], &by(&plugin), |rank, hosts| {
        let (_, mut communicator) = join(hosts, small(), 0).unwrap();
        let mut sum = vec![rank; 2000];
        let failed = communicator.all_reduce(&mut sum, Reduction::Sum);
        failed.unwrap_err().to_string()
    });
    assert!(
        heard.iter().any(|it| it.contains("regMrDmaBuf")),
        "{heard:?}"
    );
}

/// Every second rank's proxy forwards for the rank before it, and vice versa. NICs reach devices on
/// even channels.
#[derive(Debug)]
struct Neighbors;

impl Ports for Neighbors {
    fn leaves(&self, from: u32, _: u32, channel: u16) -> Option<SenderPort> {
        Some(SenderPort {
            nic: u32::from(channel),
            proxy: from ^ 1,
            rdma: channel.is_multiple_of(2),
        })
    }

    fn arrives(&self, _: u32, to: u32, channel: u16) -> Option<ReceiverPort> {
        Some(ReceiverPort {
            nic: to,
            rdma: channel.is_multiple_of(2),
        })
    }
}

const TWO_HOSTS: fn() -> [Place; 4] = || [on("a"), on("a"), on("b"), on("b")];

fn forwarded(one_of: usize) {
    let with = |options| net::Options {
        ports: Some(Arc::new(Neighbors)),
        ..options
    };
    choices_by(&TWO_HOSTS(), &small(), &with, false, every(one_of));
}

#[test]
fn ranks_carry_fifos_of_kernels_for_each_other() {
    forwarded(12);
}

fn forwarded_by_a_plugin(plugins: &[(&str, bool)], one_of: usize) {
    for (settings, rdma) in plugins.iter().copied() {
        let (_folder, plugin) = plugin(12, settings);
        let with = |options| net::Options {
            ports: Some(Arc::new(Neighbors)),
            net_plugin: plugin.clone(),
            ..options
        };
        choices_by(&TWO_HOSTS(), &small(), &with, rdma, every(one_of));
    }
}

#[test]
fn ranks_carry_fifos_of_kernels_by_a_plugin() {
    forwarded_by_a_plugin(&[("MEMORY=5", true)], 12);
}

/// Large messages with slots of NCCL's sizes.
#[test]
fn slots_of_nccls_size_in_place() {
    let (_folder, plugin) = plugin(12, "MEMORY=5");
    let results = each_by(&[on("a"), on("b")], &by(&plugin), |rank, hosts| {
        let (_, mut communicator) = join(hosts, LaunchOptions::nccl(), 0).unwrap();
        for protocol in Protocol::ALL {
            communicator.set_choice(Some(Choice {
                schedule: Schedule::Ring,
                transfer: Transfer::Fifo,
                protocol,
                channels: 1,
                piece_bytes: 0,
            }));
            let mut sum: Vec<u32> = (0..1_000_000).map(|at| at * (rank + 1)).collect();
            communicator
                .all_reduce(&mut sum, Reduction::Sum)
                .map_err(|error| error.to_string())?;
            let wrong = sum.iter().zip(0_u32..).find(|(sum, at)| **sum != 3 * at);
            if let Some((sum, at)) = wrong {
                return Err(format!("{protocol}: element {at} is {sum}"));
            }
        }
        Ok(())
    });
    for result in results {
        result.unwrap();
    }
}
