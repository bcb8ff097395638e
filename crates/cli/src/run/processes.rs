//! Ranks as processes: rank 0 starts the others, each with a socket as standard input.

use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use backend_cpu::{Cpu, Profile};
use executor::bootstrap::process::{Client, Server};
use executor::{Communicator, Failure, Settings};
use serde::{Deserialize, Serialize};

use super::load::Watch;
use super::{RunRow, Spec, bind, cuda, measure};
use crate::arguments::run::BackendName;

/// Most bytes of instructions.
const LONGEST_INSTRUCTIONS: usize = 64 << 20;

/// How long the other processes may take to end after rank 0 is done.
const LINGER: Duration = Duration::from_secs(5);

/// The first message to a process.
#[derive(Debug, Serialize, Deserialize)]
struct Instructions {
    rank: u32,
    spec: Spec,
    profile: String,
}

/// Processes that end with this one.
struct Children(Vec<(u32, Child)>);

impl Drop for Children {
    fn drop(&mut self) {
        for (_, child) in &mut self.0 {
            // One that has ended already needs neither.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Runs all ranks. Returns rank 0's report on its GPU, and its rows.
pub fn run(
    spec: &Spec,
    profile: &Arc<Profile>,
    progress: &mut (dyn FnMut(u64) + Send),
) -> Result<(String, Vec<RunRow>)> {
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let text = profile.to_toml()?;
    let mut children = Children(Vec::new());
    let (mut own, first) = UnixStream::pair().context("cannot make a socket")?;
    let mut sockets = vec![first];
    for rank in 1..spec.ranks {
        let (mine, theirs) = UnixStream::pair().context("cannot make a socket")?;
        let child = Command::new(&program)
            .args(["run", "--member"])
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .spawn();
        let child = child.with_context(|| format!("cannot start rank {rank}"))?;
        children.0.push((rank, child));
        let instructions = Instructions {
            rank,
            spec: spec.clone(),
            profile: text.clone(),
        };
        let mut line = serde_json::to_string(&instructions)?;
        line.push('\n');
        let told = (&mine).write_all(line.as_bytes());
        told.with_context(|| format!("rank {rank} ended at once"))?;
        sockets.push(mine);
    }
    let server = Server::start(sockets).context("cannot start a thread")?;
    own.flush()?;
    // On its own thread, so that binding it to a core does not bind child processes.
    let member = |progress| member_of(own, 0, spec, profile, progress);
    let result = std::thread::scope(|scope| scope.spawn(|| member(progress)).join());
    let result = result.unwrap_or_else(|_| Err(anyhow::anyhow!("rank 0 panicked")));
    let result = result.map_err(|error| match server.failure() {
        // The first failure explains the later ones.
        Some(failure) => anyhow::anyhow!("{failure}"),
        None => error,
    });
    let rows = result?;
    finish(&mut children, &server)?;
    Ok(rows)
}

fn finish(children: &mut Children, server: &Server) -> Result<()> {
    let deadline = Instant::now() + LINGER;
    for (rank, child) in &mut children.0 {
        loop {
            match child.try_wait()? {
                Some(status) if status.success() => break,
                Some(status) => bail!("rank {rank} ended with {status}"),
                None if Instant::now() > deadline => {
                    server.fail(Failure {
                        rank: *rank,
                        what: "it did not end in time".to_owned(),
                    });
                    bail!("rank {rank} did not end within {} s", LINGER.as_secs());
                }
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }
    children.0.clear();
    Ok(())
}

/// Runs this process as one of the other ranks; instructions come through standard input.
pub fn member() -> Result<()> {
    let socket = std::io::stdin().as_fd().try_clone_to_owned();
    let mut socket = UnixStream::from(socket.context("there is no standard input")?);
    let line = read_line(&mut socket)?;
    let instructions: Instructions = serde_json::from_str(&line).context(
        "standard input holds no instructions; this form of topo run is started by topo run itself",
    )?;
    let profile = Arc::new(Profile::from_toml(
        "the profile of rank 0",
        &instructions.profile,
    )?);
    member_of(
        socket,
        instructions.rank,
        &instructions.spec,
        &profile,
        &mut |_| {},
    )?;
    Ok(())
}

fn member_of(
    socket: UnixStream,
    rank: u32,
    spec: &Spec,
    profile: &Arc<Profile>,
    progress: &mut (dyn FnMut(u64) + Send),
) -> Result<(String, Vec<RunRow>)> {
    if spec.backend != BackendName::Cpu {
        let bootstrap = Box::new(Client::new(rank, spec.ranks, socket));
        return cuda::process(spec, bootstrap, rank, progress);
    }
    // Before this process is bound to one of its cores, for all of them count.
    let cores = bind::cores();
    let settings = Settings {
        cores: Some(cores.len().max(1)),
        ..spec.settings()?
    };
    if spec.bind {
        bind::to_own_core(&cores, rank, spec.ranks);
    }
    let bootstrap = Box::new(Client::new(rank, spec.ranks, socket));
    let backend = Cpu::new(Arc::clone(profile));
    let mut communicator = Communicator::join(backend, bootstrap, &settings)?;
    let mut watch = match rank {
        0 => Watch::cores(&cores, spec.ranks, spec.bind),
        _ => Watch::process(),
    };
    let rows = measure::sweep(&mut communicator, spec, profile, &mut watch, progress)?;
    Ok((String::new(), rows))
}

/// Reads up to the first line break and not a byte more, for what follows is the bootstrap's.
fn read_line(socket: &mut UnixStream) -> Result<String> {
    let mut bytes = Vec::new();
    let mut byte = [0];
    loop {
        let read = socket
            .read(&mut byte)
            .context("cannot read standard input")?;
        if read == 0 || bytes.len() > LONGEST_INSTRUCTIONS {
            bail!("standard input ended before there were instructions");
        }
        if byte[0] == b'\n' {
            return Ok(String::from_utf8(bytes)?);
        }
        bytes.push(byte[0]);
    }
}
