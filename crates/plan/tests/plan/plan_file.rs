//! Plan files: the same bytes for the same plan, and nothing but plans is read.

use crate::common::{content_of, plan_of};
use plan::{
    Error, Fingerprint, GpuGroup, Graph, GraphChannel, GraphKind, HostRun, JobLayout, Pattern,
    Plan, PlanContent, PlannedLink, PlannedLinks, RankOrder, RequestSummary, Setting, neighbors,
};
use proptest::prelude::*;

/// The file with its content changed, and the checksum made to fit.
fn forged(plan: &str, from: &str, to: &str) -> String {
    let changed = plan.replacen(from, to, 1);
    assert_ne!(changed, plan, "{from}");
    let Err(Error::Changed { stated, found }) = Plan::from_json(&changed) else {
        return changed;
    };
    changed.replace(&stated.to_string(), &found.to_string())
}

fn refusal(text: &str) -> String {
    Plan::from_json(text).unwrap_err().to_string()
}

#[test]
fn equal_plans_give_equal_bytes_and_read_back() {
    let plan = plan_of(2);
    let text = plan.to_json().unwrap();
    assert_eq!(plan.clone().to_json().unwrap(), text);
    assert_eq!(Plan::from_json(&text).unwrap(), plan);
    // White space is no part of a plan.
    assert_eq!(Plan::from_json(&text.replace("  ", "\t")).unwrap(), plan);
}

/// Plans without measured links keep their bytes; those with them read back.
#[test]
fn measured_links_are_an_optional_section() {
    let links = |used_gbps| PlannedLinks {
        source: "pairs.txt".to_owned(),
        links: vec![PlannedLink {
            from: "CPU0".to_owned(),
            to: "CPU1".to_owned(),
            kind: "SYS".to_owned(),
            nccl_gbps: 24.0,
            used_gbps,
        }],
    };
    let plain = plan_of(2);
    assert!(!plain.to_json().unwrap().contains("measured"));
    let plan = plain.with_measured(links(19.4)).unwrap();
    let text = plan.to_json().unwrap();
    assert_eq!(Plan::from_json(&text).unwrap(), plan);
    let refused = refusal(&forged(&text, "19.4", "-1.0"));
    assert!(refused.contains("used_gbps is -1"), "{refused}");
    assert!(plain.with_measured(links(f32::NAN)).is_err());
    // An input, as settings are: two plans that decide the same do not differ by it.
    assert!(plan::compare(&plain, &plan, &[]).unwrap().is_empty());
}

#[test]
fn the_checksum_is_what_the_schema_says() {
    let mut plan = content_of(1);
    plan.machines[0].name = "a \"b\" c\\".to_owned();
    let plan = Plan::new(plan).unwrap();
    let text = plan.to_json().unwrap();
    let (head, content) = text.split_once("\"plan\": ").unwrap();
    let content = content.trim_end().strip_suffix('}').unwrap();
    let (mut bare, mut quoted, mut escaped) = (String::new(), false, false);
    for character in content.chars() {
        quoted ^= character == '"' && !escaped;
        escaped = character == '\\' && !escaped;
        if quoted || !character.is_whitespace() {
            bare.push(character);
        }
    }
    let checksum = plan::Digest::of(bare.as_bytes());
    assert!(
        head.contains(&format!("\"checksum\": \"{checksum}\"")),
        "{head}"
    );
    assert_eq!(plan.digest().unwrap(), checksum);
}

#[test]
fn a_file_reads_line_by_line() {
    let text = plan_of(12_500).to_json().unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[..3],
        ["{", "  \"format\": \"topo-plan\",", "  \"version\": 2,"]
    );
    for line in [
        r#"      {"machine": 0, "count": 12500, "first_rank": 0}"#,
        r#"                  {"ranks": [0, 1], "nets": [0, 0]}"#,
        r#"                    {"from": {"net": 0}, "to": {"rank": 0}, "type": "PIX", "bw": 12.1},"#,
    ] {
        assert!(lines.contains(&line), "no line {line}\n{text}");
    }
}

#[test]
fn twelve_thousand_equal_hosts_take_the_space_of_one() {
    let (one, many) = (
        plan_of(1).to_json().unwrap(),
        plan_of(12_500).to_json().unwrap(),
    );
    assert!(many.len() < one.len() + 16);
    let plan = Plan::from_json(&many).unwrap();
    assert_eq!(plan.rank_count(), 25_000);
    let layout = JobLayout::of(&plan).unwrap();
    let place = layout.rank(24_999).unwrap();
    assert_eq!(
        (
            place.node.machine,
            place.node.domain,
            place.host,
            place.local
        ),
        (0, 12_499, 12_499, 1)
    );
    assert_eq!(layout.rank(25_000), None);
}

#[test]
fn ranks_are_found_across_runs_of_different_machines() {
    let mut plan = content_of(2);
    let mut small = plan.machines[0].clone();
    small.gpus.truncate(1);
    small.groups[0] = GpuGroup {
        ranks: vec![0],
        graphs: Vec::new(),
        paths: Vec::new(),
        ..small.groups[0].clone()
    };
    plan.machines.push(small);
    plan.hosts = [(0, 2, 0), (1, 3, 4), (0, 1, 7)]
        .map(|(machine, count, first_rank)| HostRun {
            machine,
            count,
            first_rank,
        })
        .to_vec();
    let places = |plan: &Plan| -> Vec<_> {
        let layout = JobLayout::of(plan).unwrap();
        (0..plan.rank_count() as u32)
            .map(|rank| layout.rank(rank).unwrap())
            .map(|place| (place.node.machine, place.node.domain, place.local))
            .collect()
    };
    let mut expected = vec![
        (0, 0, 0),
        (0, 0, 1),
        (0, 1, 0),
        (0, 1, 1),
        (1, 2, 0),
        (1, 3, 0),
        (1, 4, 0),
        (0, 5, 0),
        (0, 5, 1),
    ];
    let plan = Plan::from_json(&Plan::new(plan).unwrap().to_json().unwrap()).unwrap();
    assert_eq!(places(&plan), expected);
    // A rank order is kept, too.
    let mut turned = PlanContent::clone(&plan);
    turned.rank_order = Some(RankOrder::new((0..9).rev()));
    let turned = Plan::from_json(&Plan::new(turned).unwrap().to_json().unwrap()).unwrap();
    expected.reverse();
    assert_eq!(places(&turned), expected);
}

#[test]
fn files_that_are_no_plans_are_refused() {
    for (text, found) in [
        ("", "an empty file"),
        (" \n", "an empty file"),
        ("<system version=\"1\"/>", "found `<system version="),
        ("[\"topo-plan\", 1]", "found `["),
        ("{}", "JSON without `\"format\"`"),
        ("{\"format\": \"other\", \"version\": 1}", "other"),
        ("{\"format\": 7, \"version\": 1}", "a head that no plan has"),
        ("{\"format\": \"topo-plan\"}", "JSON without `\"version\"`"),
        (
            "{\"format\": \"topo-plan\", \"version\": \"1\"}",
            "a head that no plan has",
        ),
    ] {
        let error = refusal(text);
        assert!(
            error.starts_with("this is not a plan: found ") && error.contains(found),
            "{error}"
        );
    }
}

#[test]
fn other_versions_are_refused_by_name_whatever_they_hold() {
    let error =
        Plan::from_json("{\"version\": 3, \"format\": \"topo-plan\", \"news\": []}").unwrap_err();
    assert_eq!(error, Error::NewerVersion { version: 3 });
    assert!(
        error
            .to_string()
            .contains("this program reads version 2; use the newer program"),
        "{error}"
    );
    let error = Plan::from_json("{\"version\": 1, \"format\": \"topo-plan\"}").unwrap_err();
    assert_eq!(error, Error::UnknownVersion { version: 1 });
}

#[test]
fn every_truncation_is_refused_as_one() {
    let text = plan_of(1).to_json().unwrap();
    for end in 1..text.trim_end().len() {
        let error = Plan::from_json(&text[..end]).unwrap_err();
        assert!(matches!(error, Error::Truncated { .. }), "{end}: {error}");
    }
    assert_eq!(
        Plan::from_json(&text[..20]).unwrap_err(),
        Error::Truncated {
            line: 2,
            column: 18
        }
    );
}

#[test]
fn changed_files_are_refused() {
    let text = plan_of(1).to_json().unwrap();
    for (from, to) in [
        ("\"bw\": 12.1", "\"bw\": 12.2"),
        ("0.1.0", "0.1.1"),
        ("\"ranks\": [0, 1]", "\"ranks\": [1, 0]"),
        ("\"NVL\"", "\"NVB\""),
        ("\"cross_nic\": 0", "\"cross_nic\": 1"),
    ] {
        let error = Plan::from_json(&text.replacen(from, to, 1)).unwrap_err();
        assert!(matches!(error, Error::Changed { .. }), "{error}");
    }
    for (from, to) in [
        ("\"pass\": 1", "\"pass\" 1"),
        ("25.0", "1e39"),
        ("25.0", "25."),
        ("25.0", "NaN"),
    ] {
        let error = refusal(&text.replacen(from, to, 1));
        assert!(error.starts_with("the plan is damaged: line "), "{error}");
    }
    for (from, to, problem) in [
        ("\"pass\": 1", "\"pass\": \"x\"", "invalid type"),
        (
            "\"pass\": 1",
            "\"pass\": 1, \"more\": 2",
            "unknown field `more`",
        ),
        (
            "\"nets\": [0, 0]",
            "\"nets\": [0, 0], \"more\": 2",
            "unknown field `more`",
        ),
        (
            "\"profile\": ",
            "\"prophile\": ",
            "unknown field `prophile`",
        ),
        ("\"checksum\": \"", "\"checksum\": \"x", "not a SHA-256"),
    ] {
        let error = refusal(&text.replacen(from, to, 1));
        assert!(
            error.starts_with("the plan does not follow the format: line ")
                && error.contains(problem),
            "{error}"
        );
        assert!(!error.contains(" at line"), "{error}");
    }
}

/// Whichever byte is damaged, the plan is refused or still the same (white space is no part of it).
#[test]
fn every_damaged_byte_is_noticed() {
    let plan = plan_of(1);
    let text = plan.to_json().unwrap();
    let check = |damaged: String, at: usize| match Plan::from_json(&damaged) {
        Ok(read) => assert_eq!(read, plan, "byte {at}:\n{damaged}"),
        Err(error) => assert!(!error.to_string().is_empty()),
    };
    for at in 0..text.len() {
        for replacement in ["", " ", "0", "1", "-", "\"", "}", "x", "\u{e9}"] {
            let damaged = [&text[..at], replacement, &text[at + 1..]].concat();
            check(damaged, at);
        }
        let mut flipped = text.clone().into_bytes();
        flipped[at] ^= 0x20;
        check(String::from_utf8(flipped).unwrap(), at);
    }
}

#[test]
fn contradictory_plans_are_refused_even_with_the_right_checksum() {
    let text = plan_of(1).to_json().unwrap();
    for (from, to, at) in [
        (
            "\"machine\": 0",
            "\"machine\": 3",
            "hosts[0]: there is no machine 3",
        ),
        (
            "\"first_rank\": 0",
            "\"first_rank\": 1",
            "hosts[0]: the first rank is 1, but should be 0",
        ),
        (
            "\"count\": 1",
            "\"count\": 4000000000",
            "hosts[0]: there are more ranks than NCCL can number",
        ),
        (
            "{\"rank\": 1, \"dev\"",
            "{\"rank\": 2, \"dev\"",
            "machines[0].gpus[1]: its rank is 2",
        ),
        (
            "\"ranks\": [0, 1]",
            "\"ranks\": [0, 2]",
            "machines[0].groups[0]: rank 2",
        ),
        (
            "\"ranks\": [0, 1]",
            "\"ranks\": [0]",
            "machines[0].groups[0].graphs[ring].channels[0]: rank 1",
        ),
        (
            "\"nets\": [0, 0]",
            "\"nets\": [0, 5]",
            "graphs[ring].channels[0]: the machine has no network port with id 5",
        ),
        (
            "\"to\": {\"rank\": 1}",
            "\"to\": {\"rank\": 0}",
            "paths[ring].channels[0]: the paths do not follow the channel",
        ),
    ] {
        let error = refusal(&forged(&text, from, to));
        assert!(error.contains(at), "{error} lacks {at}");
    }
    // A number that JSON cannot hold.
    let mut plan = content_of(1);
    plan.machines[0].groups[0].trails[0].attempts[0]
        .best
        .bw_inter = f32::NAN;
    let error = Plan::new(plan).unwrap_err().to_string();
    assert!(
        error.contains("trails[ring].attempts[0].best.bw_inter: NaN"),
        "{error}"
    );
}

#[test]
fn hops_follow_the_pattern() {
    let hops = |pattern, nets| {
        let channel = GraphChannel {
            ranks: vec![2, 0, 1],
            nets,
        };
        let hops = neighbors(pattern, &channel);
        hops.iter()
            .map(|(from, to)| {
                format!("{from}>{to}")
                    .replace("rank ", "")
                    .replace("net 0x", "n")
            })
            .collect::<Vec<_>>()
            .join(" ")
    };
    let nets = Some([7, 8]);
    for (pattern, inside, outside) in [
        (Pattern::Ring, "2>0 0>1 1>2", "n7>2 2>0 0>1 1>n8"),
        (Pattern::BalancedTree, "2>0 0>1", "n7>2 2>0 0>1 2>n8"),
        (Pattern::SplitTree, "2>0 0>1", "n7>2 2>0 0>1 0>n8"),
        (Pattern::Tree, "2>0 0>1", "n7>2 2>0 0>1 2>n8"),
        (Pattern::CollnetDirect, "2>0 2>1", "n7>2 2>0 2>1 2>n8"),
        (Pattern::Nvls, "", "n7>2 2>n8"),
    ] {
        assert_eq!(hops(pattern, None), inside, "{pattern}");
        assert_eq!(hops(pattern, nets), outside, "{pattern}");
    }
    let alone = GraphChannel {
        ranks: vec![0],
        nets: None,
    };
    assert!(neighbors(Pattern::Ring, &alone).is_empty());
}

#[test]
fn fingerprints_tell_inputs_apart() {
    let request = RequestSummary {
        hosts: 2,
        nvlink_domain: false,
        collnet: false,
    };
    let setting = |name: &str, value: &str| Setting {
        name: name.to_owned(),
        value: value.to_owned(),
    };
    let new = || Fingerprint::new("nccl-2.30");
    let all = [
        new().finish(),
        Fingerprint::new("nccl-2.31").finish(),
        new().topology(b"ab", 1).topology(b"c", 1).finish(),
        new().topology(b"a", 1).topology(b"bc", 1).finish(),
        new().topology(b"ab", 2).finish(),
        new().settings(&[setting("A", "B")]).finish(),
        new().settings(&[setting("AB", "")]).finish(),
        new().settings(&[]).finish(),
        new().request(&request).finish(),
        new()
            .request(&RequestSummary {
                collnet: true,
                ..request
            })
            .finish(),
    ];
    let different: std::collections::BTreeSet<_> = all.iter().collect();
    assert_eq!(different.len(), all.len());
    assert_eq!(new().topology(b"ab", 2).finish(), all[4]);
    // The digest of nothing, as everybody knows it.
    let empty = plan::Digest::of(b"").to_string();
    assert_eq!(
        empty,
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn plans_read_back(
        numbers in prop::array::uniform4(crate::common::any_finite()),
        ring in crate::common::graph(GraphKind::Ring, 2),
        tree in crate::common::graph(GraphKind::Tree, 2),
        name in any::<String>(),
    ) {
        let mut plan = content_of(3);
        plan.machines[0].name = name;
        plan.machines[0].nics[0].speed = numbers[0];
        let group = &mut plan.machines[0].groups[0];
        group.max_bw = numbers[1];
        group.total_bw = numbers[2];
        group.trails[0].attempts[0].best.bw_intra = numbers[3];
        group.graphs = vec![at_port_0(ring), at_port_0(tree)];
        group.paths = group.graphs.iter().map(crate::common::paths_of).collect();
        let plan = Plan::new(plan).unwrap();
        let text = plan.to_json().unwrap();
        prop_assert_eq!(Plan::from_json(&text).unwrap(), plan);
    }

    #[test]
    fn damaged_plans_never_panic_and_never_pass(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        end in any::<prop::sample::Index>(),
    ) {
        let plan = plan_of(2);
        let mut bytes = plan.to_json().unwrap().into_bytes();
        for (index, byte) in changes {
            let index = index.index(bytes.len());
            bytes[index] = byte;
        }
        bytes.truncate(end.index(2 * bytes.len()).max(1));
        if let Ok(read) = Plan::from_json(&String::from_utf8_lossy(&bytes)) {
            prop_assert_eq!(read, plan);
        }
    }

    #[test]
    fn any_text_is_refused(text in any::<String>()) {
        prop_assert!(Plan::from_json(&text).is_err());
    }
}

fn at_port_0(mut graph: Graph) -> Graph {
    for channel in &mut graph.channels {
        channel.nets = channel.nets.map(|nets| nets.map(|net| net.clamp(-1, 0)));
    }
    graph
}
