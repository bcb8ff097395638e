//! The data that each rank tells all others about itself, and whether two ranks agree.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::message::read_whole;

/// What a rank tells about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerInfo {
    /// The rank.
    pub rank: u32,
    /// Version of the program.
    pub version: String,
    /// Fingerprint of the plan and of everything else that all ranks must agree on.
    pub fingerprint: [u8; 32],
    /// Names and values of options that must be equal on all ranks but are not in the fingerprint.
    pub options: Vec<(String, String)>,
    /// Identifies the host: ranks of one host can share memory.
    pub host: u64,
    /// Name of the host, for messages.
    pub host_name: String,
    /// Identifies the machine. In a rehearsal, ranks that act as other hosts have the same machine,
    /// so they may use the same cores.
    pub machine: u64,
    /// Bitmap of the cores that it may use; empty if unknown.
    pub cores: Vec<u8>,
    /// Process id.
    pub process: u32,
    /// The device that it uses, such as a bus id; empty for one that several ranks may use.
    pub device: String,
    /// Address at which it answers other ranks.
    pub address: SocketAddr,
    /// Addresses at which its NICs listen for data.
    pub nics: Vec<SocketAddr>,
}

impl PeerInfo {
    /// Its process and host, for messages.
    pub fn place(&self) -> String {
        format!("process {} on host {}", self.process, self.host_name)
    }

    /// Whether two ranks may use the same core.
    pub fn shares_cores(&self, other: &Self) -> bool {
        let overlap = self
            .cores
            .iter()
            .zip(&other.cores)
            .any(|(one, it)| one & it != 0);
        let unsaid = self.cores.is_empty() || other.cores.is_empty();
        self.machine == other.machine && (overlap || unsaid)
    }

    /// Checks that two ranks can be in one job.
    ///
    /// # Errors
    /// Their options, plans or versions differ, or they use the same device.
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

/// The first digits of a fingerprint, for messages.
pub fn short(fingerprint: &[u8; 32]) -> String {
    fingerprint[..6]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// What the ranks told about themselves.
pub trait Table {
    /// What a member tells about its ranks, as it is sent around the ring.
    type Block: Clone;

    /// Takes the information of member `origin`.
    ///
    /// # Errors
    /// It cannot be read, or does not agree with this member's.
    fn take(&mut self, origin: u32, block: &Self::Block) -> Result<(), Failure>;

    /// The information of a rank, if it is known.
    fn info(&self, rank: u32) -> Option<&PeerInfo>;
}

/// A table that keeps the information of all ranks.
#[derive(Debug, Clone)]
pub struct Infos {
    /// The ranks of this member: the first, and how many there are.
    first: u32,
    width: u32,
    all: Vec<Option<PeerInfo>>,
}

impl Infos {
    /// A table that holds only this rank's information.
    pub fn new(own: PeerInfo, ranks: u32) -> Self {
        Self::of_process(vec![own], ranks)
    }

    /// A table that holds only the information of this process's ranks, which are in order. Each of
    /// the `members` has as many.
    pub fn of_process(own: Vec<PeerInfo>, members: u32) -> Self {
        let first = own.first().map_or(0, |it| it.rank);
        let width = own.len().max(1) as u32;
        let mut all = vec![None; members as usize * width as usize];
        for info in own {
            let place = all.get_mut(info.rank as usize);
            if let Some(place) = place {
                *place = Some(info);
            }
        }
        Self { first, width, all }
    }

    fn own(&self) -> impl Iterator<Item = &PeerInfo> {
        let all = self.all.iter().skip(self.first as usize);
        all.take(self.width as usize).flatten()
    }

    /// This member's information as it is sent.
    pub fn own_block(&self) -> Vec<u8> {
        let own: Vec<&PeerInfo> = self.own().collect();
        postcard::to_allocvec(&own).unwrap_or_default()
    }

    /// The information of all ranks; `None` until it is complete.
    pub fn all(&self) -> Option<Vec<PeerInfo>> {
        self.all.iter().cloned().collect()
    }
}

impl Table for Infos {
    type Block = Vec<u8>;

    fn take(&mut self, origin: u32, block: &Vec<u8>) -> Result<(), Failure> {
        let first = origin.saturating_mul(self.width);
        let wrong = || Failure::new(first, "this version cannot read its information");
        let infos: Vec<PeerInfo> = read_whole(block).map_err(|_| wrong())?;
        if let Some(info) = infos.first()
            && infos.len() != self.width as usize
        {
            let what = format!(
                "{} has {} ranks, but the process of rank {} has {}; start all processes with the same -t and -g",
                info.place(),
                infos.len(),
                self.first,
                self.width
            );
            return Err(Failure::new(first, what));
        }
        let ranks = first..first.saturating_add(self.width);
        if !ranks.clone().eq(infos.iter().map(|it| it.rank)) || ranks.end as usize > self.all.len()
        {
            return Err(wrong());
        }
        // Ranks of a process differ in their devices only.
        for (own, at) in self.own().zip(0..) {
            for info in infos.iter().filter(|it| at == 0 || !it.device.is_empty()) {
                own.agrees(info)?;
            }
        }
        for info in infos {
            let place = info.rank as usize;
            self.all[place] = Some(info);
        }
        Ok(())
    }

    fn info(&self, rank: u32) -> Option<&PeerInfo> {
        self.all.get(rank as usize)?.as_ref()
    }
}
