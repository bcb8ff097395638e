//! Machines from listings, and texts that are none.

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
