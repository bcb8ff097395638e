//! The report as JSON.

use anyhow::Result;
use planner::job::option;
use planner::what_if::JobFigures;
use serde::Serialize;

use super::report::WhatIfReport;

#[derive(Serialize)]
struct Left<'a> {
    ranks: u32,
    channels: u32,
    ring_channels: u32,
    ring_channel_gbps: f32,
    all_reduce: Vec<Timed<'a>>,
}

#[derive(Serialize)]
struct Timed<'a> {
    bytes: &'a u64,
    time_us: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    loss: Option<f64>,
}

fn left<'a>(figures: &JobFigures, sizes: &'a [u64], losses: &[Option<f64>]) -> Left<'a> {
    let times = sizes.iter().enumerate().map(|(at, bytes)| Timed {
        bytes,
        time_us: figures.times.get(at).copied().flatten(),
        loss: losses.get(at).copied().flatten(),
    });
    Left {
        ranks: figures.ranks,
        channels: figures.channels,
        ring_channels: figures.rings.0,
        ring_channel_gbps: figures.rings.1,
        all_reduce: times.collect(),
    }
}

/// The whole report.
pub fn page(report: &WhatIfReport) -> Result<String> {
    let mut rows = Vec::new();
    for row in &report.rows {
        let failure = &row.failures[0];
        let mut value = serde_json::json!({
            "kind": failure.kind.name(),
            "names": row.failures.iter().map(|failure| &failure.name).collect::<Vec<_>>(),
            "options": row.failures.iter().map(|failure| option(&failure.edit)).collect::<Vec<_>>(),
        });
        if let Some(of) = failure.of {
            value["links"] = of.into();
        }
        match &row.left {
            Err(problem) => value["cannot_be_planned"] = problem.to_string().into(),
            Ok(figures) => {
                value["left"] = serde_json::to_value(left(figures, &report.sizes, &row.losses))?;
                value["differences"] = serde_json::to_value(&row.differences)?;
            }
        }
        rows.push(value);
    }
    let mut value = serde_json::json!({
        "name": report.job.name(),
        "hosts": report.job.request().hosts,
        "whole": left(&report.whole, &report.sizes, &[]),
        "failures": rows,
    });
    if !report.left_out.is_empty() {
        value["left_out"] = report
            .left_out
            .iter()
            .map(|failure| failure.name.as_str())
            .collect();
    }
    Ok(serde_json::to_string_pretty(&value)? + "\n")
}
