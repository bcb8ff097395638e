//! What every rank tells all others of itself, and whether it agrees with them.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// What a rank says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerInfo {
    /// The rank.
    pub rank: u32,
    /// Version of the program.
    pub version: String,
    /// Fingerprint of what is to be run: the plan and everything that all ranks must agree on.
    pub fingerprint: [u8; 32],
    /// What it was given besides and all ranks must be given alike: the option's name, and its value.
    pub options: Vec<(String, String)>,
    /// Tells hosts apart: ranks with the same can share memory.
    pub host: u64,
    /// Name of the host, for messages.
    pub host_name: String,
    /// Tells machines apart, whatever is called a host: ranks with the same run on the same cores, as far as
    /// `cores` says.
    pub machine: u64,
    /// The cores that it may use, a bit each; empty if it does not say.
    pub cores: Vec<u8>,
    /// Process id.
    pub process: u32,
    /// The device it drives, such as a bus id; empty if none that could be driven twice.
    pub device: String,
    /// Where it answers other ranks.
    pub address: SocketAddr,
    /// Where its NICs listen for data.
    pub nics: Vec<SocketAddr>,
}

impl PeerInfo {
    /// Where it is, in words.
    pub fn place(&self) -> String {
        format!("process {} on host {}", self.process, self.host_name)
    }

    /// Whether two ranks may want the same core.
    pub fn shares_cores(&self, other: &Self) -> bool {
        let overlap = self
            .cores
            .iter()
            .zip(&other.cores)
            .any(|(one, it)| one & it != 0);
        let unsaid = self.cores.is_empty() || other.cores.is_empty();
        self.machine == other.machine && (overlap || unsaid)
    }

    /// Whether two ranks can be of one job.
    ///
    /// # Errors
    /// Other options, other plans, other versions, or the same device.
    pub fn agrees(&self, other: &Self) -> Result<(), Failure> {
        let fail = |what: String| {
            Err(Failure::new(
                other.rank,
                format!("{} {what}", other.place()),
            ))
        };
        let rank = self.rank;
        let mut options = self.options.iter().zip(&other.options);
        if let Some(((name, own), (_, theirs))) = options.find(|(own, theirs)| own != theirs) {
            return fail(format!(
                "runs with {name} {theirs}, but rank {rank}, {}, with {name} {own}; give all ranks the same",
                self.place()
            ));
        }
        if self.fingerprint != other.fingerprint {
            return fail(format!(
                "runs something else (fingerprint {}) than rank {rank}, {} (fingerprint {}); give all ranks the \
                 same plan and the same arguments",
                short(&other.fingerprint),
                self.place(),
                short(&self.fingerprint)
            ));
        }
        if self.version != other.version {
            return fail(format!(
                "runs topo {}, but rank {rank} topo {}; give all hosts the same version",
                other.version, self.version
            ));
        }
        if self.host == other.host && !self.device.is_empty() && self.device == other.device {
            return fail(format!(
                "drives {}, as does rank {rank}, {}; give each rank a device of its own",
                other.device,
                self.place()
            ));
        }
        Ok(())
    }
}

/// The first digits of a fingerprint.
pub fn short(fingerprint: &[u8; 32]) -> String {
    fingerprint[..6]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Where a rank keeps what the others said of themselves.
pub trait Table {
    /// What travels from rank to rank.
    type Block: Clone;

    /// Takes what `origin` says of itself.
    ///
    /// # Errors
    /// It is not to be read, or does not agree with the own rank.
    fn take(&mut self, origin: u32, block: &Self::Block) -> Result<(), Failure>;

    /// What is known of a rank.
    fn info(&self, rank: u32) -> Option<&PeerInfo>;
}

/// A table that keeps everything.
#[derive(Debug, Clone)]
pub struct Infos {
    own: u32,
    all: Vec<Option<PeerInfo>>,
}

impl Infos {
    /// A table of the own rank alone.
    pub fn new(own: PeerInfo, ranks: u32) -> Self {
        let rank = own.rank;
        let mut all = vec![None; ranks as usize];
        if let Some(place) = all.get_mut(rank as usize) {
            *place = Some(own);
        }
        Self { own: rank, all }
    }

    /// The own rank's, as it travels.
    pub fn own_block(&self) -> Vec<u8> {
        let own = &self.all[self.own as usize];
        postcard::to_allocvec(own).unwrap_or_default()
    }

    /// All, if all are known.
    pub fn all(&self) -> Option<Vec<PeerInfo>> {
        self.all.iter().cloned().collect()
    }
}

impl Table for Infos {
    type Block = Vec<u8>;

    fn take(&mut self, origin: u32, block: &Vec<u8>) -> Result<(), Failure> {
        let wrong = || Failure::new(origin, "it says of itself what this version cannot read");
        let info: Option<PeerInfo> = postcard::from_bytes(block).map_err(|_| wrong())?;
        let info = info.filter(|it| it.rank == origin).ok_or_else(wrong)?;
        if let Some(own) = &self.all[self.own as usize] {
            own.agrees(&info)?;
        }
        self.all[origin as usize] = Some(info);
        Ok(())
    }

    fn info(&self, rank: u32) -> Option<&PeerInfo> {
        self.all.get(rank as usize)?.as_ref()
    }
}
