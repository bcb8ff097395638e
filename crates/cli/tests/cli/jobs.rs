//! Jobs of several hosts, and settings that change them.

use crate::{ok, refused};

fn quiet(arguments: &[&str]) -> String {
    ok(&[&["plan", "--format", "quiet"], arguments].concat()).out
}

#[test]
fn several_files_are_several_hosts() {
    let mixed = quiet(&["topologies/dgx-h100", "topologies/dgx-a100"]);
    assert!(
        mixed.starts_with("dgx-h100+dgx-a100 hosts=2 ranks=16 "),
        "{mixed}"
    );
    // The same file twice is the same as two equal hosts.
    let h100 = "topologies/dgx-h100";
    assert_eq!(quiet(&[h100, h100]), quiet(&[h100, "--hosts", "2"]));
    let page = ok(&["plan", "topologies/dgx-h100", "topologies/dgx-a100"]).out;
    for machine in ["dgx-h100\n", "dgx-a100\n", "1 of 2 hosts"] {
        assert!(page.contains(machine), "{page}");
    }
}

#[test]
fn hosts_of_an_nvlink_domain_are_one() {
    let tray = ["topologies/gb200-nvl72-tray", "--hosts", "4"];
    let domain = quiet(&[&tray[..], &["--nvlink-domain"]].concat());
    assert!(domain.contains("hosts=4 ranks=16 "), "{domain}");
    let apart = quiet(&tray);
    assert_ne!(domain, apart);
    // What NCCL's settings forbid is not done, and said.
    for forbid in ["NCCL_MNNVL_ENABLE=0", "NCCL_P2P_DISABLE=1"] {
        let said = ok(&[
            &[
                "plan",
                "--format",
                "quiet",
                "--nvlink-domain",
                "--set",
                forbid,
            ],
            &tray[..],
        ]
        .concat());
        assert!(
            said.err.contains("--nvlink-domain: the settings forbid it"),
            "{}",
            said.err
        );
        let without = quiet(&[&tray[..], &["--set", forbid]].concat());
        assert_eq!(said.out, without);
    }
    let said = refused(&[
        "plan",
        "topologies/gb200-nvl72-tray",
        "--hosts",
        "100000",
        "--nvlink-domain",
    ]);
    assert!(
        said.err.contains("100000 hosts in one NVLink domain"),
        "{}",
        said.err
    );
}

#[test]
fn standard_input_is_read_once() {
    assert!(
        refused(&["plan", "-", "-"])
            .err
            .contains("can be read once only")
    );
}

/// The page tells what a setting changes, and which one it was.
#[test]
fn settings_change_the_page() {
    for (machine, hosts, set) in [
        ("dgx-h100", "2", "NCCL_CROSS_NIC=0"),
        ("dgx-h100", "1", "NCCL_NVLS_ENABLE=0"),
        ("dgx-h100", "2", "NCCL_PXN_DISABLE=1"),
        ("dgx-h100", "1", "NCCL_MAX_NCHANNELS=3"),
        ("dgx-1v", "1", "NCCL_NVB_DISABLE=1"),
        ("dgx-h100", "1", "NCCL_P2P_DISABLE=1"),
    ] {
        let machine = format!("topologies/{machine}");
        let page = |set: &[&str]| {
            let page = ok(&[&["plan", &machine, "--hosts", hosts], set].concat()).out;
            let (head, rest) = page.split_once("\nWiring").unwrap();
            let said = format!("settings {}", set.last().unwrap_or(&"NCCL's defaults"));
            (head.contains(&said), rest.to_owned())
        };
        let (plain_said, plain) = page(&[]);
        let (set_said, changed) = page(&["--set", set]);
        assert!(plain_said && set_said, "{set}");
        assert_ne!(
            plain, changed,
            "{set} changes nothing on {machine} x {hosts}"
        );
    }
}
