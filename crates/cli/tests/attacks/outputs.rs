//! Recordings that cannot be written: no part of them stays.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use libtest_mimic::{Completion, Failed};
use testkit::{FakeMachine, Machine};

use crate::program::{LONG, Running, Said, is_root, memory_folder, not_run, shell, topo};

/// No file may have more than half a kilobyte (one with some shells).
const FULL: &str = "trap '' XFSZ; ulimit -f 1; exec \"$0\" \"$@\"";

/// The files of a machine.
fn tree() -> tempfile::TempDir {
    let folder = memory_folder();
    let machine = Machine::named("dgx-a100").unwrap();
    let fake = FakeMachine::of(&machine.document().unwrap()).unwrap();
    fake.write(folder.path()).unwrap();
    // The description of the processor is long.
    let cpu = folder.path().join("proc/cpuinfo");
    let text = fs::read_to_string(&cpu).unwrap();
    fs::write(&cpu, format!("flags\t: {}\n{text}", "sse ".repeat(1000))).unwrap();
    folder
}

fn record(command: &mut Command, tree: &Path, target: &Path) -> Said {
    command.args(["probe", "--sysfs-root"]).arg(tree);
    command.arg("--record").arg(target);
    Running::start(command).within(LONG)
}

/// The paths in a folder, with hidden files.
fn inside(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        all.push(entry.path());
        if entry.file_type().unwrap().is_dir() {
            all.extend(inside(&entry.path()));
        }
    }
    all
}

pub(crate) fn a_recording_is_whole_or_not_there() {
    let tree = tree();
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("deep/er/machine");
    let said = record(&mut shell(FULL), tree.path(), &target);
    let file = target.join("proc/cpuinfo");
    said.refused(&["cannot write", &file.display().to_string()]);
    assert_eq!(inside(folder.path()), Vec::<PathBuf>::new());
    // The folder exists already.
    fs::create_dir_all(&target).unwrap();
    record(&mut shell(FULL), tree.path(), &target).refused(&[&file.display().to_string()]);
    assert_eq!(inside(&target), Vec::<PathBuf>::new());
    // With enough room.
    let said = record(&mut topo(), tree.path(), &target);
    assert_eq!(said.status, Some(0), "{said:?}");
    let again = Running::start(topo().args(["probe", "--from"]).arg(&target)).within(LONG);
    assert_eq!(again.out, said.out);
    let hidden = inside(&target)
        .into_iter()
        .filter(|it| it.file_name().unwrap().to_string_lossy().starts_with('.'));
    assert_eq!(hidden.count(), 0);
}

/// The names and bytes of a folder's files.
fn content(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let all = inside(folder).into_iter();
    all.map(|it| (it.clone(), fs::read(it).unwrap())).collect()
}

pub(crate) fn an_export_is_whole_or_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let export = |command: &mut Command, machine: &str| {
        command.arg("export").arg(format!("topologies/{machine}"));
        command.arg("--dir").arg(folder.path().join("exported"));
        Running::start(command).within(LONG)
    };
    // The graph and the choices are shorter, the plug-in is longer.
    const SHORT: &str = "trap '' XFSZ; ulimit -f 60; exec \"$0\" \"$@\"";
    export(&mut shell(SHORT), "dgx-1v").refused(&["cannot write", "libnccl-tuner-topo.so"]);
    assert_eq!(inside(folder.path()), Vec::<PathBuf>::new());
    let done = export(&mut topo(), "workstation-2gpu-nvlink");
    assert_eq!(done.status, Some(0), "{done:?}");
    let before = content(&folder.path().join("exported"));
    assert!(before.len() > 5, "{before:?}");
    export(&mut shell(SHORT), "dgx-1v").refused(&["cannot write", "libnccl-tuner-topo.so"]);
    assert!(content(&folder.path().join("exported")) == before);
    // Another answer: its files replace those of the earlier one.
    let done = export(&mut topo(), "dgx-1v");
    assert_eq!(done.status, Some(0), "{done:?}");
    let removed = done.err.contains("graph-0_1.xml") && done.err.contains("an earlier run");
    assert!(removed, "{done:?}");
    let after = content(&folder.path().join("exported"));
    let named = |name: &str| after.contains_key(&folder.path().join("exported").join(name));
    assert!(
        named("graph-0-7.xml") && !named("graph-0_1.xml"),
        "{:?}",
        after.keys()
    );
}

pub(crate) fn a_recording_on_a_full_disk_leaves_nothing() -> Result<Completion, Failed> {
    let tree = tree();
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().display();
    let script = format!(
        "mount -t tmpfs -o size=128k none {disk} || exit 77; \"$0\" \"$@\"; status=$?; find {disk} -mindepth 1; exit $status"
    );
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &script, env!("CARGO_BIN_EXE_topo")]);
    let said = record(&mut command, tree.path(), &folder.path().join("machine"));
    if !is_root() || said.status == Some(77) {
        return not_run("it needs root, to mount a small disk");
    }
    said.refused(&["cannot write", "machine/sys/", "No space left on device"]);
    assert_eq!(said.out, "");
    Ok(Completion::Completed)
}
