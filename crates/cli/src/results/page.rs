//! The page of `topo expect --results`.

use answers::results::Results;
use answers::results::fit::trust::Summary;
use answers::results::fit::{Fit, UndeterminedConstant};
use planner::NcclVersion;
use records::results::compare::ComparedTable;
use records::results::ladder::ComparedRow;
use records::results::shortfall::{range, words};
use records::results::values::Tool;

use super::likely;
use crate::render::table::Columns;
use crate::render::{Look, count, microseconds, or_dash, trim_lines, version, wrap};
use crate::sizes::short;

/// Most sizes of a table that are shown.
const MOST_ROWS: usize = 1 << 12;

/// Most constants that are not determined and that are shown one by one.
const SHOWN: usize = 12;

pub(super) fn page(results: &Results, look: Look) -> String {
    let pages = results.tables.iter().enumerate().map(|(at, it)| {
        let misses = results.misses.get(at).into_iter().flatten();
        table_page(it, results, look) + &likely::section(misses, look)
    });
    let mut text = pages.collect::<Vec<_>>().join("\n");
    if let Some((fit, file)) = &results.fit {
        text.push_str(&fit_section(fit, file, look));
    }
    trim_lines(&text)
}

fn table_page(it: &ComparedTable, results: &Results, look: Look) -> String {
    let mut text = head(it, results, look);
    let remark = match it.rows.iter().any(|row| row.predicted_us.is_some()) {
        true => "measured and predicted",
        false => "measured",
    };
    text.push_str(&look.section("Sizes", remark, &rows(it, look)));
    if it.steps.iter().any(|step| step.ratio.is_some()) {
        let remark = "measured by predicted time of each algorithm and protocol";
        text.push_str(&look.section("Steps", remark, &steps(it, look)));
    }
    let short: String = it
        .shortfalls
        .iter()
        .map(|shortfall| wrap(&shortfall.text, "  ", "    ", look.width))
        .collect();
    if !short.is_empty() {
        text.push_str(&look.section("Falls short", "", &short));
    }
    text
}

fn head(it: &ComparedTable, results: &Results, look: Look) -> String {
    let table = &it.table;
    let place = match table.line {
        0 => table.file.clone(),
        line => format!("{}, line {line}", table.file),
    };
    let collective = table
        .collective
        .map_or("unknown collective", |it| it.name());
    let row = table.rows.first();
    let what = row.map_or(String::new(), |row| {
        let mut what = format!(" of {}", row.element);
        what.extend(row.reduction.iter().flat_map(|it| [", ", it]));
        what
    });
    let mut text = look.title(&format!("{collective}{what}"), &place);
    let mut job = vec![table.tool.name().to_owned()];
    job.extend(
        table
            .rank_count()
            .map(|ranks| count(ranks as usize, "rank")),
    );
    job.extend(
        table
            .host_count()
            .map(|hosts| count(hosts as usize, "host")),
    );
    job.extend(table.devices.first().map(|it| it.model.clone()));
    job.extend(table.nccl.as_ref().map(|nccl| format!("NCCL {nccl}")));
    text.push_str(&look.field("job", &job.join(", ")));
    if let Some(job) = it.job.and_then(|at| results.jobs.get(at)) {
        let hosts = count(job.hosts as usize, "host");
        let version = version::profile_words(&job.profile);
        let constants = match NcclVersion::of_profile(&job.constants) {
            Some(_) => String::new(),
            None => format!(", constants of {}", job.constants),
        };
        let words = format!("{} on {hosts}, NCCL {version}{constants}", job.machine);
        text.push_str(&look.field("plan", &words));
    }
    if let Some(bound) = it.bound_gbps {
        let planned = it
            .planned_share
            .map(|share| format!("; the plan reaches {:.0} %", 100.0 * share));
        let limit = it.limit.as_ref().map(|limit| format!(" ({limit})"));
        let words = format!(
            "{bound:.1} GB/s of bus bandwidth{}{}",
            limit.unwrap_or_default(),
            planned.unwrap_or_default()
        );
        text.push_str(&look.field("bound", &words));
    }
    for note in notes(it) {
        text.push_str(&look.field("note", &note));
    }
    text
}

/// What is odd about a table.
fn notes(it: &ComparedTable) -> Vec<String> {
    let table = &it.table;
    let mut notes = it.notes.clone();
    if table.is_guessed {
        notes.push(
            "the file does not name the program: guessed from the columns (--collective)"
                .to_owned(),
        );
    }
    if table.collective.is_none() && table.tool == Tool::Osu {
        notes.push(
            "the sizes are those of one rank, or of no collective: put the launcher's command \
             (mpirun -np 16 ./osu_allgather) above the table"
                .to_owned(),
        );
    } else if table.collective.is_none() {
        notes.push("the file does not name the program (--collective)".to_owned());
    }
    if table.lacks_bus && table.rank_count().is_none() && it.job.is_none() {
        notes.push(
            "the file has neither ranks nor bus bandwidths: those shown are message by time"
                .to_owned(),
        );
    }
    if table.damaged > 0 {
        let rows = count(table.damaged as usize, "row");
        notes.push(format!(
            "{rows} cut by other output, with other columns than the header, whose bandwidth is not \
             size by time, or whose bus bandwidth is not that of the collective: left out (line {})",
            table.first_damaged
        ));
    }
    notes
}

/// A share in percent.
fn share(share: f64) -> String {
    let percent = 100.0 * share;
    match percent {
        10.0.. => format!("{percent:.0} %"),
        _ => format!("{percent:.1} %"),
    }
}

fn times(ratio: f64) -> String {
    format!("× {ratio:.2}")
}

fn what(row: &ComparedRow) -> String {
    match (&row.ran, row.choice) {
        (Some(ran), _) => ran.clone(),
        (None, choice) => or_dash(choice.map(words)),
    }
}

fn rows(it: &ComparedTable, look: Look) -> String {
    let predicts = it.rows.iter().any(|row| row.predicted_us.is_some());
    let chooses = it
        .rows
        .iter()
        .any(|row| row.choice.is_some() || row.ran.is_some());
    let mut headers = vec!["size", "µs"];
    if predicts {
        headers.extend(["predicted", "ratio"]);
    }
    headers.push("bus GB/s");
    let expects = it.rows.iter().any(|row| row.expected.is_some());
    if expects {
        headers.extend(["expected", "floor"]);
    }
    if it.bound_gbps.is_some() {
        headers.push("of bound");
    }
    let right: Vec<usize> = (0..headers.len()).collect();
    if chooses {
        headers.extend(["ran", "channels"]);
    }
    let mut table = Columns::new(look, &headers).right(&right);
    for row in it.rows.iter().take(MOST_ROWS) {
        let mut cells = vec![short(row.bytes), microseconds(row.measured_us)];
        if predicts {
            cells.push(or_dash(row.predicted_us.map(microseconds)));
            cells.push(or_dash(row.ratio().map(times)));
        }
        cells.push(format!("{:.2}", row.bus_gbps));
        if expects {
            cells.push(or_dash(
                row.expected.map(|it| format!("{:.1}", it.bus_gbps)),
            ));
            cells.push(or_dash(
                row.expected.map(|it| format!("{:.1}", it.floor_gbps())),
            ));
        }
        if it.bound_gbps.is_some() {
            cells.push(or_dash(row.bound_share.map(share)));
        }
        if chooses {
            cells.extend([what(row), or_dash(row.channels)]);
        }
        table.row(cells);
    }
    let mut text = table.finish();
    if it.rows.len() > MOST_ROWS {
        let more = count(it.rows.len() - MOST_ROWS, "more size");
        text.push_str(&look.faint(&format!("  {more} (--json has them)\n")));
    }
    if it.rows.iter().any(|row| row.choice.is_some()) {
        let from = match it
            .rows
            .iter()
            .filter(|row| row.choice.is_some())
            .all(|row| row.is_logged)
        {
            true => "  ran: what NCCL logged\n",
            false => "  ran: what NCCL takes by the plan, where the file does not say\n",
        };
        text.push_str(&look.faint(from));
    }
    text
}

fn steps(it: &ComparedTable, look: Look) -> String {
    let headers = ["ran", "sizes", "channels", "median", "worst", "at"];
    let mut table = Columns::new(look, &headers).right(&[3, 4, 5]);
    for step in &it.steps {
        let (first, last) = step.rows;
        let channels = step.channels.map(|(least, most)| match least == most {
            true => least.to_string(),
            false => format!("{least} to {most}"),
        });
        let worst = &it.rows[step.worst];
        table.row(vec![
            words(step.choice),
            range(it.rows[first].bytes, it.rows[last].bytes),
            or_dash(channels),
            or_dash(step.ratio.map(times)),
            or_dash(worst.ratio().map(times)),
            short(worst.bytes),
        ]);
    }
    table.finish()
}

fn errors(name: &str, summary: &Summary) -> Vec<String> {
    vec![
        name.to_owned(),
        share(summary.median),
        share(summary.most),
        share(summary.worst),
        short(summary.worst_bytes),
    ]
}

fn fit_section(fit: &Fit, file: &str, look: Look) -> String {
    let mut body = String::new();
    let mut table =
        Columns::new(look, &["constant", "", "before", "fitted", "±"]).right(&[2, 3, 4]);
    for it in &fit.constants {
        table.row(vec![
            it.constant.name.clone(),
            it.constant.index.unwrap_or("").to_owned(),
            number(it.before),
            match it.error {
                Some(_) => number(it.value),
                None => format!("≥ {}", number(it.value)),
            },
            or_dash(it.error.map(share)),
        ]);
    }
    body.push_str(&table.finish());
    body.push('\n');
    let headers = [
        "error of predicted times",
        "median",
        "9 of 10",
        "worst",
        "at",
    ];
    let mut table = Columns::new(look, &headers).right(&[1, 2, 3, 4]);
    table.row(errors("before", &fit.before));
    table.row(errors("fitted", &fit.after));
    if let Some(held) = &fit.held {
        let name = format!("at {} sizes, each held out once", held.sizes);
        table.row(errors(&name, &held.errors));
    }
    body.push_str(&table.finish());
    body.push('\n');
    let headers = ["choice", "times", "bias before", "bias", "median"];
    let mut table = Columns::new(look, &headers).right(&[1, 2, 3, 4]);
    for it in &fit.steps {
        table.row(vec![
            format!("{} {} {}", it.collective, it.algorithm, it.protocol),
            it.count.to_string(),
            crate::render::percent(it.bias[0]),
            crate::render::percent(it.bias[1]),
            share(it.after.median),
        ]);
    }
    body.push_str(&table.finish());
    body.push_str(&remarks(fit, look));
    let times = count(fit.used, "measured time");
    look.section("Fit", &format!("of {times}, written to {file}"), &body)
}

fn remarks(fit: &Fit, look: Look) -> String {
    let mut remarks = Vec::new();
    for it in fit.undetermined.iter().take(SHOWN) {
        remarks.push(match it {
            UndeterminedConstant::Like(constant, other) => format!(
                "{} keeps its value: these times cannot tell it apart from {}",
                constant.name, other.name
            ),
            UndeterminedConstant::Weak(constant, error) => format!(
                "{} keeps its value: these times would determine it only to {}",
                constant.name,
                share(*error)
            ),
        });
    }
    if fit.undetermined.len() > SHOWN {
        let more = fit.undetermined.len() - SHOWN;
        remarks.push(format!(
            "{more} more constants keep their values (--json names them)"
        ));
    }
    if fit.held.is_none() {
        remarks.push("too few sizes to hold some out: the errors above are those of sizes that the fit has seen".to_owned());
    }
    if let Some(held) = &fit.held
        && held.errors.median > 2.0 * fit.after.median.max(0.01)
    {
        remarks.push("sizes that the fit has not seen are predicted much worse: it has too many constants for these measurements".to_owned());
    }
    let biased = fit.steps.iter().filter(|it| it.after.median > 0.15);
    for it in biased {
        remarks.push(format!(
            "{} {} {}: half of the errors are above {}: the model's form does not describe these times",
            it.collective,
            it.algorithm,
            it.protocol,
            share(it.after.median)
        ));
    }
    if fit.unmodelled > 0 {
        let times = count(fit.unmodelled, "time");
        remarks.push(format!("{times} left out: the plan does not have what ran"));
    }
    let mut text = String::new();
    if !remarks.is_empty() {
        text.push('\n');
    }
    for remark in remarks {
        text.push_str(&wrap(&remark, "  ", "    ", look.width));
    }
    text
}

/// A constant with four digits.
fn number(value: f64) -> String {
    match value.abs() {
        100.0.. => format!("{value:.1}"),
        10.0.. => format!("{value:.2}"),
        1.0.. => format!("{value:.3}"),
        _ => format!("{value:.4}"),
    }
}
