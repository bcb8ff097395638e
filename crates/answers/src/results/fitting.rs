//! The cost model fitted to tables.

use super::fit::{Fit, FitError, FitJob, Measurement, fit as fit_constants};
use planner::NcclVersion;
use planner::cost::CostProfile;
use records::results::Row;

use super::compare::ComparedTable;
use super::jobs::Jobs;

/// Fits the constants to the measurements of all tables, in and out of place.
pub(super) fn fit(
    tables: &[ComparedTable],
    jobs: &Jobs,
    profile: Option<&CostProfile>,
) -> Result<Fit, FitError> {
    let fit_jobs = jobs.all.iter().filter_map(|job| {
        let planned = job.planned.as_ref()?;
        Some(FitJob {
            inputs: planned.job.cost_inputs(),
            tuning: planned.settings.tuning.clone(),
            rules: planned.settings.rules,
        })
    });
    let fit_jobs: Vec<FitJob> = fit_jobs.collect();
    let mut measurements = Vec::new();
    for table in tables {
        let (Some(job), Some(collective)) = (table.job, table.collective) else {
            continue;
        };
        let measured = table.read.iter().filter(|it| it.measured().is_some());
        for (row, compared) in measured.zip(&table.rows) {
            let Some(choice) = compared.choice() else {
                continue;
            };
            measurements.extend(Row::placements(row).map(|it| Measurement {
                job,
                collective,
                bytes: row.bytes,
                choice,
                time_us: it.time_us,
            }));
        }
    }
    let first = jobs.all.first().map(|it| it.plan.profile.as_str());
    let version = first.and_then(NcclVersion::of_profile).unwrap_or_default();
    let start = profile.cloned().unwrap_or_else(|| CostProfile::of(version));
    let mut found = fit_constants(&fit_jobs, &measurements, &start)?;
    describe(&mut found, &start);
    Ok(found)
}

/// Says in the profile where its constants come from.
fn describe(fit: &mut Fit, start: &CostProfile) {
    fit.profile.name = format!("{}-fitted", start.name.trim_end_matches("-fitted"));
    let fitted = |section: &str, source: &mut String| {
        let count = fit
            .constants
            .iter()
            .filter(|it| it.constant.name.starts_with(section))
            .count();
        if count > 0 {
            *source = format!(
                "{count} of them fitted to {} measured times; the others: {source}",
                fit.used
            );
        }
    };
    let sources = &mut fit.profile.sources;
    fitted("base-latency-us.", &mut sources.base_latency_us);
    fitted("hardware-latency-us.", &mut sources.hardware_latency_us);
    fitted("bandwidth-limits-gbps.", &mut sources.bandwidth_limits_gbps);
    fitted("efficiency.", &mut sources.efficiency);
    fitted("latency.", &mut sources.latency);
}
