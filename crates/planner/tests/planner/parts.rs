//! Ranks on parts of GPUs (MLOPart). The published binaries answered the same
//! (`crates/cli/tests/nccl_check/drawn.rs` asks them about drawn machines).

use plan::{GraphKind, RankOrder};
use planner::{Error, Job, NcclVersion, Note, Planned, RankPlacement, Settings};
use testkit::Machine;
use topology::xml::{Document, Element, Tag};

use NcclVersion::{V2_29, V2_30, V2_31, V2_32};

/// The first GPUs of a machine, each split into two parts.
fn parts(machine: &str, gpus: usize) -> Document {
    fn split(element: &mut Element, gpus: &mut usize, ranks: &mut u32) {
        for mut child in std::mem::take(&mut element.children) {
            if child.tag != Tag::Gpu {
                split(&mut child, gpus, ranks);
                element.children.push(child);
            } else if let Some(rest) = gpus.checked_sub(1) {
                *gpus = rest;
                for part in 0..2 {
                    child.set("mlopart", part.to_string());
                    child.set("rank", ranks.to_string());
                    *ranks += 1;
                    element.children.push(child.clone());
                }
            }
        }
    }
    let mut document = Machine::named(machine).unwrap().document().unwrap();
    split(&mut document.root, &mut gpus.clone(), &mut 0);
    document
}

fn plan(job: &Job, version: NcclVersion, variables: &[(&str, &str)]) -> Result<Planned, Error> {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let settings = Settings::with_variables(version, variables.iter().map(owned));
    planner::plan(job, &settings)
}

fn has_nvls(planned: &Planned) -> bool {
    planned.node(0).graph(GraphKind::Nvls).is_some()
}

#[test]
fn ranks_on_one_gpu_have_no_nvlink_sharp() {
    let mut job = Job::hosts(parts("dgx-b200", 8), 1);
    for version in [V2_30, V2_31, V2_32] {
        assert!(!has_nvls(&plan(&job, version, &[]).unwrap()), "{version}");
        let forced = plan(&job, version, &[("NCCL_NVLS_ENABLE", "1")]);
        assert!(
            matches!(forced, Err(Error::SharedGpu { gpu: 0, .. })),
            "{version}"
        );
    }
    assert!(matches!(
        plan(&job, V2_29, &[]),
        Err(Error::SharedGpu { .. })
    ));
    // The last two ranks are on different GPUs, which is all that 2.30 looks at.
    let order: Vec<u32> = (0..8)
        .map(|gpu| 2 * gpu)
        .chain((0..8).map(|gpu| 2 * gpu + 1))
        .collect();
    job.ranks = RankPlacement::Listed(RankOrder::new(order));
    let found = [V2_30, V2_31, V2_32].map(|version| has_nvls(&plan(&job, version, &[]).unwrap()));
    assert_eq!(found, [true, true, false]);
}

/// NCCL fuses what its ranks found in room for 256 elements (the binaries of 2.30 to 2.32 planned
/// 256 elements of 21 ranks on 11 GPUs, and refused 257). A file may have more that no rank uses.
#[test]
fn hosts_have_room_for_256_elements() {
    fn last_gpu(element: &mut Element) -> Option<&mut Element> {
        if element.tag == Tag::Gpu {
            return Some(element);
        }
        element.children.iter_mut().rev().find_map(last_gpu)
    }
    fn add_link(document: &mut Document) {
        let gpu = last_gpu(&mut document.root).unwrap();
        gpu.children.push(gpu.children[0].clone());
    }
    // The last GPU is whole, so that its ranks describe it once.
    let mut document = parts("dgx-b200", 7);
    let mut unused = Element::new(Tag::Cpu);
    unused.set("numaid", "9");
    document.root.children.push(unused);
    let joined = |document: &Document| {
        let used = topology::join::by_ranks(document, None);
        used.as_ref().unwrap_or(document).root.count()
    };
    while joined(&document) < 256 {
        add_link(&mut document);
    }
    let plan_of = |document: &Document| {
        let planned = plan(&Job::hosts(document.clone(), 1), V2_32, &[]);
        planned.map(|_| ())
    };
    assert_eq!(plan_of(&document), Ok(()));
    add_link(&mut document);
    let refused = plan_of(&document).unwrap_err();
    assert!(
        matches!(refused, Error::TooManyElements { elements: 257, .. }),
        "{refused}"
    );
}

#[test]
fn whole_gpus_with_one_number_are_no_parts() {
    fn renumber(element: &mut Element) {
        if element.tag == Tag::Gpu {
            element.set("dev", "0".to_owned());
        }
        element.children.iter_mut().for_each(renumber);
    }
    let mut document = Machine::named("dgx-h100").unwrap().document().unwrap();
    renumber(&mut document.root);
    let job = Job::hosts(document, 1);
    for version in [V2_29, V2_30, V2_32] {
        assert!(has_nvls(&plan(&job, version, &[]).unwrap()), "{version}");
    }
}

#[test]
fn an_old_driver_keeps_parts_from_ports_over_c2c() {
    let job = Job::hosts(parts("gb200-nvl72-tray", 4), 2);
    let direct = |planned: &Planned| {
        let ranks = planned.job.layout().ranks();
        let mut sends =
            (0..ranks).flat_map(|rank| planned.job.expansion.sends(rank, GraphKind::Ring).unwrap());
        // The field of GPUDirect RDMA, not the transport between two GPUs.
        sends.any(|send| {
            [": Direct,", ": Direct }"]
                .iter()
                .any(|it| format!("{send:?}").contains(it))
        })
    };
    let planned = |version: &str| plan(&job, V2_32, &[("TOPO_DRIVER_VERSION", version)]).unwrap();
    assert_eq!(
        ["13.3", "13.4"].map(|it| direct(&planned(it))),
        [false, true]
    );
    let assumed = plan(&job, V2_32, &[]).unwrap();
    assert!(direct(&assumed) && assumed.notes.contains(&Note::PartitionDriver));
    assert!(!direct(&plan(&job, V2_31, &[]).unwrap()));
    assert!(direct(
        &plan(&job, V2_31, &[("NCCL_NET_GDR_MLOPART", "1")]).unwrap()
    ));
}

#[test]
fn nics_below_processors_are_apart_in_the_newest_source() {
    let gpu = |number: u32| {
        format!(
            r#"<pci busid="0000:{number}0:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16"><gpu dev="{number}" sm="90" rank="{number}" gdr="0"/></pci>"#
        )
    };
    let cpu = |number: u32| {
        let gpu = gpu(number);
        format!(
            r#"<cpu numaid="{number}" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">{gpu}<nic><net dev="{number}" speed="100000" name="eth{number}"/></nic></cpu>"#
        )
    };
    let text = format!(r#"<system version="1">{}{}</system>"#, cpu(0), cpu(1));
    let document = topology::xml::parse("nics.xml", text.as_bytes()).unwrap();
    let adapters = [V2_32, NcclVersion::V2_32_6].map(|version| {
        let system = Settings::of(version).system(&document).unwrap();
        system.count(topology::NodeType::Nic)
    });
    assert_eq!(adapters, [1, 2]);
}
