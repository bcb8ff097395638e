//! Transfers beside other calls.

use std::time::Duration;

use communicator::{Arguments, Collective, Comm, ElementType, End, Options, Reduction, Transfer};

/// Runs one function per rank of a communicator, each in a thread of its own.
fn on_all(ranks: u32, run: impl Fn(&Comm, u32) + Sync) {
    let options = Options {
        longest_wait: Duration::from_secs(60),
        ..Options::default()
    };
    let id = options.new_id().expect("a network interface is up");
    std::thread::scope(|scope| {
        for rank in 0..ranks {
            let (id, options, run) = (&id, &options, &run);
            scope.spawn(move || {
                let comm = Comm::join(id, rank, ranks, options).expect("all join");
                run(&comm, rank);
                comm.finish().expect("nothing failed");
            });
        }
    });
}

fn transfer(end: End, tag: u32, buffer: &mut [u8]) -> Transfer {
    Transfer {
        memory: buffer.as_mut_ptr(),
        bytes: buffer.len(),
        end,
        tag,
        source: std::ptr::null_mut(),
    }
}

#[test]
fn calls_of_many_sizes_end_while_a_receive_waits() {
    const SIZES: usize = 6000;
    on_all(2, |comm, rank| {
        let (mut sums, mut message) = (vec![1_u8; SIZES], vec![2_u8; SIZES]);
        let mut pending = [0_u8; 8];
        let waits = (rank == 0).then(|| {
            let receive = transfer(End::FromAny, 5, &mut pending);
            comm.start_transfer(receive).expect("there is another rank")
        });
        for size in 1..=SIZES {
            let arguments = Arguments {
                collective: Collective::AllReduce,
                input: sums.as_ptr(),
                output: sums.as_mut_ptr(),
                count: size,
                element: ElementType::U8,
                operation: Reduction::Maximum,
                root: 0,
            };
            let launch = arguments.read(rank, 2).expect("it is right");
            comm.run(launch).expect("the ranks agree");
            let end = if rank == 0 { End::To(1) } else { End::From(0) };
            let sent = transfer(end, 0, &mut message[..size]);
            comm.transfer(sent).expect("the ranks agree");
        }
        match waits {
            Some(number) => {
                let ended = comm.shared.await_job(number, None);
                ended.expect("the message comes");
                assert_eq!(pending, [7; 8]);
            }
            None => {
                let mut last = [7; 8];
                let sent = transfer(End::To(0), 5, &mut last);
                comm.transfer(sent).expect("it is received");
            }
        }
    });
}
