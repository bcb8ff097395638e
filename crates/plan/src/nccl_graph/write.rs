//! Writes graphs as the text that NCCL dumps.

use std::fmt::Write as _;

use topology::PathType;

use super::{GpuAddress, IN_FILE_ORDER, TYPES, c_general};
use crate::error::Error;
use crate::graph::{Graph, GraphChannel, GraphKind};
use crate::version::NcclVersion;

/// Writes a graph file as NCCL dumps it: all five kinds in NCCL's order, those that `graphs` lacks
/// without channels.
///
/// `gpus` are the GPUs of all ranks. Of NVLS channels only the head is written, because the other
/// ranks have no meaning.
///
/// # Errors
/// A path type has no text in these files, or a rank is not among `gpus`.
pub fn write(graphs: &[Graph], gpus: &[GpuAddress]) -> Result<String, Error> {
    write_as(NcclVersion::NEWEST, graphs, gpus)
}

/// The same as a version of NCCL dumps it: before 2.30 GPUs had no `rank`.
///
/// # Errors
/// As [`write()`].
pub fn write_as(
    version: NcclVersion,
    graphs: &[Graph],
    gpus: &[GpuAddress],
) -> Result<String, Error> {
    let named = match version >= NcclVersion::V2_30 {
        true => Named::ByDeviceAndRank,
        false => Named::ByDevice,
    };
    write_all(graphs, gpus, named)
}

/// Writes a graph file for every node of a job: all five kinds, and GPUs by device number only.
/// NCCL 2.30 and newer believe a `rank` more than a device number, and a rank is right on one node
/// only: another node's ranks die of it.
///
/// # Errors
/// As [`write()`].
pub fn write_by_device(graphs: &[Graph], gpus: &[GpuAddress]) -> Result<String, Error> {
    write_all(graphs, gpus, Named::ByDevice)
}

/// Writes a graph file for every node of a job, as [`write_by_device`], but only these graphs, so
/// that NCCL searches the others as it would without a file.
///
/// # Errors
/// As [`write()`].
pub fn write_for_hosts(graphs: &[Graph], gpus: &[GpuAddress]) -> Result<String, Error> {
    let mut text = String::from("<graphs version=\"1\">\n");
    for graph in graphs {
        write_graph(&mut text, graph, gpus, Named::ByDevice)?;
    }
    text.push_str("</graphs>\n");
    Ok(text)
}

/// How a file names GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Named {
    ByDevice,
    ByDeviceAndRank,
}

fn write_all(graphs: &[Graph], gpus: &[GpuAddress], named: Named) -> Result<String, Error> {
    let mut text = String::from("<graphs version=\"1\">\n");
    for (kind, pattern) in IN_FILE_ORDER {
        match graphs.iter().find(|graph| graph.kind == kind) {
            Some(graph) => write_graph(&mut text, graph, gpus, named)?,
            None => write_graph(&mut text, &Graph::empty(kind, pattern), gpus, named)?,
        }
    }
    text.push_str("</graphs>\n");
    Ok(text)
}

fn write_graph(
    text: &mut String,
    graph: &Graph,
    gpus: &[GpuAddress],
    named: Named,
) -> Result<(), Error> {
    let type_intra = type_text(graph.kind, "typeintra", graph.type_intra)?;
    let type_inter = type_text(graph.kind, "typeinter", graph.type_inter)?;
    push(
        text,
        format_args!(
            "  <graph id=\"{}\" pattern=\"{}\" crossnic=\"{}\" nchannels=\"{}\" speedintra=\"{}\" speedinter=\"{}\" \
             latencyinter=\"{}\" typeintra=\"{type_intra}\" typeinter=\"{type_inter}\" samechannels=\"{}\"",
            graph.kind as i32,
            graph.pattern as i32,
            graph.cross_nic,
            graph.channels.len(),
            c_general(graph.bw_intra.into()),
            c_general(graph.bw_inter.into()),
            c_general(graph.latency_inter.into()),
            i32::from(graph.same_channels),
        ),
    );
    if graph.channels.is_empty() {
        text.push_str("/>\n");
        return Ok(());
    }
    text.push_str(">\n");
    for channel in &graph.channels {
        write_channel(text, graph.kind, channel, gpus, named)?;
    }
    text.push_str("  </graph>\n");
    Ok(())
}

fn write_channel(
    text: &mut String,
    kind: GraphKind,
    channel: &GraphChannel,
    gpus: &[GpuAddress],
    named: Named,
) -> Result<(), Error> {
    let written = if kind == GraphKind::Nvls {
        1
    } else {
        usize::MAX
    };
    let ranks = channel.ranks.get(..written).unwrap_or(&channel.ranks);
    if ranks.is_empty() && channel.nets.is_none() {
        text.push_str("    <channel/>\n");
        return Ok(());
    }
    text.push_str("    <channel>\n");
    if let Some([enter, _]) = channel.nets {
        push(
            text,
            format_args!("      <net dev=\"{}\"/>\n", c_hexadecimal(enter as u64)),
        );
    }
    for &rank in ranks {
        let gpu = gpus
            .iter()
            .find(|gpu| gpu.rank == rank)
            .ok_or(Error::UnknownRank { kind, rank })?;
        push(
            text,
            format_args!("      <gpu dev=\"{}\"", c_hexadecimal(gpu.id().0)),
        );
        if named == Named::ByDeviceAndRank {
            push(text, format_args!(" rank=\"{rank}\""));
        }
        text.push_str("/>\n");
    }
    if let Some([_, leave]) = channel.nets {
        push(
            text,
            format_args!("      <net dev=\"{}\"/>\n", c_hexadecimal(leave as u64)),
        );
    }
    text.push_str("    </channel>\n");
    Ok(())
}

fn type_text(
    kind: GraphKind,
    attribute: &'static str,
    path_type: PathType,
) -> Result<&'static str, Error> {
    if TYPES.contains(&path_type) {
        Ok(path_type.name())
    } else {
        Err(Error::NoTextForType {
            kind,
            attribute,
            path_type,
        })
    }
}

/// Like C's `%#lx`, which has no prefix for zero.
fn c_hexadecimal(number: u64) -> String {
    if number == 0 {
        "0".to_owned()
    } else {
        format!("{number:#x}")
    }
}

fn push(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = text.write_fmt(arguments);
}
