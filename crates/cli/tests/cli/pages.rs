//! What the commands say about machines.

use std::io::Write;
use std::process::Stdio;

use crate::{FAILED, expect, ok, refused, root, said, topo};

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
    for (name, machine) in [
        ("connections-dgx-1v.txt", "topologies/dgx-1v"),
        (
            "connections-pcie-8gpu-niccpu.txt",
            "topologies/pcie-8gpu-niccpu",
        ),
        ("connections-dgx-h100.txt", "topologies/dgx-h100"),
    ] {
        let page = ok(&["plan", machine, "--hosts", "2", "--connections"]).out;
        let (_, section) = page.split_once("\nConnections").unwrap();
        let (section, _) = section.split_once("\nJob").unwrap();
        expect(name, section);
    }
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
            (80, vec!["plan", "--hosts", "2", "--connections"]),
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
