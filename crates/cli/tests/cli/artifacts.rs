//! What a plan leaves behind: plan.json and NCCL's graph file.

use std::path::{Path, PathBuf};

use machines::Machine;
use plan::Plan;

use crate::{ok, refused, said, topo};

/// An empty folder of the test's own.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn plans_are_written_whole_and_equal() {
    let folder = folder("plans");
    let file = folder.join("plan.json");
    let job = ["plan", "topologies/dgx-h100", "--hosts", "2"];
    let page = ok(&job).out;
    assert_eq!(ok(&[&job[..], &["-o", text(&file)]].concat()).out, page);
    let written = std::fs::read_to_string(&file).unwrap();
    assert_eq!(ok(&[&job[..], &["--format", "json"]].concat()).out, written);
    let plan = Plan::from_json(&written).unwrap();
    assert_eq!((plan.rank_count(), plan.machines.len()), (16, 1));
    assert_eq!(plan.machines[0].name, "dgx-h100");
    // Nothing stays beside it, and an older plan is replaced.
    std::fs::write(&file, "old").unwrap();
    ok(&[&job[..], &["--format", "quiet", "-o", text(&file)]].concat());
    assert_eq!(std::fs::read_to_string(&file).unwrap(), written);
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
}

#[test]
fn what_decides_changes_the_fingerprint_and_nothing_else_does() {
    let plan = |arguments: &[&str]| {
        let arguments = [
            &["plan", "topologies/dgx-a100", "--format", "json"],
            arguments,
        ]
        .concat();
        Plan::from_json(&ok(&arguments).out).unwrap()
    };
    let plain = plan(&[]);
    let same = plan(&[
        "--set",
        "NCCL_DEBUG=INFO",
        "--set",
        "NCCL_TOPO_DUMP_FILE=/tmp/x",
    ]);
    assert_eq!(same, plain);
    for arguments in [
        &["--set", "NCCL_CROSS_NIC=2"][..],
        &["--set", "NCCL_MAX_NCHANNELS=4"],
        &["--set", "NCCL_ALGO=ring"],
        &["--hosts", "2"],
        &["--collnet"],
    ] {
        assert_ne!(
            plan(arguments).fingerprint,
            plain.fingerprint,
            "{arguments:?}"
        );
    }
}

#[test]
fn every_machine_gives_a_plan_that_reads_back() {
    for machine in Machine::all().unwrap() {
        let said = said(
            topo()
                .args(["plan", "--format", "json"])
                .arg(&machine.folder)
                .output()
                .unwrap(),
        );
        match said.status {
            Some(0) => {
                let plan = Plan::from_json(&said.out);
                let plan = plan.unwrap_or_else(|error| panic!("{}: {error}", machine.name));
                assert_eq!(plan.to_json().unwrap(), said.out, "{}", machine.name);
            }
            status => assert_eq!(
                (status, said.out.as_str()),
                (Some(2), ""),
                "{}",
                machine.name
            ),
        }
    }
}

#[test]
fn graph_files_give_the_same_graphs() {
    let folder = folder("graphs");
    for (machine, hosts) in [
        ("dgx-h100", "1"),
        ("dgx-h100", "2"),
        ("dgx-a100", "2"),
        ("pcie-8gpu-nicsw", "2"),
        ("gb200-nvl72-tray", "1"),
        ("ac922-power9", "2"),
    ] {
        let machine = format!("topologies/{machine}");
        let job = ["plan", &machine, "--hosts", hosts];
        let graphs = ok(&[&job[..], &["--format", "nccl-graph"]].concat()).out;
        let file = folder.join("graphs.xml");
        std::fs::write(&file, &graphs).unwrap();
        let from_file = |format: &str| {
            let output = topo()
                .args(job)
                .args(["--format", format])
                .env("NCCL_GRAPH_FILE", &file)
                .output();
            said(output.unwrap())
        };
        let again = from_file("nccl-graph");
        assert_eq!(
            (again.err.as_str(), again.out.as_str()),
            ("", graphs.as_str()),
            "{machine}"
        );
        // Planned from the file, the job is the same job.
        let quiet = ok(&[&job[..], &["--format", "quiet"]].concat()).out;
        assert_eq!(from_file("quiet").out, quiet);
        assert!(
            from_file("text").out.contains("NCCL_GRAPH_FILE="),
            "{machine}"
        );
    }
}

#[test]
fn graph_files_that_cannot_be_used_are_refused() {
    let folder = folder("bad-graphs");
    let with = |content: Option<&str>| {
        let file = folder.join("graphs.xml");
        let _ = std::fs::remove_file(&file);
        if let Some(content) = content {
            std::fs::write(&file, content).unwrap();
        }
        let set = format!("NCCL_GRAPH_FILE={}", text(&file));
        refused(&["plan", "topologies/dgx-h100", "--set", &set]).err
    };
    assert!(with(None).contains("cannot read NCCL_GRAPH_FILE="));
    assert!(with(Some("<graphs version=\"7\"/>")).contains("graphs.xml:1:"));
    assert!(with(Some("<graphs version=\"1\"><graph id=")).contains("graphs.xml:1:"));
    assert!(with(Some("")).contains("graphs.xml"));
}

#[test]
fn output_paths_that_cannot_be_written() {
    let folder = folder("unwritable");
    let missing = folder.join("missing/plan.json");
    for (path, complaint) in [
        (text(&missing), "there is no folder"),
        (text(&folder), "it is a folder"),
        ("-", "--format json prints a plan"),
    ] {
        let said = refused(&["plan", "topologies/dgx-h100", "-o", path]);
        assert!(
            said.err.contains(&format!("cannot write {path}")) || path == "-",
            "{}",
            said.err
        );
        assert!(said.err.contains(complaint), "{}", said.err);
    }
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
}

#[cfg(unix)]
#[test]
fn links_and_pipes_stay_what_they_are() {
    use std::os::unix::fs::{PermissionsExt, symlink};

    let folder = folder("links");
    let (file, link) = (folder.join("plan.json"), folder.join("link.json"));
    std::fs::write(&file, "old").unwrap();
    symlink(&file, &link).unwrap();
    ok(&["plan", "topologies/gh200", "-o", text(&link)]);
    assert!(link.symlink_metadata().unwrap().is_symlink());
    assert!(Plan::from_json(&std::fs::read_to_string(&file).unwrap()).is_ok());
    // Everybody who may read other new files may read this one.
    std::fs::write(folder.join("other"), "").unwrap();
    let rights = |path: &Path| path.metadata().unwrap().permissions().mode();
    assert_eq!(rights(&file), rights(&folder.join("other")));
    let said = ok(&[
        "plan",
        "topologies/gh200",
        "-o",
        "/dev/stdout",
        "--format",
        "quiet",
    ]);
    assert!(
        said.out.starts_with("{\n  \"format\": \"topo-plan\""),
        "{}",
        said.out
    );
    assert!(
        said.out.ends_with("ring=32x60:LOC tree=32x60:LOC\n"),
        "{}",
        said.out
    );
}
