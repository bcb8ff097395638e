//! The choice of a net plug-in between hosts: each rank loads the one it was given, and all must
//! have the same.

use bootstrap::PeerInfo;
use net_plugin::Device;
use serde::{Deserialize, Serialize};

/// A net plug-in, as a rank reports it to others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadedPlugin {
    /// The name that it reports.
    pub name: String,
    /// The version of the ABI that is used.
    pub version: u32,
    /// The file of the library.
    pub path: String,
    /// Its NICs, in the order of their numbers.
    pub devices: Vec<LoadedNic>,
}

/// A NIC of a net plug-in, for reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadedNic {
    /// Its name.
    pub name: String,
    /// Its path in `/sys`, if it is a PCI device.
    pub pci_path: Option<String>,
    /// Speed of its port, Mbit/s; 0 if unknown.
    pub speed_mbps: u32,
    /// Its rail, if the plug-in says so.
    pub rail: Option<i16>,
    /// Its plane, if the plug-in says so.
    pub plane: Option<i16>,
}

impl From<&Device> for LoadedNic {
    fn from(device: &Device) -> Self {
        Self {
            name: device.name.clone(),
            pci_path: device.pci_path.clone(),
            speed_mbps: device.speed_mbps,
            rail: device.rail,
            plane: device.plane,
        }
    }
}

impl LoadedPlugin {
    fn words(&self) -> String {
        format!("{} (ABI v{}, {})", self.name, self.version, self.path)
    }
}

/// Whether a rank has a plug-in, as it reports to the others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Report {
    /// None is wanted or found.
    Nothing,
    /// One was found without being named, and does not work.
    FallenBack(String),
    /// One was named, and does not work.
    Failed(String),
    /// It is loaded.
    Loaded(LoadedPlugin),
}

/// Decides whether the plug-in is used. Returns why one that was found is not used. The error names
/// the rank that differs, and is equal on all ranks.
pub(crate) fn decide(infos: &[PeerInfo], all: &[Report]) -> Result<Option<String>, String> {
    let place = |rank: usize| format!("rank {rank}, {}", infos[rank].place());
    let found = |wanted: fn(&Report) -> bool| all.iter().position(wanted);
    for (rank, report) in all.iter().enumerate() {
        if let Report::Failed(why) = report {
            return Err(format!("{}: {why}", place(rank)));
        }
    }
    let with = found(|it| matches!(it, Report::Loaded(_)));
    let without = found(|it| !matches!(it, Report::Loaded(_)));
    if let (Some(with), Some(without)) = (with, without) {
        let Report::Loaded(loaded) = &all[with] else {
            return Ok(None);
        };
        let why = match &all[without] {
            Report::FallenBack(why) => format!(": {why}"),
            _ => String::new(),
        };
        return Err(format!(
            "{} has the net plug-in {}, but {} has none{why}; give all hosts the same one, or none to all \
             (NCCL_NET_PLUGIN=none)",
            place(with),
            loaded.words(),
            place(without)
        ));
    }
    let Some(first) = with else {
        let fallen_back = all.iter().find_map(|it| match it {
            Report::FallenBack(why) => Some(why.clone()),
            _ => None,
        });
        return Ok(fallen_back);
    };
    let Report::Loaded(own) = &all[first] else {
        return Ok(None);
    };
    for (rank, report) in all.iter().enumerate() {
        if let Report::Loaded(other) = report
            && (&other.name, other.version) != (&own.name, own.version)
        {
            return Err(format!(
                "{} has the net plug-in {}, but {} has {}; give all hosts the same build of one",
                place(first),
                own.words(),
                place(rank),
                other.words()
            ));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(rank: u32) -> PeerInfo {
        let address = ([127, 0, 0, 1], 1).into();
        PeerInfo {
            rank,
            version: String::new(),
            fingerprint: [0; 32],
            options: Vec::new(),
            host: 0,
            host_name: format!("h{rank}"),
            machine: 0,
            cores: Vec::new(),
            process: 10 + rank,
            device: String::new(),
            address,
            nics: vec![address],
        }
    }

    fn loaded(name: &str, version: u32) -> Report {
        Report::Loaded(LoadedPlugin {
            name: name.to_owned(),
            version,
            path: "/l.so".to_owned(),
            devices: Vec::new(),
        })
    }

    #[test]
    fn ranks_agree_or_the_one_that_differs_is_named() {
        let infos = [info(0), info(1), info(2)];
        let decide = |all: [Report; 3]| decide(&infos, &all);
        let a = || loaded("A", 9);
        assert_eq!(decide([a(), a(), a()]), Ok(None));
        let nothing = Report::Nothing;
        assert_eq!(
            decide([nothing.clone(), nothing.clone(), nothing.clone()]),
            Ok(None)
        );
        let back = Report::FallenBack("no NIC".to_owned());
        assert_eq!(
            decide([nothing.clone(), back.clone(), nothing.clone()]),
            Ok(Some("no NIC".to_owned()))
        );
        assert_eq!(
            decide([a(), back, a()]).unwrap_err(),
            "rank 0, process 10 on host h0 has the net plug-in A (ABI v9, /l.so), but rank 1, process 11 on host h1 has none: no \
             NIC; give all hosts the same one, or none to all (NCCL_NET_PLUGIN=none)"
        );
        let other = decide([a(), a(), loaded("A", 12)]).unwrap_err();
        assert!(other.contains("rank 2, process 12 on host h2 has A (ABI v12, /l.so); give all"));
        let failed = decide([nothing, a(), Report::Failed("it is broken".to_owned())]);
        assert_eq!(
            failed.unwrap_err(),
            "rank 2, process 12 on host h2: it is broken"
        );
    }
}
