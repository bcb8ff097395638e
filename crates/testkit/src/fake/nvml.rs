//! The driver's answers.

use anyhow::{Context, Result, ensure};
use phantom::machine::attachment::{self, Attachment};
use serde_json::{Value, json};
use topology::xml::{Document, Element, Tag, c_int};

use super::FakeMachine;

/// Makes the answers for the GPUs of a document.
pub(super) fn build(machine: &mut FakeMachine, document: &Document) -> Result<()> {
    let found = attachment::gpus(document);
    let devices: Vec<Value> = found
        .iter()
        .enumerate()
        .map(|(index, found)| {
            let dev = found.1.get("dev").map_or(-1, c_int);
            ensure!(dev == index as i32, "GPUs are not numbered 0, 1 …");
            device(*found, index).with_context(|| format!("GPU {index}"))
        })
        .collect::<Result<_>>()?;
    let count = devices.len();
    let mut ranked: Vec<(i32, u32)> = (0..)
        .zip(&found)
        .map(|(index, (_, gpu))| (gpu.get("rank").map_or(-1, c_int), index))
        .collect();
    ranked.sort_unstable();
    ensure!(
        ranked.iter().map(|(rank, _)| *rank).eq(0..count as i32),
        "ranks are not numbered 0, 1 …"
    );
    machine.ranks = ranked.into_iter().map(|(_, index)| index).collect();
    let mut devices = devices;
    for device in &mut devices {
        device["peers"] = Value::Array(vec![json!({"read": "Ok", "write": "Ok"}); count]);
    }
    machine.nvml = json!({"driver": "580.82.07", "count": count, "devices": devices});
    Ok(())
}

fn device((pci, gpu): (&Element, &Element), index: usize) -> Result<Value> {
    let get = |name| gpu.get(name).unwrap_or_default();
    ensure!(
        pci.children(Tag::Gpu).count() == 1,
        "several GPUs of one function"
    );
    ensure!(
        matches!(gpu.get("mlopart"), None | Some("-1")),
        "a partition"
    );
    let sm = c_int(get("sm"));
    let attachment = Attachment::of(pci, gpu);
    let generation = attachment
        .generation
        .context("a link speed of no generation")?;
    let width = attachment.width;
    let up = |remote: &String| json!({"p2p": true, "up": true, "remote": remote});
    let mut links: Vec<Value> = attachment.nvlinks.iter().map(up).collect();
    let most = match sm {
        ..60 => 0,
        60..70 => 4,
        70..80 => 6,
        80..90 => 12,
        _ => 18,
    };
    ensure!(
        links.len() <= most,
        "{} NVLinks, where NCCL looks at {most}",
        links.len()
    );
    let none = json!({"p2p": {"failed": "NotSupported"}, "up": {"failed": "NotSupported"}, "remote": {"failed": "NotSupported"}});
    links.resize(most, none);
    let up = |bandwidth: &u32| json!({"up": true, "bandwidth": bandwidth});
    let c2c: Vec<Value> = attachment.c2c_mbps.iter().map(up).collect();
    ensure!(
        c2c.is_empty() || sm >= 90,
        "C2C links of a GPU before Hopper"
    );
    let brand = if get("gdr") == "1" {
        "Tesla"
    } else {
        "GeForce"
    };
    Ok(json!({
        "name": "fake GPU",
        "brand": brand,
        "uuid": format!("GPU-{index:08x}-1111-2222-3333-444444444444"),
        "pci": {
            "bus_id": pci.get("busid"),
            "device": attachment.device,
            "subsystem": attachment.subsystem,
        },
        "compute_capability": sm,
        "link_generation": generation,
        "max_link_generation": generation,
        "link_width": width,
        "max_link_width": width,
        "performance_state": 0,
        "mig": {"enabled": false, "parts": []},
        "nvlinks": links,
        "c2c_count": c2c.len(),
        "c2c": c2c,
        "fabric": {"failed": "NotSupported"},
    }))
}
