//! Tokens to experts and back, on the virtual clock.

use answers::report;
use answers::simulate::experts::{
    Exchange, ExchangeSchedule, ExpertsQuestion, ExpertsReport, Routing, SimulatedExchange,
    exchange,
};
use anyhow::{Context, Result, anyhow, bail};
use simulator::Fabric;

use crate::arguments::compare::TextOrJson;
use crate::arguments::simulate::{SimulateArguments, TokenSchedule};
use crate::environment::Environment;
use crate::job;
use crate::output::Output;
use crate::progress::Progress;
use crate::render::table::Columns;
use crate::render::{Look, count, microseconds, or_dash, version};
use crate::sources;

/// Largest routing file that is read, bytes.
const ROUTING_LIMIT: u64 = 16 << 20;

pub(super) fn run(
    arguments: &SimulateArguments,
    top_k: u32,
    fabric: &Fabric,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    let plan = sources::read(&arguments.job, output)?
        .planned(|machines| job::plan_machines(machines, &arguments.job, environment, output))?;
    let ranks = plan.expansion()?.layout().ranks();
    let given = &arguments.tokens;
    let routing = match (&given.routing, given.tokens, given.experts) {
        (Some(file), ..) => {
            let name = file.display().to_string();
            let text = files::read_text(file, ROUTING_LIMIT);
            let text = text.with_context(|| format!("cannot read the routing {name}"))?;
            Routing::read(&name, &text, ranks, top_k)
        }
        (None, Some(tokens), Some(experts)) => Routing::uniform(ranks, tokens, experts, top_k),
        _ => bail!("--top-k needs --tokens and --experts, or --routing"),
    };
    let routing = routing.map_err(|why| anyhow!(why))?;
    let token_bytes = given.token_bytes.unwrap_or(0);
    let token_bytes = u32::try_from(token_bytes).ok();
    let token_bytes = token_bytes.filter(|bytes| (1..=1 << 24).contains(bytes));
    let token_bytes = token_bytes.context("--token-bytes; expected 1 to 16M")?;
    let wanted = given.schedule.map(|it| match it {
        TokenSchedule::AllToAll => ExchangeSchedule::AllToAll,
        TokenSchedule::TwoStage => ExchangeSchedule::TwoStage,
    });
    let mut found = Vec::new();
    {
        let _progress = Progress::new(environment, "simulating");
        for direction in Exchange::ALL {
            let schedules = ExchangeSchedule::ALL.into_iter();
            for schedule in schedules.filter(|it| wanted.is_none_or(|wanted| wanted == *it)) {
                let question = ExpertsQuestion {
                    routing: &routing,
                    token_bytes,
                    exchange: direction,
                    schedule,
                };
                found.push(exchange(&plan, &question, fabric)?);
            }
        }
    }
    output.text = match arguments.form.format() {
        TextOrJson::Text => page(&found, arguments.links.max(1), environment.look()),
        TextOrJson::Json => report::json(&ExpertsReport::of(&found))?,
    };
    Ok(())
}

fn page(found: &[SimulatedExchange], links: usize, look: Look) -> String {
    let Some(first) = found.first() else {
        return String::new();
    };
    let title = format!(
        "Tokens to experts: {} on {}",
        count(first.ranks as usize, "rank"),
        count(first.hosts as usize, "host")
    );
    let mut text = look.title(&title, "");
    text.push_str(&version::of_profile(&first.profile, look));
    let headers = [
        "exchange",
        "schedule",
        "time µs",
        "network MB",
        "network GB/s",
        "NVLink MB",
    ];
    let mut table = Columns::new(look, &headers).right(&[2, 3, 4, 5]);
    let megabytes = |bytes: u64| format!("{:.1}", bytes as f64 / 1e6);
    for one in found {
        table.row(vec![
            one.exchange.name().to_owned(),
            one.schedule.name().to_owned(),
            microseconds(one.time_us),
            megabytes(one.remote_bytes),
            or_dash(one.remote_gbps().map(|it| format!("{it:.1}"))),
            megabytes(one.local_bytes),
        ]);
    }
    let remark = "of the rank that moves most; what a rank passes on for others is not counted";
    text.push_str(&look.section("Exchanges", remark, &table.finish()));
    let headers = ["exchange", "schedule", "link", "links", "GB/s", "used"];
    let mut table = Columns::new(look, &headers).right(&[3, 4, 5]);
    for one in found {
        for link in one.links.iter().take(links.min(2)) {
            table.row(vec![
                one.exchange.name().to_owned(),
                one.schedule.name().to_owned(),
                link.name.clone(),
                link.count.to_string(),
                match link.gbps.is_finite() {
                    true => format!("{:.1}", link.gbps),
                    false => "–".to_owned(),
                },
                format!("{:.0} %", 100.0 * link.used),
            ]);
        }
    }
    text.push_str(&look.section("Links", "the busiest of each", &table.finish()));
    text
}
