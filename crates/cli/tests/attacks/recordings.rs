//! Recordings by others: no file outside of them is read.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use testkit::{FakeMachine, Machine};

use crate::program::{memory_folder, run};

/// The content of the files outside.
const SECRET: &str = "0xdeadf00d";

/// A recorded machine in `recording/`, and files with a secret beside it in `outside/`.
fn machine() -> tempfile::TempDir {
    let folder = memory_folder();
    let machine = Machine::named("dgx-a100").unwrap();
    let fake = FakeMachine::of(&machine.document().unwrap()).unwrap();
    fake.write(&folder.path().join("recording")).unwrap();
    let outside = folder.path().join("outside");
    fs::create_dir(&outside).unwrap();
    for name in [
        "vendor",
        "class",
        "device",
        "subsystem_vendor",
        "numa_node",
        "rate",
        "speed",
        "cpulist",
    ] {
        fs::write(outside.join(name), format!("{SECRET}\n")).unwrap();
    }
    folder
}

/// All files of this name below a folder.
fn named(folder: &Path, name: &str) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            found.extend(named(&entry.path(), name));
        } else if entry.file_name() == name {
            found.push(entry.path());
        }
    }
    found
}

/// Checks the command that prints most of a recording.
fn says_nothing(recording: &Path) {
    let path = recording.display().to_string();
    command_says_nothing(&[
        "probe",
        "--from",
        &path,
        "--format",
        "json",
        "--all-devices",
    ]);
}

/// Checks all commands that read recordings.
fn none_says_anything(recording: &Path) {
    let path = recording.display().to_string();
    says_nothing(recording);
    command_says_nothing(&["probe", "--from", &path]);
    command_says_nothing(&["probe", "--sysfs-root", &path, "--all-devices"]);
    command_says_nothing(&["doctor", &path]);
    command_says_nothing(&["show", &path]);
}

fn command_says_nothing(arguments: &[&str]) {
    let said = run(arguments);
    let all = format!("{}{}", said.out, said.err);
    assert!(matches!(said.status, Some(0..=3)), "{said:?}");
    let told = all.lines().find(|line| line.contains("deadf00d"));
    assert_eq!(told, None, "{arguments:?} read what is outside");
}

pub(crate) fn links_to_files_outside_are_not_followed() {
    for name in [
        "vendor",
        "class",
        "subsystem_vendor",
        "numa_node",
        "cpulist",
    ] {
        let folder = machine();
        let recording = folder.path().join("recording");
        for (number, file) in named(&recording.join("sys"), name).into_iter().enumerate() {
            let depth = file
                .strip_prefix(folder.path())
                .unwrap()
                .components()
                .count()
                - 1;
            fs::remove_file(&file).unwrap();
            let target = if number % 2 == 0 {
                folder.path().join("outside").join(name)
            } else {
                Path::new(&"../".repeat(depth)).join("outside").join(name)
            };
            symlink(target, &file).unwrap();
        }
        says_nothing(&recording);
    }
}

pub(crate) fn folders_that_lead_outside_are_not_followed() {
    for absolute in [true, false] {
        let folder = machine();
        let recording = folder.path().join("recording");
        for vendor in named(&recording.join("sys"), "vendor") {
            let function = vendor.parent().unwrap();
            // A function that contains other functions stays, so that something is left to read.
            if fs::read_dir(function)
                .unwrap()
                .flatten()
                .any(|it| it.file_name().to_string_lossy().contains(':'))
            {
                continue;
            }
            let depth = function
                .strip_prefix(folder.path())
                .unwrap()
                .components()
                .count()
                - 1;
            fs::remove_dir_all(function).unwrap();
            let target = if absolute {
                folder.path().join("outside")
            } else {
                Path::new(&"../".repeat(depth)).join("outside")
            };
            symlink(target, function).unwrap();
        }
        none_says_anything(&recording);
    }
}

/// Documents of a recording that are links, and bus ids that are paths, are not followed either.
pub(crate) fn documents_do_not_lead_outside() {
    let folder = machine();
    let recording = folder.path().join("recording");
    for name in ["nvml.json", "options.json", "addresses.json"] {
        let kept = fs::read(recording.join(name)).ok();
        let _ = fs::remove_file(recording.join(name));
        fs::write(folder.path().join("outside").join(name), "\"deadf00d\"").unwrap();
        symlink(
            folder.path().join("outside").join(name),
            recording.join(name),
        )
        .unwrap();
        none_says_anything(&recording);
        fs::remove_file(recording.join(name)).unwrap();
        if let Some(kept) = kept {
            fs::write(recording.join(name), kept).unwrap();
        }
    }
    let nvml = fs::read_to_string(recording.join("nvml.json")).unwrap();
    let changed = nvml.replacen("0000:", "../../../../outside/0000:", 3);
    assert_ne!(changed, nvml);
    fs::write(recording.join("nvml.json"), changed).unwrap();
    says_nothing(&recording);
    // The file that cloud vendors put into guests.
    let guests = recording.join("var/run/nvidia-topologyd");
    fs::create_dir_all(&guests).unwrap();
    let text = "<system version=\"1\"><cpu numaid=\"0\" arch=\"x86_64\" vendor=\"deadf00d\" affinity=\"1\"/></system>";
    fs::write(folder.path().join("outside/guests.xml"), text).unwrap();
    symlink(
        folder.path().join("outside/guests.xml"),
        guests.join("virtualTopology.xml"),
    )
    .unwrap();
    none_says_anything(&recording);
}

/// Links inside are followed.
pub(crate) fn links_inside_are_followed() {
    let folder = machine();
    let recording = folder.path().join("recording");
    let path = recording.display().to_string();
    let arguments = ["probe", "--from", &path];
    let before = run(&arguments);
    assert_eq!(before.status, Some(0), "{before:?}");
    for file in named(&recording.join("sys"), "vendor") {
        fs::rename(&file, file.with_file_name("other")).unwrap();
        symlink(
            "./../".to_owned()
                + file
                    .parent()
                    .unwrap()
                    .file_name()
                    .unwrap()
                    .to_str()
                    .unwrap()
                + "/other",
            &file,
        )
        .unwrap();
    }
    assert_eq!(run(&arguments).out, before.out);
}
