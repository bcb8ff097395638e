//! Plain words for NCCL's kinds of things.

use plan::Pattern;

/// How the GPUs of a channel are to be read.
pub const fn pattern(pattern: Pattern) -> &'static str {
    match pattern {
        Pattern::Ring => "from each GPU to the next, the last one back to the first",
        Pattern::BalancedTree => {
            "a chain; the first GPU holds the parent and one child on other hosts, the second GPU the other child"
        }
        Pattern::SplitTree => {
            "a chain; the first GPU holds the parent on another host, the second GPU both children"
        }
        Pattern::Tree => "a chain; the first GPU holds parent and children on other hosts",
        Pattern::Nvls => "the GPU in front of the NVSwitch, which reduces and multicasts",
        Pattern::CollnetDirect => "the GPU that collects from all others for the network",
    }
}

/// The use of NICs by a channel (0, 1, 2), in a word.
pub const fn cross_nic_short(mode: i32) -> &'static str {
    match mode {
        0 => "same",
        1 => "any",
        _ => "paired",
    }
}
