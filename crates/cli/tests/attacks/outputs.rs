//! Outputs that cannot be written: nothing half-written stays.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use machines::{FakeMachine, Machine};

use crate::program::{LONG, Running, Said, is_root, not_run, shell, topo};

/// Files of more than half a kilobyte (one with some shells) cannot be written.
const FULL: &str = "trap '' XFSZ; ulimit -f 1; exec \"$0\" \"$@\"";

/// A tree of files of a machine.
fn tree() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::named("dgx-a100").unwrap();
    let fake = FakeMachine::of(&machine.document().unwrap()).unwrap();
    fake.write(folder.path()).unwrap();
    // A processor whose description is long.
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

/// All that is in a folder, hidden files too.
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

#[test]
fn a_recording_is_whole_or_not_there() {
    let tree = tree();
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("deep/er/machine");
    let said = record(&mut shell(FULL), tree.path(), &target);
    let file = target.join("proc/cpuinfo");
    said.refused(&["cannot write", &file.display().to_string()]);
    assert_eq!(inside(folder.path()), Vec::<PathBuf>::new());
    // Into a folder that is there already.
    fs::create_dir_all(&target).unwrap();
    record(&mut shell(FULL), tree.path(), &target).refused(&[&file.display().to_string()]);
    assert_eq!(inside(&target), Vec::<PathBuf>::new());
    // With room it goes there, and is the machine.
    let said = record(&mut topo(), tree.path(), &target);
    assert_eq!(said.status, Some(0), "{said:?}");
    let again = Running::start(topo().args(["probe", "--from"]).arg(&target)).within(LONG);
    assert_eq!(again.out, said.out);
    let hidden = inside(&target)
        .into_iter()
        .filter(|it| it.file_name().unwrap().to_string_lossy().starts_with('.'));
    assert_eq!(hidden.count(), 0);
}

#[test]
fn a_recording_on_a_full_disk_leaves_nothing() {
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
        return not_run(
            "outputs::a_recording_on_a_full_disk_leaves_nothing",
            "it needs root, to mount a small disk",
        );
    }
    said.refused(&["cannot write", "machine/sys/", "No space left on device"]);
    assert_eq!(said.out, "");
}

/// Commands that write a file.
fn writers(target: &Path) -> Vec<Vec<String>> {
    let target = target.display().to_string();
    let words = |text: &str| -> Vec<String> {
        let words = text.split(' ').map(|it| it.replace("@", &target));
        words.collect()
    };
    vec![
        words("plan topologies/dgx-a100 --format quiet -o @"),
        words("complete topologies/dgx-a100 -o @"),
    ]
}

#[test]
fn a_file_is_whole_or_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("file");
    for arguments in writers(&target) {
        for before in [None, Some("as it was")] {
            if let Some(text) = before {
                fs::write(&target, text).unwrap();
            }
            let said = Running::start(shell(FULL).args(&arguments)).within(LONG);
            said.refused(&["cannot write", &target.display().to_string()]);
            assert_eq!(
                fs::read_to_string(&target).ok().as_deref(),
                before,
                "{arguments:?}"
            );
            assert_eq!(
                inside(folder.path()).len(),
                usize::from(before.is_some()),
                "{arguments:?}"
            );
        }
        fs::remove_file(&target).unwrap();
    }
    // Manual pages.
    let pages = folder.path().join("man");
    let said = Running::start(shell(FULL).args(["man"]).arg(&pages)).within(LONG);
    said.refused(&["cannot write", &pages.join("topo.1").display().to_string()]);
    assert_eq!(inside(&pages), Vec::<PathBuf>::new());
}

#[test]
fn a_device_that_is_full_is_an_error() {
    for arguments in writers(Path::new("/dev/full")) {
        Running::start(topo().args(&arguments))
            .within(LONG)
            .refused(&["cannot write /dev/full"]);
    }
    let said = Running::start(&mut shell(
        "exec \"$0\" show topologies/dgx-a100 > /dev/full",
    ))
    .within(LONG);
    said.refused(&["cannot write standard output"]);
}

/// A FIFO, a pipe of another process, and standard output under its name.
#[test]
fn pipes_are_written_while_somebody_reads() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo").display().to_string();
    assert!(
        Command::new("mkfifo")
            .arg(&fifo)
            .status()
            .unwrap()
            .success()
    );
    let plan = "\"$0\" plan topologies/dgx-a100 --format quiet";
    let lonely = Running::start(&mut shell(&format!("{plan} -o {fifo}")));
    lonely
        .within(LONG)
        .refused(&["cannot write", &fifo, "nobody reads from it"]);
    let read = format!("{} plan.json && echo right", "grep -c fingerprint");
    for script in [
        format!(
            "cd {0}; (sleep 1; cat {fifo} > plan.json) & cd \"$OLDPWD\"; {plan} -o {fifo}; wait; cd {0}; {read}",
            folder.path().display()
        ),
        format!(
            "bash -c '{plan} -o >(cat > {0}/plan.json)' \"$0\"; sleep 1; cd {0}; {read}",
            folder.path().display()
        ),
        format!(
            "{plan} -o /dev/stdout > {0}/plan.json; cd {0}; grep ring=12x plan.json && {read}",
            folder.path().display()
        ),
    ] {
        let said = Running::start(&mut shell(&script)).within(LONG);
        assert!(
            said.status == Some(0) && said.out.contains("right"),
            "{script}: {said:?}"
        );
    }
}
