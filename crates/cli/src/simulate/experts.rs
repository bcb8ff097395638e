//! Tokens to experts and back, on the virtual clock.

use answers::report;
use answers::simulate::experts::{ExchangeSchedule, ExpertsReport, Routing};
use anyhow::{Context, Result, anyhow, bail};
use simulator::Fabric;

use crate::arguments::compare::TextOrJson;
use crate::arguments::simulate::{SimulateArguments, TokenSchedule};
use crate::environment::Environment;
use crate::job;
use crate::output::Output;
use crate::progress::Progress;
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
    let answer = {
        let _progress = Progress::new(environment, "simulating");
        ExpertsReport::of(&plan, (&routing, token_bytes), wanted, fabric)?
    };
    output.text = match arguments.form.format() {
        TextOrJson::Text => answer.page(arguments.links.max(1)).text(environment.look()),
        TextOrJson::Json => report::json(&answer)?,
    };
    Ok(())
}
