//! The rank of this process, from the variables that launchers set.

use std::fmt::{self, Display};
use std::ops::RangeInclusive;
use std::str::FromStr;

use anyhow::{Context, Result, bail};

use crate::MOST_RANKS;

use crate::rendezvous::{JobOptions, JobUnknown, Variables};

/// A program that starts ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Launcher {
    /// PyTorch's torchrun, or another one that sets RANK and WORLD_SIZE.
    Torchrun,
    /// Open MPI's mpirun.
    OpenMpi,
    /// MPICH's and Intel MPI's mpirun, or another one that sets PMI_RANK and PMI_SIZE.
    Mpich,
    /// Slurm's srun.
    Slurm,
    /// An indexed job of Kubernetes.
    Kubernetes,
}

impl Launcher {
    const ALL: [(Self, Detect); 5] = [
        (Self::Torchrun, torchrun),
        (Self::OpenMpi, open_mpi),
        (Self::Mpich, mpich),
        (Self::Slurm, slurm),
        (Self::Kubernetes, kubernetes),
    ];
}

impl Display for Launcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Torchrun => "torchrun",
            Self::OpenMpi => "Open MPI",
            Self::Mpich => "MPICH",
            Self::Slurm => "srun",
            Self::Kubernetes => "Kubernetes",
        })
    }
}

/// Launchers whose variables are read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Launchers {
    /// The first one that left variables.
    #[default]
    Any,
    /// None of them.
    None,
    /// One of them, which must have left its variables.
    Only(Launcher),
}

/// A rank, as its launcher started it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LaunchedRank {
    /// The source of these facts: the launcher's name, or `hand`.
    pub by: &'static str,
    /// The rank.
    pub rank: u32,
    /// Ranks of the job.
    pub world: u32,
    /// Ranks of this host, if that is known.
    pub local: Option<u32>,
    /// The number of the rank on this host, if that is known.
    pub on_host: Option<u32>,
    /// Identifies the job among others on the same hosts; empty if unknown.
    pub job: String,
    /// Host and port of rank 0, if the launcher gives them.
    pub master: Option<(String, u16)>,
}

/// Port at which rank 0 listens when the launcher names a host and no port.
const PORT: u16 = 29_400;

/// The rank of this process, whose parent is process `parent`; `None` if no launcher started it.
///
/// # Errors
/// A variable is no number, the rank is not below the number of ranks, or one of both is missing
/// ([`JobUnknown`]).
pub fn detect(
    given: &JobOptions,
    variables: &Variables,
    parent: u32,
) -> Result<Option<LaunchedRank>> {
    if given.launchers == Launchers::None {
        return Ok(None);
    }
    let found = if let Some(rank) = given.rank {
        let world = given.world.ok_or(JobUnknown::World { rank })?;
        Some(LaunchedRank {
            by: "hand",
            rank,
            world,
            ..LaunchedRank::default()
        })
    } else {
        let mut found = None;
        for (launcher, detect) in Launcher::ALL {
            let only = given.launchers == Launchers::Only(launcher);
            if !only && given.launchers != Launchers::Any {
                continue;
            }
            found = detect(&Reader(variables), given.world, parent)?;
            if found.is_some() {
                break;
            }
            if only {
                return Err(JobUnknown::Variables { launcher }.into());
            }
        }
        found
    };
    let Some(mut launched) = found else {
        if let Some(world) = given.world {
            return Err(JobUnknown::Rank { world }.into());
        }
        return Ok(None);
    };
    if let Some(world) = given.world {
        launched.world = world;
    }
    if launched.rank >= launched.world {
        bail!(
            "rank {} of {} (given by {}): expected a rank of 0 to {}",
            launched.rank,
            launched.world,
            launched.by,
            launched.world.saturating_sub(1)
        );
    }
    Ok(Some(launched))
}

/// Reads a number of a variable.
///
/// # Errors
/// It is no whole number in the range.
pub fn number<T: FromStr + PartialOrd + Display>(
    name: &str,
    text: &str,
    range: RangeInclusive<T>,
) -> Result<T> {
    let number = text.trim().parse().ok().filter(|it| range.contains(it));
    number.with_context(|| {
        let (first, last) = (range.start(), range.end());
        format!("{name}={text}: expected a whole number, {first} to {last}")
    })
}

type Detect = fn(&Reader<'_>, Option<u32>, u32) -> Result<Option<LaunchedRank>>;

struct Reader<'a>(&'a Variables);

impl Reader<'_> {
    fn text(&self, name: &str) -> Option<&str> {
        let text = self.0.get(name)?.trim();
        (!text.is_empty()).then_some(text)
    }

    fn number(&self, name: &str, range: RangeInclusive<u32>) -> Result<Option<u32>> {
        let text = self.text(name);
        text.map(|text| number(name, text, range)).transpose()
    }

    fn rank(&self, name: &str) -> Result<Option<u32>> {
        self.number(name, 0..=MOST_RANKS - 1)
    }

    fn ranks(&self, name: &str) -> Result<Option<u32>> {
        self.number(name, 1..=MOST_RANKS)
    }

    fn world(&self, name: &str, by: &'static str) -> Result<u32> {
        let ranks = self.ranks(name)?;
        ranks.ok_or_else(|| {
            let name = name.to_owned();
            JobUnknown::WorldOfLauncher { by, name }.into()
        })
    }

    fn master(&self, port: u16) -> Option<(String, u16)> {
        Some((self.text("MASTER_ADDR")?.to_owned(), port))
    }
}

fn torchrun(read: &Reader<'_>, _: Option<u32>, _: u32) -> Result<Option<LaunchedRank>> {
    let Some(rank) = read.rank("RANK")? else {
        return Ok(None);
    };
    let by = "torchrun";
    // Its own store listens at the port that it names, so rank 0 takes the next one.
    let port = read.number("MASTER_PORT", 1..=u32::from(u16::MAX) - 1)?;
    let port = port.map_or(PORT, |port| port as u16 + 1);
    let restart = read.text("TORCHELASTIC_RESTART_COUNT").unwrap_or("0");
    let run = read.text("TORCHELASTIC_RUN_ID").unwrap_or_default();
    let world = read.world("WORLD_SIZE", by)?;
    Ok(Some(LaunchedRank {
        by,
        rank,
        world,
        local: read.number("LOCAL_WORLD_SIZE", 1..=world)?,
        on_host: read.number("LOCAL_RANK", 0..=u32::MAX)?,
        job: format!("torchrun {run} {restart}"),
        master: read.master(port),
    }))
}

fn open_mpi(read: &Reader<'_>, _: Option<u32>, parent: u32) -> Result<Option<LaunchedRank>> {
    let Some(rank) = read.rank("OMPI_COMM_WORLD_RANK")? else {
        return Ok(None);
    };
    let by = "Open MPI";
    let namespace = read.text("PMIX_NAMESPACE").map(str::to_owned);
    let world = read.world("OMPI_COMM_WORLD_SIZE", by)?;
    Ok(Some(LaunchedRank {
        by,
        rank,
        world,
        local: read.number("OMPI_COMM_WORLD_LOCAL_SIZE", 1..=world)?,
        on_host: read.number("OMPI_COMM_WORLD_LOCAL_RANK", 0..=u32::MAX)?,
        job: format!(
            "openmpi {}",
            namespace.unwrap_or_else(|| parent.to_string())
        ),
        master: read.master(PORT),
    }))
}

fn mpich(read: &Reader<'_>, _: Option<u32>, parent: u32) -> Result<Option<LaunchedRank>> {
    let Some(rank) = read.rank("PMI_RANK")? else {
        return Ok(None);
    };
    let by = "MPICH";
    let world = read.world("PMI_SIZE", by)?;
    Ok(Some(LaunchedRank {
        by,
        rank,
        world,
        local: read.number("MPI_LOCALNRANKS", 1..=world)?,
        on_host: read.number("MPI_LOCALRANKID", 0..=u32::MAX)?,
        // Its ranks of one host have one parent, which has no other job.
        job: format!("pmi {parent}"),
        master: read.master(PORT),
    }))
}

fn slurm(read: &Reader<'_>, _: Option<u32>, _: u32) -> Result<Option<LaunchedRank>> {
    // A batch script has a rank too, but is no step.
    let Some(step) = read.number("SLURM_STEP_ID", 0..=u32::MAX)? else {
        return Ok(None);
    };
    let Some(rank) = read.rank("SLURM_PROCID")? else {
        return Ok(None);
    };
    let by = "srun";
    let job = read.number("SLURM_JOB_ID", 0..=u32::MAX)?.unwrap_or(0);
    let world = match read.ranks("SLURM_STEP_NUM_TASKS")? {
        Some(world) => world,
        None => read.world("SLURM_NTASKS", by)?,
    };
    let nodes = read
        .text("SLURM_STEP_NODELIST")
        .or_else(|| read.text("SLURM_NODELIST"));
    let port = 20_000 + ((u64::from(job) * 16 + u64::from(step)) % 20_000) as u16;
    let one_node = read.number("SLURM_STEP_NUM_NODES", 1..=u32::MAX)? == Some(1);
    Ok(Some(LaunchedRank {
        by,
        rank,
        world,
        local: one_node.then_some(world),
        on_host: read.number("SLURM_LOCALID", 0..=u32::MAX)?,
        job: format!("slurm {job}.{step}"),
        master: read
            .master(port)
            .or_else(|| Some((first_node(nodes?), port))),
    }))
}

/// The first host of a list such as `gpu[003-007,9],login`.
fn first_node(list: &str) -> String {
    let Some((prefix, rest)) = list.split_once('[') else {
        return list.split(',').next().unwrap_or_default().to_owned();
    };
    if let Some((first, _)) = prefix.split_once(',') {
        return first.to_owned();
    }
    let (inside, after) = rest.split_once(']').unwrap_or((rest, ""));
    let number = inside.split([',', '-']).next().unwrap_or_default();
    let suffix = after.split(',').next().unwrap_or_default();
    format!("{prefix}{number}{suffix}")
}

fn kubernetes(read: &Reader<'_>, world: Option<u32>, _: u32) -> Result<Option<LaunchedRank>> {
    let Some(rank) = read.rank("JOB_COMPLETION_INDEX")? else {
        return Ok(None);
    };
    let by = "Kubernetes";
    let world = match world {
        Some(world) => world,
        None => read.ranks("WORLD_SIZE")?.ok_or(JobUnknown::Completions)?,
    };
    // Pods of an indexed job are called JOB-INDEX; a headless service gives them names.
    let job = read.text("HOSTNAME").and_then(|name| {
        let (job, index) = name.split('.').next()?.rsplit_once('-')?;
        (index == rank.to_string()).then(|| job.to_owned())
    });
    let named = job.clone().map(|job| {
        let domain = read.text("TOPO_SUBDOMAIN");
        let domain = domain.map_or_else(String::new, |it| format!(".{it}"));
        (format!("{job}-0{domain}"), PORT)
    });
    Ok(Some(LaunchedRank {
        by,
        rank,
        world,
        local: None,
        // A pod is a host of its own.
        on_host: Some(0),
        job: format!("kubernetes {}", job.unwrap_or_default()),
        master: read.master(PORT).or(named),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(rank: Option<u32>, world: Option<u32>) -> JobOptions {
        JobOptions {
            rank,
            world,
            ..JobOptions::default()
        }
    }

    fn of_launchers(launchers: Launchers) -> JobOptions {
        JobOptions {
            launchers,
            ..JobOptions::default()
        }
    }

    fn found(given: &JobOptions, variables: &[(&str, &str)]) -> Result<Option<LaunchedRank>> {
        let variables = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        detect(given, &variables.collect(), 77)
    }

    #[test]
    fn each_launcher_is_known_by_its_variables() {
        let torchrun = [
            ("RANK", "3"),
            ("WORLD_SIZE", "8"),
            ("LOCAL_WORLD_SIZE", "4"),
            ("MASTER_ADDR", "node0"),
            ("MASTER_PORT", "29500"),
            ("TORCHELASTIC_RUN_ID", "none"),
        ];
        let open_mpi = [
            ("OMPI_COMM_WORLD_RANK", "1"),
            ("OMPI_COMM_WORLD_SIZE", "2"),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "2"),
            ("PMIX_NAMESPACE", "prterun-host-5@1"),
        ];
        let mpich = [
            ("PMI_RANK", "0"),
            ("PMI_SIZE", "2"),
            ("MPI_LOCALNRANKS", "1"),
        ];
        let slurm = [
            ("SLURM_PROCID", "9"),
            ("SLURM_NTASKS", "16"),
            ("SLURM_JOB_ID", "12"),
            ("SLURM_STEP_ID", "1"),
            ("SLURM_STEP_NODELIST", "gpu[003-007,9],login"),
        ];
        let kubernetes = [("JOB_COMPLETION_INDEX", "2"), ("HOSTNAME", "my-job-2")];
        for (given, variables, by, rank, world, local, master) in [
            (
                of(None, None),
                &torchrun[..],
                "torchrun",
                3,
                8,
                Some(4),
                Some(("node0", 29501)),
            ),
            (of(None, None), &open_mpi, "Open MPI", 1, 2, Some(2), None),
            (of(None, None), &mpich, "MPICH", 0, 2, Some(1), None),
            (
                of(None, None),
                &slurm,
                "srun",
                9,
                16,
                None,
                Some(("gpu003", 20193)),
            ),
            (
                of(None, Some(4)),
                &kubernetes,
                "Kubernetes",
                2,
                4,
                None,
                Some(("my-job-0", PORT)),
            ),
            (of(Some(1), Some(3)), &torchrun, "hand", 1, 3, None, None),
        ] {
            let launched = found(&given, variables).unwrap().unwrap();
            let master = master.map(|(host, port)| (host.to_owned(), port));
            assert_eq!(
                (launched.by, launched.rank, launched.world),
                (by, rank, world)
            );
            assert_eq!((launched.local, launched.master), (local, master), "{by}");
        }
    }

    #[test]
    fn without_a_launcher_there_is_none() {
        assert_eq!(found(&of(None, None), &[]).unwrap(), None);
        // A batch script of Slurm is no step.
        let batch = [
            ("SLURM_PROCID", "0"),
            ("SLURM_NTASKS", "4"),
            ("SLURM_JOB_ID", "1"),
        ];
        assert_eq!(found(&of(None, None), &batch).unwrap(), None);
        let torchrun = [("RANK", "0"), ("WORLD_SIZE", "2")];
        assert_eq!(
            found(&of_launchers(Launchers::None), &torchrun).unwrap(),
            None
        );
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let slurm = of_launchers(Launchers::Only(Launcher::Slurm));
        for (given, variables, words) in [
            (
                of(None, None),
                &[("RANK", "2"), ("WORLD_SIZE", "2")][..],
                "rank 2 of 2",
            ),
            (of(None, None), &[("RANK", "one")], "RANK=one"),
            (of(None, None), &[("RANK", "0")], "WORLD_SIZE"),
            (
                of(None, None),
                &[("JOB_COMPLETION_INDEX", "0")],
                "completions",
            ),
            (of(None, Some(2)), &[], "which of 2 ranks"),
            (of(Some(1), None), &[], "beside rank 1"),
            (slurm, &[("RANK", "0")], "of srun"),
        ] {
            let error = found(&given, variables).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn the_first_node_of_a_list_is_found() {
        for (list, first) in [
            ("a", "a"),
            ("a,b", "a"),
            ("n[1-3]", "n1"),
            ("n[07,9]-ib,x", "n07-ib"),
            ("login,n[1-3]", "login"),
        ] {
            assert_eq!(first_node(list), first);
        }
    }
}
