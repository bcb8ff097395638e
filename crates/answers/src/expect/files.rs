//! Expectations as files that operators use.

use std::fmt::Write;

use program::Collective;

use super::{Expectations, SizeExpectation};

/// A file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcceptanceFile {
    /// The part of a recipe of NVIDIA's aicr.
    Aicr,
    /// Lines of Azure's Node Health Check.
    Nhc,
    /// A prolog of Slurm.
    Slurm,
    /// A test of pytest.
    Pytest,
}

/// Why a file cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// No size has a floor.
    #[error("no size has a floor; expected sizes of 1 GiB and more")]
    NoFloors,
    /// A file is about all-reduces only.
    #[error(
        "the file is about all-reduces, which were not asked for; expected all-reduce among the collectives"
    )]
    NoAllReduce,
    /// A file is about one host.
    #[error(
        "the file checks a host by itself, and the job has {hosts}; expected a job of one host"
    )]
    SeveralHosts {
        /// Hosts of the job.
        hosts: u32,
    },
}

/// The largest size of the all-reduce with a floor, GB/s.
fn largest(answer: &Expectations) -> Result<(u64, f64), FileError> {
    let mut all = answer.collectives.iter();
    let reduced = all.find(|it| it.collective == Collective::AllReduce);
    let sizes = &reduced.ok_or(FileError::NoAllReduce)?.sizes;
    let largest = sizes.iter().filter_map(floor).max_by_key(|it| it.0);
    largest.ok_or(FileError::NoFloors)
}

fn floor(size: &SizeExpectation) -> Option<(u64, f64)> {
    Some((size.bytes, size.expected?.floor_gbps()))
}

impl AcceptanceFile {
    /// The file of a job.
    ///
    /// # Errors
    /// No size has a floor, or the file is of another kind of job.
    pub fn of(self, answer: &Expectations) -> Result<String, FileError> {
        let floors =
            |it: &super::CollectiveExpectations| it.sizes.iter().any(|it| it.expected.is_some());
        if !answer.collectives.iter().any(floors) {
            return Err(FileError::NoFloors);
        }
        let hosts = answer.job.plan.request.hosts;
        if hosts > 1 && matches!(self, Self::Nhc | Self::Slurm) {
            return Err(FileError::SeveralHosts { hosts });
        }
        match self {
            Self::Aicr => aicr(answer),
            Self::Nhc => nhc(answer),
            Self::Slurm => slurm(answer),
            Self::Pytest => Ok(pytest(answer)),
        }
    }
}

/// The sentence at the head of each file, behind its mark of a comment.
fn head(answer: &Expectations) -> String {
    let job = &answer.job;
    let (hosts, ranks) = (job.plan.request.hosts, job.plan.rank_count());
    format!(
        "# Floors of topo expect for {}, hosts: {hosts}, ranks: {ranks}: bus bandwidths, GB/s.\n",
        job.name.replace(['\n', '\r'], " ")
    )
}

fn aicr(answer: &Expectations) -> Result<String, FileError> {
    let (_, gbps) = largest(answer)?;
    Ok(format!(
        "{}validation:\n  performance:\n    checks:\n      - nccl-all-reduce-bw\n    constraints:\n      \
         - name: nccl-all-reduce-bw\n        value: \">= {gbps:.0}\"\n",
        head(answer)
    ))
}

fn nhc(answer: &Expectations) -> Result<String, FileError> {
    let (bytes, gbps) = largest(answer)?;
    Ok(format!(
        "{}# check_nccl_allreduce: floor, tries, topology file, size. Set the file to your own.\n \
         * || check_nccl_allreduce {gbps:.0} 1 /etc/nccl/topology.xml {bytes}\n",
        head(answer)
    ))
}

fn slurm(answer: &Expectations) -> Result<String, FileError> {
    let (bytes, gbps) = largest(answer)?;
    let gpus = answer.job.plan.rank_count();
    Ok(format!(
        r##"#!/bin/sh
{head}# A prolog for jobs that take the whole host: it drains a host whose all-reduce is below the floor.
# ALL_REDUCE_PERF names nccl-tests' program.
floor={gbps:.0}
out=$(timeout 120 "${{ALL_REDUCE_PERF:-all_reduce_perf}}" -b {bytes} -e {bytes} -g {gpus} -c 0 2>&1)
measured=$(printf '%s\n' "$out" | awk '/Avg bus bandwidth/ {{ print $NF }}')
if [ -z "$measured" ] || awk "BEGIN {{ exit !($measured < $floor) }}"; then
    scontrol update NodeName="$(hostname -s)" State=DRAIN \
        Reason="all-reduce of {bytes} bytes: ${{measured:-no result}} GB/s, floor $floor"
    exit 1
fi
"##,
        head = head(answer)
    ))
}

fn pytest(answer: &Expectations) -> String {
    let mut floors = String::new();
    for collective in &answer.collectives {
        for (bytes, gbps) in collective.sizes.iter().filter_map(floor) {
            let name = collective.collective.command_name().replace('-', "_");
            // Writing to a string does not fail.
            let _ = writeln!(floors, "    (\"{name}\", {bytes}): {gbps:.1},");
        }
    }
    format!(
        r##"{head}"""Reads what nccl-tests printed: NCCL_TESTS_OUTPUT names a folder with all_reduce.log and so on."""

import os
import pathlib

import pytest

FLOORS = {{
{floors}}}


def measured(collective, size):
    folder = pathlib.Path(os.environ.get("NCCL_TESTS_OUTPUT", "."))
    rows = [line.split() for line in (folder / f"{{collective}}.log").read_text().splitlines()]
    rows = [row for row in rows if len(row) >= 9 and row[0] == str(size)]
    assert rows, f"{{collective}}.log has no row of {{size}} bytes"
    return max(float(rows[-1][column]) for column in (7, 11) if column < len(rows[-1]))


@pytest.mark.parametrize(("collective", "size"), FLOORS)
def test_bus_bandwidth(collective, size):
    assert measured(collective, size) >= FLOORS[collective, size]
"##,
        head = head(answer)
    )
}
