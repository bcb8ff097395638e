//! Answers as the pages that people read, for programs that ask in JSON.

use pages::{Look, Page};
use plan::Plan;
use planner::Planned;
use simulator::Fabric;

use super::{matrix, plan::PlanPage, rank};
use crate::assumptions;
use crate::file_question::FileQuestion;
use crate::forests::with_forests;
use crate::matrix::Wiring;
use crate::question::{Question, sentence};
use crate::report::Answered;
use crate::request::PlannedJob;
use crate::simulate;

/// Rows of links in the page of a simulation.
const LINKS: usize = 10;

/// The page of a plan, without attempts and connections.
fn whole(plan: &Plan, live: Option<&Planned>, look: Look) -> Result<Page, String> {
    let page = PlanPage {
        plan,
        expansion: plan.expansion().map_err(sentence)?,
        live,
        rings: None,
        explain: false,
        connections: false,
        look,
    };
    Ok(page.page())
}

impl Answered {
    /// Its page, or its JSON if it has none.
    fn text(self, look: Look) -> String {
        self.page.map_or(self.json, |page| page.text(look))
    }
}

impl PlannedJob {
    /// The page of an answer.
    ///
    /// # Errors
    /// The question does not fit the job; a sentence.
    pub fn text(&self, question: &Question, look: Look) -> Result<String, String> {
        let plan = self.planned.plan();
        let page = match question {
            Question::Overview { .. } => {
                let mut page = whole(plan, Some(&self.planned), look)?;
                assumptions::add(&mut page, &self.assumptions);
                page
            }
            Question::Forests { trees } => {
                let plan = with_forests(&self.planned, *trees).map_err(sentence)?;
                whole(&plan, None, look)?
            }
            Question::Rank { rank } => {
                let expansion = plan.expansion().map_err(sentence)?;
                let view = expansion.rank_view(*rank).map_err(sentence)?;
                rank::page(plan, expansion, &view)
            }
            Question::Simulate(question) => {
                let done = simulate::planned(&self.planned, None, question, &Fabric::default());
                done.map_err(sentence)?.page(LINKS)
            }
            Question::WhatIf(question) => self.after_failures(question)?.page(None),
            _ => return Ok(self.ask(question)?.text(look)),
        };
        let notes = self.notes.iter().map(|it| format!("note: {it}\n"));
        Ok(page.text(look) + &notes.collect::<String>())
    }
}

impl FileQuestion {
    /// The page of the answer.
    ///
    /// # Errors
    /// As [`FileQuestion::answer`].
    pub fn text(&self, look: Look) -> Result<String, String> {
        let answered = self.answer()?;
        match self {
            Self::Matrix { file } => Ok(matrix::wiring(
                &Wiring::new(&file.machine()?.document),
                look,
            )),
            _ => Ok(answered.text(look)),
        }
    }
}
