//! A better placement of ranks, as a section of a page.

use pages::numbers::{count, milliseconds as ms, percent};
use pages::{Page, Table};

use super::Placement;

impl Placement {
    /// Adds the section. `written`: the launchers' files, with their uses.
    pub(in crate::step) fn section(&self, page: &mut Page, written: &[(String, String)]) {
        let mut table = Table::new([
            "",
            ">time now",
            ">best",
            ">exposed now",
            ">best",
            "hosts now",
            "best",
        ]);
        for group in &self.groups {
            let [time, exposed] = [group.time_us, group.exposed_us].map(|it| it.map(ms));
            let hosts = group.hosts.map(|[least, most]| match least == most {
                true => most.to_string(),
                false => format!("{least} to {most}"),
            });
            let mut row = vec![group.name.clone()];
            row.extend(time.into_iter().chain(exposed).chain(hosts));
            table.row(row);
        }
        let remark = "ms of each group with ranks as they are and in their best places, hosts of a communicator";
        let section = page.section("Placement", remark).table(table);
        for sentence in self.sentences() {
            section.say(sentence);
        }
        if !self.ended {
            section.hint("(--orders prices more)");
        }
        for (file, usage) in written {
            section.item(format!("{file}: {usage}"));
        }
    }

    fn sentences(&self) -> Vec<String> {
        let [now, best] = self.step_us;
        let tried = count(self.tried, "order");
        let ends = match self.ended {
            true => format!("{tried} were priced"),
            false => format!("{tried} were priced, others were not"),
        };
        let mut sentences = vec![match self.is_better {
            true => format!(
                "The best order takes {} ms instead of {} for a step ({}); {ends}.",
                ms(best),
                ms(now),
                percent(best / now - 1.0)
            ),
            false => format!("No order that was priced is better than the given one; {ends}."),
        }];
        if let Some(floor) = self.floor_us {
            let left = 1.0 - floor / best.max(f64::MIN_POSITIVE);
            let than = "no order that gives a communicator the same GPUs on each of its hosts";
            sentences.push(match left < 1e-6 {
                true => format!("It is the best: {than} is faster."),
                false => format!(
                    "At most {:.1} % could be gained by another: {than} takes less than {} ms.",
                    left * 100.0,
                    ms(floor)
                ),
            });
        }
        sentences
    }
}
