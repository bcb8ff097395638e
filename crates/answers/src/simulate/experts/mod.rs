//! Tokens that go to experts on other ranks (dispatch), and results that come back (combine), on a
//! virtual clock.
//!
//! Two schedules are known. NCCL's all-to-all sends each copy of a token to the rank of its expert.
//! The two-stage schedule of DeepEP and NCCL EP sends a token once to each NVLink domain that needs
//! it, to the rank with the same place there, which passes it on over NVLink; on the way back that
//! rank adds the results of its domain first.
//!
//! In reading order: [`routing`] (tokens by the ranks that need them), this file, `page`.

mod page;
pub mod routing;

use plan::Plan;
use plan::expand::Expansion;
use program::lower::{RELAY_PIECES, Relayed, SendRecv, relayed, send_recv};
use program::{Collective, MessageSize, Program, Transfer};
use serde::Serialize;
use simulator::build::build_programs;
use simulator::{Fabric, Fifos, PlannedWiring};

pub use routing::Routing;

use super::choice::SimulatedChoice;
use super::{LinkLoad, SimulateError, SimulateQuestion, loads};
use crate::JsonSchema;
use crate::report::Report;

/// Most bytes of a rank's tokens, each counted once, 64 GiB: every slot is simulated.
const MOST_BYTES: f64 = (1_u64 << 36) as f64;

/// The direction of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exchange {
    /// Tokens go to their experts.
    Dispatch,
    /// Results come back.
    Combine,
}

impl Exchange {
    /// Both of them.
    pub const ALL: [Self; 2] = [Self::Dispatch, Self::Combine];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dispatch => "dispatch",
            Self::Combine => "combine",
        }
    }
}

/// How tokens move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExchangeSchedule {
    /// Each copy to the rank of its expert, as NCCL's all-to-all does.
    AllToAll,
    /// Once to each NVLink domain, and on over NVLink, as DeepEP and NCCL EP do.
    TwoStage,
}

impl ExchangeSchedule {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::AllToAll, Self::TwoStage];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AllToAll => "all-to-all",
            Self::TwoStage => "two-stage",
        }
    }
}

/// An exchange to run on the virtual clock.
#[derive(Debug, Clone, Copy)]
pub struct ExpertsQuestion<'a> {
    /// Which ranks tokens need.
    pub routing: &'a Routing,
    /// Bytes of a token.
    pub token_bytes: u32,
    /// The direction.
    pub exchange: Exchange,
    /// The schedule.
    pub schedule: ExchangeSchedule,
}

/// The result of exchanges of tokens.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ExpertsReport {
    /// Ranks.
    pub ranks: u32,
    /// Hosts.
    pub hosts: u32,
    /// The profile of NCCL's version.
    pub profile: String,
    /// The exchanges.
    pub exchanges: Vec<SimulatedExchange>,
}

/// An exchange.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SimulatedExchange {
    /// `dispatch` or `combine`.
    pub exchange: &'static str,
    /// `all-to-all` or `two-stage`.
    pub schedule: &'static str,
    /// From the launch until the last rank has ended, µs.
    pub time_us: f64,
    /// Bytes that the rank which moves most gives to ranks of other NVLink domains (dispatch) or
    /// gets from them (combine).
    pub remote_bytes: u64,
    /// The same to or from other ranks of its domain, without what it passes on.
    pub local_bytes: u64,
    /// Bytes between domains per time, GB/s; null without any.
    pub remote_gbps: Option<f64>,
    /// The links that carried anything, the busiest first.
    pub links: Vec<LinkLoad>,
}

impl Report for ExpertsReport {
    const FORMAT: &'static str = "topo-experts";
    const VERSION: u32 = 1;
}

impl ExpertsReport {
    /// Simulates both directions on a planned job, with one schedule or all.
    ///
    /// # Errors
    /// As [`exchange`].
    pub fn of(
        plan: &Plan,
        (routing, token_bytes): (&Routing, u32),
        wanted: Option<ExchangeSchedule>,
        fabric: &Fabric,
    ) -> Result<Self, SimulateError> {
        let layout = plan.expansion()?.layout();
        let mut exchanges = Vec::new();
        for direction in Exchange::ALL {
            let schedules = ExchangeSchedule::ALL.into_iter();
            for schedule in schedules.filter(|it| wanted.is_none_or(|wanted| wanted == *it)) {
                let question = ExpertsQuestion {
                    routing,
                    token_bytes,
                    exchange: direction,
                    schedule,
                };
                exchanges.push(exchange(plan, &question, fabric)?);
            }
        }
        Ok(Self {
            ranks: layout.ranks(),
            hosts: layout.hosts(),
            profile: plan.profile.clone(),
            exchanges,
        })
    }
}

/// Simulates an exchange on a planned job.
///
/// # Errors
/// The fabric or the routing does not fit the job, or a connection has no route.
pub fn exchange(
    plan: &Plan,
    question: &ExpertsQuestion<'_>,
    fabric: &Fabric,
) -> Result<SimulatedExchange, SimulateError> {
    let expansion = plan.expansion()?;
    let ranks = expansion.layout().ranks();
    let routing = question.routing;
    if routing.ranks() != ranks {
        return Err(SimulateError::Routing(format!(
            "the routing is of {} ranks and the job has {ranks}; expected the same",
            routing.ranks()
        )));
    }
    let tokens = (0..ranks).map(|rank| routing.tokens(rank));
    let bytes = tokens.fold(0.0, f64::max) * f64::from(question.token_bytes);
    if bytes > MOST_BYTES {
        return Err(SimulateError::Routing(format!(
            "the tokens of a rank have {bytes:.0} bytes; expected at most {MOST_BYTES:.0}"
        )));
    }
    let size = routing.tokens(0) * f64::from(question.token_bytes) * f64::from(routing.top_k());
    let usual = SimulateQuestion {
        channels: Some(1),
        ..SimulateQuestion::of(Collective::AllToAll, size.max(1.0) as u64)
    };
    let chosen = SimulatedChoice::of_plan(plan, expansion, &usual, fabric, &mut Vec::new())?;
    let fifos = Fifos {
        graph: None,
        latencies: chosen.latencies,
        expansion: chosen.expansion,
    };
    let wiring = PlannedWiring::new(plan, expansion, fifos, fabric, Vec::new())?;
    let maker = Maker {
        question,
        expansion,
        ranks,
        slot_bytes: chosen.slot_bytes,
    };
    let mut moved = vec![[0u64; 2]; ranks as usize];
    let mut programs = Vec::new();
    for rank in 0..ranks {
        match question.schedule {
            ExchangeSchedule::AllToAll => maker.pairs(rank, &mut programs, &mut moved)?,
            ExchangeSchedule::TwoStage => maker.stages(rank, &mut programs, &mut moved)?,
        }
    }
    let model = build_programs(&programs, ranks, &wiring)?;
    let simulated = simulator::simulate(model, 0, true)?;
    let most = moved.iter().max().copied().unwrap_or_default();
    let [remote_bytes, local_bytes] = most;
    let time_us = simulated.outcome.time.us();
    Ok(SimulatedExchange {
        exchange: question.exchange.name(),
        schedule: question.schedule.name(),
        time_us,
        remote_bytes,
        local_bytes,
        remote_gbps: (remote_bytes > 0).then(|| remote_bytes as f64 / time_us / 1e3),
        links: loads(&simulated, &wiring),
    })
}

/// Makes the programs of an exchange.
struct Maker<'a> {
    question: &'a ExpertsQuestion<'a>,
    expansion: &'a Expansion,
    ranks: u32,
    slot_bytes: u32,
}

/// Programs with their messages.
type Programs = Vec<(Program, MessageSize)>;

impl Maker<'_> {
    fn message(&self, bytes: u64) -> MessageSize {
        MessageSize {
            count: bytes,
            element_bytes: 1,
            slot_bytes: self.slot_bytes,
            piece_bytes: 0,
        }
    }

    fn bytes(&self, tokens: f64) -> u64 {
        (tokens * f64::from(self.question.token_bytes)).round() as u64
    }

    /// The copies of a rank's tokens, each to its rank or back.
    fn pairs(
        &self,
        rank: u32,
        programs: &mut Programs,
        moved: &mut [[u64; 2]],
    ) -> Result<(), SimulateError> {
        let node = self.expansion.place(rank)?.node.node;
        for peer in 0..self.ranks {
            let bytes = self.bytes(self.question.routing.copies(rank, peer));
            if bytes == 0 {
                continue;
            }
            let (from, to) = match self.question.exchange {
                Exchange::Dispatch => (rank, peer),
                Exchange::Combine => (peer, rank),
            };
            let channels = self.expansion.transfer_channels(from, to, bytes)?;
            let transfer = SendRecv {
                ranks: self.ranks,
                from,
                to,
                channels: &channels,
                transfer: Transfer::Fifo,
                in_place: false,
            };
            let message = self.message(bytes);
            programs.extend(send_recv(&transfer)?.into_iter().map(|it| (it, message)));
            if peer != rank {
                let is_local = self.expansion.place(peer)?.node.node == node;
                moved[rank as usize][usize::from(is_local)] += bytes;
            }
        }
        Ok(())
    }

    /// The tokens of a rank, once to each NVLink domain, or back.
    fn stages(
        &self,
        rank: u32,
        programs: &mut Programs,
        moved: &mut [[u64; 2]],
    ) -> Result<(), SimulateError> {
        let layout = self.expansion.layout();
        let place = self.expansion.place(rank)?;
        let routing = self.question.routing;
        for node in (0..layout.nodes()).filter_map(|node| layout.node(node)) {
            let members = layout.ranks_of(node);
            let is_own = node.node == place.node.node;
            let tokens = routing.needing(rank, &members);
            let bytes = self.bytes(tokens);
            if bytes == 0 || members.is_empty() {
                continue;
            }
            let relay = match is_own {
                true => rank,
                false => members[place.member as usize % members.len()],
            };
            // Each relay begins with its next rank, so that relays do not crowd one receiver.
            let own = members.iter().position(|it| *it == relay).unwrap_or(0);
            let in_turn = members[own..].iter().chain(&members[..own]);
            let mut needs = Vec::with_capacity(members.len());
            for peer in in_turn {
                let part = routing.needing(rank, &[*peer]);
                if self.bytes(part) == 0 {
                    continue;
                }
                let pieces = (part / tokens * f64::from(RELAY_PIECES)).round();
                needs.push((*peer, pieces.clamp(1.0, f64::from(RELAY_PIECES)) as u16));
                if is_own && *peer != rank {
                    moved[rank as usize][1] += self.bytes(part);
                }
            }
            if needs.is_empty() {
                continue;
            }
            if !is_own {
                moved[rank as usize][0] += bytes;
            }
            let (from, to) = match self.question.exchange {
                Exchange::Dispatch => (rank, relay),
                Exchange::Combine => (relay, rank),
            };
            let channels = self.expansion.transfer_channels(from, to, bytes)?;
            let request = Relayed {
                ranks: self.ranks,
                source: rank,
                relay,
                needs: &needs,
                channels: &channels,
                outward: self.question.exchange == Exchange::Dispatch,
            };
            let message = self.message(bytes);
            programs.extend(relayed(&request)?.into_iter().map(|it| (it, message)));
        }
        Ok(())
    }
}
