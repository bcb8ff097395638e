//! Measures the cost of idle connections: two ranks of this process, acting as two hosts, make
//! connections and then do nothing for a while.
//!
//!     cargo run --release -p net --example idle -- 32 20
//!
//! prints the processor time that 32 connections each way and their proxies take in 20 s.

use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use backend_cpu::{Cpu, Profile};
use executor::{Choice, Communicator, Reduction, Settings};
use net::{Host, Hosts, Options};
use program::Protocol;
use program::{Channels, Schedule, Transfer};
use rustix::time::{ClockId, clock_gettime};

type Problem = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Problem> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |else_: u64| arguments.next().map_or(Ok(else_), |it| it.parse());
    let (connections, seconds) = (number(32)?, number(20)?);
    let channels = u16::try_from(connections)?;
    let (id, root) = net::loopback_id()?;
    let mut root = Some((0, root));
    let ready = Barrier::new(3);
    let over = Barrier::new(3);
    thread::scope(|scope| {
        for rank in 0..2 {
            let options = Options {
                roots: root.take().into_iter().collect(),
                host: Host::this(Some(&rank.to_string())),
                ..Options::loopback(rank, 2, &id)
            };
            let (ready, over) = (&ready, &over);
            scope.spawn(move || {
                let connected = connect(options, channels);
                ready.wait();
                over.wait();
                connected.map(drop)
            });
        }
        ready.wait();
        let (began, before) = (Instant::now(), processor_time());
        thread::sleep(Duration::from_secs(seconds));
        let (wall, used) = (began.elapsed(), processor_time().saturating_sub(before));
        over.wait();
        let share = used.as_secs_f64() / wall.as_secs_f64();
        println!(
            "{connections} connections each way, {:.1} s: {:.1} ms of processor time, {:.3} % of a core, {:.1} µs per \
             connection and second",
            wall.as_secs_f64(),
            used.as_secs_f64() * 1e3,
            share * 1e2,
            share * 1e6 / (2 * connections.max(1)) as f64
        );
    });
    Ok(())
}

/// A communicator that has used each channel once.
fn connect(options: Options, channels: u16) -> Result<Communicator<Cpu>, Problem> {
    let settings = Settings {
        channels: Some(Channels::plain(2, usize::from(channels))?),
        buffer_bytes: Some(16 << 20),
        ..Settings::default()
    };
    let hosts = Hosts::join(options)?;
    let backend = Cpu::new(Arc::new(Profile::default()));
    let mut communicator = Communicator::join(backend, Box::new(hosts), &settings)?;
    communicator.set_choice(Some(Choice {
        schedule: Schedule::Ring,
        transfer: Transfer::Fifo,
        protocol: Protocol::Simple,
        channels,
        piece_bytes: 0,
    }));
    let mut data = vec![1_i32; 1 << 20];
    communicator.all_reduce(&mut data, Reduction::Sum)?;
    Ok(communicator)
}

/// Processor time of this process so far.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
