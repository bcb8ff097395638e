//! Registered buffers, types that versions refuse, and ports that versions lack.

use std::collections::BTreeSet;

use crate::common::equal;
use plan::cost::{Calls, DataType, NoChoice, OperationChoice, Registration, TunedOperation};
use plan::{Connection, GraphKind, Plan, PlanContent};
use planner::{Error, Job, NcclVersion, Note, Planned, Settings};
use program::Collective;

use NcclVersion::{V2_27, V2_28, V2_29, V2_30, V2_31, V2_32};

fn plan(job: &Job, version: NcclVersion, variables: &[(&str, &str)]) -> Result<Planned, Error> {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    planner::plan(
        job,
        &Settings::with_variables(version, variables.iter().map(owned)),
    )
}

fn choose(
    planned: &Planned,
    collective: Collective,
    calls: Calls,
) -> Result<OperationChoice, NoChoice> {
    planned.costs.choose_for(&TunedOperation {
        collective,
        bytes: 8 << 20,
        calls,
    })
}

/// Channels of a gather by rings with Simple on locally registered buffers.
fn gathered(job: &Job, version: NcclVersion, variables: &[(&str, &str)]) -> u32 {
    let forced = [("NCCL_ALGO", "Ring"), ("NCCL_PROTO", "Simple")];
    let planned = plan(job, version, &[&forced, variables].concat()).unwrap();
    let calls = Calls {
        registration: Registration::Local,
        ..Calls::ONE
    };
    let choice = choose(&planned, Collective::AllGather, calls);
    choice.unwrap().channels
}

/// One GPU in each host: a ring needs one channel where ports reach the registered buffers with
/// GPUDirect RDMA.
#[test]
fn rings_of_single_gpus_need_gpudirect_rdma() {
    let job = equal("gh200", 3);
    for version in [V2_28, V2_30, V2_32] {
        assert_eq!(gathered(&job, version, &[]), 1, "{version}");
        for variable in [
            ("NCCL_NET_GDR_LEVEL", "LOC"),
            ("NCCL_NET_GDR_READ", "0"),
            ("NCCL_LOCAL_REGISTER", "0"),
        ] {
            let channels = gathered(&job, version, &[variable]);
            assert!(channels > 1, "{version}, {variable:?}");
        }
    }
}

/// Plans that were written before they said how many channels such a ring needs are read with one,
/// which was assumed then.
#[test]
fn older_plans_of_single_gpus() {
    let variables = [
        ("NCCL_NET_GDR_LEVEL", "LOC"),
        ("NCCL_ALGO", "Ring"),
        ("NCCL_PROTO", "Simple"),
    ];
    let planned = plan(&equal("gh200", 3), V2_32, &variables).unwrap();
    let operation = TunedOperation {
        collective: Collective::AllGather,
        bytes: 8 << 20,
        calls: Calls {
            registration: Registration::Local,
            ..Calls::ONE
        },
    };
    let channels = |plan: &Plan| {
        let read = Plan::from_json(&plan.to_json().unwrap()).unwrap();
        let costs = read.costs.as_ref().unwrap();
        costs.choose_for(&operation).unwrap().channels
    };
    let plan = planned.plan();
    assert!(channels(plan) > 1);
    let mut older: PlanContent = (**plan).clone();
    let registered = &mut older.costs.as_mut().unwrap().job.registered;
    assert_eq!(registered.one_gpu_ring.take(), Some(0));
    assert_eq!(channels(&Plan::new(older).unwrap()), 1);
    // Where nodes have several GPUs it says nothing.
    let several = self::plan(&equal("dgx-h100", 2), V2_32, &[]).unwrap();
    assert_eq!(several.costs.job.registered.one_gpu_ring, None);
}

/// `NCCL_LOCAL_REGISTER=0` registers nothing, nor does 2.28 and newer where the driver copies.
#[test]
fn nothing_is_registered() {
    let channels = |version, variables: &[(&str, &str)], registration| {
        let variables = [&[("NCCL_ALGO", "NVLS")], variables].concat();
        let planned = plan(&equal("dgx-h100", 1), version, &variables).unwrap();
        let calls = Calls {
            registration,
            ..Calls::ONE
        };
        let choice = choose(&planned, Collective::AllReduce, calls);
        choice.unwrap().channels
    };
    for version in NcclVersion::ALL {
        let of = |variables| channels(version, variables, Registration::Local);
        let plain = channels(version, &[], Registration::None);
        assert_eq!(of(&[]), 4, "{version}");
        assert_eq!(of(&[("NCCL_LOCAL_REGISTER", "0")]), plain, "{version}");
        let copies = of(&[("NCCL_P2P_USE_CUDA_MEMCPY", "1")]);
        let expected = if version == V2_27 { 4 } else { plain };
        assert_eq!(copies, expected, "{version}");
    }
}

/// 2.27 refuses every collective of 8-bit floating-point numbers on GPUs before Hopper, newer
/// versions only reductions.
#[test]
fn small_numbers_of_older_gpus() {
    let calls = Calls {
        data_type: DataType::F8E4M3,
        ..Calls::ONE
    };
    for (machine, version, moves, reduces) in [
        ("dgx-a100", V2_27, false, false),
        ("dgx-a100", V2_28, true, false),
        ("dgx-a100", V2_32, true, false),
        ("dgx-h100", V2_27, true, true),
    ] {
        let planned = plan(&equal(machine, 1), version, &[]).unwrap();
        for (collective, taken) in [
            (Collective::AllGather, moves),
            (Collective::Broadcast, moves),
            (Collective::AllReduce, reduces),
        ] {
            let choice = choose(&planned, collective, calls);
            assert_eq!(choice.is_ok(), taken, "{machine}, {version}: {collective}");
        }
    }
}

/// 2.28 falls back to port 0, also where it was merged with others. Rings do not need it here.
#[test]
fn trees_fall_back_to_a_port_that_was_merged() {
    let variables = [("NCCL_NETDEVS_POLICY", "MAX:1")];
    let planned = plan(&equal("oci-a100", 2), V2_28, &variables).unwrap();
    let tree = planned.node(0).graph(GraphKind::Tree).unwrap();
    assert_eq!(tree.channels[0].nets, Some([0, 0]));
    assert!(planned.notes.contains(&Note::TreePort));
    let ring = planned.job.expansion.connection(7, 8, GraphKind::Ring, 0);
    assert!(ring.is_ok(), "{ring:?}");
    let text = planned.plan().to_json().unwrap();
    assert_eq!(&Plan::from_json(&text).unwrap(), planned.plan());
}

/// A host without ports beside one with ports is refused alike by versions that fall back to port 0
/// and by those that take near ports.
#[test]
fn hosts_without_ports_are_refused() {
    let hosts = ["pcie-8gpu-nonet", "dgx-a100"].map(|machine| equal(machine, 1).hosts);
    let job = Job::of(hosts.concat());
    for version in [V2_27, V2_28, V2_30, V2_31] {
        let error = plan(&job, version, &[]).err().unwrap().to_string();
        assert!(
            error.contains("reaches no network port"),
            "{version}: {error}"
        );
    }
}

/// The fallback ring of one host leaves through the ports nearest to its first and last GPU from
/// 2.29 on; before, through port 0, which was merged with others here. So do
/// the binaries of 2.29.7 and 2.32.3.
#[test]
fn fallback_rings_of_one_host_take_near_ports() {
    let text = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../topologies/random-00162/topology.xml"
    ))
    .unwrap();
    // Paths over the CPUs are too slow for any ring of such GPUs.
    let text = text.replace(" sm=\"75\"", " sm=\"120\"");
    let document = topology::xml::parse("faster GPUs", text.as_bytes()).unwrap();
    let job = Job::hosts(document, 1);
    for version in [V2_29, V2_32] {
        let planned = plan(&job, version, &[]).unwrap();
        let expansion = &planned.job.expansion;
        let ranks = planned.plan().rank_count() as u32;
        let neighbors = (0..ranks).map(|rank| (rank, expansion.ring_place(rank, 0).unwrap().next));
        let ports = neighbors.filter_map(|(rank, next)| {
            match expansion
                .connection(rank, next, GraphKind::Ring, 0)
                .unwrap()
            {
                Connection::Network {
                    sender, receiver, ..
                } => Some([sender.net, receiver.net]),
                _ => None,
            }
        });
        let ports: BTreeSet<[i64; 2]> = ports.collect();
        assert_eq!(ports, BTreeSet::from([[11, 11]]), "{version}");
    }
    let refused = plan(&job, V2_28, &[]).err();
    assert!(
        matches!(refused, Some(Error::NoFirstPort { .. })),
        "{refused:?}"
    );
}
