//! The comparison as JSON.

use crate::JsonSchema;
use serde::Serialize;

use super::{Check, page};
use answers::report::Report;

/// The decisions of an NCCL library on a machine, compared with the plan.
#[derive(Debug, Serialize, JsonSchema)]
pub struct NcclCheckReport {
    /// The machine's name.
    name: String,
    /// Hosts of the job.
    hosts: u32,
    /// Ranks of the job.
    ranks: u64,
    /// The library.
    library: String,
    /// Its version.
    nccl: String,
    /// Nothing differs, and nothing is lacking that this version can say.
    agrees: bool,
    /// The plan was made for the topology that NCCL joined from the ranks' pieces, because it is
    /// another one than the file's.
    planned_on_dump: bool,
    /// The compared fields.
    fields: Vec<FieldReport>,
    /// NCCL's warnings.
    warnings: Vec<String>,
    /// Notes on the comparison.
    notes: Vec<String>,
}

/// A field that was compared.
#[derive(Debug, Serialize, JsonSchema)]
struct FieldReport {
    /// Its name.
    field: &'static str,
    /// Values that were compared.
    values: u64,
    /// Nothing differs, and nothing is lacking that this version can say.
    agrees: bool,
    /// Values that differ.
    differences: Vec<DifferenceReport>,
    /// Why the field, or a part of it, was not compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_compared: Option<String>,
}

/// A value that differs.
#[derive(Debug, Serialize, JsonSchema)]
struct DifferenceReport {
    /// Which value.
    value: String,
    /// NCCL's.
    nccl: String,
    /// The plan's.
    plan: String,
}

impl Report for NcclCheckReport {
    const FORMAT: &'static str = "topo-nccl-check";
    const VERSION: u32 = 1;
}

impl NcclCheckReport {
    /// The report of a check.
    pub fn of(check: &Check) -> Self {
        let fields = check.compared.iter().map(|compared| FieldReport {
            field: compared.field.name(),
            values: compared.values,
            agrees: compared.agrees(),
            differences: compared
                .differences
                .iter()
                .map(|it| DifferenceReport {
                    value: it.what.clone(),
                    nccl: it.nccl.clone(),
                    plan: it.plan.clone(),
                })
                .collect(),
            not_compared: compared.not_compared.as_ref().map(|it| it.why.clone()),
        });
        Self {
            name: check.name.clone(),
            hosts: check.hosts,
            ranks: check.ranks,
            library: check.library.clone(),
            nccl: check.version(),
            agrees: check.agrees(),
            planned_on_dump: check.planned_on_dump,
            fields: fields.collect(),
            warnings: check.answer.warnings.clone(),
            notes: page::notes(check),
        }
    }
}
