//! A better placement of ranks: as a table, and as files of launchers.

use std::path::Path;

use answers::step::placement::Placement;
use answers::step::placement::launch::LaunchFile;
use anyhow::{Context, Result, anyhow, bail};
use simulator::fabric::host_list;

use crate::render::table::Columns;
use crate::render::{Look, count, milliseconds as ms, percent, wrap};

/// The section of the page.
pub(super) struct PlacementSection<'a> {
    /// The placement.
    pub(super) placement: &'a Placement,
    /// The files that were written, with their uses.
    pub(super) written: &'a [(String, String)],
}

impl PlacementSection<'_> {
    /// The section.
    pub(super) fn text(&self, look: Look) -> String {
        let placement = self.placement;
        let headers = [
            "",
            "time now",
            "best",
            "exposed now",
            "best",
            "hosts now",
            "best",
        ];
        let mut table = Columns::new(look, &headers).right(&[1, 2, 3, 4]);
        for group in &placement.groups {
            let [time, exposed] = [group.time_us, group.exposed_us].map(|it| it.map(ms));
            let hosts = group.hosts.map(|[least, most]| match least == most {
                true => most.to_string(),
                false => format!("{least} to {most}"),
            });
            let mut row = vec![group.name.clone()];
            row.extend(time.into_iter().chain(exposed).chain(hosts));
            table.row(row);
        }
        let mut text = table.finish();
        for sentence in self.sentences() {
            text.push_str(&wrap(&sentence, "  ", "  ", look.width));
        }
        for (file, usage) in self.written {
            text.push_str(&wrap(&format!("{file}: {usage}"), "  ", "    ", look.width));
        }
        let title = "ms of each group with ranks as they are and in their best places, hosts of a communicator";
        look.section("Placement", title, &text)
    }

    fn sentences(&self) -> Vec<String> {
        let Placement {
            step_us: [now, best],
            tried,
            ended,
            floor,
            ..
        } = self.placement;
        let tried = count(*tried, "order");
        let ends = match ended {
            true => format!("{tried} were priced"),
            false => format!("{tried} were priced (--orders), others were not"),
        };
        let mut sentences = vec![match self.placement.is_better() {
            true => format!(
                "The best order takes {} ms instead of {} for a step ({}); {ends}.",
                ms(*best),
                ms(*now),
                percent(best / now - 1.0)
            ),
            false => format!("No order that was priced is better than the given one; {ends}."),
        }];
        if let Some(floor) = floor {
            let left = 1.0 - floor.step_us / best.max(f64::MIN_POSITIVE);
            let than = "no order that gives a communicator the same GPUs on each of its hosts";
            sentences.push(match left < 1e-6 {
                true => format!("It is the best: {than} is faster."),
                false => format!(
                    "At most {:.1} % could be gained by another: {than} takes less than {} ms.",
                    left * 100.0,
                    ms(floor.step_us)
                ),
            });
        }
        sentences
    }
}

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
