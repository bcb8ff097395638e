//! Communicators over a net plug-in: ranks of one process that act as several hosts.

mod support;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use backend_cpu::{Cpu, Profile};
use executor::bootstrap::Bootstrap;
use executor::{Communicator, Error, Reduction, Settings};
use libtest_mimic::{Arguments, Completion, Failed, Trial};

use net::{Host, Hosts, Options, PluginChoice, Ports, ReceiverPort, SenderPort};
use support::{Counting, Neighbours, sweep};
use testkit::network::loopback;

/// Elements of the messages.
const COUNTS: [usize; 3] = [0, 1023, 100_000];

type Test = fn(&Path) -> Result<(), Failed>;

const TESTS: [(&str, Test); 5] = [
    ("every_collective_is_right", |folder| {
        collectives(folder, 12, &[3])
    }),
    ("deep::every_collective_is_right_v8", |folder| {
        collectives(folder, 8, &[2, 3])
    }),
    ("deep::every_collective_is_right_v12", |folder| {
        collectives(folder, 12, &[2])
    }),
    ("a_split_communicator_uses_it_too", splits),
    ("ranks_forward_for_each_other", forwarded),
];

fn main() -> std::process::ExitCode {
    let arguments = Arguments::from_args();
    let trial = |(name, test): (&'static str, Test)| {
        Trial::ignorable_test(name, move || {
            if !loopback::can_compile() {
                return Ok(Completion::ignored_with("not run: there is no C compiler"));
            }
            let folder = tempfile::tempdir()?;
            test(folder.path()).map(|()| Completion::Completed)
        })
        .with_ignored_flag(name.starts_with("deep::"))
    };
    libtest_mimic::run(&arguments, TESTS.into_iter().map(trial).collect()).exit_code()
}

fn plugin(folder: &Path, version: u32) -> Result<PathBuf, Failed> {
    let file = folder.join("libnccl-net-loopback.so");
    loopback::compile(version, "", &[], &file).map_err(|it| it.to_string().into())
}

/// The options of each rank; each is on a host of its own.
fn options(ranks: u32, plugin: &Path) -> Result<Vec<Options>, Failed> {
    let (id, root) = net::loopback_id()?;
    let mut root = Some((0, root));
    let wanted = PluginChoice::parse(&plugin.display().to_string())?;
    let all = (0..ranks).map(|rank| Options {
        roots: root.take().into_iter().collect(),
        host: Host::this(Some(&rank.to_string())),
        checks: true,
        ports: Some(Arc::new(Crossed)),
        net_plugin: wanted.clone(),
        ..Options::loopback(rank, ranks, &id)
    });
    Ok(all.collect())
}

/// Crosses NICs and channels: the second NIC for the first channel.
#[derive(Debug)]
struct Crossed;

impl Ports for Crossed {
    fn leaves(&self, from: u32, _: u32, channel: u16) -> Option<SenderPort> {
        let nic = 1 - u32::from(channel % 2);
        Some(SenderPort {
            nic,
            proxy: from,
            rdma: true,
        })
    }

    fn arrives(&self, _: u32, _: u32, channel: u16) -> Option<ReceiverPort> {
        Some(ReceiverPort {
            nic: 1 - u32::from(channel % 2),
            rdma: true,
        })
    }
}

fn each(
    all: Vec<Options>,
    work: impl Fn(Hosts) -> Result<(), String> + Sync,
) -> Result<(), Failed> {
    let work = &work;
    let run = |options: Options| {
        let rank = options.rank;
        let hosts = Hosts::join(options).map_err(|it| it.to_string());
        hosts
            .and_then(work)
            .map_err(|it| format!("rank {rank}: {it}"))
    };
    let results: Vec<Result<(), String>> = thread::scope(|scope| {
        let threads: Vec<_> = all
            .into_iter()
            .map(|it| scope.spawn(move || run(it)))
            .collect();
        let panicked = || Err("a rank panicked".to_owned());
        threads
            .into_iter()
            .map(|it| it.join().unwrap_or_else(|_| panicked()))
            .collect()
    });
    results
        .into_iter()
        .collect::<Result<(), String>>()
        .map_err(Failed::from)
}

fn join(hosts: impl Bootstrap + 'static) -> Result<Communicator<Cpu>, String> {
    let settings = Settings {
        longest_wait: Duration::from_secs(120),
        buffer_bytes: Some(16 << 20),
        ..Settings::default()
    };
    let backend = Cpu::new(Arc::new(Profile::default()));
    Communicator::join(backend, Box::new(hosts), &settings).map_err(|it| it.to_string())
}

fn collectives(folder: &Path, version: u32, numbers: &[u32]) -> Result<(), Failed> {
    let plugin = plugin(folder, version)?;
    for &ranks in numbers {
        each(options(ranks, &plugin)?, |hosts| {
            let loaded = hosts.reached().plugin.clone();
            if loaded.is_none_or(|it| {
                it.version != version || it.devices.len() != 2 || it.devices[1].name != "loop1"
            }) {
                return Err("another plug-in, or none".to_owned());
            }
            let launched = sweep(&mut join(hosts)?, &COUNTS)?;
            if launched < 75 {
                return Err(format!("only {launched} launches"));
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Two ranks on each of two hosts; each forwards for the other one of its host.
fn forwarded(folder: &Path) -> Result<(), Failed> {
    let plugin = plugin(folder, 11)?;
    let mut all = options(4, &plugin)?;
    for options in &mut all {
        options.host = Host::this(Some(&(options.rank / 2).to_string()));
        options.ports = Some(Arc::new(Neighbours));
    }
    let handed = Arc::new(AtomicUsize::new(0));
    each(all, |hosts| {
        let counting = Counting::new(hosts, Arc::clone(&handed));
        sweep(&mut join(counting)?, &COUNTS).map(|_| ())
    })?;
    match handed.load(Ordering::Relaxed) {
        0 => Err("nothing was handed over".into()),
        _ => Ok(()),
    }
}

fn splits(folder: &Path) -> Result<(), Failed> {
    let plugin = plugin(folder, 11)?;
    each(options(4, &plugin)?, |mut hosts| {
        let text = |error: Error| error.to_string();
        let rank = hosts.rank();
        let part = hosts.split((rank % 2) as i32, 0).map_err(text)?;
        let part = part.ok_or("every rank has a part")?;
        if part.reached().plugin.is_none() {
            return Err("a part without the plug-in".to_owned());
        }
        let (mut part, mut whole) = (join(part)?, join(hosts)?);
        let (mut of_part, mut of_whole) = ([rank], [rank]);
        part.all_reduce(&mut of_part, Reduction::Sum)
            .map_err(text)?;
        whole
            .all_reduce(&mut of_whole, Reduction::Sum)
            .map_err(text)?;
        if (of_part, of_whole) != ([2 + 2 * (rank % 2)], [6]) {
            return Err(format!("{of_part:?} and {of_whole:?}"));
        }
        Ok(())
    })
}
