//! Inputs that never end, never begin, or are no files.

use std::io::Write;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::program::{FAILED, LONG, Running, Said, root, run, shell, topo};

/// Every door by which a file comes in: its name, the arguments with `{}` for the file, and whether a variable names it.
const DOORS: [(&str, &[&str], Option<&str>); 13] = [
    ("topology", &["plan", "{}"], None),
    ("show", &["show", "{}"], None),
    ("doctor", &["doctor", "{}"], None),
    ("matrix", &["matrix", "{}"], None),
    ("plan", &["rank", "{}", "--rank", "0"], None),
    ("diff", &["diff", "topologies/dgx-a100", "{}"], None),
    ("complete", &["complete", "{}"], None),
    ("map", &["vm", "topologies/dgx-a100", "--map", "{}"], None),
    (
        "profile",
        &["cost", "topologies/dgx-a100", "--profile", "{}"],
        None,
    ),
    (
        "cost profile",
        &["run", "--ranks", "2", "all-reduce", "--cost-profile", "{}"],
        None,
    ),
    (
        "rank order",
        &["plan", "topologies/dgx-a100", "--rank-order", "@{}"],
        None,
    ),
    (
        "graph file",
        &["plan", "topologies/dgx-a100"],
        Some("NCCL_GRAPH_FILE"),
    ),
    ("topology to run", &["run", "{}", "all-reduce"], None),
];

/// Gives a file to a door.
fn give(door: &(&str, &[&str], Option<&str>), file: &str) -> Command {
    let (_, arguments, variable) = door;
    let mut command = topo();
    command.args(arguments.iter().map(|it| it.replace("{}", file)));
    if let Some(variable) = variable {
        command.env(variable, file);
    }
    command
}

/// Gives a file to all doors at once.
fn give_all(file: &str, longest: Duration) -> Vec<(&'static str, Said)> {
    let started: Vec<_> = DOORS
        .iter()
        .map(|door| (door.0, Running::start(&mut give(door, file))))
        .collect();
    started
        .into_iter()
        .map(|(name, running)| (name, running.within(longest)))
        .collect()
}

fn all_refused(file: &str, words: &[&str], longest: Duration) {
    for (name, said) in give_all(file, longest) {
        let says = words.iter().all(|it| said.err.contains(it));
        assert!(
            said.status == FAILED && said.err.contains("error: ") && says,
            "{name}, expected {words:?}: {said:?}"
        );
    }
}

fn fifo(folder: &Path) -> String {
    let path = folder.join("fifo").display().to_string();
    assert!(
        Command::new("mkfifo")
            .arg(&path)
            .status()
            .unwrap()
            .success()
    );
    path
}

#[test]
fn devices_are_refused() {
    for device in ["/dev/zero", "/dev/null"] {
        all_refused(device, &[device, "it is a device"], LONG);
    }
}

#[test]
fn sockets_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let _listener = UnixListener::bind(&path).unwrap();
    all_refused(&path.display().to_string(), &["it is a socket"], LONG);
}

#[test]
fn a_fifo_that_nobody_writes_to_is_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = fifo(folder.path());
    all_refused(&path, &[&path, "nobody writes to it"], LONG);
}

#[test]
fn what_grows_without_end_is_given_up() {
    for (file, words) in [("/dev/zero", "more than"), ("/dev/urandom", "more than")] {
        let script = format!("ulimit -v 2000000; cat {file} | exec \"$0\" \"$@\"");
        let said = Running::start(shell(&script).args(["plan", "-"])).within(LONG);
        said.refused(&["standard input", words]);
        let script = format!("ulimit -v 2000000; exec \"$0\" \"$@\" < {file}");
        let said = Running::start(shell(&script).args(["plan", "-"])).within(LONG);
        said.refused(&["standard input", "it is a device"]);
    }
}

/// Files of the kernel say that they are empty, and block or have no end.
#[test]
fn files_of_the_kernel_are_read_within_bounds() {
    run(&["plan", "/proc/self/status"]).refused(&["/proc/self/status"]);
    run(&["cost", "topologies/dgx-a100", "--profile", "/proc/self/mem"])
        .refused(&["/proc/self/mem"]);
    run(&["plan", "/proc/kcore"]).refused(&["/proc/kcore"]);
}

#[test]
fn folders_and_missing_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing").display().to_string();
    let folder = folder.path().display().to_string();
    for (name, said) in give_all(&folder, LONG) {
        let says = said.err.contains(&folder) && said.err.contains("folder");
        assert!(said.status == FAILED && says, "{name}: {said:?}");
    }
    for (name, said) in give_all(&missing, LONG) {
        let says = said.err.contains(&missing) && said.err.to_lowercase().contains("no such file");
        assert!(said.status == FAILED && says, "{name}: {said:?}");
    }
}

/// What users do all day: pipes, FIFOs, process substitution, /dev/stdin, slow writers.
#[test]
fn pipes_work_as_ever() {
    let folder = tempfile::tempdir().unwrap();
    let path = fifo(folder.path());
    let file = root()
        .join("topologies/dgx-h100/topology.xml")
        .display()
        .to_string();
    let scripts = [
        format!("cat {file} | \"$0\" plan --format quiet -"),
        format!("\"$0\" plan --format quiet - < {file}"),
        format!("cat {file} | \"$0\" plan --format quiet /dev/stdin"),
        format!("\"$0\" plan --format quiet /dev/stdin < {file}"),
        format!("\"$0\" plan --format quiet /dev/fd/7 7< {file}"),
        format!("cat {file} > {path} & \"$0\" plan --format quiet {path}"),
        format!("(sleep 2; cat {file}) > {path} & \"$0\" plan --format quiet {path}"),
        // In pieces, with pauses.
        format!(
            "(head -c 3000 {file}; sleep 1; tail -c +3001 {file}) | \"$0\" plan --format quiet -"
        ),
        // The writer opens it late.
        format!("(sleep 1; cat {file} > {path}) & \"$0\" plan --format quiet {path}"),
        format!("bash -c '\"$0\" plan --format quiet <(cat {file})' \"$0\""),
        format!("bash -c '\"$0\" plan --format quiet <(sleep 1; cat {file})' \"$0\""),
        format!(
            "\"$0\" plan {file} --format json | \"$0\" rank --rank 0 - > {path}.page && echo ring=12x30:NVL"
        ),
    ];
    for script in scripts {
        let said = Running::start(&mut shell(&script)).within(LONG);
        let well = said.status == Some(0) && said.out.contains("ring=12x30:NVL");
        assert!(well, "{script}: {said:?}");
    }
}

#[test]
fn a_socket_can_be_standard_input() {
    let (mut ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let mut command = topo();
    command.args(["plan", "--format", "quiet", "-"]);
    command.stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs)));
    let running = Running::start(&mut command);
    // The command keeps a copy of the other end.
    drop(command);
    let text = std::fs::read(root().join("topologies/dgx-h100/topology.xml")).unwrap();
    ours.write_all(&text).unwrap();
    drop(ours);
    let said = running.within(LONG);
    assert!(said.out.contains("ring=12x30:NVL"), "{said:?}");
}

/// The loader would wait for somebody to write to it.
#[test]
fn a_net_plugin_that_is_no_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = fifo(folder.path());
    let place = format!("file:{}", folder.path().join("meeting").display());
    for plugin in [path.as_str(), "/dev/zero", "/tmp"] {
        let ranks = ["0", "1"].map(|rank| {
            let mut command = topo();
            command
                .args(["run", "all-reduce", "-b", "8", "-e", "8", "--world", "2"])
                .args(["--rank", rank, "--rendezvous", &place])
                .args(["--join-timeout", "20", "--net-plugin", plugin])
                .env("NCCL_HOSTID", rank);
            Running::start(&mut command)
        });
        for said in ranks.map(|it| it.within(LONG)) {
            said.refused(&[plugin, "is no file"]);
        }
    }
}
