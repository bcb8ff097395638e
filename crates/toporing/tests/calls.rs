//! Every call on threads, with results that each rank checks.

use std::pin::{Pin, pin};
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use toporing::{Code, Comm, Options, Reduction};

const RANKS: u32 = 3;

/// The values of rank `rank` for block `block`.
fn given(rank: u32, block: u32) -> u64 {
    u64::from(100 * rank + block)
}

fn blocks(rank: u32) -> Vec<u64> {
    (0..RANKS).map(|block| given(rank, block)).collect()
}

fn column(block: u32) -> Vec<u64> {
    (0..RANKS).map(|rank| given(rank, block)).collect()
}

#[test]
fn every_collective_is_right() {
    let done = Comm::on_threads(RANKS, |comm| {
        let (rank, root) = (comm.rank(), 1);
        assert_eq!(comm.ranks(), RANKS);
        let is_root = rank == root;

        let mut sum = blocks(rank);
        comm.all_reduce(&mut sum, Reduction::Sum)?;
        let sums: Vec<u64> = (0..RANKS).map(|block| column(block).iter().sum()).collect();
        assert_eq!(sum, sums);

        let mut gathered = vec![0; 3];
        comm.all_gather(&[given(rank, 0)], &mut gathered)?;
        assert_eq!(gathered, column(0));

        let mut own = [0];
        comm.reduce_scatter(&blocks(rank), &mut own, Reduction::Sum)?;
        assert_eq!(own, [sums[rank as usize]]);

        let mut copied = blocks(rank);
        comm.broadcast(&mut copied, root)?;
        assert_eq!(copied, blocks(root));

        let mut reduced = blocks(rank);
        comm.reduce(&mut reduced, Reduction::Sum, root)?;
        assert!(!is_root || reduced == sums);

        let mut at_root = vec![0; 3];
        comm.gather(&[given(rank, 2)], is_root.then_some(&mut at_root), root)?;
        assert!(!is_root || at_root == column(2));

        let all = blocks(root);
        comm.scatter(is_root.then_some(&all[..]), &mut own, root)?;
        assert_eq!(own, [given(root, rank)]);

        let mut exchanged = vec![0; 3];
        comm.all_to_all(&blocks(rank), &mut exchanged)?;
        assert_eq!(exchanged, column(rank));

        // Rank r sends r elements to each rank.
        let sent = vec![rank as usize; 3];
        let input = vec![given(rank, 0); 3 * rank as usize];
        let mut received = vec![0; 3];
        comm.all_to_all_v(&input, &sent, &mut received, &[0, 1, 2])?;
        assert_eq!(received, [given(1, 0), given(2, 0), given(2, 0)]);

        comm.barrier()
    });
    done.expect("all calls are right");
}

#[test]
fn overlapping_calls_end_with_their_scope() {
    let done = Comm::on_threads(RANKS, |comm| {
        let (rank, mut sum) = (comm.rank(), [1_i32]);
        let (next, before) = ((rank + 1) % RANKS, (rank + RANKS - 1) % RANKS);
        let (mine, mut theirs, mut any, mut source) = ([rank], [0], [0_u32], 0);
        comm.scope(|scope| {
            scope.receive(&mut theirs, before)?;
            scope.receive_any(&mut any, 7, &mut source)?;
            scope.all_reduce(&mut sum, Reduction::Sum)?;
            scope.send(&mine, next)?;
            scope.send_tagged(&mine, next, 7)
        })?;
        assert_eq!(
            (theirs, any, source, sum),
            ([before], [before], before, [3])
        );
        Ok(())
    });
    done.expect("all calls are right");
}

#[test]
fn started_calls_give_their_memory_back() {
    let done = Comm::on_threads(RANKS, |comm| {
        let rank = comm.rank();
        let mut sum = comm.start_all_reduce(vec![rank; 1000], Reduction::Maximum)?;
        let gathered = comm.start_all_gather(vec![rank])?;
        // Dropped, it is waited for.
        drop(comm.start_broadcast(vec![rank; 10], 0)?);
        while !sum.is_done()? {
            std::thread::yield_now();
        }
        assert_eq!(sum.wait()?, vec![RANKS - 1; 1000]);
        assert_eq!(gathered.wait()?, (vec![rank], vec![0, 1, 2]));
        let (_, part) = comm
            .start_reduce_scatter(blocks(rank), Reduction::Sum)?
            .wait()?;
        assert_eq!(part, [column(rank).iter().sum::<u64>()]);
        let (_, part) = comm.start_all_to_all(blocks(rank))?.wait()?;
        assert_eq!(part, column(rank));
        let next = (rank + 1) % RANKS;
        let sent = comm.start_send(vec![rank; 5], next, 1)?;
        let before = (rank + RANKS - 1) % RANKS;
        assert_eq!(
            comm.start_receive(vec![0; 5], before, 1)?.wait()?,
            [before; 5]
        );
        sent.wait().map(drop)
    });
    done.expect("all calls are right");
}

/// Runs a future in this thread.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Thread(std::thread::Thread);
    impl Wake for Thread {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Thread(std::thread::current())));
    let (mut future, mut context) = (pin!(future), Context::from_waker(&waker));
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn started_calls_are_futures() {
    let done = Comm::on_threads(RANKS, |comm| {
        let sums = block_on(async {
            let first = comm.start_all_reduce(vec![comm.rank()], Reduction::Sum)?;
            let second = comm.start_all_gather(vec![comm.rank()])?;
            // The later one is awaited first.
            let (_, gathered) = second.await?;
            Ok::<_, toporing::Error>((gathered, first.await?))
        })?;
        assert_eq!(sums, (vec![0, 1, 2], vec![3]));
        Ok(())
    });
    done.expect("both end");
}

#[test]
fn a_send_to_itself_without_a_receive_ends_in_time_although_others_run() {
    const LONGEST: Duration = Duration::from_secs(1);
    let done = Comm::on_threads(2, |comm| {
        let peer = 1 - comm.rank();
        // Nobody sends it for a while.
        let waits = comm.start_receive(vec![0_u8], peer, 1)?;
        comm.set_longest_wait(LONGEST)?;
        let began = Instant::now();
        let alone = comm.start_send(vec![0_u8; 3], comm.rank(), 0)?;
        let failed = alone.wait().expect_err("there is no receive");
        assert_eq!(failed.code, Code::Timeout, "{failed}");
        let took = began.elapsed();
        assert!(
            took >= LONGEST && took < LONGEST + Duration::from_secs(2),
            "{took:?}"
        );
        comm.send_tagged(&[7_u8], peer, 1)?;
        assert_eq!(waits.wait()?, [7]);
        Ok(())
    });
    done.expect("the others end");
}

#[test]
fn unequal_lengths_to_itself_are_told_and_the_communicator_stays_usable() {
    let done = Comm::on_threads(2, |comm| {
        let rank = comm.rank();
        let send = comm.start_send(vec![0_u8; 3], rank, 0)?;
        let receive = comm.start_receive(vec![0_u8; 4], rank, 0)?;
        for failed in [send.wait().err(), receive.wait().err()] {
            let failed = failed.expect("the lengths differ");
            assert_eq!(failed.code, Code::Invalid, "{failed}");
        }
        comm.barrier()
    });
    done.expect("the communicator stays usable");
}

#[test]
fn the_first_error_of_threads_is_told_and_a_panic_is_one() {
    let failed = Comm::on_threads(3, |comm| match comm.rank() {
        2 => panic!("rank 2 has a defect"),
        _ => comm.barrier(),
    });
    let failed = failed.expect_err("rank 2 panics");
    assert_eq!(failed.code, Code::Internal, "{failed}");
    assert!(failed.text.contains("rank 2 has a defect"), "{failed}");
}

#[test]
fn a_failed_call_stays_failed() {
    // An abort while the other rank still joins fails its join.
    let joined = Barrier::new(2);
    let done = Comm::on_threads(2, |comm| {
        joined.wait();
        if comm.rank() == 1 {
            return comm.abort();
        }
        let mut sum = match comm.start_all_reduce(vec![1_u8; 8], Reduction::Sum) {
            Ok(sum) => sum,
            // Rank 1 was faster.
            Err(failed) => {
                assert_eq!(failed.code, Code::Failed, "{failed}");
                return Ok(());
            }
        };
        while !sum.is_done()? {
            std::thread::yield_now();
        }
        let failed = block_on(&mut sum).expect_err("rank 1 aborts");
        assert_eq!(failed.code, Code::Failed, "{failed}");
        assert_eq!(sum.wait().map_err(|it| it.text), Err(failed.text));
        Ok(())
    });
    done.expect("the error is told");
}

#[test]
fn a_waker_that_panics_ends_nothing() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("a defect of the executor");
        }
    }
    let done = Comm::on_threads(2, |comm| {
        let mut first = comm.start_all_reduce(vec![1_u32; 4], Reduction::Sum)?;
        let waker = Waker::from(Arc::new(Panics));
        let polled = Pin::new(&mut first).poll(&mut Context::from_waker(&waker));
        let second = comm.start_all_reduce(vec![2_u32; 4], Reduction::Sum)?;
        assert_eq!(second.wait()?, vec![4; 4]);
        match polled {
            Poll::Ready(sum) => assert_eq!(sum?, vec![2; 4]),
            Poll::Pending => assert_eq!(first.wait()?, vec![2; 4]),
        }
        comm.barrier()
    });
    done.expect("both calls end");
}

#[test]
fn wrong_lengths_roots_and_tags_are_refused_and_the_communicator_stays_usable() {
    let done = Comm::on_threads(2, |comm| {
        let mut short = [0_u8; 3];
        for (refused, words) in [
            (comm.all_gather(&[0_u8; 2], &mut short), "output has 3"),
            (
                comm.reduce_scatter(&[0_u8; 5], &mut short, Reduction::Sum),
                "input has 5",
            ),
            (comm.all_to_all(&[0_u8; 4], &mut short), "output has 3"),
            (comm.broadcast(&mut [0_u8], 2), "root 2"),
            (comm.send(&[0_u8], 2), "rank 2"),
            (comm.send_tagged(&[0_u8], 0, u32::MAX), "tag"),
            (comm.gather(&[0_u8], None, comm.rank()), "null"),
        ] {
            let error = refused.expect_err(words);
            assert_eq!(error.code, Code::Invalid, "{error}");
            assert!(error.to_string().contains(words), "{error}");
        }
        comm.barrier()
    });
    done.expect("the communicator stays usable");
}

#[test]
fn a_scope_that_fails_waits_for_what_was_started() {
    let done = Comm::on_threads(2, |comm| {
        let mut sum = vec![1_u32; 1 << 16];
        let refused = comm.scope(|scope| {
            scope.all_reduce(&mut sum, Reduction::Sum)?;
            scope.send(&[1_u8], 9)
        });
        assert!(refused.is_err());
        assert_eq!(sum, vec![2; 1 << 16]);
        Ok(())
    });
    done.expect("the started call ends");
}

#[test]
fn splits_and_aborts_reach_all_ranks() {
    // An abort while another rank still splits fails its split.
    let split = Barrier::new(4);
    let done = Comm::on_threads(4, |comm| {
        let color = (comm.rank() % 2) as i32;
        let half = comm.split(color, 0)?.expect("each has a color");
        let mut sum = [comm.rank()];
        half.all_reduce(&mut sum, Reduction::Sum)?;
        assert_eq!(sum, [2 + 2 * color as u32]);
        comm.set_longest_wait(Duration::from_secs(20))?;
        split.wait();
        if comm.rank() == 3 {
            comm.abort()?;
        }
        let failed = comm.barrier().expect_err("rank 3 aborts");
        assert_eq!(failed.code, Code::Failed, "{failed}");
        Ok(())
    });
    done.expect("all ranks learn of it");
}

#[test]
fn without_a_launcher_a_rank_is_alone() {
    let comm = Comm::of_launcher(&Options::default()).unwrap();
    let mut mine = [7.5_f64];
    comm.all_reduce(&mut mine, Reduction::Sum).unwrap();
    assert_eq!((comm.rank(), comm.ranks(), mine), (0, 1, [7.5]));
}
