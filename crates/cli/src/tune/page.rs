//! The answer as a page.

use answers::export::{ExportReport, Kind};
use answers::tune::json::LibraryCheck;
use answers::tune::{
    BarSource, ChosenStep, CollectiveGains, Gain, Proposal, SMALLEST, TuneAnswer, Verdict,
    WORTH_TREES,
};
use bounds::rings::Outcome;
use plan::GraphKind;
use plan::certificate::{Operation, UNITS};
use records::results::published::all_shares;

use super::tried::{self, times};
use crate::render::table::Columns;
use crate::render::{Look, count, gbps, microseconds, or_dash, settings, summary, trim_lines};
use crate::render::{version, wrap};
use crate::sizes::short;

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

/// Everything that the page shows.
#[derive(Debug)]
pub(super) struct Shown<'a> {
    pub answer: &'a TuneAnswer,
    pub written: Option<&'a ExportReport>,
    pub checks: &'a [LibraryCheck],
    pub asks_for_files: bool,
}

pub(super) fn page(shown: &Shown<'_>, look: Look) -> String {
    let answer = shown.answer;
    let mut text = head(answer, look);
    text.push_str(&look.field("answer", &verdict(answer)));
    if let Some(proposal) = &answer.proposal {
        let told = told(proposal, shown.written, look);
        text.push_str(&look.section("Tell NCCL", "", &told));
        text.push_str(&gains(answer, look));
    }
    if let Some(trees) = trees(answer) {
        let body = wrap(&trees, "  ", "  ", look.width);
        text.push_str(&look.section("Beyond NCCL", "", &body));
    }
    let remark = "settings alone; rings and choices with what NCCL needs for them";
    text.push_str(&look.section("Tried", remark, &tried::lines(&answer.tried, look)));
    text.push_str(&files(shown, look));
    trim_lines(&text)
}

/// The job, the plan in short, and the bound.
fn head(answer: &TuneAnswer, look: Look) -> String {
    let plan = answer.now.plan();
    let mut text = format!("{}\n", look.heading(&answer.name));
    text.push_str(&look.field("job", &summary::job(plan)));
    text.push_str(&version::of_profile(&plan.profile, look));
    if answer.fitted {
        text.push_str(&look.field("times", "by constants that were fitted to measurements"));
    }
    text.push_str(&settings::of_plan(&plan.settings, look));
    for kind in [GraphKind::Ring, GraphKind::Tree] {
        if let Some(line) = channels(answer, kind) {
            text.push_str(&look.field(&format!("{kind}s"), &line));
        }
    }
    if let Some(line) = bound(answer) {
        text.push_str(&look.field("bound", &line));
    }
    text
}

/// The channels of a kind that NCCL finds.
fn channels(answer: &TuneAnswer, kind: GraphKind) -> Option<String> {
    let graph = answer.now.plan().common.as_ref()?.graph(kind)?;
    if graph.channels == 0 {
        return None;
    }
    let networked = answer.now.job.layout().nodes() > 1;
    let each = match networked {
        true => graph.bw_intra.min(graph.bw_inter),
        false => graph.bw_intra,
    };
    let channels = count(graph.channels as usize, "channel");
    let mut line = format!("{channels} of {} GB/s, {}", gbps(each), graph.type_intra);
    if networked {
        line.push_str(&format!(", {} to the network", graph.type_inter));
    }
    let found = answer
        .rings
        .as_ref()
        .ok()
        .filter(|_| kind == GraphKind::Ring);
    if let Some(found) = found {
        let [stated, carried, best] =
            [found.stated, found.carried, found.best].map(|it| it as f64 / f64::from(UNITS));
        if carried > stated * 1.001 {
            line.push_str(&format!("; they carry {carried:.1}"));
        }
        if found.outcome == Outcome::Better {
            line.push_str(&format!("; others carry {best:.1}"));
        }
        let most = found.bound.per(f64::from(UNITS));
        line.push_str(&format!("; no rings carry more than {most:.1}"));
    }
    Some(line)
}

/// The bounds of two collectives, with NCCL's share.
fn bound(answer: &TuneAnswer) -> Option<String> {
    let rows = answer.bound.as_ref()?.bounds.iter();
    let wanted = rows.filter(|row| {
        matches!(
            row.operation,
            Operation::AllReduce | Operation::AllReduceInNetwork | Operation::AllGather
        )
    });
    let parts: Vec<String> = wanted
        .map(|row| {
            let name = match row.operation {
                Operation::AllReduceInNetwork => "all-reduce in switches",
                operation => operation.name(),
            };
            let share = row
                .nccl_gbps
                .map(|it| format!("{:.0} %", 100.0 * it / row.bound_gbps));
            format!(
                "{name} {:.1} GB/s, NCCL states {}",
                row.bound_gbps,
                or_dash(share)
            )
        })
        .collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// The answer in a sentence or two.
fn verdict(answer: &TuneAnswer) -> String {
    let Some(proposal) = &answer.proposal else {
        return nothing(answer);
    };
    let mut parts: Vec<String> = proposal.settings.iter().map(ToString::to_string).collect();
    if proposal.rings.is_some() {
        parts.push("a graph file".to_owned());
    }
    if !proposal.chooses_well {
        parts.push("a tuner plug-in with choices".to_owned());
    }
    if proposal.drops_graph_file {
        parts.push("NCCL_GRAPH_FILE unset or replaced".to_owned());
    }
    let most = answer
        .gains
        .iter()
        .flat_map(|of| of.sizes.iter().map(move |it| (of.collective, it)))
        .max_by(|a, b| a.1.most().total_cmp(&b.1.most()));
    let most = most.filter(|(_, gain)| gain.changes());
    let most = most.map_or_else(
        || "faster by the model at other sizes or collectives than these".to_owned(),
        |(collective, gain)| {
            let (name, bytes) = (collective.command_name(), short(gain.bytes));
            let by = match gain.most() > gain.gain() * WORTH_A_WORD {
                true => format!(
                    "as NCCL rates its channels, {} by the links",
                    times(gain.gain())
                ),
                false => "by the model".to_owned(),
            };
            format!(
                "up to {} as fast ({name} of {bytes}) {by}",
                times(gain.most())
            )
        },
    );
    let from = match answer.from {
        0..=SMALLEST => String::new(),
        from => format!(" from {} on", short(from)),
    };
    format!(
        "{most}, and nothing slower{from}, with {}",
        parts.join(", ")
    )
}

/// Why nothing is proposed.
fn nothing(answer: &TuneAnswer) -> String {
    let rings = match &answer.rings {
        Ok(found) if found.outcome == Outcome::Better => {
            "other rings carry more, but the model has slower messages with them (below)"
        }
        Ok(_) if answer.now.settings.graphs.is_some() => {
            "the rings of the graph file are as good as the best that were found"
        }
        Ok(_) => "NCCL's own rings are as good as the best that were found",
        Err(_) => "no other rings were searched (below)",
    };
    let mut froms = answer.tried.iter().filter_map(|it| match it.verdict {
        Verdict::Slower { helps_from, .. } => helps_from,
        _ => None,
    });
    let least = froms.next().map(|first| froms.fold(first, u64::min));
    let more = least.map_or_else(String::new, |least| {
        format!(
            ". For jobs without messages below {0}: --from {0}",
            short(least)
        )
    });
    format!(
        "nothing to gain: {rings}, no setting that was tried makes anything faster without making something \
         slower, and NCCL chooses algorithms and protocols as well as the model can{more}"
    )
}

/// What NCCL is told.
fn told(proposal: &Proposal, written: Option<&ExportReport>, look: Look) -> String {
    let folder = written.map_or("DIR", |it| it.folder.as_str());
    let mut lines = Vec::new();
    for setting in &proposal.settings {
        lines.push(match setting.caution {
            Some(caution) => format!("{setting}  {caution}."),
            None => setting.to_string(),
        });
    }
    if proposal.drops_graph_file {
        lines.push("The graph file that the job has is not used any more.".to_owned());
    }
    if let Some(rings) = &proposal.rings {
        let mut files = written.iter().flat_map(|it| &it.files);
        let file = files.find(|it| it.kind == Kind::Graph);
        let file = file.map_or("graph-GPUS.xml", |it| it.file.as_str());
        lines.push(format!(
            "NCCL_GRAPH_FILE={folder}/{file}  rings: {rings}. NCCL refuses communicators of other GPUs then."
        ));
    }
    if !proposal.chooses_well {
        lines.push(format!(
            "NCCL_TUNER_PLUGIN={folder}/libnccl-tuner-topo.so  choices of algorithm and protocol by size: NCCL compares them by \
             bandwidths that are not those of the links."
        ));
    }
    lines.push(match written {
        Some(_) => {
            format!("All of this is in {folder}/nccl.conf: NCCL_CONF_FILE={folder}/nccl.conf.")
        }
        None => "--dir DIR writes all of this as files, with an nccl.conf.".to_owned(),
    });
    let lines = lines.iter().map(|it| wrap(it, "  ", "    ", look.width));
    lines.collect()
}

/// The gains: of all collectives side by side, and of the first one that changes in detail.
fn gains(answer: &TuneAnswer, look: Look) -> String {
    let mut text = String::new();
    if answer.gains.len() > 1 {
        let remark = "how many times as fast: by the links or as NCCL rates it, the greater";
        text.push_str(&look.section("Gain", remark, &matrix(&answer.gains, look)));
    }
    let changes = |it: &&CollectiveGains| it.sizes.iter().any(Gain::changes);
    let detailed = answer.gains.iter().find(changes);
    if let Some(gains) = detailed.or(answer.gains.first()) {
        let name = gains.collective.name();
        text.push_str(&look.section(name, "times by the links, µs", &detail(gains, look)));
        for note in notes(gains) {
            text.push_str(&look.faint(&wrap(&note, "  ", "  ", look.width)));
        }
    }
    text
}

/// What the columns and marks of a table mean.
fn notes(gains: &CollectiveGains) -> Vec<String> {
    let of = |source: BarSource| {
        let mut sizes = gains.sizes.iter().filter(|it| it.changes());
        sizes.any(|it| it.source == source)
    };
    let rated = is_rated_otherwise(gains);
    let [model, others, runs] = [BarSource::Model, BarSource::OtherRuns, BarSource::Runs].map(of);
    let [low, high] = all_shares();
    let only_model = format!(
        "! no two published runs measured such messages: there is only the model. Published healthy runs of longer \
         messages reached {low:.2} to {high:.2} of their predictions."
    );
    let all = [
        (true, LINKS.to_owned()),
        (rated, RATED.to_owned()),
        (others || runs, SHARES.to_owned()),
        (others, OTHER_RUNS.to_owned()),
        (model, only_model),
    ];
    let there = all.into_iter().filter(|(is_there, _)| *is_there);
    there.map(|(_, note)| note).collect()
}

fn matrix(all: &[CollectiveGains], look: Look) -> String {
    let names: Vec<&str> = all.iter().map(|it| it.collective.command_name()).collect();
    let headers: Vec<&str> = ["size"].into_iter().chain(names).collect();
    let right: Vec<usize> = (0..headers.len()).collect();
    let mut table = Columns::new(look, &headers).right(&right);
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
    table.finish()
}

fn detail(gains: &CollectiveGains, look: Look) -> String {
    let rated = is_rated_otherwise(gains);
    let mut headers = vec!["size", "NCCL now", "time", "tuned", "time", "links"];
    headers.extend(rated.then_some("rated"));
    headers.extend(["between", ""]);
    let mut table = Columns::new(look, &headers).right(&[0, 2, 4, 5, 6]);
    for gain in &gains.sizes {
        let step = |it: ChosenStep| format!("{} {}", it.algorithm, it.protocol);
        let bars = gain
            .bars
            .map(|[least, most]| format!("{} – {}", times(least), times(most)));
        let mark = match gain.source {
            _ if !gain.changes() => "",
            BarSource::Model => "!",
            BarSource::OtherRuns => "?",
            BarSource::Runs => "",
        };
        let mut row = vec![
            short(gain.bytes),
            step(gain.before),
            microseconds(gain.before.time_us),
            step(gain.after),
            microseconds(gain.after.time_us),
            times_or_equal(gain.gain()),
        ];
        row.extend(rated.then(|| or_dash(gain.rated.map(times_or_equal))));
        row.extend([or_dash(bars), mark.to_owned()]);
        table.row(row);
    }
    table.finish()
}

/// Whether NCCL rates gains otherwise than the links have them.
fn is_rated_otherwise(gains: &CollectiveGains) -> bool {
    let mut rated = gains
        .sizes
        .iter()
        .filter_map(|it| Some((it.rated?, it.gain())));
    rated.any(|(rated, links)| (rated / links - 1.0).abs() > 0.001)
}

fn times_or_equal(gain: f64) -> String {
    match (gain - 1.0).abs() > 0.001 {
        true => times(gain),
        false => "=".to_owned(),
    }
}

/// Trees that reach more than NCCL's plan, which NCCL cannot take.
fn trees(answer: &TuneAnswer) -> Option<String> {
    let rows = answer.bound.as_ref()?.bounds.iter();
    let better = rows.filter_map(|row| {
        let (reached, nccl) = (row.reached_gbps?, row.nccl_gbps?);
        (reached > nccl * WORTH_TREES)
            .then(|| format!("{} {reached:.1} GB/s, NCCL {nccl:.1}", row.operation.name()))
    });
    let better: Vec<String> = better.collect();
    (!better.is_empty()).then(|| {
        format!(
            "Trees reach more for long messages ({}). NCCL cannot be told of them; topo plan --strategy forest \
             writes them, and topo run and the libraries run them.",
            better.join("; ")
        )
    })
}

/// The files, and what libraries made of them.
fn files(shown: &Shown<'_>, look: Look) -> String {
    let mut text = String::new();
    let mut line = |line: &str| text.push_str(&wrap(line, "  ", "    ", look.width));
    match shown.written {
        Some(done) => {
            let names: Vec<&str> = done.files.iter().map(|it| it.file.as_str()).collect();
            line(&format!("in {}: {}", done.folder, names.join(", ")));
        }
        None if shown.asks_for_files => line("none: there is nothing to tell NCCL"),
        None => {}
    }
    for check in shown.checks {
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
        line(&format!("{library}: {said}"));
    }
    match text.is_empty() {
        true => text,
        false => look.section("Files", "", &text),
    }
}
