//! Transfers and collectives on memory of GPUs in the order of streams, on a phantom driver. Each
//! test starts itself again on the phantom machine, because the loader reads its folders when a
//! process starts.

mod failed;

use std::ptr::null_mut;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use answers::gpus::AskedGpus;
use answers::request::JobRequest;
use cudarc::driver::{result, sys};
use testkit::launch_options::{CASES, MACHINE};
use testkit::phantom::Phantom;
use toporing::communicator::RunChannels;
use toporing::{
    Arguments, Code, Collective, Comm, ElementType, End, Error, Options, Reduction, Transfer,
};

/// The test whose ranks this process has.
const INSIDE: &str = "TOPO_TEST_INSIDE";

/// Longest run of a test's ranks.
const LONGEST: Duration = Duration::from_secs(300);

/// Numbers of a buffer.
const MOST: usize = 1 << 17;

/// Whether this process has the ranks. Otherwise starts it, and checks that it succeeded without a
/// broken rule or a leak, but for reports with `asked_for`.
fn inside(test: &str, machine: &str, lines: &[&str], asked_for: &[&str]) -> bool {
    said(test, machine, lines, asked_for).is_none()
}

/// As [`inside`]. What the started process has said; `None` if this one has the ranks.
fn said(test: &str, machine: &str, lines: &[&str], asked_for: &[&str]) -> Option<String> {
    if std::env::var(INSIDE).is_ok_and(|it| it == test) {
        return None;
    }
    let own = std::env::current_exe().unwrap();
    let phantom = Phantom::new(own.parent().unwrap(), machine, lines).unwrap();
    let said = phantom.path("said");
    let output = std::fs::File::create(&said).unwrap();
    let mut command = std::process::Command::new(own);
    phantom.prepare(&mut command);
    let mut child = command
        .args(["--exact", test, "--nocapture"])
        .env(INSIDE, test)
        .stderr(output.try_clone().unwrap())
        .stdout(output)
        .spawn()
        .unwrap();
    let until = Instant::now() + LONGEST;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > until {
            child.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let said = std::fs::read_to_string(&said).unwrap();
    assert!(status.success(), "{status}: {said}");
    assert!(said.contains("1 passed"), "{said}");
    let mut problems = phantom.problems();
    problems.retain(|it| !asked_for.iter().any(|asked| it.contains(asked)));
    assert_eq!(problems, [] as [&str; 0], "{said}");
    Some(said)
}

/// A rank with its GPU: the context, two streams, and two buffers.
struct Rank {
    comm: Comm,
    device: i32,
    streams: [sys::CUstream; 2],
    input: u64,
    output: u64,
}

impl Rank {
    /// Runs `work` on ranks that are threads and have these GPUs.
    fn all(gpus: &[u32], work: impl Fn(&Self) -> Result<(), Error> + Sync) {
        Self::all_of_plan(gpus, None, work);
    }

    /// As [`Self::all`], with a plan.
    fn all_of_plan(
        gpus: &[u32],
        plan: Option<Arc<RunChannels>>,
        work: impl Fn(&Self) -> Result<(), Error> + Sync,
    ) {
        result::init().unwrap();
        let id = Comm::new_id().unwrap();
        let ranks = gpus.len() as u32;
        std::thread::scope(|scope| {
            for (rank, gpu) in (0..).zip(gpus) {
                let (id, work, plan) = (&id, &work, plan.clone());
                scope.spawn(move || {
                    let options = Options {
                        plan,
                        gpu: Some(*gpu),
                        longest_wait: Duration::from_secs(120),
                        ..Options::default()
                    };
                    let comm = Comm::join(id, rank, ranks, &options).unwrap();
                    let own = Self::new(comm, *gpu as i32);
                    work(&own).unwrap();
                    own.end();
                });
            }
        });
    }

    fn new(comm: Comm, number: i32) -> Self {
        let device = result::device::get(number).unwrap();
        // SAFETY: the device is one of the driver's; all is destroyed by `end`.
        let (context, [input, output]) = unsafe {
            let context = result::primary_ctx::retain(device).unwrap();
            result::ctx::set_current(context).unwrap();
            (
                context,
                [(); 2].map(|()| result::malloc_sync(4 * MOST).unwrap()),
            )
        };
        assert!(!context.is_null());
        let kind = || result::stream::StreamKind::NonBlocking;
        Self {
            comm,
            device,
            streams: [(); 2].map(|()| result::stream::create(kind()).unwrap()),
            input,
            output,
        }
    }

    fn end(self) {
        while matches!(self.comm.has_ended(), Ok(false)) {
            std::thread::yield_now();
        }
        // The communicator has buffers open until it ends.
        drop(self.comm);
        // SAFETY: made by `new`, destroyed once; nothing uses them any more.
        unsafe {
            result::free_sync(self.input).unwrap();
            result::free_sync(self.output).unwrap();
            for stream in self.streams {
                result::stream::destroy(stream).unwrap();
            }
            result::primary_ctx::release(self.device).unwrap();
        }
    }

    /// The handle of a stream for the communicator.
    fn stream(&self, stream: usize) -> u64 {
        self.streams[stream].expose_provenance() as u64
    }

    fn wait(&self, stream: usize) {
        // SAFETY: the stream lives until `end`.
        unsafe { result::stream::synchronize(self.streams[stream]) }.unwrap();
    }

    /// Writes numbers behind the work of a stream.
    fn write(&self, buffer: u64, first: usize, numbers: &[u32], stream: usize) {
        let at = buffer + 4 * first as u64;
        // SAFETY: the buffer has room; the numbers are read before this returns.
        unsafe { result::memcpy_htod_async(at, numbers, self.streams[stream]) }.unwrap();
        self.wait(stream);
    }

    /// Reads numbers behind the work of a stream.
    fn read(&self, buffer: u64, first: usize, count: usize, stream: usize) -> Vec<u32> {
        let at = buffer + 4 * first as u64;
        let mut numbers = vec![0; count];
        // SAFETY: the buffer has as many; they are written before this returns.
        unsafe { result::memcpy_dtoh_async(&mut numbers, at, self.streams[stream]) }.unwrap();
        self.wait(stream);
        numbers
    }

    /// The sum of all ranks' first numbers of a buffer, in place.
    fn sum(&self, buffer: u64, count: usize, stream: usize) -> Result<(), Error> {
        self.sum_on(buffer, count, self.stream(stream))
    }

    fn sum_on(&self, buffer: u64, count: usize, stream: u64) -> Result<(), Error> {
        let arguments = Arguments {
            collective: Collective::AllReduce,
            input: pointer(buffer),
            output: pointer(buffer),
            count,
            element: ElementType::U32,
            operation: Reduction::Sum,
            root: 0,
        };
        // SAFETY: the buffer has so many numbers, and is used in the order of the stream.
        unsafe { self.comm.run_on(&arguments, stream) }
    }

    fn transfer(&self, transfers: &[Transfer], stream: usize) -> Result<(), Error> {
        // SAFETY: the buffers are used in the order of the stream.
        unsafe { self.comm.transfer_on(transfers, self.stream(stream)) }
    }
}

fn pointer(address: u64) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(address as usize)
}

/// A transfer of numbers of a buffer.
fn numbers(end: End, buffer: u64, first: usize, count: usize) -> Transfer {
    let memory = (pointer(buffer + 4 * first as u64), 4 * count);
    // SAFETY: the buffer lives until the rank ends, which is after the transfer.
    unsafe { Transfer::new(end, 0, memory, null_mut()) }
}

/// What a rank sends to another.
fn values(from: u32, to: u32, round: u32, count: usize) -> Vec<u32> {
    let value = |number: u32| (from * 64 + to).wrapping_mul(2_654_435_761) ^ number ^ (round << 24);
    (0..count as u32).map(value).collect()
}

/// Messages between two ranks, one by one and as groups, keep their order.
fn messages(own: &Rank, round: u32) -> Result<(), Error> {
    const APART: usize = 1000;
    let (rank, count) = (own.comm.rank(), |message: usize| 1 + 200 * message);
    if rank > 1 {
        return Ok(());
    }
    let end = if rank == 0 { End::To(1) } else { End::From(0) };
    let buffer = if rank == 0 { own.input } else { own.output };
    for together in [1, 4] {
        for message in (0..4).filter(|_| rank == 0) {
            let sent = values(0, 1, round + message as u32, count(message));
            own.write(buffer, message * APART, &sent, 0);
        }
        let transfers = (0..4).map(|it| numbers(end, buffer, it * APART, count(it)));
        let transfers: Vec<Transfer> = transfers.collect();
        for group in transfers.chunks(together) {
            own.transfer(group, 0)?;
        }
        own.wait(0);
        for message in (0..4).filter(|_| rank == 1) {
            let sent = values(0, 1, round + message as u32, count(message));
            assert_eq!(own.read(buffer, message * APART, sent.len(), 0), sent);
        }
    }
    Ok(())
}

/// Numbers pass all ranks and come back, while the host waits for none of these transfers.
fn around(own: &Rank, round: u32) -> Result<(), Error> {
    const COUNT: usize = 3000;
    let (rank, ranks) = (own.comm.rank(), own.comm.ranks());
    let (next, before) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
    let sent = values(rank, rank, round, COUNT);
    own.write(own.input, 0, &sent, 1);
    let mut buffers = [own.input, own.output];
    for _ in 0..ranks {
        let group = [
            numbers(End::To(next), buffers[0], 0, COUNT),
            numbers(End::From(before), buffers[1], 0, COUNT),
        ];
        own.transfer(&group, 1)?;
        buffers.reverse();
    }
    assert_eq!(own.read(buffers[0], 0, COUNT, 1), sent);
    Ok(())
}

/// An all-to-all in which ranks send each other, and themselves, none, few, and more numbers than
/// FIFOs hold.
fn all_to_all(own: &Rank, round: u32) -> Result<(), Error> {
    const COUNTS: [usize; 5] = [0, 1, 300, 30_000, 4096];
    let (rank, ranks) = (own.comm.rank(), own.comm.ranks());
    let count = |from: u32, to: u32| COUNTS[(3 * from + to + round) as usize % COUNTS.len()];
    let (mut sends, mut receives) = (0, 0);
    let mut group = Vec::new();
    for peer in 0..ranks {
        let (sent, received) = (count(rank, peer), count(peer, rank));
        own.write(own.input, sends, &values(rank, peer, round, sent), 0);
        group.push(numbers(End::To(peer), own.input, sends, sent));
        group.push(numbers(End::From(peer), own.output, receives, received));
        sends += sent;
        receives += received;
    }
    // Every second rank names its transfers in another order.
    if (rank + round).is_multiple_of(2) {
        group.reverse();
    }
    own.transfer(&group, 0)?;
    let mut first = 0;
    for peer in 0..ranks {
        let expected = values(peer, rank, round, count(peer, rank));
        let found = own.read(own.output, first, expected.len(), 0);
        assert!(found == expected, "round {round}, from {peer} to {rank}");
        first += expected.len();
    }
    Ok(())
}

fn every_transfer(own: &Rank) -> Result<(), Error> {
    let ranks = own.comm.ranks();
    for round in 0..6 {
        messages(own, round)?;
        all_to_all(own, round)?;
        around(own, round)?;
        own.write(own.input, 0, &[round; 100], 0);
        own.sum(own.input, 100, 0)?;
        assert_eq!(own.read(own.input, 0, 100, 0), [round * ranks; 100]);
    }
    Ok(())
}

#[test]
fn transfers_of_ranks_with_a_gpu_each() {
    if inside("transfers_of_ranks_with_a_gpu_each", "dgx-h100", &[], &[]) {
        Rank::all(&[0, 1, 2], every_transfer);
    }
}

#[test]
fn transfers_of_ranks_that_share_gpus() {
    let lines = ["calls-wait yes"];
    if inside(
        "transfers_of_ranks_that_share_gpus",
        "dgx-a100",
        &lines,
        &[],
    ) {
        Rank::all(&[0, 1, 0, 1], every_transfer);
    }
}

/// What cannot run is refused before anything is enqueued, and the communicator stays usable.
#[test]
fn refused_transfers() {
    let reports = ["the handle is no stream"];
    if !inside("refused_transfers", "dgx-h100", &[], &reports) {
        return;
    }
    Rank::all(&[0, 1], |own| {
        let (rank, peer) = (own.comm.rank(), 1 - own.comm.rank());
        let mut here = [0_u32; 4];
        let of_host = here.as_mut_ptr().cast::<u8>();
        // SAFETY: it lives until the end of this test, and the transfer is refused.
        let of_host = unsafe { Transfer::new(End::To(peer), 0, (of_host, 16), null_mut()) };
        for (transfer, words) in [
            (of_host, "is not in memory of GPU"),
            (numbers(End::To(rank), own.input, 0, 1), "in the same group"),
            (numbers(End::To(2), own.input, 0, 1), "rank 2"),
        ] {
            let failed = own.transfer(&[transfer], 0).unwrap_err();
            assert_eq!(failed.code, Code::Invalid, "{failed}");
            assert!(failed.text.contains(words), "{failed}");
        }
        let send = numbers(End::To(peer), own.input, 0, 1);
        // SAFETY: the buffer outlives the call, which is refused.
        let failed = unsafe { own.comm.transfer_on(&[send], 0xabc0) }.unwrap_err();
        assert!(failed.text.contains("is no stream of GPU"), "{failed}");
        messages(own, 0)?;
        around(own, 1)
    });
}

/// A rank aborts while another one's stream waits for its message: the stream continues, and
/// the error is told.
#[test]
fn an_aborted_transfer() {
    // Launches that do not end in time keep what they use.
    if !inside("an_aborted_transfer", "dgx-h100", &[], &["kept "]) {
        return;
    }
    let both = Barrier::new(2);
    Rank::all(&[0, 1], |own| {
        around(own, 0)?;
        // Before this rank's transfers have ended, an abort of the other would end them.
        both.wait();
        let aborts = own.comm.rank() == 1;
        if aborts {
            own.comm.abort()?;
        } else {
            // It may be refused already.
            let _ = own.transfer(&[numbers(End::From(1), own.output, 0, 8)], 0);
        }
        own.wait(0);
        let failed = loop {
            match own.comm.has_ended() {
                Ok(ended) => assert!(!(ended && aborts), "the abort is told"),
                Err(failed) => break failed,
            }
            std::thread::yield_now();
        };
        assert_eq!(failed.code, Code::Failed, "{failed}");
        Ok(())
    });
}

/// The file of the plan that the ranks of a case of `testkit::launch_options` run.
const PLAN: &str = "TOPO_TEST_PLAN";

/// Adds numbers of all ranks once.
fn adds(own: &Rank) -> Result<(), Error> {
    const COUNT: usize = 16 << 10;
    let numbers: Vec<u32> = (0..COUNT as u32).collect();
    own.write(own.input, 0, &numbers, 0);
    own.sum(own.input, COUNT, 0)?;
    let sums: Vec<u32> = numbers.iter().map(|it| it * own.comm.ranks()).collect();
    assert!(own.read(own.input, 0, COUNT, 0) == sums);
    Ok(())
}

/// Runs a rank of a case: that of this process, or both as threads.
fn run_case() {
    let plan = std::env::var(PLAN).ok().map(|file| {
        let plan = RunChannels::read(std::path::Path::new(&file));
        Arc::new(plan.unwrap())
    });
    let Ok(rank) = std::env::var("RANK") else {
        return Rank::all_of_plan(&[0, 1], plan, adds);
    };
    result::init().unwrap();
    let gpu: u32 = rank.parse().unwrap();
    let options = Options {
        gpu: Some(gpu),
        plan,
        ..Options::default()
    };
    let own = Rank::new(Comm::of_launcher(&options).unwrap(), gpu as i32);
    adds(&own).unwrap();
    own.end();
}

/// Options of launches do what they do for other programs.
#[test]
fn options_of_launches() {
    if std::env::var(INSIDE).is_ok() {
        return run_case();
    }
    let own = std::env::current_exe().unwrap();
    for case in CASES {
        let folder = tempfile::tempdir().unwrap();
        let plan = case.plan.map(|settings| {
            let mut job = JobRequest::of(MACHINE);
            job.ranks.gpus = Some(AskedGpus::Listed(vec![0, 1]));
            let settings = settings
                .iter()
                .map(|(name, value)| (name.to_string(), value.to_string()));
            job.variables.set.extend(settings);
            let file = folder.path().join("plan.json");
            std::fs::write(&file, job.plan().unwrap().planned.plan().to_json().unwrap()).unwrap();
            file
        });
        case.check(own.parent().unwrap(), |prepare| {
            let start = |rank: u32| {
                let mut command = std::process::Command::new(&own);
                prepare(&mut command);
                command
                    .args(["--exact", "options_of_launches", "--nocapture"])
                    .env(INSIDE, "yes");
                command.envs(plan.iter().map(|file| (PLAN, file)));
                if case.refused.is_none() {
                    let place = format!("file:{}", folder.path().join("meeting").display());
                    command
                        .env("TOPO_RENDEZVOUS", place)
                        .env("RANK", rank.to_string());
                    command.env("WORLD_SIZE", "2");
                }
                let output = std::process::Stdio::piped;
                command.stdout(output()).stderr(output()).spawn().unwrap()
            };
            let ranks = if case.refused.is_some() { 1 } else { 2 };
            let started: Vec<_> = (0..ranks).map(start).collect();
            let ended = started.into_iter().map(|it| it.wait_with_output().unwrap());
            ended.fold((true, String::new()), |(all, said), ended| {
                let text = String::from_utf8_lossy(&ended.stderr).into_owned();
                (all && ended.status.success(), said + &text)
            })
        });
    }
}
