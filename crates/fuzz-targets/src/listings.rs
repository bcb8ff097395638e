//! Output of nvidia-smi, lspci and others. An accepted listing gives a topology that reads back.

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
    ];
    texts.map(|text| text.as_bytes().to_vec()).to_vec()
}

/// Reads a listing.
///
/// # Panics
/// The topology that it gives reads back differently.
pub fn run(bytes: &[u8]) -> Depth {
    let Some(machine) = checked(listings::machine("listing", bytes)) else {
        return Depth::Outside;
    };
    let _ = machine.findings();
    let text = write(&machine.document);
    let again = parse("topology.xml", text.as_bytes()).expect("what was written can be read");
    assert!(machine.document.root.same_as(&again.root), "{text}");
    Depth::Accepted
}
