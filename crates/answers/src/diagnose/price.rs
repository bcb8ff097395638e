//! The planner's price of a call that did not end.

use std::cell::RefCell;
use std::collections::BTreeMap;

use diagnose::{Call, Floor, Predict};
use plan::cost::{Calls, CostTable, TunedOperation};
use planner::{NcclVersion, Settings};
use program::Collective;

use crate::gpus::Gpus;
use crate::job::{JobSpec, Machine};
use crate::log;

/// A plan's costs, with what they hold for.
type PlannedCosts = (CostTable, String);

/// The prices of a machine's collectives, for the job that a log tells of.
#[derive(Debug)]
pub struct Prices {
    machine: Machine,
    /// Hosts of the job; none: as many as the log names, or as the ranks need.
    hosts: Option<u32>,
    /// By hosts and ranks on each.
    planned: RefCell<BTreeMap<(u32, u32), Option<PlannedCosts>>>,
}

impl Prices {
    /// Prices on hosts like this machine.
    pub const fn of(machine: Machine, hosts: Option<u32>) -> Self {
        Self {
            machine,
            hosts,
            planned: RefCell::new(BTreeMap::new()),
        }
    }

    /// Hosts, and ranks on each.
    fn shape(&self, call: &Call<'_>) -> Option<(u32, u32)> {
        let gpus = u32::try_from(planner::gpu_devices(&self.machine.document).len()).ok()?;
        let communicators = call.log.communicators.iter();
        let largest = communicators.max_by_key(|it| it.ranks);
        let (ranks, hosts) = match largest.filter(|it| it.ranks >= call.ranks.max(1)) {
            Some(it) => (it.ranks, self.hosts.unwrap_or(it.nodes.max(1))),
            None => {
                let needed = call.ranks.div_ceil(gpus.max(1)).max(1);
                let hosts = self.hosts.unwrap_or(needed);
                (gpus.saturating_mul(hosts), hosts)
            }
        };
        let each = ranks.div_ceil(hosts.max(1));
        (1..=gpus).contains(&each).then_some((hosts, each))
    }

    /// The costs of a job of these numbers of hosts and ranks on each; `None` if it cannot be
    /// planned.
    fn plan(&self, call: &Call<'_>, (hosts, each): (u32, u32)) -> Option<PlannedCosts> {
        let mut notes = Vec::new();
        let version: NcclVersion = log::version(call.log, None, &mut notes);
        let variables = log::settings(call.log, &mut notes);
        let settings = Settings::with_variables(version, variables);
        let all = planner::gpu_devices(&self.machine.document);
        let spec = JobSpec {
            hosts,
            gpus: match all.len() == each as usize {
                true => Gpus::All,
                false => Gpus::of(all.get(..each as usize)?),
            },
            ..JobSpec::of(self.machine.clone())
        };
        let planned = planner::plan(&spec.job().ok()?.job, &settings).ok()?;
        let of = match hosts {
            1 => self.machine.name.clone(),
            _ => format!("{hosts} hosts like {}", self.machine.name),
        };
        Some((
            planned.costs.clone(),
            format!("on {of}, as NCCL {version} predicts"),
        ))
    }
}

impl Predict for Prices {
    fn time(&self, call: &Call<'_>) -> (f64, String) {
        let priced = || {
            let collective = collective(call.function)?;
            let shape = self.shape(call)?;
            let mut planned = self.planned.borrow_mut();
            let planned = planned.entry(shape);
            let (costs, of) = planned.or_insert_with(|| self.plan(call, shape)).as_ref()?;
            let operation = TunedOperation {
                calls: Calls::ONE,
                ..TunedOperation::new(collective, call.bytes.max(1))
            };
            let choice = costs.choose_for(&operation).ok()?;
            Some((f64::from(choice.time_us) / 1000.0, of.clone()))
        };
        priced().unwrap_or_else(|| Floor.time(call))
    }
}

/// The collective of PyTorch's words, such as `_ALLGATHER_BASE`; `None` if NCCL has no price of it.
fn collective(function: &str) -> Option<Collective> {
    let letters = function.chars().filter(char::is_ascii_alphabetic);
    let word: String = letters.map(|it| it.to_ascii_lowercase()).collect();
    let word = word.strip_suffix("coalesced").unwrap_or(&word);
    Some(match word.strip_suffix("base").unwrap_or(word) {
        "allreduce" | "barrier" => Collective::AllReduce,
        "allgather" | "allgatherinto" => Collective::AllGather,
        "reducescatter" | "reducescattertensor" => Collective::ReduceScatter,
        "broadcast" => Collective::Broadcast,
        "reduce" => Collective::Reduce,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {

    use diagnose::Pile;

    use super::*;
    use crate::built_in;

    fn diagnosed(name: &str, log: &str) -> String {
        let text = built_in::find(name).unwrap().text;
        let document = records::machine(name, text.as_bytes()).unwrap().document;
        let machine = Machine::new(name, document);
        let mut pile = Pile::default();
        pile.read("job.log", log.as_bytes(), |_| {}).unwrap();
        let diagnosis = pile.finish(&Prices::of(machine, None));
        diagnosis.verdicts[0].what.clone()
    }

    fn line(function: &str, rank: u32, elements: u64) -> String {
        format!(
            "[rank{rank}]:[E] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, \
             OpType={function}, NumelIn={elements}, NumelOut={elements}, Timeout(ms)=600000) ran for 600045 \
             milliseconds before timing out.\n"
        )
    }

    #[test]
    fn a_known_machine_gives_its_own_price() {
        let one = diagnosed("dgx-h100", &line("ALLREDUCE", 5, 1 << 24));
        assert!(one.contains("on dgx-h100, as NCCL "), "{one}");
        assert!(!one.contains("at 1 GB/s"), "{one}");
        // Rank 12 is on the second host.
        let two = diagnosed("dgx-h100", &line("_ALLGATHER_BASE", 12, 1 << 24));
        assert!(two.contains("on 2 hosts like dgx-h100"), "{two}");
        // NCCL has no price of it.
        let other = diagnosed("dgx-h100", &line("ALLTOALL_BASE", 5, 1 << 24));
        assert!(other.contains("at 1 GB/s"), "{other}");
    }
}
