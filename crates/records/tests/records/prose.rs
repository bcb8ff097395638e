//! Prose and other listings beside a matrix, and texts without one.

use records::Listings;

use crate::pasted::PAIR;

/// The machine of a text beside the pair, and what is assumed of it.
fn beside(more: &str) -> (String, String) {
    let machine = records::machine("test", format!("{more}{PAIR}").as_bytes()).expect(more);
    let assumed = machine.assumed.join("\n");
    (topology::xml::write(&machine.document), assumed)
}

#[test]
fn other_commands_and_samples_of_cuda_name_gpus() {
    let query = "index, name, pci.bus_id\n0, NVIDIA A10G, 00000000:00:1B.0\n1, NVIDIA A10G, 00000000:00:1C.0\n";
    let sample = "\
Device: 0, NVIDIA GeForce RTX 3090, pciBusID: 1b, pciDeviceID: 0, pciDomainID:0
Device: 1, NVIDIA GeForce RTX 3090, pciBusID: 3d, pciDeviceID: 0, pciDomainID:0
Device=0 CANNOT Access Peer Device=1
Device=1 CANNOT Access Peer Device=0
";
    for (text, id) in [(query, "0000:00:1c.0"), (sample, "0000:3d:00.0")] {
        let (machine, assumed) = beside(text);
        assert_eq!(machine.matches("sm=\"86\"").count(), 2, "{machine}");
        assert!(machine.contains(id), "{machine}");
        assert!(!assumed.contains("the GPUs are"), "{assumed}");
        assert_eq!(machine.contains("no_p2p"), text == sample, "{machine}");
    }
    let simple = "> Peer access from NVIDIA GeForce RTX 4090 (GPU0) -> NVIDIA GeForce RTX 4090 (GPU1) : No\n";
    assert!(beside(simple).0.contains("no_p2p"), "{simple}");
    // CUDA counts others than nvidia-smi does.
    let other = sample.replace("pciBusID: 1b", "pciBusID: 41");
    let (machine, assumed) = beside(&other);
    assert!(!machine.contains("no_p2p"), "{machine}");
    assert!(
        assumed.contains("taken for NVIDIA GeForce RTX 3090, as"),
        "{assumed}"
    );
}

#[test]
fn links_are_as_wide_as_the_text_says() {
    let width = |text: &str| {
        let (machine, assumed) = beside(text);
        (machine.matches("link_width=\"8\"").count(), assumed)
    };
    let each = "GPU 0: NVIDIA RTX A6000, PCIe gen4 x8\nGPU 1: NVIDIA RTX A6000, PCIe gen4 x16\n";
    assert_eq!(width(each).0, 1);
    let (wide, assumed) = width("* GPUs: 2x RTX 5090, PCIe Gen5 x8 per GPU\n");
    assert!(wide >= 2, "{wide}");
    assert!(
        assumed.contains("taken for 8 lanes, as the text says"),
        "{assumed}"
    );
    for of_others in [
        "NVMe: PCIe 4.0 x8\n",
        "GPUs in PCIe 4.0 x8 slots\nGPU 1 in a PCIe x16 slot\n",
    ] {
        let (narrow, assumed) = width(of_others);
        assert_eq!(narrow, 0, "{of_others}");
        assert!(assumed.contains("taken for 16 lanes of"), "{assumed}");
    }
    // Generations below 3 are those of a GPU that is idle.
    let (machine, _) = beside("GPU 0,1: NVIDIA RTX A6000, PCIe gen1 x16\n");
    assert!(
        machine.contains("link_speed=\"16.0 GT/s PCIe\""),
        "{machine}"
    );
}

#[test]
fn the_text_of_lstopo_has_places() {
    let text = "\
Machine (503GB total)
  Package L#0
    NUMANode L#0 (P#0 251GB)
    HostBridge
      PCIBridge
        PCIBridge
          PCI 1a:00.0 (3D)
        PCIBridge
          PCI 1b:00.0 (3D)
      PCIBridge
        PCI 03:00.0 (VGA)
          GPU \"card0\"
  Package L#1
    NUMANode L#1 (P#1 252GB)
    HostBridge
      PCIBridge
        PCI 88:00.0 (InfiniBand)
          OpenFabrics \"mlx5_0\"
        PCI 89:00.0 (VGA)
          CoProc(CUDA) \"cuda2\"
";
    let facts = Listings::read("test", text.as_bytes()).unwrap().unwrap();
    let matrix = facts.matrix.as_ref().unwrap();
    let names: Vec<&str> = matrix.devices.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["GPU0", "GPU1", "GPU2", "mlx5_0"]);
    use records::matrix::Nearness::{Itself, Pix, Sys};
    assert_eq!(matrix.nearness[0], [Itself, Pix, Sys, Sys]);
    assert_eq!(matrix.nearness[2], [Sys, Sys, Itself, Pix]);
    let machine = records::machine("test", text.as_bytes()).unwrap();
    assert!(
        machine
            .assumed
            .iter()
            .any(|it| it.contains("no NVLinks, which lstopo"))
    );
    let other = text
        .replace("HostBridge", "x")
        .replace("(3D)", "(")
        .replace("CUDA", "");
    let _ = records::machine("test", other.as_bytes());
}

#[test]
fn numa_nodes_outrank_chains_of_near_devices() {
    let matrix = "\
\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity
GPU0\t X \tSYS\tNODE\t0-15\t0
GPU1\tSYS\t X \tNODE\t16-31\t1
NIC0\tNODE\tNODE\t X
";
    let machine = records::machine("test", matrix.as_bytes()).unwrap();
    let text = topology::xml::write(&machine.document);
    assert_eq!(text.matches("<cpu ").count(), 2, "{text}");
    assert!(
        machine
            .assumed
            .iter()
            .any(|it| it.contains("by GPU1 and NIC0")),
        "{:?}",
        machine.assumed
    );
}

#[test]
fn a_text_without_a_machine_says_so() {
    for (text, words) in [
        ("We have four of them.\n", "found `We have four of them.`"),
        (
            "GPU0GPU1CPU Affinity\nGPU0XNODE0-31\nGPU1NODEX0-31\n",
            "columns of the matrix are not parted",
        ),
        (
            "n1:7:7 [0] NCCL INFO Bootstrap : Using eth0\n",
            "a log of NCCL does not say",
        ),
    ] {
        let why = records::machine("test", text.as_bytes())
            .unwrap_err()
            .to_string();
        assert!(why.contains(words) && why.contains("topo -m"), "{why}");
    }
}

#[test]
fn what_is_assumed_has_the_machines_of_other_values() {
    let others = |more: &str| {
        let text = format!("{more}{PAIR}");
        let machine = records::machine("test", text.as_bytes()).unwrap();
        let texts = machine.alternatives.iter();
        let texts = texts.map(|it| (it.otherwise.clone(), topology::xml::write(&it.document)));
        let texts: Vec<_> = texts.collect();
        (machine, texts)
    };
    let (machine, found) = others("GPU 0,1: NVIDIA GeForce RTX 3090\n");
    for (otherwise, words) in [
        ("AMD (EPYC, Ryzen)", "vendor=\"AuthenticAMD\""),
        ("8 lanes of each GPU", "link_width=\"8\""),
        ("no peer access (the driver refuses it)", "no_p2p=\"1\""),
    ] {
        let other = found.iter().find(|it| it.0 == otherwise).expect(otherwise);
        assert!(other.1.contains(words), "{otherwise}: {}", other.1);
        assert!(!topology::xml::write(&machine.document).contains(words));
    }
    // What is known has no other value.
    let known = "GPU 0,1: NVIDIA RTX A6000, PCIe gen4 x16\nVendor ID: AuthenticAMD\nCPU family: 25\nModel: 33\n";
    assert_eq!(others(known).1, []);
}

#[test]
fn all_listings_of_a_port_are_of_one_adapter() {
    let matrix = "\
\tGPU0\tNIC0\tNIC1
GPU0\t X \tPIX\tPIX
NIC0\tPIX\t X \tPIX
NIC1\tPIX\tPIX\t X

NIC Legend:

  NIC0: mlx5_0
  NIC1: mlx5_1
link mlx5_0/1 state ACTIVE physical_state LINK_UP netdev ens1
link mlx5_1/1 state ACTIVE physical_state LINK_UP netdev ens2
CA 'mlx5_0'
\tPort 1:
\t\tState: Active
\t\tRate: 100
";
    let machine = records::machine("test", matrix.as_bytes()).unwrap();
    let text = topology::xml::write(&machine.document);
    assert_eq!(text.matches("speed=\"100000\"").count(), 1, "{text}");
    let told = |words: &str| machine.assumed.iter().any(|it| it.contains(words));
    assert!(told("mlx5_1 is taken for"), "{:?}", machine.assumed);
}

#[test]
fn partitions_and_versions_are_said() {
    let list =
        "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-1)\n  MIG 3g.20gb     Device  0: (UUID: MIG-1)\n";
    assert!(beside(list).1.contains("partitioned (MIG)"));
    let version = |line: &str| {
        let text = format!("{line}\n{PAIR}");
        records::machine("test", text.as_bytes()).unwrap().said.nccl
    };
    assert_eq!(version("* NCCL 2.30.4").as_deref(), Some("2.30.4"));
    assert_eq!(version("- **NCCL:** 2.27.5").as_deref(), Some("2.27.5"));
    assert_eq!(version("NCCL 2.27 hangs here"), None);
}
