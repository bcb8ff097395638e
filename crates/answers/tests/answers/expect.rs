//! Expected bandwidths beside published ones.

use std::path::Path;

use answers::cost::PricedJob;
use answers::expect::{ExpectQuestion, ExpectReport};
use answers::sizes::Sizes;
use answers::{JobSpec, Machine};
use planner::{NcclVersion, Settings};

const GIB: u64 = 1 << 30;

/// A job of a built-in machine.
struct Run {
    machine: &'static str,
    hosts: u32,
    nvlink_domain: bool,
    collnet: bool,
    /// NCCL_ALGO; none: NCCL's choice.
    algorithm: Option<&'static str>,
    /// Sizes, bytes, with the all-reduce's bus bandwidths in two columns or runs, GB/s.
    measured: &'static [(u64, [f64; 2])],
}

const HOST: Run = Run {
    machine: "",
    hosts: 1,
    nvlink_domain: false,
    collnet: false,
    algorithm: None,
    measured: &[],
};

/// Healthy runs that their operators published: Azure's benchmarking guide, CoreWeave's and OCI's
/// pages, and NVIDIA/nccl 2140. A B300 is planned as a B200, which has the same NVLink.
const PUBLISHED: [Run; 7] = [
    Run {
        machine: "dgx-a100",
        measured: &[(GIB, [228.1, 228.1]), (8 * GIB, [231.6, 231.6])],
        ..HOST
    },
    Run {
        machine: "dgx-h100",
        measured: &[(GIB, [466.4, 466.4]), (8 * GIB, [478.9, 478.9])],
        ..HOST
    },
    Run {
        machine: "dgx-b200",
        algorithm: Some("NVLS"),
        measured: &[(8 * GIB, [845.0, 845.0])],
        ..HOST
    },
    Run {
        machine: "dgx-b200",
        algorithm: Some("Ring"),
        measured: &[(8 * GIB, [695.0, 695.0])],
        ..HOST
    },
    Run {
        machine: "dgx-a100",
        hosts: 2,
        measured: &[(GIB, [184.9, 185.3]), (8 * GIB, [189.6, 189.5])],
        ..HOST
    },
    Run {
        machine: "dgx-h100-sharp",
        hosts: 8,
        collnet: true,
        measured: &[(GIB, [365.9, 361.3]), (8 * GIB, [386.6, 385.6])],
        ..HOST
    },
    Run {
        machine: "gb200-nvl72-tray",
        hosts: 18,
        nvlink_domain: true,
        measured: &[(GIB, [681.2, 724.1]), (8 * GIB, [834.6, 846.8])],
        ..HOST
    },
];

fn expectations(run: &Run) -> ExpectReport {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../topologies")
        .join(run.machine)
        .join("topology.xml");
    let bytes = std::fs::read(file).unwrap();
    let spec = JobSpec {
        hosts: run.hosts,
        nvlink_domain: run.nvlink_domain,
        collnet: run.collnet,
        ..JobSpec::of(Machine::new(
            run.machine,
            topology::xml::parse(run.machine, &bytes).unwrap(),
        ))
    };
    let algorithm = run
        .algorithm
        .map(|it| ("NCCL_ALGO".to_owned(), it.to_owned()));
    let settings = Settings::with_variables(NcclVersion::default(), algorithm);
    let planned = planner::plan(&spec.job().unwrap().job, &settings).unwrap();
    let sizes: Vec<u64> = run.measured.iter().map(|it| it.0).collect();
    let question = ExpectQuestion {
        sizes: Sizes::each(&sizes),
        ..ExpectQuestion::default()
    };
    ExpectReport::of(PricedJob::of(&planned, None), Some(&planned), &question).unwrap()
}

/// Within a tenth, and none below its floor.
#[test]
fn published_runs_are_as_expected() {
    for run in &PUBLISHED {
        let answer = expectations(run);
        let sizes = &answer.collectives[0].sizes;
        assert_eq!(sizes.len(), run.measured.len(), "{}", run.machine);
        for (size, (bytes, measured)) in sizes.iter().zip(run.measured) {
            let expected = size.expected_gbps.expect("the size is published");
            let name = format!(
                "{} × {}, {bytes} bytes: {expected:?}",
                run.hosts, run.machine
            );
            for gbps in measured {
                assert!((expected / gbps - 1.0).abs() < 0.1, "{name}: {gbps}");
                assert!(Some(*gbps) >= size.floor_gbps, "{name}: {gbps}");
            }
        }
    }
}

/// Of NVIDIA/nccl 2409, before access control and relaxed ordering were mended: 216 GB/s, then 358,
/// at last 456.
#[test]
fn degraded_hosts_are_below_the_floor() {
    let answer = expectations(&Run {
        machine: "dgx-h100",
        hosts: 2,
        measured: &[(8 * GIB, [0.0; 2])],
        ..HOST
    });
    let floor = answer.collectives[0].sizes[0].floor_gbps.unwrap();
    assert!(216.0 < floor, "{floor}");
    assert!(358.0 < floor, "{floor}");
    assert!(456.0 >= floor, "{floor}");
}

#[test]
fn small_messages_have_no_floor_and_pairs_do() {
    let answer = expectations(&Run {
        machine: "dgx-h100",
        measured: &[(1 << 10, [0.0; 2])],
        ..HOST
    });
    assert!(answer.collectives[0].sizes[0].expected_gbps.is_none());
    let pairs = answer.pairs.unwrap();
    assert_eq!(pairs.gpus.len(), 8);
    let [(kind, gbps, count)] = pairs.kinds()[..] else {
        panic!("{:?}", pairs.kinds());
    };
    assert_eq!((kind, count), ("NVL", 56));
    assert!((gbps - 370.8).abs() < 1e-3, "{gbps}");
}
