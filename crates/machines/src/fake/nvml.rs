//! The driver's answers.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use topology::bandwidth;
use topology::xml::{Document, Element, Tag, c_int, c_unsigned_hexadecimal};

use super::FakeMachine;

/// The function and the element of a GPU.
type Found<'d> = (&'d Element, &'d Element);

/// Makes the answers for the GPUs of a document.
pub fn build(machine: &mut FakeMachine, document: &Document) -> Result<()> {
    let mut found = Vec::new();
    collect(&document.root, &mut found);
    found.sort_by_key(|(_, gpu)| gpu.get("dev").map_or(-1, c_int));
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

fn collect<'d>(element: &'d Element, found: &mut Vec<Found<'d>>) {
    for child in &element.children {
        if child.tag == Tag::Gpu {
            found.push((element, child));
        }
        collect(child, found);
    }
}

fn device((pci, gpu): Found<'_>, index: usize) -> Result<Value> {
    let get = |name| gpu.get(name).unwrap_or_default();
    let id = |low: &str, high: &str| {
        let part = |name: &str| pci.get(name).map_or(0, c_unsigned_hexadecimal) & 0xffff;
        part(high) << 16 | part(low)
    };
    ensure!(
        pci.children(Tag::Gpu).count() == 1,
        "several GPUs of one function"
    );
    ensure!(
        matches!(gpu.get("mlopart"), None | Some("-1")),
        "a partition"
    );
    let sm = c_int(get("sm"));
    let generation = generation(pci)?;
    let width = pci.get("link_width").map_or(16, c_int);
    let mut links = Vec::new();
    for link in gpu.children(Tag::Nvlink) {
        let remote = link.get("target").unwrap_or_default().to_uppercase();
        for _ in 0..link.get("count").map_or(0, c_int) {
            links.push(json!({"p2p": true, "up": true, "remote": remote}));
        }
    }
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
    let c2c: Vec<Value> = gpu
        .children(Tag::C2c)
        .flat_map(|link| {
            let bandwidth = link.get("bw").map_or(0, c_int);
            vec![
                json!({"up": true, "bandwidth": bandwidth});
                link.get("count").map_or(0, c_int).max(0) as usize
            ]
        })
        .collect();
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
            "device": id("vendor", "device"),
            "subsystem": id("subsystem_vendor", "subsystem_device"),
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

/// The PCIe generation with the bandwidth of the function's link.
fn generation(pci: &Element) -> Result<usize> {
    let text = pci.get("link_speed").unwrap_or_default();
    let own = bandwidth::pci(text, 16);
    let speeds = ["2.5", "5.0", "8.0", "16.0", "32.0", "64.0"];
    let at = speeds
        .iter()
        .position(|speed| bandwidth::pci(&format!("{speed} GT/s PCIe"), 16) == own);
    at.map(|at| at + 1)
        .with_context(|| format!("a link speed {text:?}"))
}
