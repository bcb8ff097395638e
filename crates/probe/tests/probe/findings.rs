//! Each rule has a machine that breaks it and no other; clean machines break none.

use std::collections::BTreeSet;

use probe::Rule;
use serde_json::json;
use testkit::{FakeMachine, Machine};

use crate::common::{OnDisk, fake};

/// Machines in order.
const CLEAN: [&str; 9] = [
    "dgx-1v",
    "dgx-2",
    "dgx-a100",
    "dgx-a100-sharp",
    "dgx-h100",
    "dgx-h100-sharp",
    "dgx-b200",
    "gb200-nvl72-tray",
    "pcie-8gpu-broadcom",
];

/// The machine that is broken in most tests; its first GPU and the NIC beside it.
const MACHINE: &str = "dgx-h100";
const GPU: &str = "0000:1b:00.0";
const NIC: &str = "0000:18:00.0";

#[track_caller]
fn fires(rule: Rule, machine: &FakeMachine) {
    let probe = OnDisk::new(machine).probe();
    let fired: BTreeSet<Rule> = probe.findings.iter().map(|finding| finding.rule).collect();
    assert_eq!(fired, BTreeSet::from([rule]), "{:#?}", probe.findings);
}

/// Breaks a machine.
fn broken(act: impl FnOnce(&mut FakeMachine)) -> FakeMachine {
    let mut machine = fake(MACHINE);
    act(&mut machine);
    machine
}

#[test]
fn clean_machines_have_no_findings() {
    for name in CLEAN {
        let probe = OnDisk::new(&fake(name)).probe();
        assert_eq!(probe.findings, [], "{name}, probed");
        let document = Machine::named(name).unwrap().document().unwrap();
        assert_eq!(findings::of_document(&document), [], "{name}, as a file");
    }
}

#[test]
fn narrow_links() {
    fires(
        Rule::Width,
        &broken(|machine| machine.nvml["devices"][0]["link_width"] = json!(8)),
    );
    fires(
        Rule::Width,
        &broken(|machine| {
            let folder = machine.function(NIC).unwrap();
            machine.file(format!("{folder}/current_link_width"), "4");
        }),
    );
}

#[test]
fn slow_links() {
    fires(
        Rule::Speed,
        &broken(|machine| machine.nvml["devices"][0]["link_generation"] = json!(3)),
    );
    // An idle GPU is slow on purpose, and is planned as it will be.
    let idle = broken(|machine| {
        machine.nvml["devices"][0]["link_generation"] = json!(1);
        machine.nvml["devices"][0]["performance_state"] = json!(8);
    });
    let (idle, busy) = (
        OnDisk::new(&idle).probe(),
        OnDisk::new(&fake(MACHINE)).probe(),
    );
    assert_eq!(idle.findings, []);
    assert!(idle.document.root.same_as(&busy.document.root));
}

#[test]
fn unknown_numa_nodes() {
    fires(
        Rule::Numa,
        &broken(|machine| {
            let folder = machine.function(NIC).unwrap();
            machine.file(format!("{folder}/numa_node"), "-1");
        }),
    );
}

#[test]
fn missing_nvlinks() {
    let machine = broken(|machine| machine.nvml["devices"][2]["nvlinks"][5]["up"] = json!(false));
    fires(Rule::NvlinkMissing, &machine);
    let probe = OnDisk::new(&machine).probe();
    assert_eq!(probe.findings[0].seen, "17 NVLinks (down: 5)");
    let mended = probe.findings[0].effect.mended(&probe.document);
    let healthy = OnDisk::new(&fake(MACHINE)).probe();
    assert!(mended.root.same_as(&healthy.document.root));
}

#[test]
fn asymmetric_nvlinks() {
    let mut machine = fake("dgx-1v");
    let links = &mut machine.nvml["devices"][0]["nvlinks"];
    let remotes: Vec<String> = links
        .as_array()
        .unwrap()
        .iter()
        .map(|link| link["remote"].as_str().unwrap().to_owned())
        .collect();
    let other = remotes
        .iter()
        .find(|remote| **remote != remotes[0])
        .unwrap();
    links[0]["remote"] = json!(other);
    fires(Rule::NvlinkAsymmetric, &machine);
}

#[test]
fn access_control() {
    let redirecting = |control: u16| {
        broken(|machine| {
            let port = machine.port(GPU).unwrap();
            let folder = machine.function(&port).unwrap();
            let mut config = vec![0u8; 4096];
            config[0x100..0x104].copy_from_slice(&0x0001_000du32.to_le_bytes());
            config[0x106..0x108].copy_from_slice(&control.to_le_bytes());
            machine.files.insert(format!("{folder}/config"), config);
        })
    };
    fires(Rule::AccessControl, &redirecting(0x001d));
    // Source validation alone redirects nothing.
    assert_eq!(OnDisk::new(&redirecting(0x0001)).probe().findings, []);
}

#[test]
fn translation() {
    let grouped = |kind: &str| {
        broken(|machine| {
            let folder = machine.function(GPU).unwrap();
            machine.link(format!("{folder}/iommu_group"), "sys/kernel/iommu_groups/7");
            machine.file("sys/kernel/iommu_groups/7/type", kind);
        })
    };
    fires(Rule::Iommu, &grouped("DMA-FQ"));
    assert_eq!(OnDisk::new(&grouped("identity")).probe().findings, []);
}

#[test]
fn ports() {
    let adapter = |machine: &FakeMachine, name: &str| {
        machine.links[&format!("sys/class/infiniband/{name}")].clone()
    };
    fires(
        Rule::PortDown,
        &broken(|machine| {
            let folder = adapter(machine, "mlx5_0");
            machine.file(format!("{folder}/ports/2/state"), "1: DOWN");
            machine.file(format!("{folder}/ports/2/link_layer"), "InfiniBand");
        }),
    );
    fires(
        Rule::PortSlow,
        &broken(|machine| {
            let folder = adapter(machine, "mlx5_3");
            machine.file(format!("{folder}/ports/1/rate"), "200 Gb/sec (4X HDR)");
        }),
    );
    fires(
        Rule::NoNearNic,
        &broken(|machine| {
            machine.links.remove("sys/class/infiniband/mlx5_7");
        }),
    );
}

#[test]
fn virtual_functions() {
    fires(
        Rule::VirtualFunction,
        &broken(|machine| {
            let parent = machine.function(NIC).unwrap();
            let own = NIC.replace(":00.0", ":00.2");
            let folder = parent.replace(NIC, &own);
            machine.link(format!("sys/bus/pci/devices/{own}"), folder.clone());
            machine.link(format!("{folder}/physfn"), parent.clone());
            for file in [
                "class",
                "vendor",
                "device",
                "subsystem_vendor",
                "subsystem_device",
                "numa_node",
            ] {
                let bytes = machine.files[&format!("{parent}/{file}")].clone();
                machine.files.insert(format!("{folder}/{file}"), bytes);
            }
            let device = format!("{folder}/infiniband/mlx5_20");
            machine.link("sys/class/infiniband/mlx5_20", device.clone());
            machine.file(format!("{device}/sys_image_guid"), "a088:c203:00ab:1234");
            machine.file(format!("{device}/ports/1/state"), "4: ACTIVE");
            machine.file(format!("{device}/ports/1/link_layer"), "InfiniBand");
            machine.file(format!("{device}/ports/1/rate"), "400 Gb/sec (4X NDR)");
        }),
    );
}

#[test]
fn direct_access() {
    let without = broken(|machine| {
        machine.files.remove("sys/module/nvidia_peermem/version");
    });
    fires(Rule::DirectAccess, &without);
    let buffers = broken(|machine| {
        machine.files.remove("sys/module/nvidia_peermem/version");
        machine.file(
            "proc/driver/nvidia/version",
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.82.07",
        );
    });
    assert_eq!(OnDisk::new(&buffers).probe().findings, []);
    fires(
        Rule::DirectAccess,
        &broken(|machine| {
            for device in machine.nvml["devices"].as_array_mut().unwrap() {
                device["brand"] = json!("GeForce");
            }
        }),
    );
}

#[test]
fn drivers() {
    let failed = json!({"failed": "DriverNotLoaded"});
    let none =
        broken(|machine| machine.nvml = json!({"driver": failed, "count": failed, "devices": []}));
    fires(Rule::NoDriver, &none);
    fires(
        Rule::NoAnswer,
        &broken(|machine| machine.nvml["devices"][3]["link_width"] = json!({"failed": "GpuLost"})),
    );
    fires(
        Rule::GpuWithoutDriver,
        &broken(|machine| {
            let folder = "sys/devices/pci0000:f0/0000:f1:00.0";
            machine.link("sys/bus/pci/devices/0000:f1:00.0", folder);
            machine.link(format!("{folder}/driver"), "sys/bus/pci/drivers/vfio-pci");
            machine.file(format!("{folder}/class"), "0x030200");
            machine.file(format!("{folder}/vendor"), "0x10de");
        }),
    );
    fires(
        Rule::Partitioned,
        &broken(|machine| {
            machine.nvml["devices"][1]["mig"] = json!({"enabled": true, "parts": []})
        }),
    );
    fires(
        Rule::NoPeerAccess,
        &broken(|machine| {
            machine.nvml["devices"][0]["peers"][1]["read"] = json!("ChipsetNotSupported")
        }),
    );
    fires(
        Rule::Fabric,
        &broken(|machine| {
            machine.nvml["devices"][0]["fabric"] =
                json!({"state": "InProgress", "cluster": "0", "clique": 0});
        }),
    );
}

#[test]
fn impossible_links() {
    fires(
        Rule::ImpossibleLink,
        &broken(|machine| {
            let port = machine.port(GPU).unwrap();
            let switch = machine.port(&port).unwrap();
            let folder = machine.function(&switch).unwrap();
            machine.file(format!("{folder}/max_link_speed"), "2.5 GT/s PCIe");
            machine.file(format!("{folder}/max_link_width"), "1");
        }),
    );
}

#[test]
fn garbage() {
    for (file, text) in [
        ("max_link_width", "wide"),
        ("max_link_speed", "\u{1b}[31m"),
        ("numa_node", "north"),
        ("device", ""),
    ] {
        fires(
            Rule::Garbage,
            &broken(|machine| {
                let folder = machine.function(NIC).unwrap();
                machine.file(format!("{folder}/{file}"), text);
            }),
        );
    }
}

#[test]
fn files() {
    let check = |inside: &str| {
        let text = format!("<system version=\"1\">{inside}</system>");
        let document = topology::xml::parse("file.xml", text.as_bytes()).unwrap();
        let fired: BTreeSet<Rule> = findings::of_document(&document)
            .iter()
            .map(|finding| finding.rule)
            .collect();
        fired.into_iter().collect::<Vec<_>>()
    };
    let cpu = |inside: &str| format!("<cpu numaid=\"0\" arch=\"arm64\">{inside}</cpu>");
    let gpu = |number: usize, links: &str| {
        format!(
            "<pci busid=\"0000:{number:02x}:00.0\" class=\"0x030200\" link_speed=\"16.0 GT/s PCIe\" link_width=\"16\">\
             <gpu dev=\"{number}\" sm=\"80\" rank=\"{number}\" gdr=\"1\">{links}</gpu></pci>"
        )
    };
    let flat: String = (0..4).map(|number| gpu(number, "")).collect();
    let dangling = gpu(
        0,
        "<nvlink target=\"0000:77:00.0\" count=\"2\" tclass=\"0x030200\"/>",
    );
    let linked = |number| {
        let link = "<nvlink target=\"0000:77:00.0\" count=\"2\" tclass=\"0x068000\"/>";
        gpu(number, link)
    };
    let narrow = "<pci busid=\"0000:70:00.0\" class=\"0x020700\" link_speed=\"8.0 GT/s PCIe\" link_width=\"8\">\
        <nic><net name=\"mlx5_0\" dev=\"0\" speed=\"200000\"/></nic></pci>";
    let port = |number: u32| {
        format!("<net name=\"mlx5_{number}\" dev=\"{number}\" speed=\"50000\" port=\"1\"/>")
    };
    let card = |bus: u32, ports: &str| {
        format!(
            "<pci busid=\"0000:{bus:02x}:00.0\" class=\"0x020700\" link_speed=\"16.0 GT/s PCIe\" link_width=\"16\">\
             <nic>{ports}</nic></pci>"
        )
    };
    let unequal = [card(0x70, &(port(0) + &port(1))), card(0x71, &port(2))].concat();
    let odd = gpu(0, "").replace("16.0 GT/s PCIe", "16 GT per s");
    for (inside, rule) in [
        (cpu(&flat), Rule::Flat),
        (cpu(&dangling), Rule::Dangling),
        (cpu(&gpu(0, "")).replace(" arch=\"arm64\"", ""), Rule::MissingAttribute),
        (cpu(&gpu(0, "")).replace(" sm=\"80\"", ""), Rule::MissingAttribute),
        (cpu("<pci busid=\"0000:01:00.0\" class=\"0x030200\" link_speed=\"\" link_width=\"16\"/>").replace("link_speed=\"\"", "link_speed=\"8.0 GT/s PCIe\""), Rule::Incomplete),
        (cpu(&odd), Rule::ReadOtherwise),
        (cpu(&gpu(0, "")).replace("numaid=\"0\"", "numaid=\"-1\""), Rule::Numa),
        (cpu(&[linked(0), linked(1), gpu(2, "")].concat()), Rule::NvlinkMissing),
        (cpu(&[gpu(0, ""), gpu(1, "")].concat().replace("\"80\"", "\"90\"")), Rule::NoNvlink),
        (cpu(&format!("{}{narrow}", gpu(0, ""))), Rule::NarrowNic),
        (cpu(narrow).replace("200000", "1000"), Rule::NoGpu),
        (format!("{}{}", cpu(&gpu(0, "")), cpu("").repeat(256)), Rule::TooLarge),
        (cpu(&format!("{}{unequal}", gpu(0, ""))), Rule::Merged),
    ] {
        assert_eq!(check(&inside), [rule], "{inside}");
    }
}

/// This file makes every rule fire.
#[test]
fn no_rule_is_left_out() {
    let tests = include_str!("findings.rs");
    for rule in Rule::ALL {
        let name = format!("Rule::{rule:?}");
        let followed = |at: usize| tests[at + name.len()..].starts_with([',', ')']);
        let fired = tests.match_indices(&name).any(|(at, _)| followed(at));
        assert!(fired, "no test makes {name} fire");
    }
}

/// The costs of a port that is down, and of links that are there on one side only, are known.
#[test]
fn mended_machines() {
    let healthy = OnDisk::new(&fake(MACHINE)).probe();
    let down = OnDisk::new(&broken(|machine| {
        let folder = machine.links["sys/class/infiniband/mlx5_5"].clone();
        machine.file(format!("{folder}/ports/1/state"), "1: DOWN");
    }));
    let probe = down.probe();
    let finding = |rule| probe.findings.iter().find(|finding| finding.rule == rule);
    let mended = finding(Rule::PortDown)
        .unwrap()
        .effect
        .mended(&probe.document);
    assert!(mended.root.same_as(&healthy.document.root));
    let text = topology::xml::write(&OnDisk::new(&fake("dgx-1v")).probe().document);
    let link = "<nvlink target=\"0000:0b:00.0\" count=\"1\"";
    assert!(text.contains(link), "{text}");
    let document = topology::xml::parse("file.xml", text.as_bytes()).unwrap();
    let one_way = text.replacen(link, &link.replace("\"1\"", "\"2\""), 1);
    let one_way = topology::xml::parse("file.xml", one_way.as_bytes()).unwrap();
    let findings = findings::of_document(&one_way);
    assert_eq!(findings.len(), 1, "{findings:?}");
    let mended = findings[0].effect.mended(&one_way);
    assert!(!mended.root.same_as(&document.root) && !mended.root.same_as(&one_way.root));
    assert_eq!(findings::of_document(&mended), []);
}

/// Elements that lack the same are told in one.
#[test]
fn files_of_vendors_are_told_shortly() {
    let device = |number: u32| format!("<pci busid=\"0000:0{number}:00.0\" class=\"0x030200\"/>");
    let devices: String = (1..4).map(device).collect();
    let text =
        format!("<system version=\"1\"><cpu numaid=\"0\" arch=\"arm64\">{devices}</cpu></system>");
    let document = topology::xml::parse("file.xml", text.as_bytes()).unwrap();
    let findings = findings::of_document(&document);
    let told: Vec<(Rule, String)> = findings
        .iter()
        .map(|finding| (finding.rule, finding.device()))
        .collect();
    let all = "0000:01:00.0 and 2 more";
    assert_eq!(
        told,
        [Rule::MissingAttribute, Rule::Incomplete].map(|rule| (rule, all.to_owned()))
    );
}

/// The table of docs/probing.md is the code's.
#[test]
fn documented() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/probing.md");
    let text = std::fs::read_to_string(path).unwrap();
    let rows: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("| T"))
        .collect();
    let expected: Vec<String> = Rule::ALL
        .iter()
        .map(|rule| format!("| {} | {} | {} |", rule.id(), rule.title(), rule.advice()))
        .collect();
    assert_eq!(
        rows,
        expected,
        "the table should be:\n{}",
        expected.join("\n")
    );
}
