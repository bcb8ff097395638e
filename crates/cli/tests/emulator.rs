//! Ranks on emulated GPUs: threads, processes, and ranks that are started by hand, on one host and
//! on several. Only with the feature `emulator`.

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use testkit::network::loopback;

/// Small messages, because the threads of a block run one after the other.
const SHORT: [&str; 10] = [
    "all-reduce",
    "-b",
    "64",
    "-e",
    "64K",
    "-f",
    "1024",
    "-n",
    "2",
    "--channels=2",
];

fn topo() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_topo"));
    command.current_dir(env!("CARGO_MANIFEST_DIR")).arg("run");
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if ["NCCL_", "TOPO_", "OMPI_", "PMI", "SLURM_"]
            .iter()
            .any(|it| text.starts_with(it))
        {
            command.env_remove(&name);
        }
    }
    command
}

/// The standard output of a program that must succeed.
fn right(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
    text
}

fn here(arguments: &[&str]) -> String {
    let mut command = topo();
    command.args(SHORT).args(["--backend", "emulator"]);
    right(&command.args(arguments).output().unwrap())
}

/// Starts ranks by hand, each with its own variables. Returns their outputs, rank 0 first.
fn by_hand(backend: &str, each: &[&[(&str, &str)]]) -> Vec<Output> {
    by_hand_with(backend, &[], each)
}

fn by_hand_with(backend: &str, more: &[&str], each: &[&[(&str, &str)]]) -> Vec<Output> {
    let folder = tempfile::tempdir().unwrap();
    let meeting: PathBuf = folder.path().join("meeting");
    let children: Vec<Child> = (0..)
        .zip(each)
        .map(|(rank, variables)| {
            topo()
                .args(SHORT)
                .args(["--backend", backend])
                .args(more)
                .args(["--rank", &format!("{rank}")])
                .args(["--world", &each.len().to_string()])
                .args(["--rendezvous", &format!("file:{}", meeting.display())])
                .env("NCCL_SOCKET_IFNAME", "=lo")
                .envs(variables.iter().copied())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    let ended = children
        .into_iter()
        .map(|it| it.wait_with_output().unwrap());
    ended.collect()
}

#[test]
fn threads() {
    let said = here(&["--ranks", "2", "--profile", "--graph", "2"]);
    assert!(said.contains("rank 0 reaches 1 by P2P"), "{said}");
    assert!(said.contains("channels of the last launch"), "{said}");
}

#[test]
fn threads_without_p2p() {
    let said = here(&["--ranks", "2", "--set", "NCCL_P2P_DISABLE=1"]);
    assert!(said.contains("rank 0 reaches 1 by SHM"), "{said}");
    assert!(said.contains("NCCL_P2P_DISABLE is set"), "{said}");
}

#[test]
fn processes() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.json");
    let trace_argument = trace.display().to_string();
    let said = here(&["--ranks", "3", "--processes", "--trace", &trace_argument]);
    assert!(said.contains("rank 0 reaches 2 by P2P"), "{said}");
    for file in ["trace.json", "trace.json.1", "trace.json.2"] {
        let text = std::fs::read_to_string(folder.path().join(file)).unwrap();
        assert!(text.contains("all-reduce launch"), "{text}");
    }
}

/// The longest message needs a second window. Each length has a row out of place and one in place.
#[test]
fn nvls_between_processes() {
    for collective in ["all-reduce", "reduce-scatter", "all-gather"] {
        let output = topo()
            .args([collective, "-b", "64", "-e", "256K", "-f", "64", "-n", "1"])
            .args(["--backend", "emulator", "--ranks", "3", "--processes"])
            .args(["--algorithm", "nvls", "--channels=2"])
            .output()
            .unwrap();
        let said = right(&output);
        assert!(said.contains("rank 0 reaches 2 by P2P"), "{said}");
        let rows = said.lines().filter(|line| line.contains(" nvls "));
        assert_eq!(rows.count(), 6, "{said}");
    }
}

/// Each rank says why.
#[test]
fn nvls_between_hosts_wants_a_fabric() {
    let (a, b) = (&[("NCCL_HOSTID", "a")][..], &[("NCCL_HOSTID", "b")][..]);
    for output in by_hand_with("emulator", &["--algorithm", "nvls"], &[a, b]) {
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(
            errors.contains("cannot be opened from other hosts"),
            "{errors}"
        );
    }
}

#[test]
fn processes_without_p2p() {
    let arguments = ["--ranks", "2", "--processes", "--set", "NCCL_P2P_DISABLE=1"];
    let said = here(&arguments);
    assert!(said.contains("rank 0 reaches 1 by SHM"), "{said}");
}

#[test]
fn ranks_of_two_hosts() {
    let (a, b) = (&[("NCCL_HOSTID", "a")][..], &[("NCCL_HOSTID", "b")][..]);
    let ended = by_hand("emulator", &[a, a, b]);
    let said: Vec<String> = ended.iter().map(right).collect();
    assert!(
        said[0].contains("rank 0 reaches 1 by P2P, 1 by NET"),
        "{}",
        said[0]
    );
    assert_eq!((said[1].as_str(), said[2].as_str()), ("", ""));
}

/// NICs access slots in place, as the plug-in's report shows, unless settings forbid it.
#[test]
fn nics_reach_memory_of_gpus() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = folder.path().join("libnccl-net-loopback.so");
    loopback::compile(12, "MEMORY=5", &[], &plugin).unwrap();
    let plugin = plugin.display().to_string();
    for (level, reached) in [("SYS", true), ("LOC", false)] {
        let report = folder.path().join(level).display().to_string();
        let variables = |host| {
            [
                ("NCCL_HOSTID", host),
                ("NCCL_NET_PLUGIN", plugin.as_str()),
                ("NCCL_NET_GDR_LEVEL", level),
                ("TOPO_LOOPBACK_REPORT", report.as_str()),
            ]
        };
        let ended = by_hand("emulator", &[&variables("a"), &variables("b")]);
        let said: Vec<String> = ended.iter().map(right).collect();
        let by_nics = said[0].contains("GPUDirect RDMA) for all of those by NET");
        assert_eq!(by_nics, reached, "{}", said[0]);
        let forbidden = said[0].contains("no GPUDirect RDMA: the settings forbid it");
        assert_eq!(forbidden, !reached, "{}", said[0]);
        let report = std::fs::read_to_string(report).unwrap();
        assert_eq!(report.lines().count(), 2, "{report}");
        for line in report.lines() {
            assert_eq!(line.contains(" 0 DMA-BUFs"), !reached, "{line}");
            assert!(line.contains(" 0 of devices") && line.ends_with("0 violations"));
        }
    }
}

#[test]
fn a_rank_without_p2p_takes_shm_and_the_others_say_why() {
    let ended = by_hand("emulator", &[&[], &[("NCCL_P2P_DISABLE", "1")]]);
    let said = right(&ended[0]);
    assert!(said.contains("rank 0 reaches 1 by SHM"), "{said}");
    assert!(said.contains("NCCL_P2P_DISABLE is set"), "{said}");
}

/// Without a driver every rank says what is missing; with a driver the job runs.
#[test]
fn a_driver_that_is_missing_is_told_by_every_rank() {
    let ended = by_hand("cuda", &[&[], &[]]);
    for output in ended {
        let errors = String::from_utf8_lossy(&output.stderr);
        let told = output.status.code() == Some(2) && errors.contains("the CPU backend");
        assert!(output.status.success() || told, "{errors}");
    }
}

/// The algorithm may be chosen; the transport decides the transfer, and explains a refusal.
#[test]
fn what_transports_refuse_is_left_out_or_explained() {
    let shm = ["--ranks", "2", "--set", "NCCL_P2P_DISABLE=1"];
    here(&[&shm[..], &["--algorithm", "mesh"]].concat());
    let mut command = topo();
    command
        .args(SHORT)
        .args(["--backend", "emulator"])
        .args(shm);
    let refused = command.args(["--transfer", "direct"]).output().unwrap();
    let errors = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{errors}");
    assert!(errors.contains("NCCL_P2P_DISABLE is set"), "{errors}");
}
