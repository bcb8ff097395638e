//! Verdicts by the condition of GPUs and links, measured bandwidths and times of Inspector.

use diagnose::Diagnosis;
use findings::causes::Certainty::{self, Likely, Possible};

use crate::few::diagnosed;

fn found(inputs: &[(&str, &str)]) -> Diagnosis {
    let inputs: Vec<(&str, String)> = inputs.iter().map(|it| (it.0, it.1.to_owned())).collect();
    diagnosed(&inputs, "")
}

/// Each verdict: cause, certainty, devices.
fn verdicts(found: &Diagnosis) -> Vec<(&'static str, Certainty, String)> {
    let all = found.verdicts.iter();
    all.map(|it| (it.cause.id, it.certainty, it.devices.join(", ")))
        .collect()
}

#[test]
fn the_condition_of_a_gpu_is_named_with_the_gpu() {
    let gpu = |fields: &str| {
        format!(
            "<nvidia_smi_log>\n<gpu id=\"00000000:1B:00.0\">\n<product_name>NVIDIA A40</product_name>\n{fields}\n\
             </gpu>\n</nvidia_smi_log>\n"
        )
    };
    let named = "GPU 0000:1b:00.0 (NVIDIA A40)".to_owned();
    let cases = [
        (
            "<remapped_row_failure>Yes</remapped_row_failure>",
            "gpu-memory-worn",
            Likely,
        ),
        (
            "<remapped_row_pending>Yes</remapped_row_pending>",
            "gpu-memory-worn",
            Possible,
        ),
        (
            "<volatile><dram_uncorrectable>1</dram_uncorrectable></volatile>",
            "gpu-memory-worn",
            Possible,
        ),
        (
            "<max_link_width>16x</max_link_width><current_link_width>4x</current_link_width>",
            "link-narrow",
            Possible,
        ),
        (
            "<clocks_event_reason_hw_slowdown>Active</clocks_event_reason_hw_slowdown>",
            "gpu-throttled",
            Possible,
        ),
        (
            "<fabric><state>Not Started</state></fabric>",
            "fabric-not-ready",
            Likely,
        ),
    ];
    for (fields, cause, certainty) in cases {
        let found = found(&[("query.xml", &gpu(fields))]);
        assert_eq!(
            verdicts(&found),
            [(cause, certainty, named.clone())],
            "{fields}"
        );
    }
    let well = "<max_link_width>16x</max_link_width><current_link_width>16x</current_link_width>\
                <aggregate><dram_uncorrectable>9</dram_uncorrectable></aggregate>\
                <clocks_event_reason_sw_power_cap>Active</clocks_event_reason_sw_power_cap>";
    assert_eq!(verdicts(&found(&[("query.xml", &gpu(well))])), []);
}

#[test]
fn a_gpu_with_fewer_nvlinks_than_its_like_is_named() {
    let gpu = |number: u32, down: &[u32]| {
        let links = (0..4).map(|link| match down.contains(&link) {
            true => format!("\t Link {link}: <inactive>\n"),
            false => format!("\t Link {link}: 26.562 GB/s\n"),
        });
        let links: String = links.collect();
        format!("GPU {number}: NVIDIA H100 80GB HBM3 (UUID: GPU-{number})\n{links}")
    };
    let text = gpu(0, &[]) + &gpu(1, &[1, 2]) + &gpu(2, &[]);
    let found_links = found(&[("links.txt", &text)]);
    let expected = [("links-missing", Likely, "GPU 1".to_owned())];
    assert_eq!(verdicts(&found_links), expected);
    assert_eq!(
        found_links.verdicts[0].lines[0].text,
        "GPU 1: 2 NVLinks up, others have 4; down: 1, 2"
    );
    // Boards without a bridge there.
    let text = gpu(0, &[1]) + &gpu(1, &[1]) + &gpu(2, &[1]);
    assert_eq!(verdicts(&found(&[("links.txt", &text)])), []);
}

#[test]
fn access_that_is_refused_counts_more_where_nvlinks_are() {
    let access = " \tGPU0\tGPU1\t\n GPU0\tX\tNS\t\n GPU1\tNS\tX\t\n";
    let near = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV18\t0-3\nGPU1\tNV18\t X \t0-3\n";
    let pair = "GPU0 and GPU1".to_owned();
    let alone = found(&[("a/p2p.txt", access)]);
    assert_eq!(
        verdicts(&alone),
        [("no-peer-access", Possible, pair.clone())]
    );
    let joined = found(&[("a/p2p.txt", access), ("a/matrix.txt", near)]);
    assert_eq!(
        verdicts(&joined),
        [("nvlink-no-access", Likely, pair.clone())]
    );
    // Matrices of two machines are not joined.
    let apart = found(&[("a/p2p.txt", access), ("b/matrix.txt", near)]);
    assert_eq!(
        verdicts(&apart),
        [("no-peer-access", Possible, pair.clone())]
    );
    let two = found(&[
        ("a/p2p.txt", access),
        ("a/one.txt", near),
        ("a/two.txt", near),
    ]);
    assert_eq!(verdicts(&two), [("no-peer-access", Possible, pair)]);
}

/// nvbandwidth's matrix of four GPUs; the reader gets the data.
fn measured(value: impl Fn(usize, usize) -> f64) -> String {
    let mut text = "Running device_to_device_memcpy_write_ce.\n\
                    memcpy CE GPU(row) <- GPU(column) bandwidth (GB/s)\n           0         1         2         3\n"
        .to_owned();
    for from in 0..4 {
        text.push_str(&format!(" {from}"));
        for to in 0..4 {
            match from == to {
                true => text.push_str("       N/A"),
                false => text.push_str(&format!("{:10.2}", value(from, to))),
            }
        }
        text.push('\n');
    }
    text
}

#[test]
fn a_slow_pair_is_named_and_pairs_of_another_kind_are_not() {
    let slow = measured(|from, to| if (from, to) == (2, 1) { 90.0 } else { 276.0 });
    let pair = |certainty| [("slow-pair", certainty, "GPU 2 to GPU 1".to_owned())];
    assert_eq!(verdicts(&found(&[("m.txt", &slow)])), pair(Possible));
    let near = "\tGPU0\tGPU1\tGPU2\tGPU3\nGPU0\t X \tNV18\tNV18\tNV18\nGPU1\tNV18\t X \tNV18\tNV18\n\
                GPU2\tNV18\tNV18\t X \tNV18\nGPU3\tNV18\tNV18\tNV18\t X\n";
    let both = [("m.txt", slow.as_str()), ("near.txt", near)];
    assert_eq!(verdicts(&found(&both)), pair(Likely));
    // All bandwidths of one GPU.
    let slow = measured(|from, to| if from == 3 || to == 3 { 20.0 } else { 54.0 });
    assert_eq!(verdicts(&found(&[("m.txt", &slow)])), []);
    let near = near.replace("NV18", "PIX");
    let both = [("m.txt", slow.as_str()), ("near.txt", near.as_str())];
    assert_eq!(verdicts(&found(&both)), []);
    // Two switches: pairs of one switch are faster.
    let kinds = measured(|from, to| if from / 2 == to / 2 { 54.0 } else { 36.0 });
    assert_eq!(verdicts(&found(&[("m.txt", &kinds)])), []);
    // One way of a pair on a switch of its own.
    let near = "\tGPU0\tGPU1\tGPU2\tGPU3\nGPU0\t X \tPIX\tSYS\tSYS\nGPU1\tPIX\t X \tSYS\tSYS\n\
                GPU2\tSYS\tSYS\t X \tPIX\nGPU3\tSYS\tSYS\tPIX\t X\n";
    let one_way = measured(|from, to| match (from, to) {
        (2, 3) => 12.0,
        _ if from / 2 == to / 2 => 54.0,
        _ => 36.0,
    });
    let both = [("m.txt", one_way.as_str()), ("near.txt", near)];
    let expected = [("slow-pair", Likely, "GPU 2 to GPU 3".to_owned())];
    assert_eq!(verdicts(&found(&both)), expected);
    let through_host = slow.replace(
        "memcpy CE GPU(row) <- GPU(column) bandwidth (GB/s)",
        "Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)",
    );
    assert_eq!(verdicts(&found(&[("m.txt", &through_host)])), []);
}

/// Lines of Inspector: `late` ends its kernels sooner, since the others wait for it in theirs.
fn ended(rank: u32, ranks: u32, number: u32, time: u32) -> String {
    format!(
        r#"{{"header":{{"id":"0xc0","rank":{rank},"n_ranks":{ranks},"nnodes":1}},"metadata":{{"hostname":"n{rank}"}},"coll_perf":{{"coll":"AllReduce","coll_sn":{number},"coll_msg_size_bytes":1048576,"coll_exec_time_us":{time},"coll_timing_source":"kernel_gpu"}}}}"#
    ) + "\n"
}

#[test]
fn the_rank_for_which_all_wait_is_named() {
    let file = |rank: u32, late: &dyn Fn(u32) -> u32| -> String {
        let numbers = 0..5000;
        numbers
            .map(|number| {
                ended(
                    rank,
                    4,
                    number,
                    if late(number) == rank {
                        300
                    } else {
                        900 + rank
                    },
                )
            })
            .collect()
    };
    let files = |late: &dyn Fn(u32) -> u32| (0..4).map(|rank| file(rank, late)).collect::<Vec<_>>();
    let named = |files: &[String]| {
        let names = ["a", "b", "c", "d"];
        let inputs = names.into_iter().zip(files.iter().cloned());
        diagnosed(&inputs.collect::<Vec<_>>(), "")
    };
    let late = named(&files(&|_| 2));
    assert_eq!(late.verdicts.len(), 1);
    let first = &late.verdicts[0];
    assert_eq!((first.cause.id, first.certainty), ("slow-rank", Likely));
    assert_eq!(
        (&first.ranks[..], &first.hosts[..]),
        (&[2][..], &["n2".to_owned()][..])
    );
    assert!(first.what.contains("wait 601 µs"), "{}", first.what);
    // Another rank each time.
    let fair = named(&files(&|number| number / 7 % 4));
    assert!(fair.verdicts.is_empty());
    // A rank is missing, so nobody is last.
    let few = named(&files(&|_| 2)[..3]);
    assert!(few.verdicts.is_empty());
    assert!(
        few.missing[0].how.contains("all 4 ranks"),
        "{:?}",
        few.missing
    );
}
