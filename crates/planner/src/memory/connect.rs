//! The buffers of a connection, by transport.

use std::collections::{BTreeMap, BTreeSet};

use plan::{Connection, Error, Expansion, Gdr, GraphKind, NetEnd};

use super::ledger::{Bytes, Ledger, Part, Purpose, Stage};
use super::settings::MemorySettings;

/// Bytes of a page of virtual memory on a GPU; also the least that CUDA IPC exports.
const PAGE: u64 = 2 << 20;

/// Bytes of the page with heads, or with tails, of a connection.
const CONTROL_BYTES: u64 = 4 << 10;

/// Chunks of a channel in the buffers that point-to-point connections share.
const SHARED_STEPS: u64 = 16;

/// Adds up what the ranks of a node allocate.
pub(super) struct Builder<'a> {
    pub(super) expansion: &'a Expansion,
    pub(super) settings: MemorySettings,
    ledgers: BTreeMap<u32, Ledger>,
    /// Ends that exist: rank, peer, channel, the stage of those between peers, sends. Transfers do
    /// not use what relays connected at the start.
    connected: BTreeSet<(u32, u32, u32, Option<Stage>, bool)>,
    /// Shared buffers that exist: the rank that holds them, their owner, for sending, on the GPU.
    pools: BTreeSet<(u32, u32, bool, bool)>,
}

/// Who allocates a buffer, and what for.
#[derive(Clone, Copy)]
struct Place {
    rank: u32,
    stage: Stage,
    purpose: fn(Part) -> Purpose,
}

impl<'a> Builder<'a> {
    pub(super) fn new(expansion: &'a Expansion, settings: MemorySettings) -> Self {
        Self {
            expansion,
            settings,
            ledgers: BTreeMap::new(),
            connected: BTreeSet::new(),
            pools: BTreeSet::new(),
        }
    }

    pub(super) fn finish(self) -> BTreeMap<u32, Ledger> {
        self.ledgers
    }

    fn add(&mut self, rank: u32, stage: Stage, purpose: Purpose, bytes: Bytes) {
        let ledger = self.ledgers.entry(rank).or_default();
        *ledger.bytes.entry((stage, purpose)).or_default() += bytes;
    }

    /// The bytes that an allocation on a GPU takes.
    fn taken(&self, bytes: u64) -> u64 {
        match self.settings.virtual_memory {
            true => bytes.next_multiple_of(PAGE),
            false => bytes,
        }
    }

    /// Allocates memory of a rank's GPU.
    pub(super) fn allocate(&mut self, rank: u32, stage: Stage, purpose: Purpose, bytes: u64) {
        let device = self.taken(bytes);
        self.add(rank, stage, purpose, Bytes { device, host: 0 });
    }

    /// Allocates memory of a rank's host.
    pub(super) fn allocate_host(&mut self, rank: u32, stage: Stage, purpose: Purpose, bytes: u64) {
        let bytes = Bytes {
            device: 0,
            host: bytes,
        };
        self.add(rank, stage, purpose, bytes);
    }

    /// Bytes of a part of a connection.
    fn part_bytes(&self, part: Part) -> u64 {
        let buffers = &self.expansion.common().buffers;
        let bytes = match part {
            Part::Ll => buffers.ll,
            Part::Ll128 => buffers.ll128,
            Part::Simple => buffers.simple,
            Part::Control => return CONTROL_BYTES,
        };
        u64::try_from(bytes).unwrap_or(0)
    }

    /// Allocates parts of a connection together on a GPU, in whole pages.
    fn on_device(&mut self, at: Place, parts: &[Part], exported: bool) {
        let sum: u64 = parts.iter().map(|part| self.part_bytes(*part)).sum();
        let taken = match exported {
            true => sum.next_multiple_of(PAGE),
            false => self.taken(sum),
        };
        for part in parts {
            let device = self.part_bytes(*part);
            self.add(
                at.rank,
                at.stage,
                (at.purpose)(*part),
                Bytes { device, host: 0 },
            );
        }
        let device = taken - sum;
        let rest = (at.purpose)(Part::Control);
        self.add(at.rank, at.stage, rest, Bytes { device, host: 0 });
    }

    /// Allocates parts of a connection on a host.
    fn on_host(&mut self, at: Place, parts: &[Part]) {
        for part in parts {
            let host = self.part_bytes(*part);
            self.add(
                at.rank,
                at.stage,
                (at.purpose)(*part),
                Bytes { device: 0, host },
            );
        }
    }

    /// Notes an end of a connection; `false` if it exists.
    fn begins(
        &mut self,
        stage: Stage,
        rank: u32,
        peer: u32,
        channel: u32,
        between_peers: bool,
        sends: bool,
    ) -> bool {
        let end = (rank, peer, channel, between_peers.then_some(stage), sends);
        let is_new = peer != rank && self.connected.insert(end);
        if is_new {
            let ledger = self.ledgers.entry(rank).or_default();
            *ledger.connections.entry(stage).or_default() += 1;
        }
        is_new
    }

    /// Makes a rank's end of a connection of collectives.
    pub(super) fn connect(
        &mut self,
        stage: Stage,
        kind: GraphKind,
        rank: u32,
        peer: u32,
        channel: u32,
        sends: bool,
    ) -> Result<(), Error> {
        if !self.begins(stage, rank, peer, channel, false, sends) {
            return Ok(());
        }
        // Each rank finds out by itself how it reaches its peer.
        let own = self.expansion.connection(rank, peer, kind, channel)?;
        if !matches!(own, Connection::Network { .. }) {
            self.local(stage, rank, own, sends);
            return Ok(());
        }
        let end = self.expansion.net_end(rank, kind, channel, sends)?;
        let proxy = if sends { end.proxy } else { rank };
        self.network(stage, &NetEnd { proxy, ..end }, sends);
        Ok(())
    }

    /// Makes a rank's end of a point-to-point connection.
    pub(super) fn connect_peer(
        &mut self,
        stage: Stage,
        rank: u32,
        peer: u32,
        channel: u32,
        sends: bool,
    ) -> Result<(), Error> {
        if !self.begins(stage, rank, peer, channel, true, sends) {
            return Ok(());
        }
        let own = self.expansion.p2p_connection(rank, peer, channel)?;
        if !matches!(own, Connection::Network { .. }) {
            self.local(stage, rank, own, sends);
            return Ok(());
        }
        let end = match sends {
            true => self.expansion.p2p_sender(rank, peer, channel)?,
            false => self.expansion.p2p_receiver(rank, channel)?,
        };
        if !self.settings.shares_network_buffers {
            self.network(stage, &end, sends);
            return Ok(());
        }
        self.pool(stage, end.proxy, rank, sends, end.gdr.is_direct());
        let at = network_place(stage, end.proxy);
        self.on_host(at, &[Part::Control, Part::Control]);
        if self.settings.has_network_ll {
            self.on_host(at, &[Part::Ll]);
        }
        Ok(())
    }

    /// The buffers of a connection inside a host.
    fn local(&mut self, stage: Stage, rank: u32, connection: Connection, sends: bool) {
        match connection {
            Connection::Direct { via, read, .. } => {
                let at = Place {
                    rank: via.unwrap_or(rank),
                    stage,
                    purpose: Purpose::Direct,
                };
                let parts: &[Part] = match (sends, read) {
                    (true, true) => &[Part::Control, Part::Simple],
                    (true, false) => &[Part::Control],
                    (false, true) => &[Part::Control, Part::Ll, Part::Ll128],
                    (false, false) => &[Part::Control, Part::Ll, Part::Ll128, Part::Simple],
                };
                if sends && self.settings.copies_by_driver {
                    // Heads and tails are in the host's memory.
                    self.on_device(at, &[Part::Simple], false);
                    self.on_host(at, &[Part::Control; 3]);
                    return;
                }
                self.on_device(at, parts, true);
            }
            Connection::SharedMemory { .. } => {
                let at = Place {
                    rank,
                    stage,
                    purpose: Purpose::SharedMemory,
                };
                self.on_host(at, &[Part::Control]);
                if sends == self.settings.sender_holds_shared_memory {
                    self.on_host(at, &[Part::Ll, Part::Ll128, Part::Simple]);
                }
            }
            Connection::Network { .. } => {}
        }
    }

    /// The buffers of one end of a connection over the network. The sender's buffer for LL is in
    /// the host's memory.
    fn network(&mut self, stage: Stage, end: &NetEnd, sends: bool) {
        let at = network_place(stage, end.proxy);
        self.on_host(at, &[Part::Control, Part::Control]);
        match (end.gdr, sends) {
            (Gdr::Host(_), _) => self.on_host(at, &[Part::Ll, Part::Ll128, Part::Simple]),
            (_, true) => {
                self.on_host(at, &[Part::Ll]);
                self.on_device(at, &[Part::Ll128, Part::Simple], false);
            }
            (_, false) => self.on_device(at, &[Part::Ll, Part::Ll128, Part::Simple], false),
        }
    }

    /// The buffers that point-to-point connections of a rank share, one for each direction.
    fn pool(&mut self, stage: Stage, holder: u32, owner: u32, sends: bool, on_device: bool) {
        if !self.pools.insert((holder, owner, sends, on_device)) {
            return;
        }
        let p2p = &self.expansion.common().p2p;
        let chunk = u64::try_from(p2p.chunk_size).unwrap_or(0);
        let bytes = u64::from(p2p.channels) * SHARED_STEPS * chunk;
        match on_device {
            true => self.allocate(holder, stage, Purpose::NetworkPool, bytes),
            false => self.allocate_host(holder, stage, Purpose::NetworkPool, bytes),
        }
    }

    /// The shared buffers for sending that a rank makes at the start where all connects then: on
    /// its own GPU, and where there are several nodes on those that drive ports for it (PXN), also
    /// on the rails of its own node.
    pub(super) fn pools_at_start(&mut self, rank: u32) {
        self.pool(Stage::Start, rank, rank, true, true);
        let layout = self.expansion.layout();
        let peers = if layout.nodes() > 1 && self.settings.shares_on_rails {
            layout.ranks()
        } else {
            0
        };
        for peer in 0..peers {
            let Ok(end) = self.expansion.p2p_sender(rank, peer, 0) else {
                continue;
            };
            if end.proxy != rank && end.gdr.is_direct() {
                self.pool(Stage::Start, end.proxy, rank, true, true);
            }
        }
    }
}

const fn network_place(stage: Stage, rank: u32) -> Place {
    Place {
        rank,
        stage,
        purpose: Purpose::Network,
    }
}
