//! The page about engines.

use pages::numbers::or_dash;
use pages::{Page, Section, Table, row};
use program::size::short;

use super::outcome::{Outcome, Part, Range};
use super::{Basis, CrossoverAnswer, EngineAnswer, EnginesReport, Pairs};
use crate::head;

/// Most pairs that a row names.
const NAMED: usize = 4;

impl EnginesReport {
    /// The page.
    pub fn page(&self) -> Page {
        let mut page = Page::new(&self.name);
        let joined = match (self.nvlink, self.multicast) {
            (true, true) => "NVLink between every pair, with multicast",
            (true, false) => "NVLink between every pair, no multicast",
            (false, _) => "not every pair joined by NVLink",
        };
        page.field(
            "gpus",
            format!("{} of {}, {joined}", self.ranks, self.compute_capability),
        );
        let peer = self
            .peer_access
            .map_or("not known: both outcomes", |it| it.name());
        page.field("peers", format!("peer access: {peer}"));
        page.field("nccl", head::version(&self.profile));
        page.fields.push(head::settings_of_plan(&self.settings));
        page.field("rows", format!("{} elements", self.width));
        let section = page.section(
            "Pairs",
            "what a job of two such GPUs uses: one row (decode), then 8192 rows if that differs",
        );
        let mut headers = vec!["pairs", "path", "peer access", "NCCL"];
        headers.extend(self.engines.iter().map(|it| it.name));
        let mut table = Table::new(headers);
        for pairs in &self.pairs {
            table.row(pairs.row());
        }
        section.table(table);
        for why in self
            .pairs
            .iter()
            .filter_map(|it| Some((it, it.nccl_why.as_ref()?)))
        {
            section.faint(format!(
                "NCCL takes {} for {}: {}",
                why.0.nccl,
                why.0.named(),
                why.1
            ));
        }
        for it in &self.assumptions {
            section.notice(format!("assumed: {it}"));
        }
        for engine in &self.engines {
            engine.add_to(&mut page, self.is_about_one);
        }
        let section = page.section("Prove it", "whatever the engine");
        for proof in self.proofs.iter() {
            section.item(format!("{}: {}", proof.shows, proof.command));
        }
        page
    }
}

impl Pairs {
    fn named(&self) -> String {
        let pair = |it: &[i32; 2]| format!("{}–{}", it[0], it[1]);
        let named: Vec<String> = self.pairs.iter().take(NAMED).map(pair).collect();
        match self.pairs.len() > NAMED {
            true => format!("{} pairs ({} …)", self.pairs.len(), named.join(" ")),
            false => named.join(" "),
        }
    }

    fn row(&self) -> Vec<String> {
        let peer = self.peer_access.map_or("not known", |it| it.name());
        let mut cells = row![self.named(), self.path, peer, self.nccl];
        cells.extend(self.engines.iter().map(|it| {
            let [decode, prefill] = [&it.decode, &it.prefill].map(|it| it.join(" or "));
            match decode == prefill {
                true => decode,
                false => format!("{decode}, {prefill}"),
            }
        }));
        cells
    }
}

impl EngineAnswer {
    fn add_to(&self, page: &mut Page, whole: bool) {
        let title = format!("{} {}", self.name, self.version);
        let remark = format!("{}; read: {}", self.data_type, self.read);
        let section = page.section(title, remark);
        if let Some(note) = &self.version_note {
            section.notice(note);
        }
        for outcome in &self.outcomes {
            if let Some(peer) = outcome.peer_access.filter(|_| self.outcomes.len() > 1) {
                section.say(format!("Peer access {}:", peer.name()));
            }
            outcome.add_to(section, whole);
        }
        if !self.sets.is_empty() {
            let change = self.sets_change.as_deref().unwrap_or_default();
            section.say(format!(
                "Before NCCL starts it sets {}. {change}.",
                self.sets.join(" ")
            ));
        }
        for safe in &self.safe {
            let set = match safe.set.is_empty() {
                true => "nothing to set".to_owned(),
                false => safe.set.join(" "),
            };
            section.notice(format!("safe: {set} ({})", safe.why));
        }
        if !whole {
            return;
        }
        for it in &self.crossovers {
            section.item(it.in_words());
        }
        for note in &self.notes {
            section.faint(*note);
        }
        if let Some(proof) = self.proof {
            section.item(format!("prove it: {proof}"));
        }
    }
}

impl CrossoverAnswer {
    fn in_words(&self) -> String {
        let basis = match self.basis {
            Basis::Measured => "measured",
            Basis::Modelled => "modelled",
            Basis::Unknown => "unknown",
        };
        let sizes: Vec<String> = self.bytes.iter().map(|it| short(*it)).collect();
        let sizes = match sizes.is_empty() {
            true => String::new(),
            false => format!("as fast at {}; ", sizes.join(" and ")),
        };
        format!(
            "{} against NCCL, {basis}: {sizes}{}",
            self.method, self.text
        )
    }
}

impl Outcome {
    fn add_to(&self, section: &mut Section, whole: bool) {
        let mut table = Table::new(["calls", ">from", "to", "method", "kernel", "sure"]);
        for range in &self.ranges {
            table.row(range.row());
        }
        section.table(table);
        for it in &self.messages {
            let mode = it.mode.map_or("", |it| mode_in_words(Some(it)));
            let kernel = it
                .kernel
                .as_deref()
                .map_or(String::new(), |it| format!(" ({it})"));
            section.say(format!("{}: {}{kernel} {mode}", short(it.bytes), it.method));
        }
        let mut said: Vec<&str> = Vec::new();
        for it in &self.ranges {
            for text in it.hazard.iter().chain(&it.assumes) {
                if !said.contains(&text.as_str()) {
                    said.push(text);
                    section.notice(format!("{}: {text}", it.method));
                }
            }
        }
        section.say(format!(
            "NCCL gets {} in decoding and {} in prefill (modelled by size).",
            self.nccl.decode.in_words(),
            self.nccl.prefill.in_words()
        ));
        if !whole {
            return;
        }
        for it in &self.refused {
            section.item(format!("not {}: {}", it.method, it.why));
        }
        for it in &self.changed_by {
            section.item(format!(
                "{}: then {} in decoding, {} in prefill",
                it.set,
                it.decode.join(", "),
                it.prefill.join(", ")
            ));
        }
    }
}

const fn mode_in_words(mode: Option<super::facts::Mode>) -> &'static str {
    match mode {
        None => "all",
        Some(super::facts::Mode::Graph) => "captured",
        Some(super::facts::Mode::Eager) => "eager",
    }
}

impl Part {
    fn in_words(&self) -> String {
        let perhaps = match self.perhaps.len() {
            0 => String::new(),
            more => format!(" and perhaps {more}"),
        };
        format!(
            "{}{perhaps} of {} sizes ({} to {} rows)",
            self.nccl.len(),
            self.rows.len(),
            or_dash(self.rows.first()),
            or_dash(self.rows.last())
        )
    }
}

impl Range {
    fn row(&self) -> Vec<String> {
        let zeros = |it: u64| it.trailing_zeros();
        let to = self.to.map_or("…".to_owned(), |to| {
            match zeros(to) >= zeros(to + super::evaluate::GRAIN) {
                true => short(to),
                false => format!("below {}", short(to + super::evaluate::GRAIN)),
            }
        });
        let sure = match self.sure {
            super::facts::Sure::Run => "run",
            super::facts::Sure::Read => "read",
            super::facts::Sure::Docs => "docs",
            super::facts::Sure::Reported => "reported",
        };
        row![
            mode_in_words(self.mode),
            short(self.from),
            to,
            self.method,
            or_dash(self.kernel.as_ref()),
            sure
        ]
    }
}
