//! README.md of the folder: how to use each file.

use std::path::Path;

use tuner_plugin::{LIBRARY_FILE, TABLE_FILE, VARIABLE};

use super::{ExportFile, Kind, PlannedSet};

/// The text.
pub(super) fn text(set: &PlannedSet, folder: &Path, files: &[ExportFile]) -> String {
    let has = |kind: Kind| files.iter().any(|it| it.kind == kind);
    let path = folder.display();
    let mut text = format!(
        "# {}\n\n\
         Files that make NCCL do what `topo` planned, as {} decides. Put the folder in the same place on\n\
         every host. All ranks must read the same files: ranks that choose differently wait for each other\n\
         forever.\n\n\
         | file | use |\n|---|---|\n\
         | `nccl.conf` | `export NCCL_CONF_FILE={path}/nccl.conf`, or copy it to `/etc/nccl.conf` |\n",
        set.name, set.plan.profile
    );
    if has(Kind::Graph) {
        text.push_str(
            "| `graph-GPUS.xml` | `NCCL_GRAPH_FILE`: channels, for communicators of exactly these GPUs of each host |\n",
        );
    }
    if has(Kind::Plugin) {
        text.push_str(&format!(
            "| `{LIBRARY_FILE}` | `NCCL_TUNER_PLUGIN={path}/{LIBRARY_FILE}`: algorithm and protocol by size |\n"
        ));
    }
    text.push_str(&format!(
        "| `{TABLE_FILE}` | what the plug-in reads: the file beside it, or that of `{VARIABLE}` |\n\
         | `nccl_tuner.csv` | `NCCL_TUNER_CONFIG_FILE`, for NVIDIA's example plug-in |\n"
    ));
    if has(Kind::Crossovers) {
        text.push_str(
            "| `custom_all_reduce.json` | `max_size` of vLLM's `CustomAllreduce`, and fields of SGLang's `Heuristic`; with `needs_peer_access` only if the driver grants it |\n",
        );
    }
    text.push_str(
        "\n## Graph files\n\n\
         GPUs have the numbers of NVML (`nvidia-smi -L`), which `CUDA_VISIBLE_DEVICES` does not change, but\n\
         containers do. NCCL refuses to make a communicator of GPUs that its graph file lacks. Jobs that make\n\
         communicators of fewer GPUs than the file has must not use one.\n\n\
         Where only the network joins GPUs of one host, NCCL searches them apart, and each part has a file\n\
         of its own, `graph-GPUS-for-GPUS.xml`. Start a process for each GPU, and give each the file of its\n\
         part. Where hosts differ, `graph-GPUS-machineN.xml` is for the N-th machine of the plan.\n\n\
         ## The tuner plug-in\n\n\
         With `NCCL_DEBUG=INFO` and `NCCL_DEBUG_SUBSYS=TUNING,INIT` each rank logs a line that begins with\n\
         `TUNER/topo:`. It names the GPU set whose choices are taken, or says why NCCL keeps its own choice:\n\
         no file, a file that cannot be read, another number of nodes or ranks, or a size without a choice.\n\
         NCCL's `NCCL_ALGO` and `NCCL_PROTO` have priority. A line of the file is\n\n\
         ```text\n\
         choose all-reduce 0 65536 tree ll channels 2\n\
         ```\n\n\
         collective, least and most bytes of the whole message, algorithm, protocol; then, if wanted,\n\
         `channels` and `chunk` (bytes, NCCL 2.30 and newer; only smaller ones than NCCL's).\n",
    );
    text
}
