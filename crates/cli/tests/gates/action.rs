//! The action of GitHub that checks topology files.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use libtest_mimic::{Failed, Trial};

use crate::readers::block;
use crate::runs::longest_of;
use crate::{executable, output, text};

/// A run: its name, the file, `topo` in the language of the shell (`TOPO` is the real one), and
/// what the action says.
type Run = (&'static str, &'static str, &'static str, &'static str);

const RUNS: [Run; 12] = [
    ("good", "dgx-h100", "exec $TOPO \"$@\"", "pass"),
    ("bad", "broken-vm", "exec $TOPO \"$@\"", "fail"),
    ("no_file", "nowhere", "exec $TOPO \"$@\"", "fail"),
    ("no_files", "", "exec $TOPO \"$@\"", "unknown"),
    ("carriage_return", "dgx-h100\r", "exec $TOPO \"$@\"", "pass"),
    (
        "unreadable",
        "dgx-h100\nnot xml",
        "exec $TOPO \"$@\"",
        "fail",
    ),
    ("no_topo", "broken-vm", "exit 127", "unknown"),
    ("crashes", "broken-vm", "kill -SEGV $$", "unknown"),
    ("hangs", "broken-vm", "trap '' TERM; sleep 600", "unknown"),
    (
        "not_judged",
        "dgx-h100",
        "echo 'UNKNOWN: the driver'; exit 3",
        "unknown",
    ),
    ("option", "--help", "exec $TOPO \"$@\"", "fail"),
    (
        "hostile",
        "a'; touch hacked; $(touch hacked)",
        "exec $TOPO \"$@\"",
        "pass",
    ),
];

pub(crate) fn trials() -> impl Iterator<Item = Trial> {
    RUNS.iter().map(|run| {
        let name = format!("github_action::{}", run.0);
        Trial::test(name, move || judged(run))
    })
}

fn judged((_, files, topo, verdict): &Run) -> Result<(), Failed> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let action = fs::read_to_string(root.join("action.yml"))?;
    let script = block(&action, "      run: |\n");
    let folder = tempfile::tempdir()?;
    let programs = folder.path().join("programs");
    fs::create_dir(&programs)?;
    executable(&programs.join("topo"), topo)?;
    fs::write(folder.path().join("not xml"), "none")?;
    let file = &files.lines().next().unwrap_or_default().trim_end();
    let known = root.join("topologies").join(file).join("topology.xml");
    let good = root.join("topologies/dgx-h100/topology.xml");
    match (known.exists() && !file.is_empty(), *verdict) {
        (true, _) => fs::copy(known, folder.path().join(file))?,
        (false, "pass") => fs::copy(good, folder.path().join(file))?,
        _ => 0,
    };
    let mut command = Command::new("bash");
    command
        .args(["-c", &script])
        .current_dir(folder.path())
        .env_clear();
    command.env("PATH", format!("{}:/usr/bin:/bin", programs.display()));
    command
        .env("TOPO", env!("CARGO_BIN_EXE_topo"))
        .env("TOPO_SECONDS", longest_of(topo));
    command
        .env("TOPOLOGIES", format!("\n{files}\n"))
        .env("JUNIT", "a folder/junit.xml");
    command.env("GITHUB_OUTPUT", folder.path().join("output"));
    let said = output(command.stdin(Stdio::null()))?;
    let written = fs::read_to_string(folder.path().join("output"))?;
    let fails = *verdict == "fail";
    let annotated = match *verdict {
        "fail" => text(&said).contains("\n::error "),
        "unknown" => text(&said).contains("\n::warning title=topo doctor::UNKNOWN"),
        _ => !text(&said).contains("title=topo"),
    };
    let is_right = written == format!("verdict={verdict}\n")
        && said.status.code() == Some(i32::from(fails))
        && annotated
        && !folder.path().join("hacked").exists();
    match is_right {
        true => Ok(()),
        false => Err(format!("expected {verdict}, found {written}{}", text(&said)).into()),
    }
}
