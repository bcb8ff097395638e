//! Times an exchange with a neighbor, as in a halo exchange: two processes send each other a
//! message, started one by one and in a group.
//!
//!     cargo run --release -p communicator --example halo [BYTES [EXCHANGES]]

use std::process::Command;
use std::time::Instant;

use toporing::communicator::{Comm, End, Options, Transfer, UniqueId};

/// The environment variable with the id for the other process.
const ID: &str = "HALO_ID";

/// Batches of exchanges that are timed. They are short, so that programs beside this one disturb
/// few of them.
const BATCHES: usize = 200;

fn main() {
    let number = |at, default| {
        let given = std::env::args().nth(at);
        given.map_or(default, |it| it.parse().expect("a number"))
    };
    let (bytes, exchanges) = (number(1, 64), number(2, 200_000));
    let options = Options::default();
    match std::env::var(ID) {
        Ok(id) => run(&id.parse().expect("an id"), 1, (bytes, exchanges), &options),
        Err(_) => {
            let id = options.new_id().expect("a network interface is up");
            let program = std::env::current_exe().expect("the program's path");
            let mut other = Command::new(program)
                .args([bytes.to_string(), exchanges.to_string()])
                .env(ID, id.to_string())
                .spawn()
                .expect("the other process starts");
            run(&id, 0, (bytes, exchanges), &options);
            assert!(other.wait().expect("it ends").success());
        }
    }
}

fn run(id: &UniqueId, rank: u32, (bytes, exchanges): (usize, usize), options: &Options) {
    let comm = Comm::join(id, rank, 2, options).expect("both join");
    let peer = 1 - rank;
    let (mut sent, mut received) = (vec![1_u8; bytes], vec![0_u8; bytes]);
    let mut transfer = |end| {
        let memory = if end == End::To(peer) {
            &mut sent
        } else {
            &mut received
        };
        // SAFETY: the buffers live until the transfer has ended.
        unsafe { Transfer::new(end, 0, (memory.as_mut_ptr(), bytes), std::ptr::null_mut()) }
    };
    let (send, receive) = (transfer(End::To(peer)), transfer(End::From(peer)));
    let started = || {
        let receives = comm.start_transfer(receive).expect("it starts");
        let sends = comm.start_transfer(send).expect("it starts");
        for work in [receives, sends] {
            comm.shared.await_job(work, None).expect("it ends");
        }
    };
    let grouped = || {
        comm.begin_group().expect("none is open");
        comm.transfer(receive).expect("it is added");
        comm.transfer(send).expect("it is added");
        comm.end_group().expect("it ends");
    };
    let in_batch = exchanges.div_ceil(BATCHES).max(1);
    for (name, exchange) in [("started", &started as &dyn Fn()), ("grouped", &grouped)] {
        let mut times: Vec<f64> = Vec::new();
        for batch in 0..=BATCHES {
            let began = Instant::now();
            for _ in 0..in_batch {
                exchange();
            }
            // The first warms up.
            if batch > 0 {
                times.push(began.elapsed().as_secs_f64() * 1e6 / in_batch as f64);
            }
        }
        times.sort_by(f64::total_cmp);
        if rank == 0 {
            println!(
                "{name}: {bytes} bytes, least {:.3} µs, median {:.3} µs",
                times[0],
                times[times.len() / 2]
            );
        }
    }
    comm.finish().expect("nothing failed");
}
