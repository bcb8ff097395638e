//! Exchanges of tokens with experts, whose time is simulated.

use std::collections::HashMap;

use planner::Planned;
use simulator::Fabric;
use workload::{Direction, Tokens};

use crate::simulate::experts::{Exchange, ExchangeSchedule, ExpertsQuestion, Routing, exchange};

/// Most tokens into which the bytes of a rank are divided: rounding changes a millionth.
const MOST_TOKENS: u64 = 1 << 20;

/// Exchanges that were simulated.
#[derive(Debug, Default)]
pub(super) struct Exchanges {
    /// Time, µs, by plan, bytes of all copies, and tokens.
    known: HashMap<(usize, u64, Tokens), f64>,
}

impl Exchanges {
    /// The time of an exchange on plan `at`, and that of the shortest one, of about a byte between
    /// two ranks, µs. `bytes` are those of all copies of a rank's tokens.
    ///
    /// # Errors
    /// The experts do not fit the ranks, or it cannot be simulated; a sentence.
    pub(super) fn times(
        &mut self,
        planned: &Planned,
        at: usize,
        bytes: u64,
        tokens: Tokens,
    ) -> Result<[f64; 2], String> {
        let ranks = u64::from(planned.job.layout().ranks());
        let least = ranks * u64::from(tokens.top_k);
        let time = self.time(planned, at, bytes.max(least), tokens)?;
        Ok([time, self.time(planned, at, least, tokens)?])
    }

    fn time(
        &mut self,
        planned: &Planned,
        at: usize,
        bytes: u64,
        tokens: Tokens,
    ) -> Result<f64, String> {
        let key = (at, bytes, tokens);
        if let Some(known) = self.known.get(&key) {
            return Ok(*known);
        }
        let time = simulated(planned, bytes, tokens)?;
        self.known.insert(key, time);
        Ok(time)
    }
}

fn simulated(planned: &Planned, bytes: u64, tokens: Tokens) -> Result<f64, String> {
    let ranks = planned.job.layout().ranks();
    // Each token once.
    let once = (bytes / u64::from(tokens.top_k)).max(1);
    let token_bytes = once.div_ceil(MOST_TOKENS);
    let (Ok(each), Ok(count)) = (
        u32::try_from(token_bytes),
        u32::try_from(once.div_ceil(token_bytes)),
    ) else {
        let most = u64::from(u32::MAX) * MOST_TOKENS;
        return Err(format!("{bytes} bytes; expected at most {most}"));
    };
    let routing = Routing::uniform(ranks, count, tokens.experts, tokens.top_k)?;
    let question = ExpertsQuestion {
        routing: &routing,
        token_bytes: each,
        exchange: match tokens.direction {
            Direction::Dispatch => Exchange::Dispatch,
            Direction::Combine => Exchange::Combine,
        },
        schedule: ExchangeSchedule::TwoStage,
    };
    let found = exchange(planned.plan(), &question, &Fabric::default());
    let time = found.map(|it| it.time_us);
    time.map_err(|why| format!("bytes {bytes}: {why}"))
}
