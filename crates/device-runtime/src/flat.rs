//! Flattens a bound program into the steps that kernels walk.

use program::Reduction;
use program::{BoundOperand, BoundProgram, BoundStep, BufferKind, ConnectionEnd};

use crate::fuse::fuse;
use crate::layout::{DevicePeer, FlatLane, FlatOperand, FlatStep, MOST_OPERANDS, OperandKind};

/// Addresses of a program's connections and of its peers' buffer tables.
pub trait Places {
    /// Address of the FIFO end that receives.
    fn receiver(&self, connection: &ConnectionEnd) -> u64;
    /// Address of the FIFO end that sends.
    fn sender(&self, connection: &ConnectionEnd) -> u64;
    /// Address of the signal end that waits.
    fn awaited(&self, connection: &ConnectionEnd) -> u64;
    /// Address of the signal end that notifies.
    fn given(&self, connection: &ConnectionEnd) -> u64;
    /// Multicast address of the scratch memory of all ranks.
    fn multicast(&self) -> u64;
    /// Where a rank's buffers are found.
    fn peer(&self, rank: u32) -> DevicePeer;
    /// The own buffer table, with where each window begins in multicast addresses.
    fn registered_windows(&self) -> DevicePeer;
}

/// A program in the form that kernels walk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Flat {
    /// The lanes, then those for registered buffers.
    pub lanes: Vec<FlatLane>,
    /// The steps of all lanes.
    pub steps: Vec<FlatStep>,
    /// Peers: those of the first lane, then those of the next.
    pub peers: Vec<DevicePeer>,
    /// Addresses of ends of FIFOs and signals: those of the first lane, then those of the next.
    pub ends: Vec<u64>,
    /// The channel of each lane, without those for registered buffers.
    pub channels: Vec<u16>,
}

impl Flat {
    /// Flattens a program. Lanes without steps are left out.
    pub fn new(bound: &BoundProgram, reduction: Option<Reduction>, places: &dyn Places) -> Self {
        Self::with_peers(bound, reduction, places, &[])
    }

    /// Adds the lanes of the program for registered buffers, which kernels run instead of those of
    /// the same channels if the buffers of all ranks are at one place of a window.
    pub fn add_registered(
        &mut self,
        bound: &BoundProgram,
        reduction: Option<Reduction>,
        places: &dyn Places,
    ) {
        let others = bound.waits.iter().map(|it| places.peer(it.peer));
        let others = others.map(|it| DevicePeer { regions: 0, ..it });
        let mut peers = vec![places.registered_windows()];
        for other in others {
            index(&mut peers, other);
        }
        let added = Self::with_peers(bound, reduction, places, &peers);
        // Equal on all ranks, whether this one moves anything or not.
        let needed = u32::from(bound.multicasts_inputs) | u32::from(bound.multicasts_outputs) << 1;
        let first = count(self.steps.len());
        let (mut peers, mut ends) = (&added.peers[..], &added.ends[..]);
        for (lane, channel) in added.lanes.iter().zip(&added.channels) {
            let (own_peers, own_ends);
            (own_peers, peers) = peers.split_at(lane.peer_count as usize);
            (own_ends, ends) = ends.split_at(lane.end_count as usize);
            // A channel without a share of the message has no lane on any rank.
            let Some(at) = self.channels.iter().position(|it| it == channel) else {
                continue;
            };
            self.lanes[at].registered = count(self.lanes.len());
            self.lanes.push(FlatLane {
                first: first + lane.first,
                needed,
                ..*lane
            });
            self.peers.extend(own_peers);
            self.ends.extend(own_ends);
        }
        self.steps.extend(added.steps);
    }

    /// Flattens a program whose lanes all have these peers first.
    fn with_peers(
        bound: &BoundProgram,
        reduction: Option<Reduction>,
        places: &dyn Places,
        peers: &[DevicePeer],
    ) -> Self {
        let mut flat = Self::default();
        let resolve = Resolve {
            bound,
            reduction,
            places,
            multicasts: bound.multicasts,
        };
        for lane in &bound.lanes {
            let mut addresses = LaneAddresses {
                peers: peers.to_vec(),
                ends: Vec::new(),
            };
            // Steps that run in a row are joined: all of them, if no turn repeats.
            let all = [&lane.prologue, &lane.last, &lane.epilogue];
            let body = [&lane.body];
            let segments: [&[&Vec<BoundStep>]; 3] = match lane.turns {
                0 => [&[], &[], &all],
                _ => [&all[..1], &body, &all[1..]],
            };
            let parts = segments.map(|steps| {
                let steps = steps.iter().copied().flatten();
                fuse(
                    steps
                        .map(|step| resolve.step(step, &mut addresses))
                        .collect(),
                )
            });
            let [prologue, body, epilogue] = [0, 1, 2].map(|at| count(parts[at].len()));
            if parts.iter().all(Vec::is_empty) {
                continue;
            }
            flat.lanes.push(FlatLane {
                first: count(flat.steps.len()),
                prologue,
                body,
                epilogue,
                peer_count: count(addresses.peers.len()),
                end_count: count(addresses.ends.len()),
                turns: lane.turns,
                ..FlatLane::default()
            });
            flat.steps.extend(parts.into_iter().flatten());
            flat.peers.extend(addresses.peers);
            flat.ends.extend(addresses.ends);
            flat.channels.push(lane.channel);
        }
        flat
    }

    /// Sets the addresses of the lanes' peers and ends, if those of the first lane are here.
    pub fn place_addresses(&mut self, mut peers: u64, mut ends: u64) {
        for lane in &mut self.lanes {
            (lane.peers, lane.ends) = (peers, ends);
            peers += u64::from(lane.peer_count) * size_of::<DevicePeer>() as u64;
            ends += u64::from(lane.end_count) * size_of::<u64>() as u64;
        }
    }
}

/// What the steps of a lane refer to by index.
struct LaneAddresses {
    peers: Vec<DevicePeer>,
    /// Addresses of ends of FIFOs and signals.
    ends: Vec<u64>,
}

impl LaneAddresses {
    fn end(&mut self, address: u64) -> u32 {
        count(index(&mut self.ends, address))
    }
}

/// The index of something in a list; adds it if it is new.
fn index<T: PartialEq>(known: &mut Vec<T>, it: T) -> usize {
    let at = known.iter().position(|other| *other == it);
    at.unwrap_or_else(|| {
        known.push(it);
        known.len() - 1
    })
}

fn count(items: usize) -> u32 {
    u32::try_from(items).unwrap_or(u32::MAX)
}

struct Resolve<'a> {
    bound: &'a BoundProgram,
    reduction: Option<Reduction>,
    places: &'a dyn Places,
    multicasts: bool,
}

impl Resolve<'_> {
    /// The step; adds its peers and connections to the lane's addresses.
    fn step(&self, step: &BoundStep, addresses: &mut LaneAddresses) -> FlatStep {
        let sources = &step.sources[..usize::from(step.source_count)];
        let destinations = &step.destinations[..usize::from(step.destination_count)];
        let mut flat = FlatStep {
            bytes: step.elements * u64::from(self.bound.element_bytes),
            source_count: step.source_count,
            destination_count: step.destination_count,
            wait_count: step.wait_count,
            notify_count: step.notify_count,
            finish: u8::from(step.finish && self.reduction == Some(Reduction::Average)),
            ..FlatStep::default()
        };
        let multiplies = self.reduction == Some(Reduction::PreMultipliedSum);
        for (index, source) in sources.iter().enumerate() {
            let input = matches!(
                source,
                BoundOperand::Local {
                    buffer: BufferKind::Input,
                    ..
                }
            );
            flat.pre_multiply |= u8::from(multiplies && input) << index;
            flat.operands[index] = self.operand(source, true, addresses);
        }
        for (index, destination) in destinations.iter().enumerate() {
            flat.operands[MOST_OPERANDS + index] = self.operand(destination, false, addresses);
        }
        let reaches = flat.operands.iter();
        flat.reaches = u8::from(
            reaches
                .into_iter()
                .any(|operand| operand.kind == OperandKind::Peer as u32),
        );
        let everywhere = |operands: &[BoundOperand]| {
            let multicast =
                |operand: &BoundOperand| matches!(operand, BoundOperand::Multicast { .. });
            u8::from(operands.iter().any(multicast))
        };
        flat.multicast =
            everywhere(sources) | everywhere(destinations) << 1 | u8::from(self.multicasts) << 2;
        for (index, wait) in step.waits[..usize::from(step.wait_count)]
            .iter()
            .enumerate()
        {
            let end = self.places.awaited(&self.bound.waits[usize::from(*wait)]);
            flat.waits[index] = addresses.end(end);
        }
        let notifies = &step.notifies[..usize::from(step.notify_count)];
        for (index, notify) in notifies.iter().enumerate() {
            let end = self
                .places
                .given(&self.bound.notifies[usize::from(*notify)]);
            flat.notifies[index] = addresses.end(end);
        }
        flat
    }

    fn operand(
        &self,
        operand: &BoundOperand,
        source: bool,
        addresses: &mut LaneAddresses,
    ) -> FlatOperand {
        match *operand {
            BoundOperand::None => FlatOperand::default(),
            BoundOperand::Multicast {
                buffer: buffer @ BufferKind::Scratch,
                offset,
                stride,
            } => FlatOperand {
                kind: OperandKind::Everywhere as u32,
                buffer: buffer as u16,
                peer: 0,
                place: self.places.multicast(),
                offset,
                stride,
            },
            // As a buffer of the first peer: the own table with the windows' multicast addresses.
            BoundOperand::Multicast {
                buffer,
                offset,
                stride,
            } => FlatOperand {
                kind: OperandKind::Peer as u32,
                buffer: buffer as u16,
                peer: 0,
                place: 0,
                offset,
                stride,
            },
            BoundOperand::Fifo(place) => {
                let place = usize::from(place);
                let end = if source {
                    self.places.receiver(&self.bound.receives[place])
                } else {
                    self.places.sender(&self.bound.sends[place])
                };
                FlatOperand {
                    kind: OperandKind::Fifo as u32,
                    place: addresses.end(end).into(),
                    ..FlatOperand::default()
                }
            }
            BoundOperand::Local {
                buffer,
                offset,
                stride,
            } => FlatOperand {
                kind: OperandKind::Local as u32,
                buffer: buffer as u16,
                peer: 0,
                place: 0,
                offset,
                stride,
            },
            BoundOperand::Peer {
                peer,
                buffer,
                offset,
                stride,
            } => {
                let rank = self.bound.peers[usize::from(peer)];
                let at = index(&mut addresses.peers, self.places.peer(rank));
                FlatOperand {
                    kind: OperandKind::Peer as u32,
                    buffer: buffer as u16,
                    peer: u16::try_from(at).unwrap_or(u16::MAX),
                    place: 0,
                    offset,
                    stride,
                }
            }
        }
    }
}
