//! Output of nvidia-smi, lspci and others, and bandwidths that were measured. An accepted listing
//! gives a topology that reads back.

use records::{Bandwidths, Listings, Measurements, bandwidth};
use topology::xml::{parse, write};

use crate::input::{Depth, checked};

/// A listing of each kind.
pub fn seeds() -> Vec<Vec<u8>> {
    let texts = [
        "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)\n\
         \tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\n\
         GPU0\t X \tNV18\tPIX\t0-3\t0\nGPU1\tNV18\t X \tSYS\t4-7\t1\nNIC0\tPIX\tSYS\t X\n\
         NIC Legend:\n  NIC0: mlx5_0\nCA 'mlx5_0'\n\tState: Active\n\tRate: 400\n",
        "00:01.0 PCI bridge: Intel Corporation Device 352a\n\
         \tBus: primary=00, secondary=01, subordinate=02, sec-latency=0\n\
         \t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16\n\
         01:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)\n\
         \tNUMA node: 0\n\t\tLnkSta:\tSpeed 32GT/s, Width x8 (downgraded)\n\
         \t\tACSCtl:\tSrcValid+ ReqRedir+\n\
         Architecture: x86_64\nVendor ID: GenuineIntel\nCPU family: 6\nModel: 143\n\
         NUMA node0 CPU(s): 0-7\nhca_id: mlx5_0\n\tactive_width: 4X\n\tactive_speed: 25 Gbps\n",
        "-+-[0000:80]-+-00.0  Advanced Micro Devices, Inc. [AMD] Device 1480\n\
         \x20|           \\-01.1-[81-84]----00.0-[82-84]--+-00.0-[83]--+-00.0  NVIDIA Corporation GA102GL [RTX A6000]\n\
         \x20|                                           |            \\-00.1\n\
         \x20|                                           \\-01.0-[84]----00.0  Mellanox Technologies Device 101b\n\
         \x20\\-[0001:00]---00.0-[01]----00.0\n\
         |   0  NVIDIA H100        Off |   00000001:01:00.0 Off |  0 |\n",
        "<nvidia_smi_log>\n<gpu id=\"00000000:1B:00.0\">\n<product_name>NVIDIA A40</product_name>\n\
         <max_link_width>16x</max_link_width><current_link_width>4x</current_link_width>\n\
         <volatile><dram_uncorrectable>1</dram_uncorrectable></volatile>\n</gpu></nvidia_smi_log>\n",
        "==NVSMI LOG==\nGPU 00000000:1B:00.0\n    Product Name : NVIDIA A40\n    Link Width\n        Max : 16x\n\
        \x20       Current : 8x\n    Fabric\n        State : In Progress\n    Remapped Rows\n        Pending : Yes\n",
        "GPU 0: NVIDIA A40 (UUID: GPU-1)\n\t Link 0: 14.062 GB/s\n\t Link 1: <inactive>\n\
         link mlx5_0/1 state DOWN physical_state DISABLED\n\
         \tGPU0\tGPU1\nGPU0\tX\tOK\nGPU1\tCNS\tX\n",
        "Running device_to_device_memcpy_read_ce.\nmemcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)\n\
         \x20          0         1\n 0       N/A    276.07\n 1    270.50       N/A\n\
         Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)\n   D\\D     0      1\n\
         \x20    0 1529.61   5.91\n     1   6.91 1531.12\n",
        r#"{"nvbandwidth":{"testcases":[{"name":"device_to_device_memcpy_read_ce",
         "bandwidth_description":"memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)",
         "bandwidth_matrix":[["N/A","276.07"],["270.5","N/A"]]}]}}"#,
        "Running one_to_all_write_ce.\nmemcpy CE GPU(column) -> All GPUs total bandwidth (GB/s)\n\
         \x20          0         1\n 0     50.50     51.50\n\
         ### Write Bandwidth Matrix (GB/s)\n Dst→  GPU0   GPU1\nGPU0:   —   53.9\nGPU1:  53.8    —\n\
         | Test | Total |\n|---|---|\n| GPU0→GPU2 + GPU1→3 | **53.9 GB/s** |\n",
    ];
    texts.map(|text| text.as_bytes().to_vec()).to_vec()
}

/// Reads a listing.
///
/// # Panics
/// The topology that it gives reads back differently, or a bandwidth is none.
pub fn run(bytes: &[u8]) -> Depth {
    let facts = Listings::read("listing", bytes).ok().flatten();
    let mut measured = facts.map_or_else(Vec::new, |it| it.bandwidths);
    measured.extend(bandwidth::json(bytes).unwrap_or_default());
    let page = Measurements::read("measurements", bytes).unwrap_or_default();
    let totals = page.totals.iter();
    for (from, to) in totals.clone().flat_map(|total| &total.transfers) {
        assert!(from != to, "GPU {from} and itself");
    }
    assert!(
        totals
            .clone()
            .all(|it| it.gbps >= 0.0 && !it.transfers.is_empty())
    );
    measured.extend(page.matrices);
    for (from, to, value) in measured.iter().flat_map(Bandwidths::pairs) {
        assert!(from != to && value >= 0.0 && value.is_finite(), "{value}");
    }
    let Some(machine) = checked(records::machine("listing", bytes)) else {
        return Depth::accepted_if(!measured.is_empty(), Depth::Outside);
    };
    let _ = machine.findings();
    let text = write(&machine.document);
    let again = parse("topology.xml", text.as_bytes()).expect("what was written can be read");
    assert!(machine.document.root.same_as(&again.root), "{text}");
    Depth::Accepted
}
