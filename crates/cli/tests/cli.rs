//! The real binary, from the outside: what it prints where, and with which status it ends.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The status of everything that went wrong.
const FAILED: i32 = 2;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// `topo` in the project's root, with nothing of NCCL's in the environment.
fn topo() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_topo"));
    command
        .current_dir(root())
        .stdin(Stdio::null())
        .env_remove("COLUMNS")
        .env_remove("NO_COLOR");
    for (name, _) in
        std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("NCCL_"))
    {
        command.env_remove(name);
    }
    command
}

struct Said {
    out: String,
    err: String,
    status: Option<i32>,
}

fn said(output: Output) -> Said {
    Said {
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
        status: output.status.code(),
    }
}

fn run(arguments: &[&str]) -> Said {
    said(topo().args(arguments).output().unwrap())
}

fn ok(arguments: &[&str]) -> Said {
    let said = run(arguments);
    assert_eq!(said.status, Some(0), "{arguments:?}: {}", said.err);
    said
}

fn refused(arguments: &[&str]) -> Said {
    let said = run(arguments);
    assert_eq!(said.status, Some(FAILED), "{arguments:?}: {}", said.err);
    assert!(
        said.err.lines().any(|line| line.starts_with("error: ")),
        "{arguments:?}: {}",
        said.err
    );
    assert_eq!(said.out, "", "{arguments:?}");
    said
}

/// Compares with a file; `TOPO_BLESS=1` writes it.
fn expect(name: &str, text: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/expected")
        .join(name);
    if std::env::var_os("TOPO_BLESS").is_some_and(|bless| bless == "1") {
        std::fs::write(&file, text).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        expected == text,
        "{name} differs; look, then bless with TOPO_BLESS=1\n{text}"
    );
}

#[test]
fn quiet_is_one_line() {
    let said = ok(&[
        "plan",
        "topologies/dgx-h100/topology.xml",
        "--format",
        "quiet",
    ]);
    assert_eq!(
        said.out,
        "dgx-h100 hosts=1 ranks=8 ring=12x30:NVL tree=12x30:NVL nvls=8x40:NVL\n"
    );
    assert_eq!(said.err, "");
    let said = ok(&[
        "plan",
        "topologies/dgx-h100",
        "--hosts",
        "2",
        "--format",
        "quiet",
    ]);
    assert!(
        said.out.contains("hosts=2 ranks=16 ring=8x48:NVL+48:PIX"),
        "{}",
        said.out
    );
}

#[test]
fn whole_pages() {
    expect(
        "plan-dgx-h100.txt",
        &ok(&["plan", "topologies/dgx-h100/topology.xml"]).out,
    );
    expect(
        "plan-dgx-2-hosts-2.txt",
        &ok(&["plan", "topologies/dgx-2", "--hosts", "2"]).out,
    );
    expect(
        "explain-pcie-8gpu-nicsw.txt",
        &ok(&["plan", "topologies/pcie-8gpu-nicsw", "--explain"]).out,
    );
    expect(
        "show-dgx-h100.txt",
        &ok(&["show", "topologies/dgx-h100"]).out,
    );
    expect(
        "path-dgx-h100.txt",
        &ok(&["show", "topologies/dgx-h100", "--path", "GPU0", "mlx5_3"]).out,
    );
}

#[test]
fn every_machine_can_be_shown_and_fits_the_page() {
    for machine in std::fs::read_dir(root().join("topologies")).unwrap() {
        let machine = machine.unwrap().path();
        if !machine.join("topology.xml").is_file() {
            continue;
        }
        for (width, arguments) in [
            (80, vec!["show"]),
            (80, vec!["plan"]),
            (120, vec!["plan", "--explain"]),
        ] {
            let output = topo()
                .args(arguments)
                .arg(&machine)
                .env("COLUMNS", width.to_string())
                .output()
                .unwrap();
            let said = said(output);
            assert!(
                matches!(said.status, Some(0 | FAILED)),
                "{}: {}",
                machine.display(),
                said.err
            );
            for line in said.out.lines() {
                assert!(
                    line.chars().count() <= width,
                    "{} is too wide: {line}",
                    machine.display()
                );
                assert_eq!(line.trim_end(), line, "{}", machine.display());
            }
        }
    }
}

#[test]
fn mistyped_files_get_a_suggestion() {
    let said = refused(&["plan", "topologies/dgx-h100/toplogy.xml"]);
    assert!(
        said.err
            .contains("did you mean topologies/dgx-h100/topology.xml?"),
        "{}",
        said.err
    );
    let said = refused(&["plan", "topologies/dgx-h1000/topology.xml"]);
    assert!(
        said.err.contains("did you mean topologies/dgx-h100?"),
        "{}",
        said.err
    );
    let said = refused(&["show", "topologies"]);
    assert!(
        said.err.contains("is a folder without a topology.xml"),
        "{}",
        said.err
    );
    let said = refused(&["show", "qqqqqq"]);
    assert!(!said.err.contains("did you mean"), "{}", said.err);
}

#[test]
fn mistyped_devices_get_a_suggestion() {
    let said = refused(&["show", "topologies/dgx-h100", "--path", "GPUO", "mlx5_3"]);
    assert!(
        said.err.contains("no device `GPUO`; did you mean GPU0"),
        "{}",
        said.err
    );
    let said = refused(&["show", "topologies/dgx-h100", "--path", "GPU0", "mlx_3"]);
    assert!(said.err.contains("did you mean mlx5_3"), "{}", said.err);
    assert!(
        said.err.contains("It has GPU0-7, NIC0-7, CPU0,1"),
        "{}",
        said.err
    );
}

#[test]
fn mistyped_commands_and_flags_get_a_suggestion() {
    assert!(
        refused(&["paln", "topologies/dgx-h100"])
            .err
            .contains("'plan'")
    );
    assert!(
        refused(&["plan", "topologies/dgx-h100", "--host", "2"])
            .err
            .contains("'--hosts'")
    );
    refused(&["plan", "topologies/dgx-h100", "--hosts", "0"]);
    refused(&["plan", "topologies/dgx-h100", "--set", "NCCL_CROSS_NIC"]);
    refused(&[
        "plan",
        "topologies/dgx-h100",
        "--hosts",
        "2",
        "--nvlink-domain",
    ]);
}

#[test]
fn devices_have_many_names() {
    let wanted = ok(&["show", "topologies/dgx-h100", "--path", "GPU0", "NIC3"]).out;
    for (from, to) in [
        ("gpu0", "net3"),
        ("0000:1b:00.0", "mlx5_3"),
        ("1b:00.0", "0000:48:00.0"),
    ] {
        assert_eq!(
            ok(&["show", "topologies/dgx-h100", "--path", from, to]).out,
            wanted,
            "{from} {to}"
        );
    }
    ok(&[
        "show",
        "topologies/dgx-h100",
        "--path",
        "0000:15:01.0",
        "CPU1",
    ]);
    let said = refused(&[
        "show",
        "topologies/dgx-h100",
        "--path",
        "CPU1",
        "0000:15:01.0",
    ]);
    assert!(said.err.contains("is a PCI switch"), "{}", said.err);
}

#[test]
fn paths_say_why_and_what_would_change_them() {
    let path = |machine: &str, from: &str, to: &str, set: &[&str]| {
        let machine = format!("topologies/{machine}");
        let mut arguments = vec!["show", &machine, "--path", from, to];
        set.iter().for_each(|set| arguments.extend(["--set", set]));
        // Words may stand on different lines.
        ok(&arguments)
            .out
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    };
    let says =
        |text: String, wanted: &str| assert!(text.contains(wanted), "`{wanted}` is not in: {text}");
    let pcie = "pcie-8gpu-niccpu";
    says(
        path(pcie, "GPU0", "GPU7", &[]),
        "It is SYS because hop 3 crosses from CPU0 to CPU1.",
    );
    says(
        path(pcie, "GPU0", "GPU7", &[]),
        "NCCL_P2P_LEVEL=SYS would allow it.",
    );
    says(
        path(pcie, "GPU0", "GPU7", &["NCCL_P2P_LEVEL=SYS"]),
        "P2P: allowed. SYS is within the limit, SYS (NCCL_P2P_LEVEL).",
    );
    says(
        path(pcie, "GPU0", "GPU1", &["NCCL_P2P_DISABLE=1"]),
        "Without NCCL_P2P_DISABLE NCCL would decide",
    );
    says(
        path(pcie, "GPU0", "NIC0", &[]),
        "NCCL_NET_GDR_LEVEL=PHB would allow it.",
    );
    says(
        path(pcie, "NIC0", "GPU0", &["NCCL_NET_GDR_LEVEL=PHB"]),
        "only for receiving. PHB is within the limit, PHB (NCCL_NET_GDR_LEVEL)",
    );
    says(
        path(
            pcie,
            "NIC0",
            "GPU0",
            &["NCCL_NET_GDR_LEVEL=PHB", "NCCL_NET_GDR_READ=1"],
        ),
        "GPUDirect RDMA: allowed.",
    );
    says(
        path("dgx-h100", "GPU0", "NIC3", &[]),
        "NCCL_PXN_DISABLE=1 would forbid that.",
    );
    says(
        path("dgx-h100", "GPU0", "NIC3", &["NCCL_PXN_DISABLE=1"]),
        "GPUDirect RDMA: forbidden. PHB is worse than the limit, P2C",
    );
    says(
        path("dgx-1v", "GPU0", "GPU5", &[]),
        "It is NVB because it relays through GPU1",
    );
    says(
        path("dgx-1v", "GPU0", "GPU5", &["NCCL_NVB_DISABLE=1"]),
        "It is SYS because",
    );
    says(path("gh200", "GPU0", "NIC0", &[]), "NCCL takes instead P2C");
    says(
        path("workstation-2gpu", "GPU0", "GPU1", &[]),
        "NCCL's default for at most two GPUs on AMD",
    );
}

#[test]
fn variables_come_from_environment_and_command_line() {
    let plan = ["plan", "topologies/dgx-h100"];
    assert!(ok(&plan).out.contains("NCCL's defaults"));
    let output = topo()
        .args(plan)
        .env("NCCL_CROSS_NIC", "1")
        .env("NCCL_DEBUG", "INFO")
        .output()
        .unwrap();
    let page = said(output).out;
    assert!(page.contains("NCCL_CROSS_NIC=1"), "{page}");
    assert!(
        page.contains("without effect on the plan: NCCL_DEBUG"),
        "{page}"
    );
    let output = topo()
        .args(plan)
        .args(["--set", "NCCL_CROSS_NIC=0"])
        .env("NCCL_CROSS_NIC", "1")
        .output()
        .unwrap();
    let page = said(output).out;
    assert!(
        page.contains("NCCL_CROSS_NIC=0") && !page.contains("NCCL_CROSS_NIC=1"),
        "{page}"
    );
    let output = topo()
        .args(plan)
        .env("NCCL_TOPO_FILE", "/nowhere.xml")
        .output()
        .unwrap();
    assert!(
        said(output)
            .err
            .contains("NCCL_TOPO_FILE=/nowhere.xml is not read")
    );
}

#[test]
fn unknown_variables_are_told_with_the_nearest_name() {
    let wanted = "NCCL_CROS_NIC: NCCL 2.30 has no such variable; did you mean NCCL_CROSS_NIC?";
    let plan = ["plan", "topologies/dgx-h100", "--set", "NCCL_CROS_NIC=0"];
    assert!(ok(&plan).out.contains(wanted));
    let said = ok(&[&plan[..], &["--format", "quiet"]].concat());
    assert!(
        said.err.contains(&format!("warning: {wanted}")),
        "{}",
        said.err
    );
    assert!(!said.out.contains("NCCL_"), "{}", said.out);
}

#[test]
fn standard_input_is_a_file_too() {
    let file = std::fs::File::open(root().join("topologies/dgx-h100/topology.xml")).unwrap();
    let piped = said(
        topo()
            .args(["plan", "-", "--format", "quiet"])
            .stdin(file)
            .output()
            .unwrap(),
    );
    assert!(piped.out.contains("ring=12x30:NVL"), "{}", piped.out);
    let empty = said(topo().args(["plan", "-"]).output().unwrap());
    assert_eq!(empty.status, Some(FAILED));
    assert!(
        empty.err.starts_with("error: standard input"),
        "{}",
        empty.err
    );
}

#[test]
fn no_colour_when_piped() {
    for no_color in ["", "1"] {
        for arguments in [
            ["plan", "topologies/dgx-h100"],
            ["show", "topologies/dgx-h100"],
            ["plan", "--help"],
        ] {
            let output = topo()
                .args(arguments)
                .env("NO_COLOR", no_color)
                .env("TERM", "xterm-256color")
                .output()
                .unwrap();
            assert!(!output.stdout.contains(&0x1b), "{arguments:?}");
        }
    }
}

/// `script` gives the program a terminal. Where it is missing there is nothing to test with.
#[cfg(target_os = "linux")]
#[test]
fn colour_on_a_terminal_unless_refused() {
    let on_terminal = |no_color: Option<&str>| {
        let mut command = Command::new("script");
        let line = format!("{} plan topologies/dgx-h100", env!("CARGO_BIN_EXE_topo"));
        command
            .args(["-qec", &line, "/dev/null"])
            .current_dir(root())
            .stdin(Stdio::null());
        command.env("TERM", "xterm").env_remove("NO_COLOR");
        if let Some(value) = no_color {
            command.env("NO_COLOR", value);
        }
        command
            .output()
            .ok()
            .filter(|output| output.status.success())
    };
    let Some(coloured) = on_terminal(None) else {
        return;
    };
    assert!(coloured.stdout.contains(&0x1b));
    assert!(!on_terminal(Some("1")).unwrap().stdout.contains(&0x1b));
}

#[test]
fn help_has_examples() {
    for arguments in [
        &["--help"][..],
        &["plan", "--help"],
        &["show", "--help"],
        &["completions", "-h"],
        &["man", "--help"],
    ] {
        let help = ok(arguments).out;
        assert!(help.contains("Examples:\n  topo "), "{arguments:?}: {help}");
    }
    // Without arguments: how to begin, but it is no success.
    assert_eq!(run(&[]).status, Some(FAILED));
}

#[test]
fn broken_pipes_end_quietly() {
    let mut child = topo()
        .args([
            "plan",
            "topologies/pcie-8gpu-niccpu",
            "--hosts",
            "2",
            "--explain",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut err = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut err)
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(err, "");
}

#[test]
fn warnings_go_to_standard_error_and_are_counted() {
    let mut text = "<system version=\"1\">".to_owned();
    for cpu in 0..20 {
        text.push_str(&format!(
            "<cpu numaid=\"{cpu}\" arch=\"arm64\" odd{cpu}=\"1\"/><thing{cpu}/>"
        ));
    }
    text.push_str(
        "<cpu numaid=\"0\" arch=\"arm64\" host_hash=\"a\" host_hash=\"b\"/><?x?></system>",
    );
    let mut child = topo()
        .args(["show", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
    let said = said(child.wait_with_output().unwrap());
    assert!(
        said.err
            .lines()
            .all(|line| line.starts_with("warning: ") || line.starts_with("error: ")),
        "{}",
        said.err
    );
    assert!(said.err.lines().count() <= 12, "{}", said.err);
    assert!(!said.out.contains("warning"), "{}", said.out);
}

#[test]
fn files_that_nccl_refuses_are_still_shown() {
    let amd = "<system version=\"2\"><cpu numaid=\"0\" arch=\"x86_64\" vendor=\"AuthenticAMD\">\
        <pci busid=\"0000:0c:00.0\" class=\"0x120000\" link_speed=\"\" link_width=\"16\"><gpu dev=\"0\" sm=\"90\" gcn=\"gfx942\" rank=\"0\" gdr=\"1\">\
        <xgmi target=\"0000:15:00.0\" count=\"2\" tclass=\"0x120000\"/></gpu></pci>\
        <pci busid=\"0000:15:00.0\" class=\"0x120000\" link_speed=\"\" link_width=\"16\"><gpu dev=\"1\" sm=\"90\" gcn=\"gfx942\" rank=\"1\" gdr=\"1\">\
        <xgmi target=\"0000:0c:00.0\" count=\"2\" tclass=\"0x120000\"/></gpu></pci></cpu></system>";
    let with_input = |command: &str, text: &str| {
        let mut child = topo()
            .args([command, "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(text.as_bytes())
            .unwrap();
        said(child.wait_with_output().unwrap())
    };
    let shown = with_input("show", amd);
    assert_eq!(shown.status, Some(0));
    assert!(
        shown.out.contains("xGMI\n  GPU0 – GPU1 ×2"),
        "{}",
        shown.out
    );
    let planned = with_input("plan", amd);
    assert_eq!(planned.status, Some(FAILED));
    assert!(
        planned
            .err
            .contains("error: standard input is a topology of AMD's RCCL (version 2)"),
        "{}",
        planned.err
    );
    let bare = "<system version=\"1\"><cpu numaid=\"0\" arch=\"arm64\">\
        <pci busid=\"0000:0c:00.0\" class=\"0x030200\" link_speed=\"\" link_width=\"16\"/></cpu></system>";
    let shown = with_input("show", bare);
    assert_eq!(shown.status, Some(0));
    assert!(shown.out.contains("0000:0c:00.0"), "{}", shown.out);
    assert!(
        shown.err.contains("warning: only the file is shown"),
        "{}",
        shown.err
    );
    assert_eq!(with_input("plan", bare).status, Some(FAILED));
}

#[test]
fn completions_and_manual_pages() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(ok(&["completions", shell]).out.contains("topo"), "{shell}");
    }
    assert!(ok(&["man"]).out.contains(".TH topo 1"));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("man");
    ok(&["man", folder.to_str().unwrap()]);
    for page in [
        "topo.1",
        "topo-plan.1",
        "topo-show.1",
        "topo-completions.1",
        "topo-man.1",
    ] {
        let text = std::fs::read_to_string(folder.join(page)).unwrap();
        assert!(text.contains("Examples"), "{page}");
    }
}
