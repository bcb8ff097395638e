//! Inputs that are no files.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::program::{LONG, Running, root, topo};

pub(crate) fn a_socket_can_be_standard_input() {
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

/// Opening a FIFO would block the loader.
pub(crate) fn a_net_plugin_that_is_no_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fifo").display().to_string();
    let made = Command::new("mkfifo").arg(&path).status();
    assert!(made.unwrap().success());
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
