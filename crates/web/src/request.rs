//! What the page asks.

use serde::Deserialize;

/// A file that was dropped, or a machine that is built in.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Its name.
    pub name: String,
    /// Its text; `None`: the machine that is built in by this name.
    #[serde(default)]
    pub text: Option<String>,
}

/// A job: as the options of `topo plan`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobRequest {
    /// The machine.
    pub file: File,
    /// Hosts like it.
    #[serde(default = "one")]
    pub hosts: u32,
    /// All hosts form one NVLink domain.
    #[serde(default)]
    pub nvlink_domain: bool,
    /// Device numbers of the GPUs of each host, in rank order; none: all.
    #[serde(default)]
    pub gpus: Vec<i64>,
    /// The version of NCCL; none: the newest.
    #[serde(default)]
    pub nccl: Option<String>,
    /// Variables of NCCL.
    #[serde(default)]
    pub set: Vec<(String, String)>,
    /// Devices and links that are taken away.
    #[serde(default)]
    pub without: Vec<String>,
    /// Links that are slower, as `LINK=SHARE`.
    #[serde(default)]
    pub degrade: Vec<String>,
}

const fn one() -> u32 {
    1
}

/// A request.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum Request {
    /// The machines that are built in, and the versions of NCCL.
    Machines,
    /// The plan of a job.
    Plan {
        /// The job.
        job: JobRequest,
        /// The channels to draw: `ring`, `tree`, `nvls`, or one as `ring:3`.
        #[serde(default)]
        highlight: Option<String>,
    },
    /// What NCCL chooses for one collective of one size.
    Cost {
        /// The job.
        job: JobRequest,
        /// The collective, such as `all-reduce`.
        collective: String,
        /// Its size, bytes.
        bytes: u64,
    },
    /// Why two devices are as far apart as they are.
    Path {
        /// The job.
        job: JobRequest,
        /// A device's name.
        from: String,
        /// Another device's name.
        to: String,
    },
    /// What no schedule exceeds, and what limits it.
    Bound {
        /// The job.
        job: JobRequest,
    },
    /// What differs between two jobs.
    Difference {
        /// A job.
        job: JobRequest,
        /// Another job.
        other: JobRequest,
    },
    /// What is wrong with a machine.
    Doctor {
        /// The machine, with the version and the variables that price findings.
        job: JobRequest,
    },
    /// What was measured, beside what is predicted.
    Results {
        /// What nccl-tests printed.
        file: File,
        /// The job that was measured; its hosts are those of the file, if it says them.
        job: JobRequest,
    },
    /// What NCCL's log says.
    Log {
        /// Its name.
        name: String,
        /// Its text.
        text: String,
    },
}
