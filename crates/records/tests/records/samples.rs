//! Samples of CUDA, rows of queries and texts of lstopo that are not all of one machine.

use topology::xml::{Document, Element, Tag};

fn read(text: &str) -> Document {
    let read = records::machine("pasted", text.as_bytes());
    read.expect(text).document
}

/// The values of an attribute of all GPUs that have it.
fn values(document: &Document, attribute: &str) -> Vec<String> {
    fn walk(element: &Element, attribute: &str, found: &mut Vec<String>) {
        if element.tag == Tag::Gpu {
            found.extend(element.get(attribute).map(str::to_owned));
        }
        for child in &element.children {
            walk(child, attribute, found);
        }
    }
    let mut found = Vec::new();
    walk(&document.root, attribute, &mut found);
    found
}

const MATRIX: &str = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\n\
                      GPU0\t X \tPIX\t0-31\t0\nGPU1\tPIX\t X \t0-31\t0\n";

#[test]
fn samples_may_list_their_devices_twice() {
    let query = "Device 0: \"NVIDIA GeForce RTX 4090\"\nDevice 1: \"NVIDIA GeForce RTX 4090\"\n";
    let sample = "Device: 0, NVIDIA GeForce RTX 4090, pciBusID: 1, pciDeviceID: 0, pciDomainID:0\n\
                  Device: 1, NVIDIA GeForce RTX 4090, pciBusID: 2, pciDeviceID: 0, pciDomainID:0\n\
                  Device=0 CANNOT Access Peer Device=1\nDevice=1 CANNOT Access Peer Device=0\n";
    for text in [sample.to_owned(), format!("{query}{sample}")] {
        let document = read(&format!("{text}{MATRIX}"));
        assert_eq!(values(&document, "no_p2p").len(), 2, "{text}");
    }
}

#[test]
fn cudas_order_of_unlike_gpus_is_no_order_of_places() {
    let query = "Device 0: \"NVIDIA GeForce RTX 4090\"\nDevice 1: \"NVIDIA GeForce RTX 3090\"\n";
    let document = read(&format!("{query}{MATRIX}"));
    let kinds = values(&document, "sm");
    assert!(!kinds.contains(&"89".to_owned()), "{kinds:?}");
}

#[test]
fn a_row_of_a_query_begins_a_name_as_nvidia_smi_does() {
    for line in ["2, 4 or 8 H100 per node are offered", "1, A100, 312"] {
        let kinds = |text: &str| {
            let document = read(text);
            values(&document, "sm").join(" ")
        };
        assert_eq!(kinds(&format!("{line}\n{MATRIX}")), kinds(MATRIX), "{line}");
    }
    let document = read(&format!("0, NVIDIA A10\n1, NVIDIA A10\n{MATRIX}"));
    assert_eq!(values(&document, "sm"), ["86", "86"]);
}

/// Two cards of NVIDIA beside the graphics of a processor.
const LSTOPO: &str = "Machine (63GB total)\n  Package L#0\n    NUMANode L#0 (P#0 63GB)\n  HostBridge\n    PCI 00:02.0 (VGA)\n      \
                      GPU \"renderD128\"\n    PCIBridge\n      PCI 01:00.0 (VGA)\n        GPU \"renderD129\"\n        \
                      CoProc(CUDA) \"cuda0\"\n    PCIBridge\n      PCI 02:00.0 (VGA)\n        CoProc(CUDA) \"cuda1\"\n";

#[test]
fn graphics_of_a_processor_are_no_gpu_and_a_second_machine_is_another_one() {
    for text in [LSTOPO.to_owned(), LSTOPO.repeat(2)] {
        assert_eq!(values(&read(&text), "dev"), ["0", "1"]);
    }
    // Listings below it are theirs, also with blanks before them.
    let names = "  GPU 0: NVIDIA GeForce RTX 4090 (UUID: GPU-1)\n  GPU 1: NVIDIA GeForce RTX 4090 (UUID: GPU-2)\n";
    let document = read(&format!("{LSTOPO}{names}"));
    assert_eq!(values(&document, "sm"), ["89", "89"]);
    let prose =
        "Machine (Supermicro 4124):\n  GPU 0: NVIDIA H100 PCIe\n  GPU 1: NVIDIA H100 PCIe\n";
    let document = read(&format!("{prose}{MATRIX}"));
    assert_eq!(values(&document, "sm"), ["90", "90"]);
}
