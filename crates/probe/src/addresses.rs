//! Network interfaces with an address. NCCL's socket transport uses only these.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::privacy::Privacy;

/// Names of interfaces with an address. The addresses are not kept.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Addresses(BTreeSet<String>);

impl Addresses {
    /// Lists the interfaces of this machine.
    pub fn of_this_machine() -> Self {
        let networks = sysinfo::Networks::new_with_refreshed_list();
        let with_address = networks
            .iter()
            .filter(|(_, network)| !network.ip_networks().is_empty());
        Self(with_address.map(|(name, _)| name.clone()).collect())
    }

    /// Replaces names that contain an address.
    pub(crate) fn hidden(&self, privacy: &mut Privacy) -> Self {
        Self(self.0.iter().map(|name| privacy.name(name)).collect())
    }

    /// Whether an interface has an address.
    pub fn contains(&self, name: &str) -> bool {
        self.0.contains(name)
    }
}

impl FromIterator<String> for Addresses {
    fn from_iter<T: IntoIterator<Item = String>>(names: T) -> Self {
        Self(names.into_iter().collect())
    }
}
