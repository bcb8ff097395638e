//! Machines on which the backend once failed.

use std::path::Path;
use std::time::{Duration, Instant};

use super::machine::Phantom;

/// The last line of a run that must fail.
fn refused(phantom: &Phantom, arguments: &str) -> String {
    let output = phantom.run(arguments);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{arguments}");
    errors
}

/// All launches of one GPU were submitted before the first of the next, so that the first GPU's
/// stream filled up and blocked for ever.
#[test]
fn more_launches_than_a_stream_takes() {
    let phantom = Phantom::new("dgx-h100", &["queue 16"]);
    phantom.right("--ranks 2 all-reduce -n 100");
}

/// Runs an all-reduce of two processes on short messages.
fn short_messages(phantom: &Phantom, arguments: &str) -> std::process::Output {
    let mut command = phantom.topo();
    command.args("run all-reduce --ranks 2 --backend cuda --processes --no-in-place".split(' '));
    command.args("-b 64 -e 64 --channels=2 --warm 0".split(' '));
    command.args(arguments.split(' ')).output().unwrap()
}

/// With one GPU per process the thread that watches peers submitted all launches itself. It blocked
/// at a full queue for ever once a peer was gone.
#[test]
fn a_peer_is_killed_among_many_launches() {
    for lines in [
        &["queue 16", "fault 1 40 kill"][..],
        &["queue-bytes 65536", "launch-lock yes", "fault 1 90 kill"],
    ] {
        let phantom = Phantom::new("dgx-h100", lines);
        let began = Instant::now();
        let output = short_messages(&phantom, "-n 200 --timeout 5");
        let took = began.elapsed();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(
            errors.contains("rank 1: its process ended with signal: 9"),
            "{errors}"
        );
        // Otherwise each launch that is left would wait 5 s; the job's start takes time, too.
        assert!(took < Duration::from_secs(60), "{took:?}");
    }
}

/// That thread also moves network data, so kernels waited for the proxies' own timers. The time of
/// a launch counted from the first one of a batch.
#[test]
fn many_launches_between_hosts() {
    let phantom = Phantom::new("dgx-h100", &["queue 16"]);
    let output = short_messages(&phantom, "--hosts 2 -n 60 --timeout 4");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
}

/// A kernel that does not obey keeps its GPU and the memory that it may use, and not the program:
/// the host's memory was unmapped.
#[test]
fn a_kernel_that_never_ends() {
    never_ends(&[(1, "", 2)]);
}

#[test]
#[ignore = "deep: cargo xtask deep"]
fn deep_kernels_of_processes_that_never_end() {
    never_ends(&[(1, "--processes", 30), (0, "--processes --hosts 2", 30)]);
}

/// Plants a kernel that hangs: on this GPU, of ranks that are started so, in so many launches.
fn never_ends(cases: &[(u32, &str, u32)]) {
    for (gpu, starter, launches) in cases {
        let fault = format!("fault {gpu} 2 hang");
        let phantom = Phantom::new("dgx-h100", &["calls-wait yes", &fault]);
        let mut command = phantom.topo();
        command.args("run all-reduce --ranks 2 --backend cuda -b 64 -e 64 --warm 0".split(' '));
        command.args(["-T", "2", "-n", &launches.to_string()]);
        command.args(starter.split_whitespace());
        let began = Instant::now();
        let output = command.output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains("waited"), "{errors}");
        assert!(!errors.contains("ended with signal"), "{errors}");
        assert!(began.elapsed() < Duration::from_secs(20), "{errors}");
    }
}

/// Two GPUs fail in different ways: one has stored a wrong element when the other's kernel aborts
/// itself, or does not end.
#[test]
fn two_faults_at_once() {
    // Only the kernel that hangs needs the deadline; a busy machine must not meet it before.
    for (second, cause, deadline) in [("trap", "GPU 1: ", "60"), ("hang", "waited", "2")] {
        let second = format!("fault 1 3 {second}");
        let phantom = Phantom::new("dgx-h100", &["fault 0 1 wrong", &second]);
        let mut command = phantom.topo();
        command.args("run all-reduce --ranks 2 --backend cuda -b 64 -e 64 --warm 0".split(' '));
        let output = command.args(["-T", deadline, "-n", "4"]).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{errors}");
        assert!(errors.contains(cause), "{errors}");
    }
}

/// Drivers before 12.8 lack `cuEventElapsedTime_v2`, those before 13.0 do not load cubins of CUDA
/// 13, and those before 12.1 lack multicast.
#[test]
fn older_drivers() {
    for (version, series) in [(12_000, 525), (12_020, 535), (12_040, 550), (12_080, 570)] {
        let phantom = Phantom::with_driver("dgx-h100", version, &[]);
        let page = phantom.right("--ranks 2 all-reduce");
        assert!(page.contains("kernels prebuilt (sm_90"), "{series}: {page}");
        let nvls = phantom.run("--ranks 2 all-reduce --algorithm nvls");
        let errors = String::from_utf8_lossy(&nvls.stderr);
        assert_eq!(
            nvls.status.success(),
            version >= 12_010,
            "{series}: {errors}"
        );
        if version < 12_010 {
            assert!(errors.contains("cuMulticast"), "{errors}");
        }
    }
    for (machine, version) in [
        ("dgx-1v", 12_000),
        ("dgx-a100", 12_000),
        ("dgx-b200", 12_080),
    ] {
        let page = Phantom::with_driver(machine, version, &[]).right("--ranks 2 all-gather");
        assert!(page.contains("kernels prebuilt (sm_"), "{machine}: {page}");
    }
}

/// The driver grants access to memory of another GPU, and transfers are lost or redirected: a
/// kernel of each GPU finds that before the access is believed.
#[test]
fn access_that_is_granted_and_wrong() {
    let faults = [
        (
            "stray 0 loads",
            "a kernel of rank 0 loads other data from memory of rank 1",
        ),
        (
            "stray 1 stores",
            "a kernel of rank 1 stores to memory of rank 0, and nothing arrives",
        ),
    ];
    for (line, words) in faults {
        for starter in ["", "--processes"] {
            let phantom = Phantom::new("dgx-h100", &[line]);
            let page = phantom.right(&format!("--ranks 2 all-reduce {starter}"));
            let falls_back = format!(
                "fallback: SHM instead of P2P to rank 1: the driver grants access, but {words}"
            );
            assert!(page.contains(&falls_back), "{line} {starter}: {page}");
        }
    }
    // The other pairs keep it.
    let page = Phantom::new("dgx-h100", &["stray 2 stores"]).right("--ranks 3 all-reduce");
    assert!(page.contains("rank 0 reaches 1 by P2P, 1 by SHM"), "{page}");
}

/// A kernel that tries a peer's memory does not end. Its rank says so later than the others waited.
#[test]
fn a_trial_that_never_ends() {
    let phantom = Phantom::new("dgx-h100", &["fault 0 1 hang"]);
    for starter in ["", "--processes"] {
        let errors = refused(
            &phantom,
            &format!("--ranks 2 all-reduce --timeout 2 {starter}"),
        );
        let words = "a kernel of rank 0 that tried memory of rank 1: it does not end (GPU 0: ";
        assert!(errors.contains(words), "{starter}: {errors}");
        assert!(errors.contains("NCCL_P2P_DISABLE=1"), "{starter}: {errors}");
    }
}

/// PCIe may split a line of LL128, also between GPUs with P2P.
#[test]
fn no_ll128_over_pcie() {
    let phantom = Phantom::new("pcie-8gpu-nonet", &[]);
    for starter in ["", "--processes"] {
        let page = phantom.right(&format!("--ranks 2 all-reduce {starter}"));
        assert!(!page.contains("LL128"), "{page}");
        let errors = refused(
            &phantom,
            &format!("--ranks 2 all-reduce --protocol ll128 {starter}"),
        );
        assert!(errors.contains("PCIe may split"), "{errors}");
    }
    Phantom::new("dgx-h100", &[]).right("--ranks 2 all-reduce --protocol ll128");
}

/// Containers forbid `pidfd_getfd`.
#[test]
fn descriptors_in_a_container() {
    let phantom = Phantom::new("dgx-h100", &["pidfd no"]);
    for algorithm in ["", "--algorithm nvls"] {
        let arguments = "--ranks 2 all-reduce --processes --set NCCL_CUMEM_ENABLE=1";
        let page = phantom.right(&format!("{arguments} {algorithm}"));
        assert!(page.contains("rank 0 reaches 1 by P2P"), "{page}");
    }
    let calls = phantom.report().calls;
    assert!(!calls.contains_key("cuIpcOpenMemHandle_v2"), "{calls:?}");
}

/// Kernels of the other GPUs waited for one that had failed.
#[test]
fn a_fault_on_one_gpu() {
    let phantom = Phantom::new("dgx-h100", &["fault 1 2"]);
    let began = Instant::now();
    let errors = refused(&phantom, "--ranks 3 all-reduce");
    // Seen by the launch that fails, or by the next one on that GPU.
    assert!(errors.contains("GPU 1: "), "{errors}");
    assert!(
        began.elapsed() < Duration::from_secs(30),
        "{:?}",
        began.elapsed()
    );
}

/// Ranks of one process chose by their own GPU's size.
#[test]
fn unequal_gpus() {
    let phantom = Phantom::new("dgx-h100", &["gpu 1 multiprocessors 1"]);
    let page = phantom.right("--ranks 2 all-reduce --transfer direct");
    assert!(page.contains("rank 0 reaches 1 by P2P"), "{page}");
}

/// Memory with fabric handles is made, and its export fails.
#[test]
fn a_half_configured_imex() {
    for fabric in ["fabric half", "fabric refused"] {
        let phantom = Phantom::new("dgx-h100", &[fabric]);
        let output = phantom.run("--ranks 2 all-reduce --processes");
        let page = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{fabric}: {page}");
        assert!(page.contains("rank 0 reaches 1 by P2P"), "{fabric}: {page}");
    }
}

/// The driver would wait for the first GPU's kernel before it launches the second one's.
#[test]
fn blocking_launches() {
    let phantom = Phantom::new("dgx-h100", &[]);
    let run = |more: &[&str]| {
        let mut command = phantom.topo();
        command.args(["run", "--ranks", "2", "all-reduce", "--backend", "cuda"]);
        command
            .args([
                "-b",
                "64",
                "-e",
                "64",
                "-n",
                "1",
                "--channels=2",
                "--warm=0",
            ])
            .args(more);
        command.env("CUDA_LAUNCH_BLOCKING", "1").output().unwrap()
    };
    let threads = run(&[]);
    let errors = String::from_utf8_lossy(&threads.stderr);
    assert!(errors.contains("CUDA_LAUNCH_BLOCKING"), "{errors}");
    assert!(run(&["--processes"]).status.success());
}

/// A descriptor was closed before the driver imported it.
#[test]
fn memory_by_descriptors() {
    let phantom = Phantom::new("dgx-a100", &[]);
    let page = phantom.right("--ranks 2 broadcast --processes --set NCCL_CUMEM_ENABLE=1");
    assert!(page.contains("rank 0 reaches 1 by P2P"), "{page}");
}

/// The bindings open `libcuda.so` first, which in images for compiling is a stub or of another
/// version.
#[test]
fn two_libraries() {
    let phantom = Phantom::new("dgx-h100", &[]);
    std::fs::copy(phantom.path("libcuda.so.1"), phantom.path("libcuda.so")).unwrap();
    let run = |cache: &Path| {
        let mut command = phantom.topo();
        command.args("run --ranks 2 all-reduce --backend cuda -e 64 -n 1 --warm 0".split(' '));
        command.env("XDG_CACHE_HOME", cache).output().unwrap()
    };
    for _ in 0..2 {
        let output = run(&phantom.path("cache"));
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
    }
    // No folder can be made there.
    let output = run(&phantom.path("machine"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("cannot make links in"), "{errors}");
}

/// Each process compared its blocks with the whole GPU, and under MPS all must fit together.
#[test]
fn processes_that_share_a_gpu() {
    let phantom = Phantom::new("gh200", &["multiprocessors 2"]);
    let run = |channels: &str| {
        let mut command = phantom.topo();
        let arguments =
            "run --ranks 4 all-reduce --processes --backend cuda -b 64K -e 64K -n 1 --warm 0";
        command
            .args(arguments.split(' '))
            .args(["--channels", channels]);
        command.output().unwrap()
    };
    let refused = run("16");
    let errors = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{errors}");
    assert!(
        errors.contains("ranks of all processes on a GPU share it"),
        "{errors}"
    );
    let taken = run("1");
    let errors = String::from_utf8_lossy(&taken.stderr);
    assert!(taken.status.success(), "{errors}");
}
