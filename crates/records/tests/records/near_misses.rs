//! Lines of prose that must not change the machine, beside those that must.

/// Two GPUs at two sockets.
const PAIR: &str = "\
\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity
GPU0\t X \tSYS\t0-31\t0
GPU1\tSYS\t X \t32-63\t1
";

/// The machine of a text, and what is assumed of it.
fn read(text: &str) -> (String, String) {
    let machine = records::machine("test", text.as_bytes()).expect(text);
    let assumed = machine.assumed.join("\n");
    (topology::xml::write(&machine.document), assumed)
}

/// Checks that none of these lines changes the machine or what is assumed.
fn change_nothing(lines: &[&str]) {
    let plain = read(PAIR);
    for line in lines {
        for text in [format!("{line}\n{PAIR}"), format!("* {line}\n{PAIR}")] {
            assert_eq!(read(&text), plain, "{line}");
        }
    }
}

#[test]
fn gpus_of_other_machines_are_not_those_of_this_one() {
    change_nothing(&[
        "I plan to upgrade to 2x RTX 5090 next month",
        "We do not have 2x H100",
        "We don't have 2x H100",
        "I replaced 2x RTX 3090 by these",
        "It is slower than 2 H100 in my other machine",
        "benchmark: 2x 4090 reach 25 GB/s",
        "2x 4090 reach 25 GB/s",
        "Graphics: no H100, sorry",
        "GPU: upgrade from T4 planned",
        "GPU: T4 or better",
        "GPUs: 2x T4 (old)",
        "NVIDIA H100 costs too much",
        "NVIDIA H100 is fast",
        "2 L4 load balancers in front",
        "2x RTX 5090 would be cheaper",
        "2x RTX 4090?",
        "2x RTX 4090 and 2x H100",
        "4x H100",
        "GPU: 4x H100",
        "GPU: H100 (4x)",
        "Someone told me that 2x H100 in one box help",
        "My friend's box (2x H100)",
        "2 A2000 forms",
        "2x A4 paper",
        "Tutorial: 2x H100",
        "See page 2 H100",
    ]);
}

#[test]
fn clear_forms_name_the_gpus() {
    for (line, name, sm) in [
        ("2x RTX 4090", "RTX 4090", 89),
        ("2 × H100 80GB", "H100 80GB", 90),
        (
            "GPUs: 2 * H100 80GB HBM3, driver 550.90",
            "H100 80GB HBM3",
            90,
        ),
        ("Our box (2x EPYC 9354, 2x L40S):", "L40S", 89),
        ("AMD EPYC 9354, 2x L40S", "L40S", 89),
        ("My current machine has 2 H100 with 512 GB.", "H100", 90),
        ("GPU: NVIDIA H100 PCIe", "NVIDIA H100 PCIe", 90),
        ("GPU: H100 (2x)", "H100", 90),
        ("Graphics: 2x Tesla T4", "Tesla T4", 75),
        ("Graphics card: RTX 4090", "RTX 4090", 89),
        ("| **GPUs** | 2× NVIDIA L40S (48 GB) |", "NVIDIA L40S", 89),
        ("2x RTX 4090, no NVLink", "RTX 4090", 89),
        ("2x RTX 4090 without P2P", "", 80),
        ("2x RTX 6000 Ada Generation", "RTX 6000 Ada Generation", 89),
        ("2x NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB", 80),
        ("A10G x2 on one host", "A10G", 86),
        ("2x3090", "RTX 3090", 86),
        ("NVIDIA RTX A6000", "NVIDIA RTX A6000", 86),
        (
            "- GPUs: 2x NVIDIA RTX PRO 6000 Blackwell Workstation Edition is",
            "",
            80,
        ),
        (
            "* GPUs: 2x NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
            "NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
            120,
        ),
    ] {
        let (machine, assumed) = read(&format!("{line}\n{PAIR}"));
        let sm = format!("sm=\"{sm}\"");
        assert_eq!(machine.matches(&sm).count(), 2, "{line}: {machine}");
        let said = format!("the GPUs are taken for {name}, as the text says");
        assert_eq!(assumed.contains(&said), !name.is_empty(), "{line}: {said}");
    }
}

#[test]
fn a_kind_in_prose_has_alternatives_and_fits_the_nvlinks() {
    let kinds = [
        ("T4", 75, 0),
        ("A10", 86, 0),
        ("RTX 3090", 86, 4),
        ("V100", 70, 6),
        ("A100", 80, 12),
        ("H100", 90, 18),
        ("B200", 100, 18),
        ("B300", 103, 18),
        ("RTX 5090", 120, 0),
        ("L40S", 89, 0),
    ];
    for (name, sm, most) in kinds {
        for links in [0, 4, 12, 18] {
            let near = match links {
                0 => "SYS".to_owned(),
                _ => format!("NV{links}"),
            };
            let text = format!("2x {name}\n{}", PAIR.replace("SYS", &near));
            let machine = records::machine("test", text.as_bytes()).unwrap();
            let written = topology::xml::write(&machine.document);
            let assumed = machine.assumed.join("\n");
            let is_taken = assumed.contains(&format!("taken for {name}, as the text says"));
            assert_eq!(is_taken, links <= most, "{name} with {links}: {assumed}");
            if is_taken {
                assert!(written.contains(&format!("sm=\"{sm}\"")), "{written}");
                let mut others = machine.alternatives.iter();
                let other =
                    others.find(|it| it.assumed == name && it.settled_by == "nvidia-smi -L");
                let other = topology::xml::write(&other.expect(name).document);
                assert!(!other.contains(&format!("sm=\"{sm}\"")), "{other}");
            }
        }
    }
}

#[test]
fn processors_of_others_are_not_those_of_this_machine() {
    change_nothing(&[
        "PSU: 80+ Gold 1200W",
        "PSU: 80+ Gold 6200W",
        "PSU: 1200W Platinum 8480 rated",
        "2 × Gold 6330",
        "my old box was an EPYC 7742",
        "upgrade to Xeon Gold 6338 later",
        "upgrade to Gold 6338 later",
        "CPU: no EPYC yet",
        "Intel NIC, Gold support",
        "EPYC 9354 beside our Xeon Gold 6148",
        "Is that an EPYC 7742?",
    ]);
    for (line, name, family, model) in [
        ("CPU: amd epyc 9654", "EPYC 9654", 175, 17),
        ("CPU: 2x AMD EPYC 9354 32-Core", "EPYC 9354", 175, 17),
        ("two EPYC 7R32", "EPYC 7R32", 143, 49),
        ("EPYC 9575F", "EPYC 9575F", 191, 2),
        ("Intel(R) Xeon(R) Gold 6148 CPU", "Xeon Gold 6148", 6, 85),
        ("dual Xeon Platinum 8480+", "Xeon Platinum 8480", 6, 143),
        ("2 × Intel Gold 6330", "Xeon Gold 6330", 6, 106),
    ] {
        let (machine, assumed) = read(&format!("{line}\n{PAIR}"));
        let ids = format!("familyid=\"{family}\" modelid=\"{model}\"");
        assert!(machine.contains(&ids), "{line}: {machine}");
        let is_amd = family > 6;
        assert_eq!(machine.contains("AuthenticAMD"), is_amd, "{line}");
        let said = format!("the processor is taken for {name}, as the text says");
        assert!(
            assumed.contains(&said) && assumed.contains("lscpu"),
            "{assumed}"
        );
    }
    // Numbers of no processor tell the vendor alone.
    for line in ["EPYC 96541", "EPYC 9654W", "EPYC 9654ABC", "AMD EPYC Milan"] {
        let (machine, assumed) = read(&format!("{line}\n{PAIR}"));
        assert!(machine.contains("AuthenticAMD"), "{line}: {machine}");
        assert!(assumed.contains("for the text says `EPYC`;"), "{assumed}");
    }
    // A listing of the processor is no prose.
    let (machine, assumed) = read(&format!("Model name: AMD EPYC 7R32\n{PAIR}"));
    assert!(
        machine.contains("familyid=\"143\" modelid=\"49\""),
        "{machine}"
    );
    assert!(!assumed.contains("the processor"), "{assumed}");
}

#[test]
fn links_of_other_devices_are_not_those_of_gpus() {
    change_nothing(&[
        "GPU beside a PCIe 4.0 x4 NVMe",
        "Sound card PCIe x1",
        "Graphics card PCIe x4",
        "card reader: USB gen 2 x1",
        "SSD card: Gen4 x4",
        "The GPU generates x8 faster",
        "The GPU generation is x8",
        "GPU riser: PCIe 3.0 x16 on slot 1, gen4 x8 on slot 2",
        "GPUs in PCIe 5.0 x16 slots that run at x8",
        "GPUs and NICs: PCIe 4.0 x8",
        "GPUs with ConnectX-7 in PCIe 4.0 x8",
        "GPU 1 in a PCIe x8 slot",
        "GPU1: PCIe gen4 x8",
        "GPUs would be at PCIe 4.0 x8",
        "PCIe 4.0 x8",
    ]);
    for (line, speed) in [
        ("GPUs: 2x RTX 5090, PCIe Gen5 x8 per GPU", "32.0"),
        ("GPUs: 2x RTX 5090, gen 4 x8", "16.0"),
        ("GPU link: PCIe-Gen4 @ x8", "16.0"),
        ("PCIe link: PCIe 4.0 x8 per GPU", "16.0"),
        ("GPUs in PCIe 3.0 x8 slots", "8.0"),
        ("| **PCIe Link** | Gen4 x8 per GPU (16 GT/s) |", "16.0"),
        ("2x RTX 4090 in PCIe5.0 x8", "16.0"),
    ] {
        let (machine, assumed) = read(&format!("{line}\n{PAIR}"));
        let link = format!("link_speed=\"{speed} GT/s PCIe\" link_width=\"8\"");
        assert!(machine.matches(&link).count() >= 2, "{line}: {machine}");
        assert!(
            assumed.contains("taken for 8 lanes, as the text says"),
            "{line}: {assumed}"
        );
    }
}

#[test]
fn prose_of_a_second_machine_is_not_of_the_first() {
    let first = format!("Node A\n{PAIR}");
    let plain = read(&format!("{first}Node B:\n{PAIR}"));
    for said in [
        "2x H100, each GPU PCIe Gen3 x4, AMD EPYC 7742",
        "GPUs: 2x H100",
        "GPUs at PCIe Gen3 x4",
        "CPU: AMD EPYC 7742",
    ] {
        let behind = [
            format!("{first}{said}\n{PAIR}"),
            format!("{first}Node B:\n{PAIR}{said}\n"),
        ];
        for text in behind {
            assert_eq!(read(&text), plain, "{text}");
        }
        // With one matrix it counts on both sides.
        assert_ne!(read(&format!("{first}{said}\n")), read(&first), "{said}");
        assert_ne!(read(&format!("{said}\n{PAIR}")), read(&first), "{said}");
        let before = read(&format!("{said}\n{PAIR}Node B:\n{PAIR}"));
        assert_ne!(before, plain, "{said}");
    }
}
