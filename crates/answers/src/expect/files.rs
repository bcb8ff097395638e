//! Expectations as files that operators use. Each file tells UNKNOWN, what cannot be measured,
//! apart from FAIL, in the way of the program that reads it.

use std::fmt::Write;

use program::Collective;

use super::{ExpectReport, SizeExpectation};

/// A file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcceptanceFile {
    /// The part of a recipe of NVIDIA's aicr.
    Aicr,
    /// A check of Node Health Check.
    Nhc,
    /// A prolog of Slurm.
    Slurm,
    /// A health check of Slurm.
    SlurmHealth,
    /// A job of Kubernetes.
    KubernetesJob,
    /// A DaemonSet of Kubernetes.
    KubernetesDaemonset,
    /// A test of pytest.
    Pytest,
}

/// Why a file cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// No size has a floor.
    #[error(
        "no size has a floor; expected sizes for which topo expect knows what healthy machines reach"
    )]
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
    /// A container has other numbers for a part of the GPUs.
    #[error(
        "a container gets any {gpus} GPUs of the node, with numbers from 0, and the floor is that of GPUs {devices}; \
         expected all GPUs of the host"
    )]
    Part {
        /// GPUs of the job.
        gpus: usize,
        /// Their numbers.
        devices: String,
    },
}

/// The longest message that scripts measure, bytes.
const LONG: u64 = 1 << 30;

/// Bytes for each GB/s of the floor that scripts measure at most: 14 all-reduces (-w 1 -n 5, with
/// two buffers and one), each of nearly two messages of bus traffic, take 8 s at 5 % of the floor.
const BYTES_OF_GBPS: f64 = 0.05e9 * 8.0 / (14.0 * 2.0);

/// The sizes of the all-reduce with a floor, GB/s.
fn floors(answer: &ExpectReport) -> Result<Vec<(u64, f64)>, FileError> {
    let mut all = answer.collectives.iter();
    let reduced = all.find(|it| it.collective == Collective::AllReduce);
    let sizes = &reduced.ok_or(FileError::NoAllReduce)?.sizes;
    let mut sizes: Vec<(u64, f64)> = sizes.iter().filter_map(floor).collect();
    sizes.sort_unstable_by_key(|it| it.0);
    Ok(sizes)
}

fn floor(size: &SizeExpectation) -> Option<(u64, f64)> {
    Some((size.bytes, size.floor_gbps?))
}

impl AcceptanceFile {
    /// The file of a job.
    ///
    /// # Errors
    /// No size has a floor, or the file is of another kind of job.
    pub fn of(self, answer: &ExpectReport) -> Result<String, FileError> {
        let floors =
            |it: &super::CollectiveExpectations| it.sizes.iter().any(|it| it.floor_gbps.is_some());
        if !answer.collectives.iter().any(floors) {
            return Err(FileError::NoFloors);
        }
        let hosts = answer.hosts;
        if hosts > 1 && !matches!(self, Self::Aicr | Self::Pytest) {
            return Err(FileError::SeveralHosts { hosts });
        }
        match self {
            Self::Aicr => aicr(answer),
            Self::Nhc => script(include_str!("gates/check.nhc"), answer),
            Self::Slurm => script(include_str!("gates/prolog.sh"), answer),
            Self::SlurmHealth => script(include_str!("gates/health.sh"), answer),
            Self::KubernetesJob if !visible(answer).is_empty() => {
                let devices = devices(answer);
                let shown: Vec<String> = devices.iter().map(i32::to_string).collect();
                Err(FileError::Part {
                    gpus: devices.len(),
                    devices: shown.join(","),
                })
            }
            Self::KubernetesJob => manifest(
                include_str!("gates/job.yaml"),
                include_str!("gates/job.sh"),
                answer,
            ),
            Self::KubernetesDaemonset => manifest(
                include_str!("gates/daemonset.yaml"),
                include_str!("gates/kubernetes.sh"),
                answer,
            ),
            Self::Pytest => Ok(pytest(answer)),
        }
    }
}

/// The sentence at the head of each file, behind its mark of a comment.
fn head(answer: &ExpectReport) -> String {
    let (hosts, ranks) = (answer.hosts, answer.ranks);
    format!(
        "# Floors of topo expect for {}, hosts: {hosts}, ranks: {ranks}: bus bandwidths, GB/s.\n",
        answer
            .name
            // What a name has of the templates' names must not be filled.
            .replace(|it: char| !matches!(it, ' '..='~') || it == '@', "?")
    )
}

fn aicr(answer: &ExpectReport) -> Result<String, FileError> {
    let floors = floors(answer)?;
    let (_, gbps) = floors.last().ok_or(FileError::NoFloors)?;
    let gbps = gbps.floor();
    Ok(format!(
        "{}validation:\n  performance:\n    checks:\n      - nccl-all-reduce-bw\n    constraints:\n      \
         - name: nccl-all-reduce-bw\n        value: \">= {gbps}\"\n",
        head(answer)
    ))
}

/// A script that measures the largest size that also a slow host ends in time, on the GPUs of one
/// host.
fn script(template: &str, answer: &ExpectReport) -> Result<String, FileError> {
    let floors = floors(answer)?;
    let is_short = |it: &&(u64, f64)| it.0 <= LONG && it.0 as f64 <= it.1 * BYTES_OF_GBPS;
    let measured = floors.iter().rfind(is_short).or(floors.first());
    let (bytes, gbps) = measured.ok_or(FileError::NoFloors)?;
    let devices: Vec<String> = devices(answer).iter().map(i32::to_string).collect();
    let sm = answer.collectives.iter().find_map(|it| it.job.as_ref());
    let sm = sm.map_or(0, |it| it.sm);
    let values = [
        // The first ones bring others.
        ("@SLURM@", include_str!("gates/slurm.sh").to_owned()),
        ("@MEASURE@", include_str!("gates/measure.sh").to_owned()),
        ("@HEAD@", head(answer)),
        ("@VISIBLE@", visible(answer)),
        ("@DEVICES@", devices.join(",")),
        ("@CAPABILITY@", format!("{}.{}", sm / 10, sm % 10)),
        ("@BYTES@", bytes.to_string()),
        ("@GPUS@", answer.ranks.to_string()),
        ("@FLOOR@", format!("{gbps:.1}")),
    ];
    Ok(filled(template, &values))
}

/// A manifest of Kubernetes that runs a script.
fn manifest(template: &str, lines: &str, answer: &ExpectReport) -> Result<String, FileError> {
    let lines = script(lines, answer)?;
    let lines = lines.lines().map(|it| match it {
        "" => "\n".to_owned(),
        it => format!("              {it}\n"),
    });
    let template = template.replace("@SCRIPT@\n", &lines.collect::<String>());
    script(&template, answer)
}

/// A template with values in place of their names.
fn filled(template: &str, values: &[(&str, String)]) -> String {
    let fill = |text: String, (name, value): &(&str, String)| text.replace(name, value);
    values.iter().fold(template.to_owned(), fill)
}

/// The numbers of the job's GPUs on its host, as nvidia-smi has them.
fn devices(answer: &ExpectReport) -> Vec<i32> {
    let machine = answer.plan.machines.first();
    let gpus = machine.iter().flat_map(|it| &it.gpus);
    let mut devices: Vec<i32> = gpus.map(|it| it.dev).collect();
    devices.sort_unstable();
    devices
}

/// The line that lets CUDA see only the job's GPUs; nothing where they are the first ones.
fn visible(answer: &ExpectReport) -> String {
    let devices = devices(answer);
    match devices.iter().zip(0..).all(|(device, at)| *device == at) {
        true => String::new(),
        false => {
            let devices: Vec<String> = devices.iter().map(i32::to_string).collect();
            format!(
                "    export CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES={}\n",
                devices.join(",")
            )
        }
    }
}

fn pytest(answer: &ExpectReport) -> String {
    let mut floors = String::new();
    for collective in &answer.collectives {
        for (bytes, gbps) in collective.sizes.iter().filter_map(floor) {
            let name = collective.collective.command_name().replace('-', "_");
            // Writing to a string does not fail.
            let _ = writeln!(floors, "    (\"{name}\", {bytes}): {gbps:.1},");
        }
    }
    let values = [
        ("@HEAD@", head(answer)),
        ("@RANKS@", answer.ranks.to_string()),
        ("@FLOORS@", floors),
    ];
    filled(include_str!("gates/judge.py"), &values)
}
