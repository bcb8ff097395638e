//! The facts of its job that a process lacks.

use crate::rendezvous::launcher::Launcher;

/// A fact that neither a launcher nor a person gives.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JobUnknown {
    /// The rank of this process.
    #[error("nothing says which of {world} ranks this process is")]
    Rank {
        /// Ranks of the job.
        world: u32,
    },
    /// The number of ranks, where the rank is given.
    #[error("nothing says how many ranks there are beside rank {rank}")]
    World {
        /// The rank.
        rank: u32,
    },
    /// The number of ranks, where a launcher sets the rank.
    #[error("{by} set no {name}, the number of ranks")]
    WorldOfLauncher {
        /// The launcher.
        by: &'static str,
        /// The variable.
        name: String,
    },
    /// The number of ranks of an indexed job of Kubernetes.
    #[error("Kubernetes does not say how many ranks there are: the job's completions")]
    Completions,
    /// The variables of the launcher that is asked for.
    #[error("the variables of {launcher} are not in the environment")]
    Variables {
        /// The launcher.
        launcher: Launcher,
    },
    /// Where the ranks can meet.
    #[error("nothing says where the ranks can meet; set TOPO_ID or TOPO_RENDEZVOUS")]
    MeetingPlace,
}
