//! Which network interfaces have an address. NCCL's socket transport uses no others, and no file tells it.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::privacy::Privacy;

/// The names of interfaces with an address. The addresses themselves are not kept.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Addresses(BTreeSet<String>);

impl Addresses {
    /// Asks this machine.
    pub fn of_this_machine() -> Self {
        let networks = sysinfo::Networks::new_with_refreshed_list();
        let with_address = networks
            .iter()
            .filter(|(_, network)| !network.ip_networks().is_empty());
        Self(with_address.map(|(name, _)| name.clone()).collect())
    }

    /// The same with the names that stand for those that tell an address.
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
