//! Many message sizes: programs are prepared for each, and only some are kept.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicIsize, Ordering};
use std::time::{Duration, Instant};

use backend_cpu::Cpu;
use executor::{Collective, Communicator, End, Memory, OpenGroup, Reduction, Request, Settings};
use program::ElementType;

/// The system's allocator, which counts the bytes in use.
struct Counting;

static IN_USE: AtomicIsize = AtomicIsize::new(0);

// SAFETY: the system's allocator does all the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        IN_USE.fetch_add(layout.size().cast_signed(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size().cast_signed(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const LONG: Duration = Duration::from_secs(600);

/// The tag of the receive that waits all the time.
const PENDING: u32 = 5;

/// Runs what was added until the call with this number has ended.
fn run<'a>(rank: &mut Communicator<Cpu>, group: &mut OpenGroup<'a>, number: u64) {
    loop {
        let ended = rank.advance(group, &mut || false).expect("the ranks agree");
        if ended.iter().any(|it| it.number == number) {
            return;
        }
    }
}

/// An all-reduce and a transfer of each size, while rank 0 waits for a message of any rank. Returns
/// the bytes in use and the time after each part of the sizes.
fn all_sizes(mut rank: Communicator<Cpu>, sizes: usize, parts: usize) -> Vec<(isize, Duration)> {
    let own = rank.rank();
    let (mut pending, mut sums, mut message) = ([0_u8; 8], vec![1_u8; sizes], vec![2_u8; sizes]);
    let mut group = OpenGroup::default();
    if own == 0 {
        let memory = Memory::separate(&[], &mut pending);
        let any = (End::FromAny, PENDING);
        let added = rank.add_transfer(&mut group, 1, any, memory, LONG);
        added.expect("there is another rank");
    }
    let mut measured = Vec::new();
    let mut began = Instant::now();
    for size in 1..=sizes {
        let request = Request {
            collective: Collective::AllReduce,
            element: ElementType::U8,
            reduction: Reduction::Maximum,
            root: 0,
            to: 0,
            tag: 0,
            in_place: true,
            count: size as u64,
            choice: None,
        };
        // SAFETY: the call ends before its memory is used again.
        let memory = unsafe {
            let address = sums.as_mut_ptr();
            Memory::at(address, size, address, size)
        };
        let number = 2 * size as u64;
        let added = rank.add_collective(&mut group, number, (&request, 0), memory, LONG);
        added.expect("all ranks can");
        run(&mut rank, &mut group, number);
        let (input, output) = if own == 0 { (size, 0) } else { (0, size) };
        // SAFETY: as above.
        let memory = unsafe {
            let address = message.as_mut_ptr();
            Memory::at(address, input, address, output)
        };
        let end = if own == 0 { End::To(1) } else { End::From(0) };
        let added = rank.add_transfer(&mut group, number + 1, (end, 0), memory, LONG);
        added.expect("there is another rank");
        run(&mut rank, &mut group, number + 1);
        if size % (sizes / parts) == 0 {
            measured.push((IN_USE.load(Ordering::Relaxed), began.elapsed()));
            began = Instant::now();
        }
    }
    if own == 0 {
        run(&mut rank, &mut group, 1);
        drop(group);
        assert_eq!(pending, [7; 8]);
    } else {
        let last = [7_u8; 8];
        let mut group = OpenGroup::default();
        let memory = Memory::separate(&last, &mut []);
        let added = rank.add_transfer(&mut group, 1, (End::To(0), PENDING), memory, LONG);
        added.expect("there is another rank");
        run(&mut rank, &mut group, 1);
    }
    measured
}

#[test]
fn many_sizes_take_no_more_memory_and_time_while_a_receive_waits() {
    const SIZES: usize = 20_000;
    const PARTS: usize = 5;
    let ranks = Communicator::local(2, &Settings::default(), |_| Cpu::default());
    let ranks = ranks.expect("threads meet");
    let measured: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = ranks
            .into_iter()
            .map(|rank| scope.spawn(move || all_sizes(rank, SIZES, PARTS)))
            .collect();
        let join = |it: std::thread::ScopedJoinHandle<'_, _>| it.join().expect("no panic");
        threads.into_iter().map(join).collect()
    });
    for parts in measured {
        let (first, last): (&(isize, Duration), _) = (&parts[0], &parts[PARTS - 1]);
        assert!(last.0 < first.0 + first.0 / 4, "bytes in use: {parts:?}");
        // Other tests run beside this one.
        let most = 5 * first.1 + Duration::from_secs(5);
        assert!(last.1 < most, "times: {parts:?}");
    }
}
