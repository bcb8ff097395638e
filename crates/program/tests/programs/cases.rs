//! Every collective by every algorithm.

use program::Collective;
use program::lower::{LowerError, ProgramRequest, SendRecv, lower, lower_registered, send_recv};
use program::{Channels, Program, Schedule, Transfer};

/// A collective, with an algorithm and a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Case {
    pub collective: Collective,
    pub schedule: Schedule,
    pub transfer: Transfer,
    pub root: u32,
    pub in_place: bool,
    /// Whether the buffers are registered.
    pub registered: bool,
}

impl Case {
    /// The fewest slots of FIFOs with which the programs end. Hierarchical algorithms send several
    /// blocks before they receive.
    pub(crate) fn slots(&self) -> u32 {
        match self.transfer {
            Transfer::Hierarchical => 8,
            Transfer::Fifo | Transfer::Direct | Transfer::Staged => 2,
        }
    }

    /// The programs of all ranks. A transfer goes from the root to the next rank.
    pub(crate) fn lower(&self, channels: &Channels) -> Result<Vec<Program>, LowerError> {
        let Self {
            collective,
            schedule,
            transfer,
            root,
            in_place,
            registered,
        } = *self;
        if collective == Collective::SendRecv {
            let own: Vec<u16> = (0..channels.count())
                .map(|channel| channel * 2 + 1)
                .collect();
            return send_recv(&SendRecv {
                ranks: channels.ranks(),
                from: root,
                to: (root + 1) % channels.ranks(),
                channels: &own,
                transfer,
                in_place,
            });
        }
        let request = ProgramRequest {
            collective,
            schedule,
            transfer,
            root,
            in_place,
            channels,
        };
        match registered {
            true => lower_registered(&request),
            false => lower(&request),
        }
    }
}

/// All cases for a number of ranks and a root.
pub(crate) fn all(root: u32) -> Vec<Case> {
    let mut cases = Vec::new();
    for collective in Collective::ALL {
        for schedule in Schedule::ALL {
            for transfer in Transfer::ALL {
                for in_place in [false, true] {
                    let has_root = collective.has_root() || collective == Collective::SendRecv;
                    let refused = collective == Collective::AllToAll
                        && transfer.accesses_buffers()
                        && in_place;
                    if !schedule.serves(collective, transfer) || refused {
                        continue;
                    }
                    let case = Case {
                        collective,
                        schedule,
                        transfer,
                        root: if has_root { root } else { 0 },
                        in_place,
                        registered: false,
                    };
                    cases.push(case);
                    if schedule == Schedule::Nvls {
                        cases.push(Case {
                            registered: true,
                            ..case
                        });
                    }
                }
            }
        }
    }
    cases
}

/// All cases for channels and a root, without those that need as many ranks on each host.
pub(crate) fn on(channels: &Channels, root: u32) -> Vec<Case> {
    let ranks = |host: u32| channels.hosts().iter().filter(|it| **it == host).count();
    let uneven = channels.hosts().iter().any(|host| ranks(*host) != ranks(0));
    let mut cases = all(root);
    cases.retain(|case| {
        let is_refused =
            uneven && case.transfer == Transfer::Hierarchical && case.collective.splits_message();
        if is_refused {
            assert!(matches!(
                case.lower(channels),
                Err(LowerError::Uneven { .. })
            ));
        }
        !is_refused
    });
    cases
}
