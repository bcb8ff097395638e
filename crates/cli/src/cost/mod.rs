//! `topo cost`: which algorithm and protocol is taken for which size, and how long that takes.

mod forest;
pub mod json;
mod page;

use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use plan::cost::{CostModel, Estimate, NoChoice, OperationChoice};
use plan::{Algorithm, CostTable, GraphKind, Plan};
use planner::cost::profile::built_in_toml;
use planner::cost::{AlphaBeta, CostProfile, Scheme};
use planner::{Job, NcclVersion};
use program::{Collective, Protocol};

use forest::ForestCost;
use json::CostReport;

use crate::arguments::compare::{CostArguments, TextOrJson};
use crate::environment::Environment;
use crate::job;
use crate::output::Output;
use crate::render;
use crate::report;
use crate::settings::read_settings;
use crate::sizes;
use crate::sources::{self, Sources};

/// Largest cost profile that is read, bytes.
const PROFILE_LIMIT: u64 = 1 << 20;

#[derive(Debug)]
pub struct PricedJob {
    pub name: String,
    pub plan: Plan,
    pub notes: Vec<String>,
    /// The plan's costs, of the algorithms and protocols that were asked for.
    pub costs: CostTable,
    /// The α–β model of the same job, where it is known.
    pub alpha_beta: Option<AlphaBeta>,
}

#[derive(Debug)]
pub struct Sweep {
    pub collective: Collective,
    /// What is taken for each size, or why nothing is.
    pub choices: Vec<(u64, Result<OperationChoice, NoChoice>)>,
    /// The best algorithm of the α–β model for each size, and the next one.
    pub schemes: Vec<(u64, Vec<Estimate<Scheme>>)>,
    /// The costs of the plan's trees, if it has any.
    pub forest: Option<ForestCost>,
}

pub fn run(
    arguments: &CostArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    if arguments.built_in_profile {
        let version = arguments.job.variables.nccl.unwrap_or_default();
        output.text = built_in_toml(version).to_owned();
        return Ok(());
    }
    let mut subject = read(arguments, environment, output)?;
    restrict(
        &mut subject.costs,
        &arguments.algorithm,
        &arguments.protocol,
    );
    let sizes =
        sizes::expand(&arguments.sizes, arguments.factor).map_err(|problem| anyhow!(problem))?;
    let mut collectives: Vec<Collective> = Vec::new();
    for collective in arguments.collective.iter().flat_map(|given| &given.0) {
        if !collectives.contains(collective) {
            collectives.push(*collective);
        }
    }
    let schemes = subject.alpha_beta.filter(|_| arguments.alpha_beta);
    if arguments.alpha_beta && schemes.is_none() {
        bail!(
            "{} has no ring channels, from which the α–β model takes its figures",
            subject.name
        );
    }
    let sweeps: Vec<Sweep> = collectives
        .iter()
        .map(|collective| sweep(&subject, *collective, &sizes, schemes.as_ref()))
        .collect();
    // Without any choice for any collective there is no page.
    if !arguments.table
        && sweeps.iter().all(|sweep| {
            sweep.schemes.is_empty() && sweep.choices.iter().all(|(_, choice)| choice.is_err())
        })
        && let Some(Err(problem)) = sweeps
            .iter()
            .find_map(|sweep| Some(&sweep.choices.first()?.1))
    {
        let hint = if Collective::TUNED.contains(&problem.collective) {
            ""
        } else {
            "; --alpha-beta judges it by the α–β model"
        };
        bail!("{}: {problem}{hint}", subject.name);
    }
    let look = environment.look();
    output.text = match (arguments.form.format(), arguments.table) {
        (TextOrJson::Text, false) => page::page(&subject, &sweeps, look),
        (TextOrJson::Text, true) => page::table_page(&subject, &collectives, look),
        (TextOrJson::Json, table) => report::json(&CostReport::of(&subject, &sweeps, table))?,
    };
    Ok(())
}

fn read(
    arguments: &CostArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<PricedJob> {
    let own = arguments.profile.as_deref().map(profile).transpose()?;
    let machines = match sources::read(&arguments.job, output)? {
        Sources::Plan(name, _) if arguments.profile.is_some() => {
            bail!(
                "{name} is a plan, whose costs were computed when it was made; expected topology files with --profile"
            );
        }
        Sources::Plan(name, plan) => return of_plan(name, *plan),
        Sources::Machines(machines) => machines,
    };
    let settings = read_settings(&arguments.job.variables, environment, output)?;
    let job = Job {
        profile: own.clone(),
        ..job::job(machines, &arguments.job, environment, output)?
    };
    let planned = job::plan_job(&job, &settings, output)?;
    let plan = planned.plan();
    let profile = own.unwrap_or_else(|| CostProfile::of(planned.version()));
    Ok(PricedJob {
        name: render::names::job(&plan),
        plan,
        notes: render::settings::warnings(&settings).collect(),
        alpha_beta: AlphaBeta::of(&planned.job.cost_inputs(), &profile),
        costs: planned.costs,
    })
}

fn of_plan(name: String, plan: Plan) -> Result<PricedJob> {
    let version = NcclVersion::of_profile(&plan.profile).unwrap_or_default();
    let profile = CostProfile::of(version);
    let costs = plan.costs.clone().with_context(|| {
        format!("{name} is a plan without a cost table; expected one that topo plan -o wrote")
    })?;
    let ring = plan
        .common
        .as_ref()
        .and_then(|common| common.graph(GraphKind::Ring));
    let alpha_beta = ring.and_then(|ring| {
        AlphaBeta::of_ring(costs.job.ranks, costs.job.nodes, &ring.into(), &profile)
    });
    Ok(PricedJob {
        plan,
        notes: Vec::new(),
        alpha_beta,
        name,
        costs,
    })
}

/// Reads a cost profile.
pub fn profile(file: &Path) -> Result<CostProfile> {
    let cannot = || format!("cannot read the cost profile {}", file.display());
    let text = files::read_text(file, PROFILE_LIMIT).with_context(cannot)?;
    Ok(CostProfile::from_toml(&file.display().to_string(), &text)?)
}

/// Leaves only the given algorithms and protocols.
fn restrict(costs: &mut CostTable, algorithms: &[Algorithm], protocols: &[Protocol]) {
    costs.entries.retain(|entry| {
        (algorithms.is_empty() || algorithms.contains(&entry.algorithm))
            && (protocols.is_empty() || protocols.contains(&entry.protocol))
    });
}

fn sweep(
    subject: &PricedJob,
    collective: Collective,
    sizes: &[u64],
    schemes: Option<&AlphaBeta>,
) -> Sweep {
    let best = |model: &AlphaBeta, bytes| {
        let mut estimates = model.estimates(collective, bytes);
        estimates.sort_by(|a, b| a.time_us.total_cmp(&b.time_us));
        estimates
    };
    Sweep {
        collective,
        forest: ForestCost::of(&subject.plan, collective),
        choices: sizes
            .iter()
            .map(|bytes| (*bytes, subject.costs.choose(collective, *bytes)))
            .collect(),
        schemes: schemes.map_or_else(Vec::new, |model| {
            sizes
                .iter()
                .map(|bytes| (*bytes, best(model, *bytes)))
                .collect()
        }),
    }
}

/// Whether algorithm or protocol differ from those at the size before.
pub fn changes(choices: &[(u64, Result<OperationChoice, NoChoice>)], at: usize) -> bool {
    let choice = |index: usize| {
        let choice = choices.get(index)?.1.as_ref().ok()?;
        Some((choice.algorithm, choice.protocol))
    };
    at > 0 && choice(at) != choice(at - 1)
}
