//! Messages that need no action.

use crate::causes::Certainty::Proved;
use crate::causes::cause::nccl;

causes! { Harmless;
    NO_COLLNET {
        id: "no-collnet",
        title: "the network does not reduce",
        means: "the network does not reduce; rings and trees are used instead",
        advice: "harmless without SHARP; set NCCL_COLLNET_ENABLE=0 to stop trying",
        versions: "all",
        signs: &[nccl(&["Cannot initialize CollNet"], Proved)],
        proof: "the line",
        excluded: "NCCL_COLLNET_ENABLE=0",
        sources: &["NCCL user guide, NCCL_COLLNET_ENABLE"],
    }
    NO_GDRCOPY {
        id: "no-gdrcopy",
        title: "GDRCopy is not installed",
        means: "GDRCopy is not installed; only some newer functions need it",
        advice: "harmless for collectives; install gdrcopy to use them",
        versions: "2.28 and newer",
        signs: &[nccl(&["GDRCopy"], Proved)],
        proof: "the line",
        excluded: "the module gdrdrv is loaded",
        sources: &["NVIDIA/gdrcopy README"],
    }
}
