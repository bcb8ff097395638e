//! The plug-in, called by a program in C as NCCL does, with every version of its tables.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tuner_plugin::{LIBRARY, LIBRARY_FILE, TABLE_FILE, VARIABLE};

const TABLE: &str = "topo-tuner 1\n\
                     communicator nodes 2 ranks 16\n\
                     gpus 0-7\n\
                     choose all-reduce 0 65535 tree ll channels 3 chunk 65536\n\
                     choose all-reduce 65536 2000000 ring simple\n\
                     end\n";

/// Compiles the program.
fn caller(to: &Path) -> PathBuf {
    let program = to.join("caller");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/caller.c");
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let status = Command::new(compiler)
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&program)
        .arg(source)
        .arg("-ldl")
        .status();
    assert!(status.expect("a C compiler").success());
    program
}

/// The output of the program about a communicator.
fn call(folder: &Path, nodes: u32, ranks: u32, variable: Option<&Path>) -> Vec<String> {
    let plugin = folder.join(LIBRARY_FILE);
    fs::write(&plugin, LIBRARY).expect("a file");
    let mut command = Command::new(caller(folder));
    command.arg(&plugin).env_remove(VARIABLE);
    command.args([nodes.to_string(), ranks.to_string()]);
    if let Some(file) = variable {
        command.env(VARIABLE, file);
    }
    let done = command.output().expect("the program runs");
    assert!(done.status.success(), "{done:?}");
    assert_eq!(String::from_utf8_lossy(&done.stderr), "");
    let text = String::from_utf8_lossy(&done.stdout);
    text.lines().map(str::to_owned).collect()
}

#[test]
fn every_version_is_obeyed() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join(TABLE_FILE), TABLE).expect("a file");
    let said = call(folder.path(), 2, 16, None);
    let start = "level 3 TUNER/topo: 2 nodes, 16 ranks: choices for GPUs 0-7";
    let none = "level 3 TUNER/topo: NCCL's own choice: all-reduce of 18446744073709551615 bytes: the \
                file has no choice for this collective and size";
    let of_size = |version: &str| {
        [
            format!("{version} code 0 channels 3 zero 0/0"),
            format!("{version} code 0 channels 0 zero 1/2"),
            none.to_owned(),
            format!("{version} code 0 channels 0 zero"),
        ]
    };
    let chunks = ["chunk code 0 65536", "chunk of another code 0 65536"].map(str::to_owned);
    let start = || vec![start.to_owned()];
    let expected = [
        vec!["name topo".to_owned()],
        start(),
        of_size("v3").into(),
        start(),
        vec!["v4 code 0 channels 3 zero 0/0".to_owned()],
        start(),
        of_size("v5").into(),
        start(),
        of_size("v6").into(),
        chunks.clone().into(),
        start(),
        of_size("v7").into(),
        chunks.into(),
        vec!["end".to_owned()],
    ];
    assert_eq!(said, expected.concat());
}

#[test]
fn without_a_table_nothing_changes() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path();
    let other = path.join("other");
    let fifo = path.join("fifo");
    assert!(
        Command::new("mkfifo")
            .arg(&fifo)
            .status()
            .is_ok_and(|it| it.success())
    );
    let long = path.join("long");
    let file = fs::File::create(&long).expect("a file");
    file.set_len(tuner_plugin::LARGEST_FILE + 1)
        .expect("a long file");
    fs::write(&other, TABLE.replace("tree", "three")).expect("a file");
    for (file, level, what) in [
        (None, 3, "there is no "),
        (
            Some(other.as_path()),
            2,
            "line 4: expected one of tree, ring",
        ),
        (Some(fifo.as_path()), 2, "expected a file"),
        (Some(path), 2, "expected a file"),
        (Some(long.as_path()), 2, "expected at most 16777216 bytes"),
    ] {
        let said = call(path, 2, 16, file);
        let lines: Vec<&String> = said.iter().filter(|it| it.starts_with("level")).collect();
        // One for each of five communicators.
        assert_eq!(lines.len(), 5, "{said:?}");
        for line in lines {
            let start = format!("level {level} TUNER/topo: NCCL's own choice: ");
            assert!(line.starts_with(&start) && line.contains(what), "{line}");
        }
        let zeros = said.iter().filter(|it| it.ends_with("channels 0 zero"));
        assert_eq!(zeros.count(), 13, "{said:?}");
        let chunks = said.iter().filter(|it| *it == "chunk code 0 524288");
        assert_eq!(chunks.count(), 2, "{said:?}");
    }
}

#[test]
fn another_communicator_keeps_its_choices() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join(TABLE_FILE), TABLE).expect("a file");
    let said = call(folder.path(), 1, 16, None);
    let why = "level 3 TUNER/topo: NCCL's own choice: the file has no communicator of as many nodes \
               and ranks (1 nodes, 16 ranks)";
    assert_eq!(said[1], why);
    for version in ["v6", "v7"] {
        let own = format!("{version} code 0 channels 0 zero");
        assert_eq!(said.iter().filter(|it| **it == own).count(), 3, "{said:?}");
    }
}
