//! The answer as a page.

use pages::numbers::{count, gbps, group, microseconds, or_dash, short};
use pages::{Page, Section, Table, row};
use plan::GraphKind;
use plan::certificate::Operation;
use records::results::shares::all_shares;

use super::{
    BarSource, ChosenStep, CollectiveGains, Extreme, Gain, Proposal, SMALLEST, Trial, TuneReport,
    Verdict, WORTH_TREES, WrittenFiles,
};
use crate::export::Kind;
use crate::head;

/// How much more NCCL's rating must be than the gain by the links to be told apart.
const WORTH_A_WORD: f64 = 1.01;

/// What the columns mean.
const LINKS: &str = "links: NCCL chooses by the bandwidths that it states, and each choice costs what its rings carry on \
    the machine's links. between: with error bars.";

/// What the column of NCCL's rating means.
const RATED: &str = "rated: by the times that NCCL predicts itself, which also limit what one channel carries. The truth \
    may lie between both.";

/// Bars from the shares of predictions that runs reached.
const SHARES: &str = "The bars are the gains if the job reached the greatest share of its prediction before that a \
    published healthy run reached, and reaches the least after, and the reverse (docs/acceptance.md).";

/// Bars from runs of other kinds of jobs.
const OTHER_RUNS: &str = "? by runs of jobs that are joined or reduce otherwise.";
impl TuneReport {
    /// The page.
    pub fn page(&self) -> Page {
        let mut page = self.head();
        page.field("answer", self.verdict());
        let least = self.tried.iter().filter_map(|it| it.helps_from).min();
        if let (Some(least), None) = (least, &self.proposal) {
            let least = short(least);
            page.hint(format!(
                ". For jobs without messages below {least}: --from {least}"
            ));
        }
        if let Some(proposal) = &self.proposal {
            told(page.section("Tell NCCL", ""), proposal, self.files.as_ref());
            self.gains(&mut page);
        }
        if let Some(trees) = self.trees() {
            page.section("Beyond NCCL", "").say(trees).hint(
                "; topo plan --strategy forest writes them, and topo run and the libraries run them.",
            );
        }
        let remark = "settings alone; rings and choices with what NCCL needs for them";
        tried(page.section("Tried", remark), &self.tried);
        let files = self.files();
        if !files.is_empty() {
            let section = page.section("Files", "");
            for line in files {
                section.item(line);
            }
        }
        page
    }

    /// The job, the plan in short, and the bound.
    fn head(&self) -> Page {
        let mut page = Page::new(&self.name);
        page.field("job", head::job(self.now.plan()));
        page.field("nccl", head::version(&self.profile));
        if self.fitted {
            page.field("times", "by constants that were fitted to measurements");
        }
        page.fields.push(head::settings_of_plan(&self.settings));
        for kind in [GraphKind::Ring, GraphKind::Tree] {
            if let Some(line) = self.channels(kind) {
                page.field(&format!("{kind}s"), line);
            }
        }
        if let Some(line) = self.bound() {
            page.field("bound", line);
        }
        page
    }

    /// The channels of a kind that NCCL finds.
    fn channels(&self, kind: GraphKind) -> Option<String> {
        let graph = self.now.plan().common.as_ref()?.graph(kind)?;
        if graph.channels == 0 {
            return None;
        }
        let networked = self.now.job.layout().nodes() > 1;
        let each = match networked {
            true => graph.bw_intra.min(graph.bw_inter),
            false => graph.bw_intra,
        };
        let channels = count(graph.channels as usize, "channel");
        let mut line = format!("{channels} of {} GB/s, {}", gbps(each), graph.type_intra);
        if networked {
            line.push_str(&format!(", {} to the network", graph.type_inter));
        }
        if let Some(found) = self.rings.as_ref().filter(|_| kind == GraphKind::Ring) {
            if found.carried_gbps > found.stated_gbps * 1.001 {
                line.push_str(&format!("; they carry {:.1}", found.carried_gbps));
            }
            if found.better {
                line.push_str(&format!("; others carry {:.1}", found.best_gbps));
            }
            line.push_str(&format!(
                "; no rings carry more than {:.1}",
                found.bound_gbps
            ));
        }
        Some(line)
    }

    /// The bounds of two collectives, with NCCL's share.
    fn bound(&self) -> Option<String> {
        let wanted = self.bounds.iter().filter(|row| {
            matches!(
                row.operation,
                Operation::AllReduce | Operation::AllReduceInNetwork | Operation::AllGather
            )
        });
        let parts = wanted.map(|row| {
            let name = match row.operation {
                Operation::AllReduceInNetwork => "all-reduce in switches",
                operation => operation.name(),
            };
            let share = row.nccl_gbps.map(|it| 100.0 * it / row.bound_gbps);
            let share = or_dash(share.map(|it| format!("{it:.0} %")));
            format!("{name} {:.1} GB/s, NCCL states {share}", row.bound_gbps)
        });
        let parts: Vec<String> = parts.collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    /// The answer in a sentence or two.
    fn verdict(&self) -> String {
        let Some(proposal) = &self.proposal else {
            return self.nothing();
        };
        let mut parts: Vec<String> = proposal.settings.iter().map(ToString::to_string).collect();
        if proposal.rings.is_some() {
            parts.push("a graph file".to_owned());
        }
        if proposal.needs_choices {
            parts.push("a tuner plug-in with choices".to_owned());
        }
        if proposal.drops_graph_file {
            parts.push("NCCL_GRAPH_FILE unset or replaced".to_owned());
        }
        let most = self
            .gains
            .iter()
            .flat_map(|of| of.sizes.iter().map(move |it| (of.collective, it)))
            .max_by(|a, b| a.1.most().total_cmp(&b.1.most()));
        let most = most.filter(|(_, gain)| gain.changes());
        let most = most.map_or_else(
            || "faster by the model at other sizes or collectives than these".to_owned(),
            |(collective, gain)| {
                let (name, bytes) = (collective.command_name(), short(gain.bytes));
                let by = match gain.most() > gain.gain * WORTH_A_WORD {
                    true => format!(
                        "as NCCL rates its channels, {} by the links",
                        times(gain.gain)
                    ),
                    false => "by the model".to_owned(),
                };
                format!(
                    "up to {} as fast ({name} of {bytes}) {by}",
                    times(gain.most())
                )
            },
        );
        let from = match self.from {
            0..=SMALLEST => String::new(),
            from => format!(" from {} on", short(from)),
        };
        format!(
            "{most}, and nothing slower{from}, with {}",
            parts.join(", ")
        )
    }

    /// Why nothing is proposed.
    fn nothing(&self) -> String {
        let rings = match &self.rings {
            Some(found) if found.better => {
                "other rings carry more, but the model has slower messages with them (below)"
            }
            Some(_) if self.now.settings.graphs.is_some() => {
                "the rings of the graph file are as good as the best that were found"
            }
            Some(_) => "NCCL's own rings are as good as the best that were found",
            None => "no other rings were searched (below)",
        };
        format!(
            "nothing to gain: {rings}, no setting that was tried makes anything faster without making something \
             slower, and NCCL chooses algorithms and protocols as well as the model can"
        )
    }

    /// The gains: of all collectives side by side, and of the first one that changes in detail.
    fn gains(&self, page: &mut Page) {
        if self.gains.len() > 1 {
            let remark = "how many times as fast: by the links or as NCCL rates it, the greater";
            page.section("Gain", remark).table(matrix(&self.gains));
        }
        let changes = |it: &&CollectiveGains| it.sizes.iter().any(Gain::changes);
        let detailed = self.gains.iter().find(changes);
        if let Some(gains) = detailed.or(self.gains.first()) {
            let section = page.section(gains.collective.name(), "times by the links, µs");
            section.table(detail(gains));
            notes(section, gains);
        }
    }

    /// Trees that reach more than NCCL's plan, which NCCL cannot take.
    fn trees(&self) -> Option<String> {
        let better = self.bounds.iter().filter_map(|row| {
            let (reached, nccl) = (row.trees_gbps?, row.nccl_gbps?);
            let name = row.operation.name();
            (reached > nccl * WORTH_TREES)
                .then(|| format!("{name} {reached:.1} GB/s, NCCL {nccl:.1}"))
        });
        let better: Vec<String> = better.collect();
        (!better.is_empty()).then(|| {
            format!(
                "Trees reach more for long messages ({}). NCCL cannot be told of them",
                better.join("; ")
            )
        })
    }

    /// The files, and what libraries made of them.
    fn files(&self) -> Vec<String> {
        let written = match &self.files {
            Some(done) => {
                let names: Vec<&str> = done.files.iter().map(|it| it.file.as_str()).collect();
                Some(format!("in {}: {}", done.folder, names.join(", ")))
            }
            None if self.asks_for_files => Some("none: there is nothing to tell NCCL".to_owned()),
            None => None,
        };
        let checks = self.checks.iter().map(|check| {
            let library = match &check.version {
                Some(version) => format!("NCCL {version} ({})", check.library),
                None => check.library.clone(),
            };
            let said = match (&check.version, check.agrees) {
                (_, true) => format!(
                    "takes the files and decides as planned, {} values",
                    check.values
                ),
                (Some(_), false) => format!(
                    "{} of {} values differ: {}",
                    check.differing,
                    check.values,
                    check.why.as_deref().unwrap_or("some are lacking")
                ),
                (None, false) => check.why.clone().unwrap_or_default(),
            };
            format!("{library}: {said}")
        });
        written.into_iter().chain(checks).collect()
    }
}

/// What NCCL is told.
fn told(section: &mut Section, proposal: &Proposal, written: Option<&WrittenFiles>) {
    let folder = written.map_or("DIR", |it| it.folder.as_str());
    for setting in &proposal.settings {
        section.item(match setting.caution {
            Some(caution) => format!("{setting}  {caution}."),
            None => setting.to_string(),
        });
    }
    if proposal.drops_graph_file {
        section.item("The graph file that the job has is not used any more.");
    }
    if let Some(rings) = &proposal.rings {
        let mut files = written.iter().flat_map(|it| &it.files);
        let file = files.find(|it| it.kind == Kind::Graph);
        let file = file.map_or("graph-GPUS.xml", |it| it.file.as_str());
        section.item(format!(
            "NCCL_GRAPH_FILE={folder}/{file}  rings: {rings}. NCCL refuses communicators of other GPUs then."
        ));
    }
    if proposal.needs_choices {
        section.item(format!(
            "NCCL_TUNER_PLUGIN={folder}/libnccl-tuner-topo.so  choices of algorithm and protocol by size: NCCL compares them by \
             bandwidths that are not those of the links."
        ));
    }
    match written {
        Some(_) => section.item(format!(
            "All of this is in {folder}/nccl.conf: NCCL_CONF_FILE={folder}/nccl.conf."
        )),
        None => section
            .item("")
            .hint("--dir DIR writes all of this as files, with an nccl.conf."),
    };
}

/// What the columns and marks of a table mean.
fn notes(section: &mut Section, gains: &CollectiveGains) {
    let of = |source: BarSource| {
        let mut sizes = gains.sizes.iter().filter(|it| it.changes());
        sizes.any(|it| it.bars == source)
    };
    let [model, others, runs] = [BarSource::Model, BarSource::OtherRuns, BarSource::Runs].map(of);
    section.faint(LINKS);
    if is_rated_otherwise(gains) {
        section.faint(RATED);
    }
    if others || runs {
        section.faint(SHARES);
    }
    if others {
        section.faint(OTHER_RUNS);
    }
    if model {
        let [low, high] = all_shares();
        section.faint(format!(
            "! no two published runs measured such messages: there is only the model. Published healthy runs of \
             longer messages reached {low:.2} to {high:.2} of their predictions."
        ));
    }
}

fn matrix(all: &[CollectiveGains]) -> Table {
    let names = all.iter().map(|it| it.collective.command_name());
    let mut table = Table::new(["size"].into_iter().chain(names));
    table.right = (0..table.headers.len()).collect();
    let mut sizes: Vec<u64> = all
        .iter()
        .flat_map(|it| &it.sizes)
        .map(|it| it.bytes)
        .collect();
    sizes.sort_unstable();
    sizes.dedup();
    for bytes in sizes {
        let gain = |of: &CollectiveGains| {
            let found = of.sizes.iter().find(|it| it.bytes == bytes)?;
            Some(times_or_equal(found.most()))
        };
        let cells = all.iter().map(|it| or_dash(gain(it)));
        table.row([short(bytes)].into_iter().chain(cells).collect());
    }
    table
}

fn detail(gains: &CollectiveGains) -> Table {
    let rated = is_rated_otherwise(gains);
    let mut headers = vec![">size", "NCCL now", ">time", "tuned", ">time", ">links"];
    headers.extend(rated.then_some(">rated"));
    headers.extend(["between", ""]);
    let mut table = Table::new(headers);
    // The sixth column, whichever it is.
    table.right = vec![0, 2, 4, 5, 6];
    for gain in &gains.sizes {
        let step = |it: ChosenStep| format!("{} {}", it.algorithm, it.protocol);
        let bars = gain.least_gain.zip(gain.most_gain);
        let bars = bars.map(|(least, most)| format!("{} – {}", times(least), times(most)));
        let mark = match gain.bars {
            _ if !gain.changes() => "",
            BarSource::Model => "!",
            BarSource::OtherRuns => "?",
            BarSource::Runs => "",
        };
        let mut row = row![
            short(gain.bytes),
            step(gain.now),
            microseconds(gain.now.time_us),
            step(gain.tuned),
            microseconds(gain.tuned.time_us),
            times_or_equal(gain.gain),
        ];
        row.extend(rated.then(|| or_dash(gain.rated_gain.map(times_or_equal))));
        row.extend(row![or_dash(bars), mark]);
        table.row(row);
    }
    table
}

/// Whether NCCL rates gains otherwise than the links have them.
fn is_rated_otherwise(gains: &CollectiveGains) -> bool {
    let rated = gains.sizes.iter();
    let mut rated = rated.filter_map(|it| Some((it.rated_gain?, it.gain)));
    rated.any(|(rated, links)| (rated / links - 1.0).abs() > 0.001)
}

fn times_or_equal(gain: f64) -> String {
    match (gain - 1.0).abs() > 0.001 {
        true => times(gain),
        false => "=".to_owned(),
    }
}

/// The trials, those with equal outcomes together.
fn tried(section: &mut Section, tried: &[Trial]) {
    for (outcome, whats) in group(tried.iter().map(|it| (outcome(it), it.what.as_str()))) {
        section.item(format!("{}: {outcome}", whats.join(", ")));
    }
}

fn outcome(trial: &Trial) -> String {
    let why = trial.why.as_deref().unwrap_or_default();
    let extremes = trial.most.iter().chain(&trial.least).map(extreme);
    let extremes = extremes.collect::<Vec<_>>().join(", ");
    match (trial.verdict, trial.most) {
        (Verdict::Helps, _) => format!("faster: {extremes}"),
        (Verdict::NoEffect, _) => "no effect".to_owned(),
        (Verdict::Slower, most) => {
            let some = match most {
                None => "slower",
                Some(_) => "some faster, some slower",
            };
            let from = trial.helps_from.map_or_else(String::new, |from| {
                format!("; nothing slower from {} on", short(from))
            });
            format!("{some}: {extremes}{from}")
        }
        (Verdict::Refused, _) => format!("refused: {why}"),
        (Verdict::NotTried, _) => format!("not tried: {why}"),
    }
}

/// A message, as `all-reduce 32K ×1.84`.
fn extreme(it: &Extreme) -> String {
    let name = it.collective.command_name();
    match it.gain {
        0.0 => format!("NCCL refuses {name}"),
        gain => format!("{name} {} {}", short(it.bytes), times(gain)),
    }
}

/// A gain, as `×1.84`.
fn times(gain: f64) -> String {
    match gain {
        100.0.. => format!("×{gain:.0}"),
        10.0.. => format!("×{gain:.1}"),
        _ => format!("×{gain:.2}"),
    }
}
