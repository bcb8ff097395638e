//! The page of a run while it grows: the head, each row when it is measured, and the summary.

use std::mem;

use answers::report;
use anyhow::Result;
use bench::json::RunJson;
use bench::page::table::Table;
use bench::page::{self, explain};
use bench::{Event, RunReport, RunRow};

use crate::arguments::compare::TextOrJson;
use crate::arguments::run::RunArguments;
use crate::environment::Environment;
use crate::exit;
use crate::output::Output;
use crate::progress::Steps;
use crate::render::Look;
use program::size;

/// The knowledge of the printing rank, and how it prints it.
pub(super) struct Live<'a> {
    report: RunReport,
    json: bool,
    look: Look,
    table: Table,
    /// The head, until it is printed.
    head: Option<String>,
    steps: Steps,
    output: &'a mut Output,
    /// Whether standard output took all that was printed.
    printed: Result<()>,
}

impl<'a> Live<'a> {
    pub(super) fn new(
        report: RunReport,
        arguments: &RunArguments,
        environment: &Environment,
        output: &'a mut Output,
    ) -> Self {
        let look = environment.look();
        Self {
            json: arguments.json || arguments.format == TextOrJson::Json,
            look,
            table: Table::new(&report, look),
            head: None,
            steps: Steps::new(environment, report.spec.sizes.len()),
            report,
            output,
            printed: Ok(()),
        }
    }

    pub(super) fn observe(&mut self, event: Event<'_>) {
        match event {
            Event::Connected(devices) => {
                let head = page::head(&self.report, self.look);
                self.head = Some(format!("{devices}{head}\n{}", self.table.header()));
            }
            Event::Size(bytes) => {
                // A mistake that is found before the first size needs no head.
                if let Some(head) = self.head.take() {
                    self.print(&head);
                }
                self.steps.show(&size::short(bytes));
            }
            Event::Row(row) => {
                self.steps.clear();
                let text = self.table.row(&self.report, self.report.rows.len(), row);
                self.report.rows.push(row.clone());
                self.print(&text);
            }
        }
    }

    /// Prints a part of the page now, after the warnings so far. JSON is one document at the end.
    fn print(&mut self, text: &str) {
        if self.json {
            return;
        }
        self.output.text.push_str(text);
        let done = exit::print_now(self.output);
        if self.printed.is_ok() {
            self.printed = done;
        }
    }

    /// The end of the page, with notes on the run on GPUs; or the JSON.
    pub(super) fn finish(mut self, notes: &str) -> Result<()> {
        self.steps.clear();
        mem::replace(&mut self.printed, Ok(()))?;
        let report = &self.report;
        let wrong = report
            .rows
            .iter()
            .map(RunRow::wrong)
            .fold(0, u64::saturating_add);
        self.output.differs = wrong > 0;
        self.output.text = if self.json {
            self.output.warnings.extend(report.cores().warning());
            report::json(&RunJson::of(report))?
        } else {
            let explained = explain::section(report, self.look);
            format!("{explained}\n{notes}{}", page::summary(report, self.look))
        };
        Ok(())
    }
}
