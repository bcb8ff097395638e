//! The backend as a library: what `topo run` does not reach. Each test starts itself again on a
//! phantom machine, because the loader reads its folders when a process starts.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use backend_cuda::{Cuda, MemoryKind, Options};
use device_runtime::{
    DeviceBuffer, DeviceDriver, Kernels, LaunchOptions, ProcessRanks, RunOnDevice, Team,
};
use executor::{Choice, Communicator, Request, Settings};
use program::{Collective, ElementType, Protocol, Reduction, Schedule, Transfer};

use super::machine::Phantom;

/// The test that runs on a phantom machine.
const INSIDE: &str = "TOPO_TEST_INSIDE";

/// Whether this process is the one on the phantom machine. Otherwise starts it and checks that it
/// succeeded without a broken rule or a leak.
fn inside(test: &str, phantom: impl FnOnce() -> Phantom) -> bool {
    if std::env::var(INSIDE).is_ok_and(|it| it == test) {
        return true;
    }
    run(test, &phantom());
    false
}

/// Runs a test on a phantom machine. It succeeds without a broken rule or a leak.
pub(crate) fn run(test: &str, phantom: &Phantom) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    phantom.prepare(&mut command);
    let name = format!("library::{test}");
    let output = command
        .args(["--exact", &name, "--nocapture"])
        .env(INSIDE, test)
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("1 passed"), "{said}");
    assert_eq!(phantom.report().problems, [] as [&str; 0], "{said}");
}

fn open(gpus: u32, memory: MemoryKind) -> Cuda {
    let options = Options {
        devices: (0..gpus).collect(),
        memory: Some(memory),
        ..Options::default()
    };
    Cuda::open(&options).unwrap()
}

/// Kernels of other GPUs may not access a caller's virtual memory, as of PyTorch's expandable
/// segments: peer access covers memory of `cuMemAlloc` only. Such buffers are staged.
#[test]
fn virtual_memory_of_the_caller() {
    let machine = || Phantom::new("dgx-h100", &[]);
    if !inside("virtual_memory_of_the_caller", machine) {
        return;
    }
    const COUNT: usize = 5000;
    let [caller, backend] = [(); 2].map(|()| open(2, MemoryKind::Descriptor));
    let bytes = COUNT * size_of::<i32>();
    let input: Vec<u8> = (0..COUNT as i32).flat_map(i32::to_le_bytes).collect();
    let buffers: Vec<_> = (0..2)
        .map(|rank| {
            let buffer = DeviceBuffer::for_peers(&caller, rank, bytes as u64).unwrap();
            caller.write(rank, buffer.address(), &input).unwrap();
            buffer
        })
        .collect();
    let process_ranks = ProcessRanks::new(backend, LaunchOptions::nccl(), vec![0, 1]);
    let kernels = |rank| Kernels::new(Arc::clone(&process_ranks), rank);
    let ranks = Communicator::local(2, &Settings::default(), kernels).unwrap();
    let request = Request {
        collective: Collective::AllReduce,
        element: ElementType::I32,
        reduction: Reduction::Sum,
        root: 0,
        to: 0,
        tag: 0,
        in_place: true,
        count: COUNT as u64,
        choice: Some(Choice {
            schedule: Schedule::TwoPhaseMesh,
            transfer: Transfer::Direct,
            protocol: Protocol::Simple,
            channels: 2,
            piece_bytes: 0,
        }),
    };
    let results: Vec<Vec<u8>> = std::thread::scope(|scope| {
        let running: Vec<_> = ranks
            .into_iter()
            .zip(&buffers)
            .map(|(mut rank, buffer)| {
                let caller = &caller;
                scope.spawn(move || {
                    let memory = (buffer, bytes as u64);
                    rank.run_on_device(&request, memory, memory).unwrap();
                    let mut output = vec![0; bytes];
                    let address = buffer.address();
                    caller.read(rank.rank(), address, &mut output).unwrap();
                    output
                })
            })
            .collect();
        running.into_iter().map(|it| it.join().unwrap()).collect()
    });
    let sums: Vec<u8> = (0..COUNT as i32)
        .flat_map(|it| (2 * it).to_le_bytes())
        .collect();
    assert!(results.iter().all(|it| *it == sums));
}

/// Virtual memory of a caller is known by its mapping, and can be opened as long as it is there.
#[test]
fn memory_of_a_caller() {
    let machine = || Phantom::new("dgx-h100", &[]);
    if !inside("memory_of_a_caller", machine) {
        return;
    }
    let [caller, backend] = [(); 2].map(|()| open(1, MemoryKind::Descriptor));
    let (memory, address) = caller.allocate_for_peers(0, 4096).unwrap();
    let known = backend.allocation(0, address + 64, 64).unwrap();
    assert_eq!((known.base, known.bytes()), (address, 2 << 20));
    assert!(backend.allocation(0, address, known.bytes() + 1).is_none());
    let (word, _kept) = backend.offer(0, &known).unwrap();
    let (_opened, there) = backend.open(0, &word, known.bytes()).unwrap();
    caller.write(0, address + 64, &[7; 8]).unwrap();
    let mut read = [0; 8];
    backend.read(0, there + 64, &mut read).unwrap();
    assert_eq!(read, [7; 8]);
    // A multicast is bound to it where it is.
    let mut team = Team {
        ranks: 1,
        bytes: 4096,
        kind: None,
        memory: None,
    };
    let bindable = backend.bindable(0, address + 64, &team).unwrap();
    assert_eq!((bindable.base, bindable.bytes), (address, 2 << 20));
    team.bytes = bindable.bytes;
    team.memory = Some(bindable);
    let (mut part, _) = backend.begin_multicast(0, &team).unwrap();
    let bound = backend.bind_multicast(0, &mut part, &[]).unwrap();
    assert_eq!(bound.own, address);
    drop((part, memory));
    assert!(backend.allocation(0, address, 64).is_none());
    let gone = backend.offer(0, &known).unwrap_err();
    assert!(gone.contains("is gone"), "{gone}");
}

/// Memory of another process was opened for the first GPU that asked, and the next one was given
/// the same address without access to it.
#[test]
fn memory_opened_by_two_gpus() {
    let machine = || Phantom::new("gb200-nvl72-tray", &["fabric whole"]);
    if !inside("memory_opened_by_two_gpus", machine) {
        return;
    }
    let cuda = open(3, MemoryKind::Fabric);
    let bytes = 4096;
    let (_memory, address) = cuda.allocate_for_peers(0, bytes).unwrap();
    let word = cuda.export(0, address).unwrap();
    for gpu in [1, 2] {
        let there = cuda.import(gpu, &word, bytes).unwrap();
        assert_eq!(there, cuda.import(gpu, &word, bytes).unwrap());
        let value = [gpu as u8; 8];
        cuda.write(gpu, there, &value).unwrap();
        let mut read = [0; 8];
        cuda.read(0, address, &mut read).unwrap();
        assert_eq!(read, value);
    }
}

/// The launches of two communicators filled their GPUs. One GPU ran the first one's kernel and
/// another GPU the second one's, and both waited for ever.
#[test]
fn communicators_that_share_gpus() {
    let machine = || Phantom::new("dgx-h100", &["cooperative-overlap no"]);
    if !inside("communicators_that_share_gpus", machine) {
        return;
    }
    const COUNT: usize = 64 << 10;
    const ROUNDS: i32 = 12;
    let settings = Settings {
        longest_wait: Duration::from_secs(20),
        ..Settings::default()
    };
    // They launch in opposite orders.
    let communicators = [[0, 1, 2, 3], [3, 2, 1, 0]].map(|devices| {
        let options = Options {
            devices: devices.to_vec(),
            ..Options::default()
        };
        let cuda = Cuda::open(&options).unwrap();
        let process_ranks = ProcessRanks::new(cuda, LaunchOptions::nccl(), vec![0, 1, 2, 3]);
        let kernels = |rank| Kernels::new(Arc::clone(&process_ranks), rank);
        Communicator::local(4, &settings, kernels).unwrap()
    });
    std::thread::scope(|scope| {
        for mut rank in communicators.into_iter().flatten() {
            scope.spawn(move || {
                for round in 1..=ROUNDS {
                    let mut numbers = vec![round; COUNT];
                    rank.all_reduce(&mut numbers, Reduction::Sum).unwrap();
                    assert!(numbers.iter().all(|sum| *sum == 4 * round));
                }
            });
        }
    });
}
