//! The reasons why ports cannot be merged.

/// A merge of network ports that NCCL refuses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// A group names ports that are not there, or one twice.
    #[error(
        "NCCL_NET_FORCE_MERGE: the group `{group}` has {named} names, but {found} ports fit them ({ports}); expected names \
         of different ports, as NAME or NAME:PORT"
    )]
    Unmatched {
        /// The group.
        group: String,
        /// Names in it.
        named: usize,
        /// Ports that fit.
        found: usize,
        /// The names of the host's ports.
        ports: String,
    },
    /// More ports in a group than a virtual device has.
    #[error("NCCL_NET_FORCE_MERGE: {found} ports fit the group `{group}`; expected at most {most}")]
    TooMany {
        /// The group.
        group: String,
        /// Ports that fit.
        found: usize,
        /// Most ports of a virtual device.
        most: usize,
    },
    /// A group without a name.
    #[error(
        "NCCL_NET_FORCE_MERGE: the group `{group}` names no port, and NCCL never ends on that; expected names, as NAME or \
         NAME:PORT"
    )]
    NoNames {
        /// The group.
        group: String,
    },
    /// The network's transport does not merge the ports of a group.
    #[error("NCCL_NET_FORCE_MERGE: the network does not merge the group `{group}`: {why}")]
    Refused {
        /// The group.
        group: String,
        /// Why.
        why: &'static str,
    },
    /// The ports have no CPU or switch in common.
    #[error(
        "the ports {name} are below different CPUs, and NCCL merges none of these; expected NCCL_NET_MERGE_LEVEL below SYS, \
         and groups of NCCL_NET_FORCE_MERGE below one CPU"
    )]
    DifferentCpus {
        /// The virtual device.
        name: String,
    },
    /// A device cannot be put into the tree.
    #[error("the ports {name} cannot be merged: {why}")]
    NoPlace {
        /// The virtual device.
        name: String,
        /// Why.
        why: &'static str,
    },
    /// More planes than a virtual device can name.
    #[error("the ports {name} cannot be merged: the host has {planes} planes; expected at most 12")]
    TooManyPlanes {
        /// The virtual device.
        name: String,
        /// Planes of the host.
        planes: usize,
    },
}
