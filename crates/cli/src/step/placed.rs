//! A better placement of ranks, as files of launchers.

use std::path::Path;

use answers::step::placement::Placement;
use answers::step::placement::launch::LaunchFile;
use anyhow::{Context, Result, anyhow, bail};
use simulator::fabric::host_list;

use crate::render::count;

/// Writes the files of launchers. Their paths, with what each is for.
pub(super) fn write(
    placement: &Placement,
    dir: &Path,
    nodes: Option<&str>,
) -> Result<Vec<(String, String)>> {
    let hosts = placement.slots.len() / placement.devices.len().max(1);
    let names = match nodes {
        None => (0..hosts).map(|number| format!("host{number}")).collect(),
        Some(list) => host_list::names(list).map_err(|why| anyhow!("--nodes: {why}"))?,
    };
    if names.len() != hosts {
        bail!(
            "--nodes names {}; expected {hosts}, as many as the job has",
            count(names.len(), "host")
        );
    }
    let cannot = || format!("cannot write {}", dir.display());
    std::fs::create_dir_all(dir).with_context(cannot)?;
    let name = |number: u32| names.get(number as usize).cloned().unwrap_or_default();
    let mut written = Vec::new();
    for LaunchFile { name, text } in placement.files(name) {
        let path = dir.join(name);
        files::write(&path, text.as_bytes())
            .with_context(|| format!("cannot write {}", path.display()))?;
        written.push((path.display().to_string(), usage(name, placement)));
    }
    Ok(written)
}

/// The use of a file.
fn usage(file: &str, placement: &Placement) -> String {
    match (file, placement.devices_of_all()) {
        ("rank-order.txt", _) => "topo … --rank-order @rank-order.txt".to_owned(),
        ("hosts.txt", _) => "the host of each rank: SLURM_HOSTFILE=hosts.txt srun --distribution=arbitrary, or mpirun --hostfile \
                             hosts.txt --map-by seq"
            .to_owned(),
        ("rankfile", _) => {
            "the same for Open MPI's mpirun --rankfile, which binds ranks to cores".to_owned()
        }
        ("nodes.txt", _) => "hosts in the order of torchrun's --node-rank".to_owned(),
        (_, Some(devices)) => {
            let numbers: Vec<String> = devices.iter().map(i32::to_string).collect();
            format!("on every host CUDA_VISIBLE_DEVICES={}", numbers.join(","))
        }
        (_, None) => "CUDA_VISIBLE_DEVICES of each host".to_owned(),
    }
}
