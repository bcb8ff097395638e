//! Settings that decide how hosts are joined: channel counts, chunk sizes, the point-to-point
//! schedule. Buffer sizes are read with the cost model's settings, which need them too.

use super::Settings;
use super::parse::Reader;

pub use plan::MAX_CHANNELS;

/// Bytes of kernel arguments before the list of work, and bytes per channel in that list.
const ARGUMENTS_HEAD: i64 = 32;
const ARGUMENTS_PER_CHANNEL: i64 = 16;

/// Fewest bytes of a chunk of NVLink SHARP: NCCL rounds down to multiples. Source: NCCL's public
/// source, and the binaries.
const LEAST_CHUNK: i64 = 512;

/// How hosts are joined. `None` is NCCL's own choice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectSettings {
    /// `NCCL_MIN_NRINGS`: fewest channels, old name.
    pub min_rings: Option<i64>,
    /// `NCCL_MAX_NRINGS`: most channels, old name.
    pub max_rings: Option<i64>,
    /// `NCCL_MIN_NCHANNELS`: fewest channels.
    pub min_channels: Option<i64>,
    /// `NCCL_MAX_NCHANNELS`: most channels.
    pub max_channels: Option<i64>,
    /// `NCCL_MIN_CTAS`: fewest thread blocks of a kernel, one per channel.
    pub min_ctas: Option<i64>,
    /// `NCCL_MAX_CTAS`: most thread blocks of a kernel.
    pub max_ctas: Option<i64>,
    /// `NCCL_WORK_ARGS_BYTES`: room for work in a kernel's arguments, bytes.
    pub work_args_bytes: Option<i64>,
    /// `NCCL_NVLS_NCHANNELS`: channels for NVLink SHARP.
    pub nvls_channels: Option<i64>,
    /// `NCCL_NVLS_CHUNKSIZE`: bytes.
    pub nvls_chunk_size: Option<i64>,
    /// `NCCL_NVLSTREE_MAX_CHUNKSIZE`: bytes.
    pub nvls_tree_max_chunk_size: Option<i64>,
    /// `NCCL_COLLNET_NODE_THRESHOLD`: fewest nodes for which the network reduces.
    pub collnet_node_threshold: i64,
    /// `NCCL_NCHANNELS_PER_NET_PEER`: point-to-point channels to a rank beyond the network.
    pub channels_per_net_peer: Option<i64>,
    /// `NCCL_P2P_PER_CHANNEL_NET_BW`: what one point-to-point channel moves over the network, GB/s.
    pub p2p_per_channel_net_bw: i64,
    /// `NCCL_P2P_MAX_PEERS`: ranks that one rank talks to at a time.
    pub p2p_max_peers: Option<i64>,
    /// `NCCL_MIN_P2P_NCHANNELS`.
    pub min_p2p_channels: i64,
    /// `NCCL_MAX_P2P_NCHANNELS`.
    pub max_p2p_channels: i64,
    /// `NCCL_P2P_NET_CHUNKSIZE`: point-to-point chunks over the network, bytes.
    pub p2p_net_chunk_size: i64,
    /// `NCCL_P2P_NVL_CHUNKSIZE`: point-to-point chunks where all is NVLink, bytes.
    pub p2p_nvl_chunk_size: i64,
    /// `NCCL_P2P_PCI_CHUNKSIZE`: point-to-point chunks otherwise, bytes.
    pub p2p_pci_chunk_size: i64,
    /// `NCCL_P2P_LL_THRESHOLD`: bytes per channel up to which a transfer takes LL.
    pub p2p_ll_threshold: i64,
    /// `NCCL_ALLOC_P2P_NET_LL_BUFFERS`: connections over the network have buffers for LL.
    pub p2p_network_ll: bool,
    /// `NCCL_CHUNK_SIZE`: bytes of a chunk of a transfer; 0 is NCCL's own choice.
    pub p2p_given_chunk: i64,
    /// `NCCL_P2P_SCHEDULE_GROUP_SIZE`: ranks of a node that take part in a round together.
    pub p2p_schedule_group_size: i64,
    /// `NCCL_P2P_READ_ENABLE`: receivers read instead of senders writing; `None` decides by GPU
    /// generation.
    pub p2p_read: Option<bool>,
    /// `NCCL_IGNORE_NET_MISMATCH`: hosts may have different numbers of network ports.
    pub ignore_net_mismatch: bool,
    /// `NCCL_IGNORE_COLLNET_MISMATCH`: hosts may have different numbers of ports that reduce.
    pub ignore_collnet_mismatch: bool,
}

impl Default for ConnectSettings {
    fn default() -> Self {
        Self {
            min_rings: None,
            max_rings: None,
            min_channels: None,
            max_channels: None,
            min_ctas: None,
            max_ctas: None,
            work_args_bytes: None,
            nvls_channels: None,
            nvls_chunk_size: None,
            nvls_tree_max_chunk_size: None,
            collnet_node_threshold: 2,
            channels_per_net_peer: None,
            p2p_per_channel_net_bw: 14,
            p2p_max_peers: None,
            min_p2p_channels: 1,
            max_p2p_channels: i64::from(MAX_CHANNELS),
            p2p_net_chunk_size: 1 << 17,
            p2p_nvl_chunk_size: 1 << 19,
            p2p_pci_chunk_size: 1 << 17,
            p2p_ll_threshold: plan::LL_BYTES,
            p2p_network_ll: false,
            p2p_given_chunk: 0,
            p2p_schedule_group_size: 8,
            p2p_read: None,
            ignore_net_mismatch: true,
            ignore_collnet_mismatch: false,
        }
    }
}

impl ConnectSettings {
    /// Channels that a kernel's arguments have room for.
    pub fn channels_in_arguments(&self) -> u32 {
        let bytes = self.work_args_bytes.unwrap_or(i64::MAX);
        // NCCL subtracts without a sign: fewer bytes than the head needs count as unlimited.
        if bytes < ARGUMENTS_HEAD {
            return MAX_CHANNELS;
        }
        ((bytes - ARGUMENTS_HEAD) / ARGUMENTS_PER_CHANNEL).min(i64::from(MAX_CHANNELS)) as u32
    }

    /// Fewest channels, 0 to 64; thread blocks are bounded separately.
    pub fn fewest_channels(&self) -> u32 {
        clamped(self.min_channels.or(self.min_rings).unwrap_or(0), 0)
    }

    /// Most channels, 1 to 64; thread blocks are bounded separately.
    pub fn most_channels(&self) -> u32 {
        let asked = self
            .max_channels
            .or(self.max_rings)
            .unwrap_or(i64::from(MAX_CHANNELS));
        clamped(asked.min(i64::from(self.channels_in_arguments())), 1)
    }

    /// Fewest and most thread blocks of a kernel, 1 to 64.
    pub fn ctas(&self) -> (u32, u32) {
        let most = clamped(self.max_ctas.unwrap_or(i64::from(MAX_CHANNELS)), 1);
        (clamped(self.min_ctas.unwrap_or(1), 1).min(most), most)
    }
}

fn clamped(value: i64, least: u32) -> u32 {
    value.clamp(i64::from(least), i64::from(MAX_CHANNELS)) as u32
}

impl Reader {
    /// Reads one variable. Returns `false` if it is none of those above.
    pub(super) fn connect(&mut self, settings: &mut Settings, name: &str, value: &str) -> bool {
        let known = &mut settings.connect;
        let defaults = ConnectSettings::default();
        // NCCL marks "not set" by -2.
        let mut optional = |slot: &mut Option<i64>| {
            *slot = Some(self.number(name, value, -2)).filter(|n| *n != -2)
        };
        match name {
            "NCCL_MIN_NRINGS" => optional(&mut known.min_rings),
            "NCCL_MAX_NRINGS" => optional(&mut known.max_rings),
            "NCCL_MIN_NCHANNELS" => optional(&mut known.min_channels),
            "NCCL_MAX_NCHANNELS" => optional(&mut known.max_channels),
            "NCCL_NVLSTREE_MAX_CHUNKSIZE" => {
                optional(&mut known.nvls_tree_max_chunk_size);
                self.chunk(name, known.nvls_tree_max_chunk_size);
            }
            "NCCL_P2P_READ_ENABLE" => {
                known.p2p_read = Some(self.number(name, value, -2))
                    .filter(|n| *n != -2)
                    .map(|n| n != 0);
            }
            "NCCL_NVLS_CHUNKSIZE" => {
                known.nvls_chunk_size = Some(self.number(name, value, 1 << 17));
                self.chunk(name, known.nvls_chunk_size);
            }
            "NCCL_WORK_ARGS_BYTES" => {
                known.work_args_bytes = Some(self.number(name, value, i64::MAX))
            }
            "NCCL_MIN_CTAS" => known.min_ctas = self.positive(name, value),
            "NCCL_MAX_CTAS" => known.max_ctas = self.positive(name, value),
            "NCCL_NVLS_NCHANNELS" => known.nvls_channels = self.positive(name, value),
            "NCCL_NCHANNELS_PER_NET_PEER" => {
                known.channels_per_net_peer = self.positive(name, value)
            }
            "NCCL_P2P_MAX_PEERS" => known.p2p_max_peers = self.positive(name, value),
            "NCCL_COLLNET_NODE_THRESHOLD" => {
                known.collnet_node_threshold =
                    self.number(name, value, defaults.collnet_node_threshold);
            }
            "NCCL_P2P_PER_CHANNEL_NET_BW" => {
                known.p2p_per_channel_net_bw =
                    self.divisor(name, value, defaults.p2p_per_channel_net_bw);
            }
            "NCCL_MIN_P2P_NCHANNELS" => {
                known.min_p2p_channels = self.number(name, value, defaults.min_p2p_channels);
            }
            "NCCL_MAX_P2P_NCHANNELS" => {
                known.max_p2p_channels = self.number(name, value, defaults.max_p2p_channels);
            }
            "NCCL_P2P_NET_CHUNKSIZE" => {
                known.p2p_net_chunk_size = self.p2p_size(name, value, defaults.p2p_net_chunk_size);
            }
            "NCCL_P2P_NVL_CHUNKSIZE" => {
                known.p2p_nvl_chunk_size = self.p2p_size(name, value, defaults.p2p_nvl_chunk_size);
            }
            "NCCL_P2P_PCI_CHUNKSIZE" => {
                known.p2p_pci_chunk_size = self.p2p_size(name, value, defaults.p2p_pci_chunk_size);
            }
            "NCCL_P2P_LL_THRESHOLD" => {
                known.p2p_ll_threshold = self.number(name, value, defaults.p2p_ll_threshold);
            }
            "NCCL_ALLOC_P2P_NET_LL_BUFFERS" => {
                known.p2p_network_ll = self.number(name, value, 0) == 1
            }
            "NCCL_CHUNK_SIZE" => {
                known.p2p_given_chunk = self.number(name, value, defaults.p2p_given_chunk)
            }
            "NCCL_P2P_SCHEDULE_GROUP_SIZE" => {
                known.p2p_schedule_group_size =
                    self.divisor(name, value, defaults.p2p_schedule_group_size);
            }
            "NCCL_IGNORE_NET_MISMATCH" => {
                known.ignore_net_mismatch = self.number(name, value, 1) != 0
            }
            "NCCL_IGNORE_COLLNET_MISMATCH" => {
                known.ignore_collnet_mismatch = self.number(name, value, 0) != 0
            }
            _ => return false,
        }
        true
    }

    /// A count; NCCL leaves what is not positive at its own choice.
    fn positive(&mut self, name: &str, value: &str) -> Option<i64> {
        let number = self.number(name, value, i64::MIN);
        // The reader has noted a default.
        super::number(self.version, value)?;
        if number <= 0 {
            self.note(
                name,
                format!("{number} is too low; NCCL decides as if it were not set"),
            );
            return None;
        }
        Some(number)
    }

    /// Notes a chunk of NVLink SHARP of which NCCL makes none (it divides by their number).
    fn chunk(&mut self, name: &str, bytes: Option<i64>) {
        let bytes = bytes.filter(|bytes| *bytes < LEAST_CHUNK);
        if let Some(bytes) = bytes {
            self.fatal(
                name,
                format!(
                    "{bytes} is too low: NCCL divides by 0 at the first collective with NVLink SHARP and ends with signal 8; \
                     expected {LEAST_CHUNK} or more"
                ),
            );
        }
    }

    /// Bytes of a chunk of transfers. Source of the least ones: the binaries of 2.27 to 2.32, which
    /// died of one byte less.
    fn p2p_size(&mut self, name: &str, value: &str, default: i64) -> i64 {
        let least = match name {
            "NCCL_P2P_NET_CHUNKSIZE" => 4,
            _ => 8,
        };
        let bytes = self.number(name, value, default);
        if bytes < least {
            self.fatal(
                name,
                format!(
                    "{bytes} is too low: NCCL's first send or receive fails, or divides by 0 and ends with signal 8; \
                     expected {least} or more"
                ),
            );
        }
        bytes
    }

    /// A number that NCCL divides by: 0 would crash it, less makes no sense.
    fn divisor(&mut self, name: &str, value: &str, default: i64) -> i64 {
        let number = self.number(name, value, default);
        if number <= 0 {
            self.fatal(
                name,
                format!("{number} is too low (NCCL would fail); {default} is taken"),
            );
            return default;
        }
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Settings {
        Settings::from_variables(
            variables
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
        )
    }

    #[test]
    fn channel_limits() {
        for (variables, fewest, most) in [
            (&[][..], 0, 64),
            (&[("NCCL_MIN_NRINGS", "4"), ("NCCL_MAX_NRINGS", "6")], 4, 6),
            (
                &[("NCCL_MIN_NRINGS", "4"), ("NCCL_MIN_NCHANNELS", "8")],
                8,
                64,
            ),
            (
                &[("NCCL_MIN_NCHANNELS", "-2"), ("NCCL_MIN_NRINGS", "3")],
                3,
                64,
            ),
            (
                &[("NCCL_MIN_NCHANNELS", "100"), ("NCCL_MAX_NCHANNELS", "0")],
                64,
                1,
            ),
            (&[("NCCL_WORK_ARGS_BYTES", "192")], 0, 10),
        ] {
            let settings = read(variables).connect;
            assert_eq!(
                (settings.fewest_channels(), settings.most_channels()),
                (fewest, most),
                "{variables:?}"
            );
        }
    }

    #[test]
    fn thread_blocks() {
        assert_eq!(
            read(&[("NCCL_MIN_CTAS", "8"), ("NCCL_MAX_CTAS", "4")])
                .connect
                .ctas(),
            (4, 4)
        );
        assert_eq!(
            read(&[("NCCL_MIN_CTAS", "0"), ("NCCL_MAX_CTAS", "400")])
                .connect
                .ctas(),
            (1, 64)
        );
        assert_eq!(read(&[("NCCL_MIN_CTAS", "0")]).notes.len(), 1);
    }
}
