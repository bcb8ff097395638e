//! Ranks as processes of this host: rank 0 starts the others and tells them through standard input
//! what to do. All meet over the loopback interface.

use std::io::{Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use backend_cpu::Profile;
use bootstrap::socket::blocking::Connection;
use bootstrap::{Failure, Kind, Message, Timing, UniqueId};
use executor::bootstrap::Bootstrap;
use net::{Host, Hosts, Options};
use rustix::process::{Signal, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};

use crate::bind;
use crate::event::Observer;
use crate::launched::sweep;
use crate::row::RunRow;
use crate::spec::Spec;

/// Most bytes of instructions.
const LONGEST_INSTRUCTIONS: u64 = 64 << 20;

/// How long the other processes may take to end after rank 0 is done.
const LINGER: Duration = Duration::from_secs(5);

/// How long a process whose connections ended may take to be seen as ended.
const END_TIME: Duration = Duration::from_millis(200);

/// How long telling the root of a failure may take.
const NEWS_TIME: Duration = Duration::from_secs(1);

/// Between two looks at the other processes.
const LOOK: Duration = Duration::from_millis(1);

/// The work of a process, from its standard input.
#[derive(Debug, Serialize, Deserialize)]
struct Instructions {
    id: String,
    rank: u32,
    spec: Spec,
    profile: String,
}

/// Processes that end with this one; the first is rank 1.
struct Children(Vec<Child>);

impl Drop for Children {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // One that has ended already needs neither.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Children {
    fn start(id: &UniqueId, spec: &Spec, profile: &Profile) -> Result<Self> {
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let mut children = Self(Vec::new());
        for rank in 1..spec.ranks {
            let child = Command::new(&program)
                .args(["run", "--member"])
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .spawn();
            let child = child.with_context(|| format!("cannot start rank {rank}"))?;
            children.0.push(child);
        }
        let profile = profile.to_toml()?;
        for (child, rank) in children.0.iter_mut().zip(1..) {
            let instructions = serde_json::to_vec(&Instructions {
                id: id.to_string(),
                rank,
                spec: spec.clone(),
                profile: profile.clone(),
            })?;
            let mut input = child.stdin.take().context("a child has no input")?;
            let told = input.write_all(&instructions);
            told.with_context(|| format!("rank {rank} ended at once"))?;
        }
        Ok(children)
    }

    /// The first rank whose process has ended.
    fn ended(&mut self) -> Result<Option<(u32, ExitStatus)>> {
        for (child, rank) in self.0.iter_mut().zip(1..) {
            if let Some(status) = child.try_wait()? {
                return Ok(Some((rank, status)));
            }
        }
        Ok(None)
    }

    /// Waits until all have ended well.
    fn finish(mut self) -> Result<()> {
        let until = Instant::now() + LINGER;
        for (child, rank) in self.0.iter_mut().zip(1..) {
            match wait(child, until)? {
                Some(status) if status.success() => {}
                Some(status) => bail!("rank {rank} ended with {status}"),
                None => bail!("rank {rank} did not end within {} s", LINGER.as_secs()),
            }
        }
        Ok(())
    }
}

fn wait(child: &mut Child, until: Instant) -> Result<Option<ExitStatus>> {
    loop {
        match child.try_wait()? {
            None if Instant::now() < until => sleep(LOOK),
            status => return Ok(status),
        }
    }
}

/// Runs all ranks: this program's own file is started again as `run --member`, where it calls
/// [`member`]. `print` gets lines of a net plug-in's log. Returns rank 0's notes on the run on
/// GPUs, and its rows.
///
/// # Errors
/// A rank failed or ended, or the ranks do not meet.
pub fn run(
    spec: &Spec,
    profile: &Arc<Profile>,
    print: fn(&str),
    observer: &mut Observer<'_>,
) -> Result<(String, Vec<RunRow>)> {
    let (id, root) = net::loopback_id().context("ranks as processes cannot meet")?;
    let mut children = Children::start(&id, spec, profile)?;
    let options = Options {
        roots: vec![(0, root)],
        ..options(&id, 0, spec, print)?
    };
    let joined = AtomicBool::new(false);
    let result = std::thread::scope(|scope| {
        // On its own thread, so that binding it to a core does not bind others of this process.
        let rank = scope.spawn(|| {
            let hosts = join(options)?;
            joined.store(true, Ordering::Relaxed);
            work(hosts, spec, profile, observer)
        });
        // Without this, a rank that never connects would be missed at the timeout only.
        while !joined.load(Ordering::Relaxed) && !rank.is_finished() {
            if let Some((rank, status)) = children.ended()? {
                tell(&id, of_ended(rank, status));
                break;
            }
            sleep(LOOK);
        }
        rank.join()
            .unwrap_or_else(|_| Err(anyhow!("rank 0 panicked")))
    });
    let rows = result.map_err(|error| explain(error, &mut children))?;
    children.finish()?;
    Ok(rows)
}

/// Tells the root that a rank failed before it connected.
fn tell(id: &UniqueId, failure: Failure) {
    let message = Message::<Vec<u8>>::Failed(Box::new(failure));
    // A root that does not listen any more is not needed: all ranks are connected to their
    // neighbors.
    if let Ok(mut root) = Connection::open(id.roots[0], &id.key, Kind::Root, NEWS_TIME) {
        let _ = root.send(&message.encode());
    }
}

/// The error of the job: the first failure explains the later ones, and a signal explains the end
/// of a process.
fn explain(error: anyhow::Error, children: &mut Children) -> anyhow::Error {
    use executor::Error::{Aborted, Broken, Disconnected};
    let Some(known) = error.chain().find_map(|it| it.downcast_ref()) else {
        return error;
    };
    let (Aborted { failure, .. } | Broken { failure, .. } | Disconnected { failure, .. }) = known
    else {
        return anyhow!(known.clone());
    };
    let child = failure.rank.checked_sub(1);
    let child = child.and_then(|at| children.0.get_mut(at as usize));
    let status = child.and_then(|it| wait(it, Instant::now() + END_TIME).ok().flatten());
    match status.filter(|it| it.code().is_none()) {
        Some(status) => anyhow!("{}", of_ended(failure.rank, status)),
        None => anyhow!("{failure}"),
    }
}

fn of_ended(rank: u32, status: ExitStatus) -> Failure {
    Failure::new(rank, format!("its process ended with {status}"))
}

/// Runs this process as one of the other ranks; instructions come through standard input.
///
/// # Errors
/// There are no instructions, or a rank failed.
pub fn member(print: fn(&str)) -> Result<()> {
    // If rank 0 is killed before all have joined, nobody else ends this process.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let mut text = String::new();
    let mut input = std::io::stdin().lock().take(LONGEST_INSTRUCTIONS);
    input
        .read_to_string(&mut text)
        .context("cannot read standard input")?;
    let instructions: Instructions = serde_json::from_str(&text).context(
        "standard input holds no instructions; this form of topo run is started by topo run itself",
    )?;
    let Instructions { rank, spec, .. } = &instructions;
    let profile = Profile::from_toml("the profile of rank 0", &instructions.profile)?;
    let hosts = join(options(&instructions.id.parse()?, *rank, spec, print)?)?;
    work(hosts, spec, &Arc::new(profile), &mut |_| {})?;
    Ok(())
}

fn options(id: &UniqueId, rank: u32, spec: &Spec, print: fn(&str)) -> Result<Options> {
    let named = (spec.hosts > 1).then(|| format!("host {}", spec.host(rank)));
    let mut options = Options {
        host: Host::this(named.as_deref()),
        timing: Timing {
            join: Duration::from_secs(spec.timeout_s),
            ..Timing::default()
        },
        ..Options::loopback(rank, spec.ranks, id)
    };
    if let Some(network) = &spec.network {
        options.sockets = network.sockets;
        options.checks = network.checksums;
        options.net_plugin = network.plugin(print)?;
    }
    Ok(options)
}

/// Meets the other ranks. Those of the same host must be able to share memory.
fn join(options: Options) -> Result<Hosts> {
    let mut hosts = Hosts::join(options)?;
    if let Some((peer, why)) = hosts.reached().fallen_back.first() {
        let failure = executor::Failure {
            rank: hosts.rank(),
            what: format!("it cannot share memory with rank {peer}: {why}"),
        };
        hosts.fail(&failure);
        bail!("{failure}");
    }
    Ok(hosts)
}

fn work(
    hosts: Hosts,
    spec: &Spec,
    profile: &Arc<Profile>,
    observer: &mut Observer<'_>,
) -> Result<(String, Vec<RunRow>)> {
    // Counted before binding, because all ranks share these cores.
    let cores = bind::cores();
    if spec.bind {
        bind::to_own_core(&cores, hosts.rank(), spec.ranks);
    }
    sweep(hosts, spec, profile, &cores, spec.bind, observer)
}
