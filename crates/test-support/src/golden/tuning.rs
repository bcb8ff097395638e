//! The cost model of a case: tables and choices, from what the case says about the joined hosts.
//!
//! The inputs come from the case itself (`merged`, `nodes`), not from our own planning, so that a difference here is a
//! difference of the cost model.

use anyhow::{Context, Result, bail};
use plan::{Algorithm, Collective, CostTable, Pattern, Protocol};
use planner::Settings;
use planner::cost::{self, CollnetInputs, GraphFigures, Inputs, Merged, NvlsInputs, Profile};
use serde_json::Value;
use topology::{CpuArch, CpuVendor, NodeType, System};

use super::Case;
use super::compare::{self, Difference};

impl Case {
    /// Compares the cost model with the case's section `tuning`, and counts the choices compared: `None` if NCCL refuses
    /// the case, otherwise the first difference or none.
    ///
    /// # Errors
    /// The case is not complete.
    pub fn replay_tuning(&self) -> Result<Option<Option<String>>> {
        if self.answer.get("error").is_some() {
            return Ok(None);
        }
        let variables = self.answer["env"].as_object().into_iter().flatten();
        let variables = variables
            .map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned()));
        let settings = Settings::from_variables(variables);
        let inputs = self.cost_inputs()?;
        let table = match cost::table(&inputs, &settings.tuning, &Profile::nccl_2_30()) {
            Ok(table) => table,
            Err(error) => return Ok(Some(Some(error.to_string()))),
        };
        // What goes into a plan must choose the same when it comes back.
        let table: CostTable = serde_json::from_str(&serde_json::to_string(&table)?)?;
        let difference = check(&table, &self.answer["tuning"]).err();
        Ok(Some(difference.map(|difference| difference.to_string())))
    }

    /// The inputs of the cost model that the case states.
    ///
    /// # Errors
    /// The case lacks something.
    pub fn cost_inputs(&self) -> Result<Inputs> {
        let merged = &self.answer["merged"];
        let count = |name: &str| -> Result<u32> { whole(&merged[name]).context(name.to_owned()) };
        let node_of: Vec<u32> = list(&merged["rankToNode"])
            .iter()
            .filter_map(whole)
            .collect();
        let nodes = count("nNodes")?;
        let locals: Vec<u32> = (0..nodes)
            .map(|node| node_of.iter().filter(|other| **other == node).count() as u32)
            .collect();
        let graph = |name: &str| figures(&merged["graphInfo"][name]).context(name.to_owned());
        let (cpu_arch, cpu_vendor) = self.processors()?;
        let pattern = merged["maxTreePattern"].as_i64().unwrap_or(0);
        let heads = list(&merged["nvls"])
            .first()
            .and_then(|rank| whole(&rank["nHeads"]));
        let nvls = NvlsInputs {
            channels: count("nvlsChannels")?,
            heads: heads.unwrap_or(0),
            chunk_bytes: i64::from(count("nvlsChunkSize")?),
            tree_chunk_bytes: i64::from(count("nvlsTreeMaxChunkSize")?),
        };
        let max_local_ranks = locals.iter().copied().max().unwrap_or(1);
        let collnet = CollnetInputs {
            heads: list(&merged["collnetHeads"]).len() as u32,
            chain: merged["collNetChainSupport"] == 1,
            depth: if max_local_ranks > 1 { 2 } else { 1 },
            gathers: true,
            reduce_scatters: true,
        };
        let nodes_shown = list(&self.answer["nodes"]);
        Ok(Inputs {
            ranks: count("nRanks")?,
            nodes,
            min_local_ranks: locals.iter().copied().min().unwrap_or(1),
            max_local_ranks,
            min_cc: count("minCompCap")? as i32,
            max_cc: count("maxCompCap")? as i32,
            cpu_arch,
            cpu_vendor,
            ring: graph("ring")?,
            tree: graph("tree")?,
            collnet_direct: graph("collnetDirect")?,
            collnet_chain: graph("collnetChain")?,
            nvls_graph: graph("nvls")?,
            max_tree_pattern: Pattern::from_number(pattern as i32).context("maxTreePattern")?,
            channels: count("collChannels")?,
            nvls: (merged["nvlsSupport"] == 1).then_some(nvls),
            collnet: (merged["collnetEnable"] == 1).then_some(collnet),
            has_nvswitch: nodes_shown.iter().any(|node| node["type"] == "NVS"),
            net_on_host: true,
            cuda_11_8: false,
        })
    }

    /// Architecture and vendor of the first processor of each host.
    fn processors(&self) -> Result<(Merged<CpuArch>, Merged<CpuVendor>)> {
        let files = list(&self.answer["topologies"]);
        let mut hosts = Vec::new();
        if files.len() == 1 {
            let nodes = list(&self.answer["nodes"]);
            let cpu = nodes
                .iter()
                .find(|node| node["type"] == "CPU")
                .context("a CPU")?;
            hosts.push((arch(&cpu["archName"])?, vendor(&cpu["vendorName"])?));
        } else {
            for file in files {
                let file = file.as_str().context("a topology's name")?;
                let path = self.file(file);
                let bytes =
                    std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
                let system = System::from_document(&topology::xml::parse(file, &bytes)?)?;
                let first = system
                    .nodes(NodeType::Cpu)
                    .next()
                    .and_then(|cpu| system.cpu(cpu));
                let cpu = first.context("a CPU")?;
                hosts.push((cpu.arch, cpu.vendor));
            }
        }
        let arches = Merged::of(hosts.iter().map(|(arch, _)| *arch));
        let vendors = Merged::of(hosts.iter().map(|(_, vendor)| *vendor));
        Ok((arches.context("a host")?, vendors.context("a host")?))
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn whole(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|number| u32::try_from(number).ok())
}

fn arch(name: &Value) -> Result<CpuArch> {
    Ok(match name.as_str() {
        Some("x86_64") => CpuArch::X86,
        Some("ppc64") => CpuArch::Power,
        Some("arm64") => CpuArch::Arm,
        Some("unknown") => CpuArch::Unknown,
        _ => bail!("{name} is no architecture"),
    })
}

fn vendor(name: &Value) -> Result<CpuVendor> {
    Ok(match name.as_str() {
        Some("intel") => CpuVendor::Intel,
        Some("amd") => CpuVendor::Amd,
        Some("zhaoxin") => CpuVendor::Zhaoxin,
        Some("unknown") => CpuVendor::Unknown,
        _ => bail!("{name} is no vendor"),
    })
}

fn figures(graph: &Value) -> Result<GraphFigures> {
    let float = |name: &str| -> Result<f32> {
        Ok(graph[name].as_f64().with_context(|| name.to_owned())? as f32)
    };
    let path = |name: &str| -> Result<topology::PathType> {
        Ok(graph[name]
            .as_str()
            .with_context(|| name.to_owned())?
            .parse()?)
    };
    Ok(GraphFigures {
        channels: whole(&graph["nChannels"]).context("nChannels")?,
        same_channels: graph["sameChannels"].as_i64() != Some(0),
        bw_intra: float("bwIntra")?,
        bw_inter: float("bwInter")?,
        latency_inter: float("latencyInter")?,
        type_intra: path("typeIntra")?,
        type_inter: path("typeInter")?,
    })
}

pub(super) fn check(table: &CostTable, expected: &Value) -> Result<(), Difference> {
    for algorithm in Algorithm::ALL {
        let row = table.threads(algorithm);
        for protocol in Protocol::ALL {
            let at = |section: &str| format!("{section}.{algorithm}.{protocol}");
            let theirs = |section: &str| &expected[section][algorithm.name()][protocol.name()];
            let index = protocol as usize;
            let (most, threshold) = (i64::from(row.most[index]), row.threshold[index]);
            compare::integer(&at("maxThreads"), most, theirs("maxThreads"))?;
            compare::integer(
                &at("threadThresholds"),
                threshold,
                theirs("threadThresholds"),
            )?;
        }
    }
    for collective in Collective::TUNED {
        for algorithm in Algorithm::ALL {
            for protocol in Protocol::ALL {
                let entry = table.entry(collective, algorithm, protocol);
                let mine = entry.map_or((0.0, 0.0), |entry| (entry.bandwidth, entry.latency));
                for (section, mine) in [("bandwidths", mine.0), ("latencies", mine.1)] {
                    let row = &expected[section][collective.name()][algorithm.name()];
                    // Rows without a value are left out.
                    let theirs = if row.is_null() {
                        &Value::from(0)
                    } else {
                        &row[protocol.name()]
                    };
                    let name = format!("{section}.{collective}.{algorithm}.{protocol}");
                    compare::float(&name, mine, theirs)?;
                }
            }
        }
        let choices = list(&expected["selection"][collective.name()]);
        if choices.is_empty() {
            return Err(Difference::new(
                format!("selection.{collective}"),
                "some",
                "none",
            ));
        }
        for theirs in choices {
            let name = format!("selection.{collective}[{}]", theirs[0]);
            check_choice(table, collective, theirs)
                .map_err(|difference| difference.within(&name))?;
        }
    }
    Ok(())
}

fn check_choice(
    table: &CostTable,
    collective: Collective,
    expected: &Value,
) -> Result<(), Difference> {
    let mut bytes = expected[0].as_u64().unwrap_or(0);
    if collective.splits_message() {
        // The cases ask for whole 32-bit numbers of each rank, and for one at least.
        let numbers = u64::from(table.job.ranks) * 4;
        bytes = (bytes / numbers).max(1) * numbers;
    }
    let choice = match table.choose(collective, bytes) {
        Ok(choice) => choice,
        Err(_) => return compare::text("choice", "refused", &expected[1]),
    };
    compare::text("algorithm", choice.algorithm.name(), &expected[1])?;
    compare::text("protocol", choice.protocol.name(), &expected[2])?;
    compare::float("time", choice.time_us, &expected[3])?;
    compare::integer("channels", i64::from(choice.channels), &expected[4])?;
    compare::integer("warps", i64::from(choice.warps), &expected[5])
}
