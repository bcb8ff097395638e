//! The bounds of every machine of `topologies/`, as one host and (a deep test) as two.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bounds::{CertificateRequest, Shortfall, capacity_graph, certify};
use plan::GraphKind;
use plan::certificate::{LinkSet, Operation, UNITS, check};
use planner::{Job, Planned, Settings};
use testkit::Machine;

/// How far NCCL's 32-bit sums may be above an exact bound.
const NOISE: f64 = 1.0001;

fn rings(planned: &Planned) -> f64 {
    let ring = planned.job.common().graph(GraphKind::Ring).unwrap();
    let bandwidth = match planned.job.layout().nodes() {
        1 => ring.bw_intra,
        _ => ring.bw_intra.min(ring.bw_inter),
    };
    f64::from(bandwidth) * f64::from(ring.channels)
}

/// A line of the table; also checks the certificates, and that NCCL's rings are below the bounds.
fn line(name: &str, hosts: u32, planned: &Planned) -> Option<String> {
    let rings = rings(planned);
    let mut line = format!(
        "{name} {hosts}x{} rings {rings:.1}",
        planned.machines()[0].gpus
    );
    for links in [LinkSet::Rules, LinkSet::All] {
        let graph = capacity_graph(planned, links);
        if graph.ranks() < 2 {
            return None;
        }
        let wanted = CertificateRequest {
            fingerprint: planned.plan().fingerprint,
            links,
            operations: Operation::ALL.to_vec(),
            forests: links == LinkSet::Rules,
            units: None,
        };
        let certificate = certify(graph, &wanted).unwrap();
        check(&certificate).unwrap();
        write!(line, " | {links:?}").unwrap();
        for bound in &certificate.bounds {
            let value = bound.bandwidth.per(f64::from(UNITS));
            write!(line, " {}={value:.2}", bound.operation).unwrap();
            if let Some(reached) = bound.reached {
                write!(line, " (trees {:.2}", reached.per(f64::from(UNITS))).unwrap();
                match Shortfall::of(&certificate.graph, bound) {
                    Some(Shortfall::Uneven(names)) => {
                        write!(line, ", uneven {})", names.join(" ")).unwrap();
                    }
                    Some(why) => write!(line, ", {})", why.name()).unwrap(),
                    None => line.push(')'),
                }
            }
            let ringed = matches!(
                bound.operation,
                Operation::AllGather
                    | Operation::ReduceScatter
                    | Operation::Broadcast
                    | Operation::Reduce
            );
            assert!(
                !ringed || rings <= value * NOISE,
                "{name} {hosts}: {bound:?}"
            );
        }
    }
    Some(line + "\n")
}

/// The table of all machines as jobs of these numbers of hosts.
fn table(hosts: &[u32]) -> String {
    let machines = Machine::all().unwrap();
    let of_machine = |machine: &Machine| {
        let document = Arc::new(machine.document().unwrap());
        let lines = hosts.iter().filter_map(|&hosts| {
            let job = Job::hosts(Arc::clone(&document), hosts);
            // NCCL refuses some machines, which tests of the planner examine.
            let planned = planner::plan(&job, &Settings::default()).ok()?;
            line(&machine.name, hosts, &planned)
        });
        lines.collect::<String>()
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let lines = Mutex::new(vec![String::new(); machines.len()]);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some((at, machine)) = {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    machines.get(at).map(|machine| (at, machine))
                } {
                    let text = of_machine(machine);
                    lines.lock().unwrap()[at] = text;
                }
            });
        }
    });
    lines.into_inner().unwrap().concat()
}

/// The file of the recorded table.
fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bounds/machines.txt")
}

fn compare(table: &str, recorded: &str) {
    let differs = table
        .lines()
        .find(|line| !recorded.lines().any(|old| old == *line));
    assert_eq!(
        differs, None,
        "TOPO_BLESS=1 cargo test -p bounds -- --ignored deep records it"
    );
    assert_eq!(table, recorded);
}

#[test]
fn every_machine_as_one_host() {
    let recorded = std::fs::read_to_string(file()).unwrap();
    let of_one_host = |line: &&str| {
        line.split(' ')
            .nth(1)
            .is_some_and(|it| it.starts_with("1x"))
    };
    let recorded: Vec<&str> = recorded.lines().filter(of_one_host).collect();
    compare(&table(&[1]), &(recorded.join("\n") + "\n"));
}

mod deep {
    use super::*;

    #[test]
    #[ignore = "deep: cargo xtask deep"]
    fn every_machine_as_one_host_and_as_two() {
        let table = table(&[1, 2]);
        if std::env::var_os("TOPO_BLESS").is_some_and(|bless| bless == "1") {
            std::fs::write(file(), &table).unwrap();
        }
        let recorded = std::fs::read_to_string(file()).unwrap_or_default();
        compare(&table, &recorded);
    }
}
