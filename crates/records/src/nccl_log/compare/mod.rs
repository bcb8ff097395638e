//! NCCL's decisions, as values, and their comparison with a plan, value by value.
//!
//! An answer comes from a library that was asked, or from the log of a job.
//!
//! In reading order: [`answer`], [`tally`] (counting), `graphs`, `channels` (rings, trees, NVLink
//! SHARP), `transports`, `costs`.

pub mod answer;
mod channels;
mod costs;
mod graphs;
pub mod tally;
mod transports;

use plan::{CostTable, Plan};

pub use answer::{Answer, Failure};
pub use tally::{Difference, Field, FieldComparison, Tally};

/// The planner's result for the job.
#[derive(Debug, Clone, Copy)]
pub enum PlannerOutcome<'a> {
    /// A plan, and its costs as NCCL logs them.
    Plan(&'a Plan, &'a CostTable),
    /// Why there is none.
    Refused(&'a str),
}

/// Compares what an answer says with a plan, field by field. A log may be cut, lack subsystems, or
/// end before connections that NCCL makes late.
pub fn compare_partly(answer: &Answer, planned: PlannerOutcome<'_>) -> Vec<FieldComparison> {
    let answer = Answer {
        is_partial: true,
        ..answer.clone()
    };
    compare(&answer, planned)
}

/// Compares an answer with a plan, field by field.
pub fn compare(answer: &Answer, planned: PlannerOutcome<'_>) -> Vec<FieldComparison> {
    let mut tallies: Vec<Tally> = Field::ALL.map(Tally::new).into();
    let [outcome, rest @ ..] = &mut tallies[..] else {
        return Vec::new();
    };
    let said = match &answer.refusal {
        Some(error) => format!("refused: {error}"),
        None => "a communicator".to_owned(),
    };
    match (planned, &answer.refusal) {
        (PlannerOutcome::Plan(plan, logged), None) => {
            outcome.agree();
            costs::failures(answer, plan, outcome);
            compare_plans(answer, plan, logged, rest);
        }
        (PlannerOutcome::Refused(_), Some(_)) => {
            outcome.agree();
            rest.iter_mut()
                .for_each(|it| it.absent("both refuse the job"));
        }
        (PlannerOutcome::Plan(..), Some(_)) => {
            outcome.differ("outcome", &said, "a plan");
            rest.iter_mut()
                .for_each(|it| it.absent("NCCL refuses the job"));
        }
        (PlannerOutcome::Refused(why), None) => {
            outcome.differ("outcome", &said, format!("refused: {why}"));
            rest.iter_mut()
                .for_each(|it| it.absent("topo refuses the job"));
        }
    }
    // Most jobs are not asked to connect all ranks.
    tallies.retain(|it| it.field() != Field::Peers || answer.peers.is_some());
    let finish = |mut tally: Tally| {
        if answer.is_partial {
            tally.absent_if_empty("NCCL has not said it");
        }
        tally.finish()
    };
    tallies.into_iter().map(finish).collect()
}

fn compare_plans(answer: &Answer, plan: &Plan, logged: &CostTable, tallies: &mut [Tally]) {
    let expansion = match plan.expansion() {
        Ok(expansion) => expansion,
        Err(error) => {
            tallies
                .iter_mut()
                .for_each(|it| it.lacking(&error.to_string()));
            return;
        }
    };
    let alone = plan.rank_count() == 1;
    for tally in tallies {
        let of_several = [
            Field::Transports,
            Field::Costs,
            Field::Times,
            Field::Choices,
            Field::Windows,
            Field::Peers,
        ];
        if alone && of_several.contains(&tally.field()) {
            tally.absent("a single rank has no neighbors and chooses nothing");
            continue;
        }
        match tally.field() {
            Field::Outcome => {}
            Field::Channels => channels::counts(answer, expansion, tally),
            Field::Graphs => graphs::compare(answer, plan, expansion, tally),
            Field::Rings => channels::rings(answer, expansion, tally),
            Field::Trees => channels::trees(answer, expansion, tally),
            Field::Nvls => channels::nvls(answer, expansion, tally),
            Field::Transports => transports::kinds(answer, expansion, tally),
            Field::Nics => transports::ports(answer, plan, expansion, tally),
            Field::Costs => costs::model(answer, logged, tally),
            Field::Times => costs::times(answer, plan, tally),
            Field::Choices => costs::choices(answer, plan, tally),
            Field::Windows => costs::windows(answer, plan, tally),
            Field::Peers => transports::peers(answer, expansion, tally),
            Field::Memory => {}
        }
    }
}
