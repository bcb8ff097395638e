//! The CUDA backend, loaded and called as on a machine with GPUs: `topo run --backend cuda` on a
//! phantom driver. Only with the feature `emulator`.

mod acceptance;
mod defects;
mod failures;
mod gpu_test;
mod hosts;
mod launch_options;
mod library;
mod machine;
mod matrix;
mod probe;

use std::fs;

use machine::Phantom;

#[test]
fn threads() {
    let phantom = Phantom::new("dgx-h100", &[]);
    let page = phantom.right("--ranks 3 all-reduce --profile");
    assert!(page.contains("topo phantom sm_90"), "{page}");
    assert!(page.contains("rank 0 reaches 2 by P2P"), "{page}");
    assert!(page.contains("channels of the last launch"), "{page}");
    let calls = phantom.report().calls;
    assert_eq!(calls["cuCtxEnablePeerAccess"], 6);
    assert!(calls["cuLaunchKernelEx"] > 0, "{calls:?}");
}

#[test]
fn ranks_that_share_a_gpu() {
    let phantom = Phantom::new("workstation-2gpu", &[]);
    let page = phantom.right("--ranks 4 all-gather");
    assert!(page.contains("rank 0 reaches 3 by P2P"), "{page}");
}

#[test]
fn host_memory_between_threads() {
    let phantom = Phantom::new("pcie-8gpu-nonet", &["peers none"]);
    let page = phantom.right("--ranks 2 broadcast");
    assert!(page.contains("rank 0 reaches 1 by SHM"), "{page}");
    let calls = phantom.report().calls;
    assert!(calls["cuMemHostRegister_v2"] > 0, "{calls:?}");
}

#[test]
fn graphs() {
    let phantom = Phantom::new("dgx-a100", &[]);
    let page = phantom.right("--ranks 2 all-reduce -n 9 --graph 4");
    assert!(!page.contains("no graph"), "{page}");
    let calls = phantom.report().calls;
    assert!(calls["cuGraphLaunch"] > 0, "{calls:?}");
}

#[test]
fn nvls() {
    for starter in ["", "--processes"] {
        let phantom = Phantom::new("dgx-h100", &[]);
        for collective in ["all-reduce", "reduce-scatter", "all-gather"] {
            phantom.right(&format!(
                "--ranks 2 {collective} --algorithm nvls {starter}"
            ));
            phantom.right(&format!(
                "--ranks 2 {collective} --algorithm nvls --register {starter}"
            ));
        }
        let calls = phantom.report().calls;
        assert!(calls["cuMulticastBindMem"] > 0, "{calls:?}");
    }
}

/// NVLS needs code with its instructions, which PTX for 7.5 has not, whatever the GPU has.
#[test]
fn nvls_by_ptx() {
    let by_name = "--ranks 2 all-reduce --algorithm nvls";
    let refused = ["fail cuModuleLoadData 1 209", "fail cuModuleLoadData 3 209"];
    let phantom = Phantom::new("dgx-h100", &refused);
    let page = success(&phantom.run(by_name));
    assert!(page.contains("compute_90.ptx.zst"), "{page}");
    assert!(page.contains("every element is right"), "{page}");
    // A driver that does not know the PTX for 9.0 yet.
    let refused = ["fail cuModuleLoadData 1 209", "fail cuModuleLoadData 4 209"];
    let phantom = Phantom::with_driver("dgx-h100", 12_010, &refused);
    let page = success(&phantom.run("--ranks 2 all-reduce"));
    assert!(page.contains("compute_75.ptx.zst"), "{page}");
    let why = failure(&phantom.run(by_name));
    assert!(why.contains("have no multicast (NVLS)"), "{why}");
    let problems = phantom.report().problems;
    let is_fault = |it: &String| it.starts_with("fault");
    assert!(!problems.iter().any(is_fault), "{problems:?}");
}

/// Scratch memory of NVLS is one window, as long as the granularity of a multicast holds it.
#[test]
fn nvls_has_one_window() {
    let phantom = Phantom::new("dgx-h100", &[]);
    let run = "run --ranks 2 all-reduce --backend cuda --algorithm nvls -b 4K -e 1M -f 4 -n 1 --channels 2 --warm 0";
    success(&phantom.topo().args(run.split(' ')).output().unwrap());
    assert_eq!(phantom.report().calls["cuMulticastCreate"], 1);
}

/// A multicast object that cannot be made is an error only of who asked for NVLS by name.
#[test]
fn nvls_without_an_object() {
    let phantom = Phantom::new("dgx-h100", &["fail cuMulticastCreate 1 2"]);
    let why = failure(&phantom.run("--ranks 2 all-reduce --algorithm nvls"));
    let said = "rank 0 cannot join a multicast (NVLS)";
    assert!(why.contains(said), "{why}");
    assert!(why.contains("take another algorithm"), "{why}");
}

/// The page of a run that succeeds.
fn success(output: &std::process::Output) -> String {
    let page = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{page}\n{errors}");
    page.into_owned()
}

/// The errors of a run that is refused.
fn failure(output: &std::process::Output) -> String {
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Kernels of types differ in registers, so a GPU holds fewer blocks of some: all that it holds are
/// chosen and run.
#[test]
fn all_blocks_of_a_kernel() {
    for element in ["f32", "bf16", "i8"] {
        let phantom = Phantom::new("pcie-8gpu-turin", &["multiprocessors 2"]);
        let run = format!(
            "run --ranks 2 all-reduce --backend cuda --type {element} --blocks 0 -b 32K -e 32K -n 2 --warm 0"
        );
        let page = success(&phantom.topo().args(run.split(' ')).output().unwrap());
        assert!(page.contains("every element is right"), "{page}");
    }
}

/// The matrices are what `--measured` reads.
#[test]
fn pairs() {
    for (machine, lines) in [("pcie-8gpu-nicsw", &[][..]), ("workstation-2gpu", &[])] {
        let phantom = Phantom::new(machine, lines);
        let pairs = |more: &str| {
            let arguments = format!("run --backend cuda --pairs -e 64K{more}");
            let output = phantom.topo().args(arguments.split(' ')).output().unwrap();
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{errors}");
            let report = phantom.report();
            assert_eq!(report.problems, [] as [&str; 0], "{report:?}");
            String::from_utf8(output.stdout).unwrap()
        };
        let page = pairs("");
        for title in ["Unidirectional", "Bidirectional", "Simultaneous"] {
            assert!(page.contains(&format!("{title} P2P=Enabled")), "{page}");
        }
        fs::write(phantom.path("pairs.txt"), &page).unwrap();
        let mut bound = phantom.topo();
        let file = phantom.path("pairs.txt");
        bound
            .arg("bound")
            .arg(testkit::Machine::home().join(machine));
        let bound = bound.arg("--measured").arg(file).output().unwrap();
        let [text, errors] = [bound.stdout, bound.stderr].map(|it| String::from_utf8(it).unwrap());
        // A busy processor may slow one pair alone.
        assert!(
            matches!(bound.status.code(), Some(0 | 1)),
            "{page}\n{errors}"
        );
        assert!(text.contains("Measured links"), "{text}\n{errors}");
        let made: serde_json::Value = serde_json::from_str(&pairs(" --json")).unwrap();
        let gpus = made["gpus"].as_array().unwrap().len();
        for key in ["one_direction_gbps", "both_directions_gbps", "at_once_gbps"] {
            let rows = made[key].as_array().unwrap();
            assert_eq!(rows.len(), gpus, "{made}");
            for (from, row) in rows.iter().enumerate() {
                for (to, value) in row.as_array().unwrap().iter().enumerate() {
                    assert_eq!(value.as_f64().is_some(), from != to, "{made}");
                }
            }
        }
    }
}

/// Without peer access there is nothing to time, and a page says so.
#[test]
fn pairs_without_peer_access() {
    let phantom = Phantom::new("workstation-2gpu", &["peers none"]);
    let output = phantom
        .topo()
        .args(["run", "--backend", "cuda", "--pairs", "-e", "64K"])
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(
        errors.contains("expected a pair with peer access"),
        "{errors}"
    );
}

#[test]
fn processes_by_ipc() {
    let phantom = Phantom::new("dgx-a100", &[]);
    let trace = phantom.path("trace.json").display().to_string();
    let page = phantom.right(&format!("--ranks 3 all-reduce --processes --trace {trace}"));
    assert!(page.contains("rank 0 reaches 2 by P2P"), "{page}");
    let calls = phantom.report().calls;
    assert!(calls["cuIpcOpenMemHandle_v2"] > 0, "{calls:?}");
    for file in ["trace.json", "trace.json.1", "trace.json.2"] {
        let text = fs::read_to_string(phantom.path(file)).unwrap();
        assert!(text.contains("all-reduce launch"), "{text}");
    }
}

/// Where CUDA IPC does not work, processes share virtual memory by descriptors, if they may.
#[test]
fn processes_without_ipc() {
    for (variable, transport, imports) in [
        ("", "P2P", true),
        ("--set NCCL_CUMEM_ENABLE=0", "SHM", false),
    ] {
        let phantom = Phantom::new("dgx-h100", &["ipc no"]);
        let output = phantom.run(&format!("--ranks 2 all-reduce --processes {variable}"));
        let page = String::from_utf8_lossy(&output.stdout);
        let report = phantom.report();
        assert!(output.status.success(), "{page}\n{report:?}");
        let reaches = format!("rank 0 reaches 1 by {transport}");
        assert!(page.contains(&reaches), "{page}");
        assert!(page.contains("every element is right"), "{page}");
        let imported = report.calls.contains_key("cuMemImportFromShareableHandle");
        assert_eq!(imported, imports, "{report:?}");
        let mut problems = report.problems.iter();
        let refused = |it: &String| it.contains("CUDA IPC does not work");
        assert!(problems.all(refused), "{report:?}");
    }
    // Ranks of one process need no handles.
    let phantom = Phantom::new("dgx-h100", &["ipc no"]);
    let output = phantom.run("--ranks 2 all-reduce --set NCCL_CUMEM_ENABLE=0");
    let page = String::from_utf8_lossy(&output.stdout);
    assert!(page.contains("rank 0 reaches 1 by P2P"), "{page}");
    assert!(page.contains("every element is right"), "{page}");
}

#[test]
fn processes_by_fabric_handles() {
    let phantom = Phantom::new("gb200-nvl72-tray", &["fabric whole"]);
    let page = phantom.right("--ranks 2 reduce-scatter --processes");
    assert!(page.contains("rank 0 reaches 1 by P2P"), "{page}");
    let calls = phantom.report().calls;
    assert!(!calls.contains_key("cuIpcOpenMemHandle_v2"), "{calls:?}");
    assert!(calls["cuMemImportFromShareableHandle"] > 0, "{calls:?}");
}

#[test]
fn processes_without_p2p() {
    let phantom = Phantom::new("workstation-2gpu", &["peers none"]);
    let page = phantom.right("--ranks 2 all-reduce --processes --set NCCL_P2P_DISABLE=1");
    assert!(page.contains("rank 0 reaches 1 by SHM"), "{page}");
}

#[test]
fn a_driver_without_a_machine_file_says_what_it_is() {
    let phantom = Phantom::new("dgx-h100", &[]);
    let mut command = phantom.topo();
    command.env_remove("TOPO_PHANTOM_MACHINE");
    let output = command
        .args("run --ranks 2 all-reduce --backend cuda".split(' '))
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.contains("not NVIDIA's driver"), "{errors}");
    assert!(errors.contains("finds no GPU"), "{errors}");
}

/// The functions that the backend names are those that it calls.
#[test]
fn functions_that_are_called() {
    let named: Vec<&str> = backend_cuda::presence::SYMBOLS
        .into_iter()
        .chain(backend_cuda::presence::ELAPSED)
        .chain(backend_cuda::OPTIONAL_SYMBOLS)
        .collect();
    let mut reached = std::collections::BTreeSet::new();
    for (machine, lines, arguments) in [
        (
            "dgx-h100",
            "",
            "--ranks 2 all-reduce --algorithm nvls --graph 2 -n 4",
        ),
        (
            "dgx-h100",
            "",
            "--ranks 2 all-reduce --processes --set NCCL_CUMEM_ENABLE=1",
        ),
        (
            "dgx-h100",
            "",
            "--ranks 2 all-reduce --algorithm nvls --register",
        ),
        ("dgx-a100", "", "--ranks 2 broadcast --processes"),
        ("pcie-8gpu-nonet", "peers none", "--ranks 2 all-gather"),
    ] {
        let phantom = Phantom::new(machine, &[lines]);
        phantom.right(arguments);
        reached.extend(phantom.report().calls.into_keys());
    }
    let phantom = Phantom::new("dgx-h100", &[]);
    library::run("memory_of_a_caller", &phantom);
    reached.extend(phantom.report().calls.into_keys());
    // The time of an older driver.
    let old = Phantom::with_driver("dgx-a100", 12_040, &[]);
    old.right("--ranks 2 all-gather");
    reached.extend(old.report().calls.into_keys());
    let unnamed: Vec<&String> = reached
        .iter()
        .filter(|it| !named.contains(&it.as_str()))
        .collect();
    assert!(unnamed.is_empty(), "called and not named: {unnamed:?}");
    let missed: Vec<&&str> = named.iter().filter(|it| !reached.contains(**it)).collect();
    // The end of launches that were aborted, messages of errors, the copy bandwidth (`topo
    // gpu-test`), callers' buffers in device memory, launches in the order of callers' streams (the
    // tests of `capi`), and memory for NICs (several hosts with a net plug-in).
    let elsewhere = [
        "cuStreamQuery",
        "cuStreamWaitEvent",
        "cuStreamGetPriority",
        "cuStreamIsCapturing",
        "cuCtxGetCurrent",
        "cuGetErrorName",
        "cuGetErrorString",
        "cuMemcpyDtoD_v2",
        "cuMemcpyDtoDAsync_v2",
        "cuPointerSetAttribute",
        "cuMemGetHandleForAddressRange",
    ];
    let missed: Vec<&&&str> = missed
        .iter()
        .filter(|it| !elsewhere.contains(**it))
        .collect();
    assert!(missed.is_empty(), "named and not called: {missed:?}");
}
