//! Topology files and graph files that are given: what is wrong with them.

use std::collections::BTreeSet;

use findings::causes::Certainty::{Likely, Possible};
use findings::causes::table::{pcie, start};
use findings::facts::Meaning;
use plan::GraphKind;
use plan::nccl_graph::{GpuAddress, GraphFile};
use topology::xml::{Document, Element, Tag};

use crate::events::At;
use crate::verdict::{Line, Missing, Verdict};
use crate::words::Hits;

/// Most files of each kind that are looked at, and most titles of findings that are named.
const MOST: usize = 64;
const MOST_TITLES: usize = 4;

/// The topology files and graph files among the inputs.
#[derive(Debug, Default)]
pub(crate) struct MachineFiles {
    /// The causes that findings of topology files name.
    hits: Hits,
    count: usize,
    /// The first topology file with findings that name no cause, and their titles.
    others: Option<(String, BTreeSet<&'static str>)>,
    graphs: Vec<(String, GraphFile)>,
}

impl MachineFiles {
    /// Notes the findings of a topology file.
    pub(crate) fn topology(&mut self, name: &str, document: &Document) {
        self.count += 1;
        if self.count > MOST {
            return;
        }
        let mut others = BTreeSet::new();
        for it in findings::of_document(document) {
            let Some(cause) = it.rule.cause() else {
                others.insert(it.rule.title());
                continue;
            };
            // The file refuses itself; what else it says may be so on purpose.
            let is_sure = *cause == pcie::FILE_TOO_LARGE;
            let certainty = if is_sure { Likely } else { Possible };
            let text = format!("{}: {}, expected {}", it.device(), it.seen, it.expected);
            let line = Line::new(name, None, &text);
            self.hits.add(
                Meaning::of(cause, certainty),
                &At::default(),
                it.devices,
                line,
            );
        }
        if !others.is_empty() && self.others.is_none() {
            self.others = Some((name.to_owned(), others));
        }
    }

    /// Keeps a graph file.
    ///
    /// # Errors
    /// A sentence: why it is none.
    pub(crate) fn graph(&mut self, name: &str, bytes: &[u8]) -> Result<(), String> {
        let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
        let file = GraphFile::parse(name, text).map_err(|error| error.to_string())?;
        if self.graphs.len() < MOST {
            self.graphs.push((name.to_owned(), file));
        }
        Ok(())
    }

    /// What the files show, and what would tell more.
    pub(crate) fn verdicts(self, machine: Option<&Document>) -> (Vec<Verdict>, Vec<Missing>) {
        let gpus = machine.map(gpus).unwrap_or_default();
        let of = machine.map_or("", |it| &it.file);
        let mut verdicts: Vec<Verdict> = self.hits.verdicts().collect();
        let mut missing = Vec::new();
        for (name, file) in &self.graphs {
            match (misfit(file, &gpus), gpus.is_empty()) {
                (Some(why), false) => {
                    let what =
                        format!("The graphs of {name} are for other GPUs than those of {of}.");
                    verdicts.push(Verdict {
                        lines: vec![Line::new(name, None, &why)],
                        ..Verdict::new(&start::GRAPH_FILE, Likely, what)
                    });
                }
                (_, no_gpus) if missing.is_empty() => missing.push(Missing {
                    what: format!("whether the graphs of {name} are good for a machine"),
                    how: format!(
                        "plan {} with NCCL_GRAPH_FILE={name} and without it, and compare",
                        if no_gpus { "the machine" } else { of }
                    ),
                }),
                _ => {}
            }
        }
        if let Some((name, titles)) = self.others {
            let titles: Vec<&str> = titles.into_iter().take(MOST_TITLES).collect();
            missing.push(Missing {
                what: format!("what this means for NCCL: {}", titles.join("; ")),
                how: format!("check {name} by itself; each finding has its advice"),
            });
        }
        (verdicts, missing)
    }
}

/// The GPUs of a topology file.
fn gpus(document: &Document) -> Vec<GpuAddress> {
    fn collect(element: &Element, gpus: &mut Vec<GpuAddress>) {
        let number = |name: &str| element.get(name)?.parse().ok();
        if element.tag == Tag::Gpu
            && let Some(dev) = number("dev")
        {
            gpus.push(GpuAddress {
                rank: number("rank").unwrap_or(dev),
                host: 0,
                dev,
            });
        }
        for child in &element.children {
            collect(child, gpus);
        }
    }
    let mut gpus = Vec::new();
    collect(&document.root, &mut gpus);
    gpus
}

/// Why a graph is not for these GPUs, though it is for others.
fn misfit(file: &GraphFile, gpus: &[GpuAddress]) -> Option<String> {
    const ANY: i32 = 256;
    let any = (0..ANY).map(|dev| GpuAddress {
        rank: dev,
        host: 0,
        dev,
    });
    let any: Vec<GpuAddress> = any.collect();
    GraphKind::IN_SEARCH_ORDER.into_iter().find_map(|kind| {
        let error = file.graph(kind, gpus, true).err()?;
        file.graph(kind, &any, true).ok()?;
        Some(error.to_string())
    })
}
