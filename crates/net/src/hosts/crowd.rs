//! Ranks that share the cores of a machine.

use std::collections::BTreeMap;

use bootstrap::PeerInfo;
use executor::bootstrap::Crowd;

/// The ranks that share cores with this one, itself included.
pub(super) fn sharing(infos: &[PeerInfo], rank: u32) -> impl Iterator<Item = &PeerInfo> + Clone {
    let own = &infos[rank as usize];
    infos.iter().filter(move |it| own.shares_cores(it))
}

/// The machine on which most ranks share a core. A machine has one core if none of its ranks knows.
pub(super) fn most_crowded(infos: &[PeerInfo]) -> Crowd {
    let mut machines: BTreeMap<u64, (u32, Vec<u8>)> = BTreeMap::new();
    for info in infos {
        let (ranks, all) = machines.entry(info.machine).or_default();
        *ranks += 1;
        if all.len() < info.cores.len() {
            all.resize(info.cores.len(), 0);
        }
        for (all, own) in all.iter_mut().zip(&info.cores) {
            *all |= own;
        }
    }
    let crowds = machines.into_values().map(|(ranks, cores)| Crowd {
        ranks,
        cores: cores.iter().map(|it| it.count_ones()).sum::<u32>().max(1),
    });
    let share = |it: &Crowd| f64::from(it.ranks) / f64::from(it.cores);
    let most = crowds.max_by(|one, other| share(one).total_cmp(&share(other)));
    most.unwrap_or(Crowd { ranks: 1, cores: 1 })
}
