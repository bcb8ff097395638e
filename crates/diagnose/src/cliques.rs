//! NVLink fabrics whose hosts are in several cliques.

use std::collections::{BTreeMap, BTreeSet};

use findings::causes::Certainty::Possible;
use findings::causes::table::nvlink;
use records::condition::Condition;
use records::nccl_log::Log;

use crate::verdict::{Line, MOST_LINES, Verdict};

/// Most hosts and listings that are compared.
const MOST: usize = 1 << 14;

/// The GPUs of each clique, by cluster: the inputs or hosts that name them.
#[derive(Debug, Default)]
pub(crate) struct Cliques {
    clusters: BTreeMap<String, BTreeMap<String, BTreeSet<String>>>,
    count: usize,
}

impl Cliques {
    /// Notes what a listing says of a GPU.
    pub(crate) fn listed(&mut self, input: &str, gpu: &Condition) {
        if let Some((cluster, clique)) = &gpu.clique {
            self.add(cluster, clique, input);
        }
    }

    fn add(&mut self, cluster: &str, clique: &str, who: &str) {
        // Zeros are the fabric of one host.
        let is_joined = cluster
            .bytes()
            .any(|it| it.is_ascii_hexdigit() && it != b'0');
        if is_joined && self.count < MOST {
            let cliques = self.clusters.entry(cluster.to_owned()).or_default();
            let is_new = cliques
                .entry(clique.to_owned())
                .or_default()
                .insert(who.to_owned());
            self.count += usize::from(is_new);
        }
    }

    /// A verdict, unless the cliques are set on purpose.
    pub(crate) fn verdict(mut self, log: &Log) -> Option<Verdict> {
        let mut hosts = log.hosts.values();
        if hosts.any(|it| it.settings.contains_key("NCCL_MNNVL_CLIQUE_ID")) {
            return None;
        }
        for (host, facts) in &log.hosts {
            for (cluster, clique) in &facts.fabrics {
                self.add(cluster, clique, host);
            }
        }
        let mut clusters = self.clusters.into_iter();
        let (cluster, cliques) = clusters.find(|it| it.1.len() > 1)?;
        let lines = cliques.iter().flat_map(|(clique, who)| {
            let text = format!("cluster {cluster}, clique {clique}");
            who.iter().take(1).map(move |it| Line::new(it, None, &text))
        });
        let what = format!(
            "GPUs of one NVLink cluster are in {} cliques. NCCL takes the network between them.",
            cliques.len()
        );
        Some(Verdict {
            lines: lines.take(MOST_LINES).collect(),
            ..Verdict::new(&nvlink::CLIQUE, Possible, what)
        })
    }
}
