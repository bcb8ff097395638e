//! Oddities of a job that NCCL accepts.

use std::fmt;

use topology::Warning;

/// Something odd that NCCL accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// An NVLink domain was asked for, but the settings forbid it.
    NoNvlinkDomain,
    /// The settings leave none of a file's NICs to the job.
    NoNics {
        /// The file.
        file: String,
        /// The names of its NICs.
        names: String,
    },
    /// A file without network ports, for a job that needs the network.
    Sockets {
        /// The file.
        file: String,
    },
    /// A virtual device that no rank uses.
    LostDevice {
        /// The file.
        file: String,
        /// The device.
        name: String,
    },
    /// A graph file holds something odd.
    GraphFile(Warning),
    /// Numbers of network ports.
    Nets {
        /// Fewest ports of a host.
        least: usize,
        /// Most ports of a host.
        most: usize,
    },
    /// Compute capabilities (× 10) of GPUs.
    Gpus {
        /// Lowest.
        least: i32,
        /// Highest.
        most: i32,
    },
    /// Numbers of ranks of a node.
    Ranks {
        /// Fewest.
        least: u32,
        /// Most.
        most: u32,
    },
    /// Processors of several vendors or architectures.
    Processors,
    /// Channels of point-to-point transfers between two ranks, which nodes count differently.
    PeerChannels {
        /// Fewest channels.
        least: u32,
        /// Most channels.
        most: u32,
    },
    /// Trees leave a host through port 0, which is not there (NCCL to 2.28).
    TreePort,
    /// The version is known from its source only.
    FromSource,
    /// LL128 of Rubin depends on the driver's version, which is not known.
    Driver,
    /// GPUDirect RDMA of partitions of GPUs depends on the driver's version, which is not known.
    PartitionDriver,
    /// Two GPUs of a host that decide their transport differently.
    Transports {
        /// The first, counted in its node.
        from: usize,
        /// The second, counted in its node.
        to: usize,
    },
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TreePort => f.write_str(
                "the search finds no tree that leaves the host, for which this version takes port 0, and there is none: NCCL \
                 fails at the first call that takes a tree; exclude them (NCCL_ALGO=^Tree), or plan NCCL 2.29 or newer",
            ),
            Self::NoNvlinkDomain => f.write_str(
                "the settings forbid one NVLink domain (NCCL_MNNVL_ENABLE=0, or P2P switched off without \
                 NCCL_MNNVL_ENABLE=1), so the network joins the hosts",
            ),
            Self::NoNics { file, names } => write!(
                f,
                "{file}: NCCL_IB_HCA or NCCL_SOCKET_IFNAME names none of its NICs ({names}): it is planned without any"
            ),
            Self::Sockets { file } => write!(
                f,
                "{file} has no network port: NCCL opens sockets on the interfaces that it finds, planned here as one of \
                 10 Gb/s below the first CPU; add the <net> entries of the NICs if there are some"
            ),
            Self::LostDevice { file, name } => write!(
                f,
                "{file}: NCCL merges the ports {name}, which have no PCI path, into a device that it then does not find: \
                 set NCCL_NET_MERGE_LEVEL=LOC or NCCL_IB_MERGE_NICS=0"
            ),
            Self::GraphFile(warning) => warning.fmt(f),
            Self::Nets { least, most } => write!(
                f,
                "hosts have between {least} and {most} network ports: NCCL uses as many channels as all hosts have \
                 (NCCL_IGNORE_NET_MISMATCH=0 makes it an error)"
            ),
            Self::Gpus { least, most } => write!(
                f,
                "GPUs are of sm {least} to sm {most}: NCCL takes channels and costs that suit the lowest{}",
                if *least < 90 {
                    ", and does without LL128 unless NCCL_PROTO asks for it"
                } else {
                    ""
                }
            ),
            Self::Ranks { least, most } => write!(
                f,
                "nodes have between {least} and {most} ranks: NCCL's costs and tree depths take the average"
            ),
            Self::PeerChannels { least, most } => write!(
                f,
                "ranks count between {least} and {most} channels to a peer: before NCCL 2.29 each looks at its own host \
                 only, so the sender and the receiver of a transfer may expect different ones \
                 (NCCL_NCHANNELS_PER_NET_PEER can make them equal)"
            ),
            Self::Transports { from, to } => write!(
                f,
                "the paths between GPUs {from} and {to} of a node differ by direction, and so do their transports: NCCL \
                 fails when they connect, such as in an all-to-all (NCCL_P2P_LEVEL can make them equal)"
            ),
            Self::FromSource => f.write_str(
                "2.32.6 is planned from its public source, which no binary has judged: times of Rubin assume that all channels \
                 for a size get work and that one thread block works on each; NCCL's own rules for both are not known. \
                 Bandwidths and latencies of single choices, windows and the search are those of 2.32.3",
            ),
            Self::Driver => f.write_str(
                "LL128 is planned for a driver of CUDA 13.3 or newer; with an older one on any host, NCCL does without \
                 LL128 on Rubin whose NICs are reached over C2C or through another GPU; plan with its version to see that",
            ),
            Self::PartitionDriver => f.write_str(
                "GPUDirect RDMA of parts of GPUs (MLOPart) is planned for a driver of CUDA 13.4 or newer on all hosts; \
                 with an older one, NCCL does without it over C2C; plan with its version to see that",
            ),
            Self::Processors => {
                f.write_str("hosts have different processors: NCCL takes their vendor as mixed when it estimates costs")
            }
        }
    }
}
