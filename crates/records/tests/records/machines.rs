//! Machines from listings, and texts that are none.

use records::Listings;
use topology::xml::{Document, Tag};

fn read(text: &str) -> Document {
    records::machine("test", text.as_bytes())
        .expect(text)
        .document
}

#[test]
fn names_processors_and_ports_are_those_of_the_listings() {
    let source = "\
GPU 0: NVIDIA B200 (UUID: GPU-1)
GPU 1: NVIDIA B200 (UUID: GPU-2)
\x1b[4m\tGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\x1b[0m
GPU0\t X \tNV18\tPIX\tSYS\t0-1,4\t0
GPU1\tNV18\t X \tSYS\tPIX\t2-3\t1
NIC0\tPIX\tSYS\t X \tSYS
NIC1\tSYS\tPIX\tSYS\t X

NIC Legend:

  NIC0: mlx5_0
  NIC1: mlx5_bond_1

Architecture:            x86_64
Vendor ID:               AuthenticAMD
CPU family:              26
Model:                   17
CA 'mlx5_0'
\tPort 1:
\t\tState: Active
\t\tPhysical state: LinkUp
\t\tRate: 800
CA 'mlx5_bond_1'
\tPort 1:
\t\tState: Down
";
    let document = read(source);
    let cpus: Vec<_> = document.root.children(Tag::Cpu).collect();
    assert_eq!(cpus.len(), 2);
    assert_eq!(cpus[0].get("affinity"), Some("00000013"));
    assert_eq!(cpus[0].get("vendor"), Some("AuthenticAMD"));
    assert_eq!(cpus[0].get("familyid"), Some("191"));
    let text = topology::xml::write(&document);
    assert!(text.contains("sm=\"100\""), "{text}");
    assert!(
        text.contains("name=\"mlx5_0\"") && text.contains("speed=\"800000\""),
        "{text}"
    );
    assert!(!text.contains("mlx5_bond_1"), "{text}");
    let assumed = records::machine("test", source.as_bytes()).unwrap().assumed;
    let words = [
        "GPUDirect RDMA is taken",
        "PCI links are taken",
        "mlx5_bond_1 is left out",
    ];
    assert_eq!(assumed.len(), words.len(), "{assumed:?}");
    for (assumed, words) in assumed.iter().zip(words) {
        assert!(assumed.starts_with(&format!("test: {words}")), "{assumed}");
    }
}

#[test]
fn bridges_are_switches_as_nccl_sees_them() {
    let text = "\
00:01.1 PCI bridge: Advanced Micro Devices, Inc. [AMD] Device 153e
\tNUMA node: 1
\tBus: primary=00, secondary=01, subordinate=05, sec-latency=0
\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16, ASPM L1
\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir- CmpltRedir- UpstreamFwd+
01:00.0 PCI bridge: Broadcom / LSI PEX890xx PCIe Gen 5 Switch (rev b0)
\tNUMA node: 1
\tBus: primary=01, secondary=02, subordinate=05, sec-latency=0
\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16
02:00.0 PCI bridge: Broadcom / LSI PEX890xx PCIe Gen 5 Switch (rev b0)
\tBus: primary=02, secondary=03, subordinate=03, sec-latency=0
\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16
02:01.0 PCI bridge: Broadcom / LSI PEX890xx PCIe Gen 5 Switch (rev b0)
\tBus: primary=02, secondary=04, subordinate=04, sec-latency=0
\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x8
03:00.0 3D controller: NVIDIA Corporation Device 2bb5 (rev a1)
\tNUMA node: 1
\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16
04:00.0 Infiniband controller: Mellanox Technologies MT2910 Family [ConnectX-7]
\tNUMA node: 1
\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16
05:00.0 Ethernet controller: Intel Corporation I210 Gigabit Network Connection
";
    let document = read(text);
    let expected = "\
<system version=\"1\">
  <cpu numaid=\"1\" arch=\"x86_64\" vendor=\"AuthenticAMD\" familyid=\"175\" modelid=\"17\">
    <pci busid=\"0000:01:00.0\" class=\"0x060400\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\">
      <pci busid=\"0000:03:00.0\" class=\"0x030200\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\">
        <gpu dev=\"0\" sm=\"120\" rank=\"0\" gdr=\"1\"/>
      </pci>
      <pci busid=\"0000:04:00.0\" class=\"0x020700\" link_speed=\"16.0 GT/s PCIe\" link_width=\"8\">
        <nic>
          <net name=\"mlx5_0\" dev=\"0\" latency=\"0\" speed=\"400000\" port=\"1\" \
guid=\"0xa088c20300ab0000\" maxconn=\"131072\" gdr=\"1\"/>
        </nic>
      </pci>
    </pci>
  </cpu>
</system>
";
    assert_eq!(topology::xml::write(&document), expected);
    let assumed = records::machine("test", text.as_bytes()).unwrap().assumed;
    assert_eq!(assumed.len(), 4, "{assumed:?}");
}

#[test]
fn contradictions_are_refused() {
    let cases = [
        (
            "GPU0 GPU1\nGPU0 X PIX\nGPU1 SYS X\n",
            "test:2:1: the matrix contradicts itself; found Pix from GPU0 to GPU1, and Sys back",
        ),
        (
            "GPU0 GPU1\nGPU0 X PIX\n",
            "test:1:1: the matrix ends early; found 1 of 2 rows",
        ),
        (
            "GPU0 GPU1\nGPU0 X near\n",
            "test:2:1: a cell of the matrix cannot be read; found near",
        ),
        (
            "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)\n",
            "test:1:1: these listings name no GPU's place",
        ),
        ("nothing", "test:1:1"),
    ];
    for (text, expected) in cases {
        let error = records::machine("test", text.as_bytes())
            .unwrap_err()
            .to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn redirection_and_narrow_links_are_findings() {
    let port = |bus: u8, behind: u8, control: &str| {
        format!(
            "{bus:02x}:0{behind}.0 PCI bridge: Broadcom / LSI PEX890xx PCIe Gen 5 Switch\n\
             \tBus: primary={bus:02x}, secondary={behind:02x}, subordinate=09, sec-latency=0\n\
             \t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16\n\
             \t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir{control} CmpltRedir{control}\n"
        )
    };
    let device = |bus: u8, kind: &str, now: &str| {
        format!(
            "{bus:02x}:00.0 {kind}\n\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16\n\
             \t\tLnkSta:\t{now}\n"
        )
    };
    let gpu = "3D controller: NVIDIA Corporation Device 2bb5";
    let nic = "Infiniband controller: Mellanox Technologies MT2910 Family [ConnectX-7]";
    let text = [
        port(0, 1, "-"),
        port(1, 2, "-"),
        port(2, 3, "+"),
        port(2, 4, "-"),
        // An idle GPU slows its link down, and does not give lanes up.
        device(3, gpu, "Speed 2.5GT/s, Width x16"),
        device(4, nic, "Speed 16GT/s (downgraded), Width x8 (downgraded)"),
        "CA 'mlx5_0'\n\tState: Active\n".to_owned(),
        "[    0.5] iommu: Default domain type: Translated\n".to_owned(),
    ];
    let machine = records::machine("test", text.concat().as_bytes()).unwrap();
    let findings = machine.findings();
    let found: Vec<String> = findings
        .iter()
        .map(|it| {
            format!(
                "{} {} {} {}",
                it.rule.id(),
                it.device(),
                it.seen,
                it.expected
            )
        })
        .collect();
    assert_eq!(
        found,
        [
            "T001 0000:04:00.0 x8 x16",
            "T002 0000:04:00.0 16.0 GT/s PCIe 32.0 GT/s PCIe",
            "T006 0000:02:03.0 redirection between GPU 0000:03:00.0 and NIC 0000:04:00.0 \
             no redirection",
            "T007 GPU 0000:03:00.0 the kernel's default domain translates \
             identity (pass-through)",
        ]
    );
}

#[test]
fn bridges_without_a_bus_hide_nothing() {
    let text = "\
00:01.0 PCI bridge: Intel Corporation Device 352a
\tBus: primary=00, secondary=00, subordinate=00, sec-latency=0
00:02.0 PCI bridge: Intel Corporation Device 352a
\tBus: primary=00, secondary=01, subordinate=01, sec-latency=0
01:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)
";
    let machine = records::machine("test", text.as_bytes()).unwrap();
    let written = topology::xml::write(&machine.document);
    assert!(written.contains("<gpu dev=\"0\" sm=\"90\""), "{written}");
    let told = |words: &str| machine.assumed.iter().any(|it| it.contains(words));
    assert!(
        told("NUMA node") && told("16 lanes"),
        "{:?}",
        machine.assumed
    );
}

/// Two sockets, each with a switch above two GPUs and an adapter; `-nn` is in one name.
const TREE: &str = "\
# lspci -tv
-+-[0000:80]-+-00.0  Advanced Micro Devices, Inc. [AMD] Device 1480
 |           +-01.1-[81-85]----00.0-[82-85]--+-00.0-[83]--+-00.0  NVIDIA Corporation GA102GL [RTX A6000]
 |           |                               |            \\-00.1  NVIDIA Corporation GA102 High Definition Audio Controller
 |           |                               +-01.0-[84]----00.0  NVIDIA Corporation Device 2230
 |           |                               \\-02.0-[85]----00.0  Mellanox Technologies MT28908 Family [ConnectX-6]
 |           \\-07.1--
 \\-[0000:00]-+-00.0  Advanced Micro Devices, Inc. [AMD] Device 1480
             +-00.2  Advanced Micro Devices, Inc. [AMD] Device 1481
             +-01.1-[01-05]----00.0-[02-05]--+-00.0-[03]----00.0  NVIDIA Corporation GA102GL [RTX A6000] [10de:2230]
             |                               +-01.0-[04]----00.0  NVIDIA Corporation GA102GL [RTX A6000]
             |                               +-02.0-[05]----00.0  Mellanox Technologies Device 101b
             |                               \\-1f.0-[06]--
             +-02.1-[07]----00.0  Mellanox Technologies MT42822 BlueField-2 SoC Management Interface
             \\-14.0  Advanced Micro Devices, Inc. [AMD] FCH SMBus Controller
";

/// Paths of GPUs and adapters: the bus ids from the CPU on, with its NUMA node first.
fn paths(document: &Document) -> Vec<String> {
    fn walk(element: &topology::xml::Element, above: &str, found: &mut Vec<String>) {
        for child in &element.children {
            let id = child.get("busid").or_else(|| child.get("numaid"));
            let path = match id {
                Some(id) => format!("{above} {id}"),
                None => above.to_owned(),
            };
            if matches!(child.tag, Tag::Gpu | Tag::Net) {
                found.push(path.trim().to_owned());
            }
            walk(child, &path, found);
        }
    }
    let mut found = Vec::new();
    walk(&document.root, "", &mut found);
    found
}

#[test]
fn a_tree_gives_the_switches_and_says_what_it_lacks() {
    let machine = records::machine("test", TREE.as_bytes()).unwrap();
    assert_eq!(
        paths(&machine.document),
        [
            "0 0000:01:00.0 0000:03:00.0",
            "0 0000:01:00.0 0000:04:00.0",
            "0 0000:01:00.0 0000:05:00.0",
            "0 0000:81:00.0 0000:83:00.0",
            "0 0000:81:00.0 0000:84:00.0",
            "0 0000:81:00.0 0000:85:00.0",
        ]
    );
    let written = topology::xml::write(&machine.document);
    assert!(
        written.contains("AuthenticAMD") && !written.contains("sm=\"80\""),
        "{written}"
    );
    let told = |words: &str| machine.assumed.iter().any(|it| it.contains(words));
    assert!(
        told("NUMA node") && told("16 lanes") && told("ACS"),
        "{:?}",
        machine.assumed
    );
}

#[test]
fn a_matrix_gives_a_tree_its_numa_nodes_and_other_listings_outrank_it() {
    let matrix = "\
\tGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity
GPU0\t X \tPIX\tSYS\tSYS\tPIX\tSYS\t0-1\t0
GPU1\tPIX\t X \tSYS\tSYS\tPIX\tSYS\t0-1\t0
GPU2\tSYS\tSYS\t X \tPIX\tSYS\tPIX\t2-3\t1
GPU3\tSYS\tSYS\tPIX\t X \tSYS\tPIX\t2-3\t1
NIC0\tPIX\tPIX\tSYS\tSYS\t X \tSYS
NIC1\tSYS\tSYS\tPIX\tPIX\tSYS\t X
";
    let link = "\
03:00.0 3D controller: NVIDIA Corporation GA102GL [RTX A6000] (rev a1)
\t\tLnkCap:\tPort #0, Speed 8GT/s, Width x4, ASPM L1
";
    let text = format!("{TREE}{matrix}{link}");
    let machine = records::machine("test", text.as_bytes()).unwrap();
    let paths = paths(&machine.document);
    assert_eq!(paths.len(), 6, "{paths:?}");
    assert_eq!(paths[0], "0 0000:01:00.0 0000:03:00.0");
    assert_eq!(paths[3], "1 0000:81:00.0 0000:83:00.0");
    let written = topology::xml::write(&machine.document);
    assert!(written.contains("link_width=\"4\""), "{written}");
    let told = |words: &str| machine.assumed.iter().any(|it| it.contains(words));
    assert!(!told("NUMA node") && !told("ACS"), "{:?}", machine.assumed);
}

#[test]
fn a_tree_without_names_has_the_gpus_that_nvidia_smi_names() {
    let text = "\
-[0000:00]-+-00.0
           +-01.0-[01]--+-00.0
           |            \\-00.1
           \\-02.0-[02]----00.0
|   0  NVIDIA GeForce RTX 5090        Off |   00000000:01:00.0 Off |                  N/A |
|   1  NVIDIA GeForce RTX 5090        Off |   00000000:02:00.0 Off |                  N/A |
";
    let document = read(text);
    assert_eq!(paths(&document), ["0 0000:01:00.0", "0 0000:02:00.0"]);
    let error = records::machine("test", b"-[0000:00]-+-00.0\n           \\-01.0\n");
    let error = error.unwrap_err().to_string();
    assert!(error.contains("name no GPU's place"), "{error}");
}

/// Two GPUs under one bridge.
const PAIR: &str = "\
\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID
GPU0\t X \tPIX\t0-23\t0\t\tN/A
GPU1\tPIX\t X \t0-23\t0\t\tN/A
";

#[test]
fn forms_in_which_people_paste_say_the_same() {
    let plain = topology::xml::write(&read(PAIR));
    let each = |form: &dyn Fn(&str) -> String| PAIR.lines().map(form).collect::<String>();
    let forms = [
        each(&|line| format!("> {line}\n")),
        each(&|line| format!(">> {line}\r\n")),
        each(&|line| format!("2026-11-28T10:00:00.123456Z {line}\n")),
        each(&|line| format!("[2026-11-28 10:00:00] {line}\n")),
        format!("<pre><code>$ nvidia-smi topo -m\n{PAIR}</code></pre>\n"),
        format!("$ nvidia-smi topo -m {}", PAIR.trim_start()),
        PAIR.replacen(" ID\n", "\n ID\n", 1),
        PAIR.replace('\t', "&#9;"),
    ];
    for form in forms {
        assert_eq!(topology::xml::write(&read(&form)), plain, "{form}");
    }
}

#[test]
fn reports_name_gpus_and_processors_in_prose() {
    let text = |more: &str| {
        let machine = records::machine("test", format!("{more}{PAIR}").as_bytes()).unwrap();
        let assumed = machine.assumed.join("\n");
        (topology::xml::write(&machine.document), assumed)
    };
    let amd = "- **CPU:** AMD Ryzen 9 9950X3D 16-Core Processor (32 threads)\n";
    let each = "- **GPU 0:** NVIDIA GeForce RTX 5090, 32607 MiB\n- **GPU 1:** NVIDIA GeForce RTX 5090 | 32607 MiB\n";
    for names in [each, "GPU 0,1: NVIDIA GeForce RTX 5090\n"] {
        let (machine, assumed) = text(&format!("{amd}{names}"));
        assert_eq!(machine.matches("sm=\"120\"").count(), 2, "{machine}");
        assert!(machine.contains("AuthenticAMD"), "{machine}");
        assert!(!assumed.contains("the GPUs are"), "{assumed}");
    }
    // What is said of one, or of a number of them, holds for all, and is said to be so.
    for (names, said) in [
        (
            "GPU 0: NVIDIA GeForce RTX 5090\n",
            "GPUs without a name are taken for NVIDIA GeForce RTX 5090",
        ),
        (
            "## 2x RTX 5090 on one Turin\n",
            "the GPUs are taken for RTX 5090, as",
        ),
        ("My box: 2 × RTX 5090\n", "the GPUs are taken for RTX 5090"),
    ] {
        let (machine, assumed) = text(names);
        assert_eq!(machine.matches("sm=\"120\"").count(), 2, "{machine}");
        assert!(assumed.contains(said), "{assumed}");
    }
    // Another number is of another machine.
    let (machine, assumed) = text("beside our 8x H100 node\n");
    assert!(
        machine.contains("sm=\"80\"") && assumed.contains("taken for sm 80"),
        "{assumed}"
    );
}

#[test]
fn grace_is_known_by_its_gpus() {
    let matrix = "\
\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID
GPU0\t X \tNV18\t0-71\t0,3-9\t2
GPU1\tNV18\t X \t72-143\t1,19-25\t10
";
    for (text, links) in [
        (format!("GPU 0,1: NVIDIA GB300\n{matrix}"), "count=\"5\""),
        (matrix.to_owned(), "count=\"10\""),
    ] {
        let machine = topology::xml::write(&read(&text));
        assert!(
            machine.contains("arm64") && !machine.contains("vendor"),
            "{machine}"
        );
        assert_eq!(machine.matches("c2c bw=\"44712\"").count(), 2, "{machine}");
        assert!(machine.contains(links), "{machine}");
    }
    let xeon = format!("Architecture: x86_64\nVendor ID: GenuineIntel\n{matrix}");
    assert!(topology::xml::write(&read(&xeon)).contains("x86_64"));
}

#[test]
fn a_second_machine_is_not_left_out_in_silence() {
    let machine = records::machine("test", format!("node1:\n{PAIR}\nnode2:\n{PAIR}").as_bytes());
    let assumed = machine.unwrap().assumed;
    assert!(
        assumed.iter().any(|it| it.contains("left out: 1;")),
        "{assumed:?}"
    );
}

#[test]
fn listings_in_several_files_are_one_machine() {
    let lscpu = "Vendor ID: AuthenticAMD\nCPU family: 26\nModel: 2\n";
    let files = [
        ("cpu.txt", lscpu.as_bytes()),
        ("matrix.txt", PAIR.as_bytes()),
    ];
    let joined = Listings::read_all(&files).unwrap().unwrap();
    assert!(joined.has_places());
    assert_eq!(
        joined,
        Listings::read("all", format!("{lscpu}{PAIR}").as_bytes())
            .unwrap()
            .unwrap()
    );
    let broken = PAIR.replace("PIX", "PXX");
    let files = [
        ("cpu.txt", lscpu.as_bytes()),
        ("matrix.txt", broken.as_bytes()),
    ];
    let error = Listings::read_all(&files).unwrap_err().to_string();
    assert!(error.starts_with("matrix.txt:2:"), "{error}");
}

#[test]
fn peer_access_is_part_of_the_machine() {
    let access = |cells: [&str; 2]| {
        let [one, other] = cells;
        format!("{PAIR}\n \tGPU0\tGPU1\n GPU0\tX\t{one}\n GPU1\t{other}\tX\n")
    };
    let named = "GPU 0,1: NVIDIA GeForce RTX 4090\n";
    for (cells, lists) in [
        (["OK", "OK"], vec![]),
        (["CNS", "CNS"], vec!["0:1", "1:0"]),
        (["OK", "DR"], vec!["1:0"]),
    ] {
        let machine =
            records::machine("test", format!("{named}{}", access(cells)).as_bytes()).unwrap();
        let system = topology::System::from_document(&machine.document).unwrap();
        let gpus = system.gpus().flat_map(|(_, gpu)| {
            gpu.no_p2p
                .iter()
                .map(|other| format!("{}:{other}", gpu.dev))
        });
        assert_eq!(gpus.collect::<Vec<_>>(), lists);
        let doubts = machine.assumed.iter().any(|it| it.contains("peer access"));
        assert!(!doubts, "{:?}", machine.assumed);
    }
    // Cards of owners are doubted by name, others are not.
    for (name, doubted) in [
        ("NVIDIA GeForce RTX 4090", true),
        ("RTX 4000 Ada Generation", false),
    ] {
        let text = format!("GPU 0,1: {name}\n{PAIR}");
        let assumed = records::machine("test", text.as_bytes()).unwrap().assumed;
        assert_eq!(
            assumed.iter().any(|it| it.contains("peer access is taken")),
            doubted,
            "{name}"
        );
    }
}

#[test]
fn switches_that_a_matrix_cannot_show_are_no_finding() {
    let matrix = |gpus: usize, cell: &str| {
        let names: Vec<String> = (0..gpus).map(|it| format!("GPU{it}")).collect();
        let row = |own: usize| {
            let cells = (0..gpus).map(|it| if it == own { "X" } else { cell });
            format!(
                "GPU{own}\t{}\t0-63\t0\n",
                cells.collect::<Vec<_>>().join("\t")
            )
        };
        let rows: String = (0..gpus).map(row).collect();
        format!(
            "\t{}\tCPU Affinity\tNUMA Affinity\n{rows}",
            names.join("\t")
        )
    };
    for (gpus, cell, found) in [(8, "NV12", 0), (8, "NODE", 0), (4, "PHB", 0), (8, "PHB", 1)] {
        let machine = records::machine("test", matrix(gpus, cell).as_bytes()).unwrap();
        let findings = machine.findings();
        let flat = findings.iter().filter(|it| it.rule == findings::Rule::Flat);
        assert_eq!(flat.count(), found, "{gpus} {cell}");
    }
}

#[test]
fn pages_say_the_version_and_variables() {
    let said = |lines: &str| {
        let machine = records::machine("test", format!("{PAIR}{lines}").as_bytes()).unwrap();
        let set = machine
            .said
            .set
            .iter()
            .map(|(name, value)| format!("{name}={value}"));
        (machine.said.nccl, set.collect::<Vec<_>>().join(" "))
    };
    for (lines, version, set) in [
        ("[pip3] nvidia-nccl-cu13==2.29.7\n", Some("2.29.7"), ""),
        (
            "nvidia-nccl-cu12          2.27.5                   pypi\n",
            Some("2.27.5"),
            "",
        ),
        ("NCCL version 2.21.5+cuda12.4\n", Some("2.21.5"), ""),
        ("nvidia-nccl-cu12 @ file:///x\n", None, ""),
        (
            "export NCCL_ALGO=\"Ring\"\n- `NCCL_P2P_LEVEL=SYS`\n",
            None,
            "NCCL_ALGO=Ring",
        ),
        (
            "  -x NCCL_IB_HCA=mlx5_0,mlx5_1\nNCCL_TOPO_FILE=/x\n",
            None,
            "NCCL_IB_HCA=mlx5_0,mlx5_1",
        ),
        (
            "try NCCL_ALGO=Ring\nNCCL_ALGO=Ring python train.py\n",
            None,
            "",
        ),
        ("NCCL_ALGO=Ring\nNCCL_ALGO=Tree\n", None, "NCCL_ALGO=Tree"),
    ] {
        assert_eq!(
            said(lines),
            (version.map(str::to_owned), set.to_owned()),
            "{lines}"
        );
    }
    // They alone are no listing.
    assert!(
        Listings::read("test", b"NCCL_ALGO=Ring\n")
            .unwrap()
            .is_none()
    );
}

#[test]
fn what_decides_is_said_and_what_is_amds_is_refused_by_name() {
    let assumed = |more: &str| {
        let machine = records::machine("test", format!("{PAIR}{more}").as_bytes()).unwrap();
        machine.assumed.join(" ")
    };
    assert!(assumed("").contains("two GPUs on AMD"));
    assert!(!assumed("Vendor ID: AuthenticAMD\n").contains("two GPUs on AMD"));
    for text in [
        "$ amd-smi topology\nACCESS TABLE:\n",
        "= ROCm System Management Interface =\n GPU0 GPU1\nGPU0 0 1\n",
    ] {
        let error = records::machine("test", text.as_bytes())
            .unwrap_err()
            .to_string();
        assert!(error.contains("RCCL decides otherwise"), "{error}");
    }
}
