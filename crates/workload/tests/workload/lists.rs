//! Lists of calls: what is read, what is refused with which line, and that written lists are read
//! again.

use plan::cost::DataType;
use program::Collective;
use proptest::prelude::*;
use workload::list::csv;
use workload::{Direction, Members, Tokens, Workload, read};

const RANKS: u32 = 16;

fn error(text: &str) -> String {
    read("calls", text, RANKS, None).unwrap_err().to_string()
}

#[test]
fn a_list_has_groups_and_calls() {
    let text = "\
# a comment
group,collective,bytes,type,count,compute_us,overlap_us,name,after,blocks
tp=8,all-gather,48M,bf16,10,100,,layer,,
dp=2:8,ReduceScatter,1G,,,,,gradients,,no
tp,reduce_scatter,1024,bf16,,,20,,layer+gradients,yes
{0-3}{4-7 8},all-reduce,8
";
    let found = read("calls.csv", text, RANKS, None).unwrap();
    let groups: Vec<String> = found
        .groups
        .iter()
        .map(|group| format!("{}={}", group.name, group.members))
        .collect();
    assert_eq!(groups, ["tp=8:1", "dp=2:8", "{0-3}{4-8}={0-3}{4-8}"]);
    let [first, second, third, fourth] = &found.calls[..] else {
        panic!("{} calls", found.calls.len())
    };
    assert_eq!(
        (first.bytes, first.count, first.compute_us),
        (48 << 20, 10, 100.0)
    );
    assert_eq!(first.data_type, DataType::Bf16);
    assert!(first.blocks && !second.blocks);
    assert_eq!(second.collective, Collective::ReduceScatter);
    assert_eq!(third.after, [0, 1]);
    assert_eq!((third.overlap_us, fourth.bytes), (20.0, 8));
}

#[test]
fn the_same_list_as_json() {
    let csv =
        "group,collective,bytes,count,name\ntp=8,all-gather,48M,10,layer\nx=all,all-reduce,8\n";
    let json = r#"{"groups": {"tp": "8", "x": "all"}, "calls": [
        {"group": "tp", "collective": "all-gather", "bytes": "48M", "count": 10, "name": "layer"},
        {"group": "x", "collective": "all-reduce", "bytes": 8}]}"#;
    assert_eq!(
        read("a", csv, RANKS, None).unwrap(),
        read("b", json, RANKS, None).unwrap()
    );
    let ranks = r#"{"ranks": 4, "groups": {"x": [[0, 2], [1, 3]]},
        "calls": [{"group": "x", "collective": "all-reduce", "bytes": 8}],
        "pipeline": {"stages": 4, "micro_batches": 12}}"#;
    let found = read("c", ranks, RANKS, None).unwrap();
    assert_eq!(found.ranks, Some(4));
    assert_eq!(
        found.groups[0].members,
        Members::Listed(vec![vec![0, 2], vec![1, 3]])
    );
    assert_eq!(found.pipeline.unwrap().bubble(), 0.25);
}

#[test]
fn tokens_go_to_experts_in_two_stages() {
    let text = "group,collective,bytes,experts,top_k\nep=16,Dispatch,1M,64,8\nep,combine,2M,64,8\n";
    let found = read("calls", text, RANKS, None).unwrap();
    let tokens: Vec<Option<Tokens>> = found.calls.iter().map(|it| it.tokens).collect();
    let both = Direction::ALL.map(|direction| {
        Some(Tokens {
            direction,
            experts: 64,
            top_k: 8,
        })
    });
    assert_eq!(tokens, both);
    let of = |call: &str| {
        error(&format!(
            "group,collective,bytes,experts,top_k\nep=16,{call}\n"
        ))
    };
    for (call, expected) in [
        (
            "dispatch,1M,64",
            "calls:2: dispatch has no experts or top_k; expected both",
        ),
        (
            "combine,1M,8,9",
            "calls:2: combine with 8 experts, 9 of a token; expected 1 to",
        ),
        (
            "dispatch,1M,0,0",
            "calls:2: dispatch with 0 experts, 0 of a token",
        ),
        (
            "all-to-all,1M,64,8",
            "calls:2: all-to-all has experts or top_k; expected them of",
        ),
        (
            "dispatch,1M,64,-1",
            "calls:2: top_k `-1`; expected a whole number",
        ),
        ("wait,,64", "calls:2: a wait has more than compute_us"),
    ] {
        let found = of(call);
        assert!(found.starts_with(expected), "{call}: {found}");
    }
}

#[test]
fn what_is_wrong_is_said_with_its_line() {
    for (text, expected) in [
        ("", "calls:1: there is no column group"),
        ("group,collective\n", "calls:1: there is no column bytes"),
        (
            "group,collective,bytes,size\n",
            "calls:1: `size` is no column",
        ),
        (
            "group,collective,bytes,bytes\n",
            "calls:1: the column bytes is there twice",
        ),
        (
            "group,collective,bytes\ntp=8,all-gather,8\ntp=8,gatherall,8",
            "calls:3: `gatherall` is no collective; expected one of broadcast",
        ),
        (
            "group,collective,bytes\ntp,all-gather,8",
            "calls:2: there is no group `tp` so far",
        ),
        (
            "group,collective,bytes\ntp=0,all-gather,8",
            "calls:2: `0` is no group of ranks",
        ),
        (
            "group,collective,bytes\ntp=8,all-gather,0",
            "calls:2: `0` is not a size",
        ),
        (
            "group,collective,bytes\ntp=8,all-gather,8,9",
            "calls:2: 4 values; expected at most 3",
        ),
        (
            "group,collective,bytes,count\ntp=8,all-gather,8,0",
            "calls:2: count 0; expected 1 to",
        ),
        (
            "group,collective,bytes,compute_us\ntp=8,all-gather,8,-1",
            "calls:2: compute_us -1; expected 0 to",
        ),
        (
            "group,collective,bytes,compute_us\ntp=8,all-gather,8,NaN",
            "calls:2: compute_us NaN; expected 0 to",
        ),
        (
            "group,collective,bytes,after\ntp=8,all-gather,8,x",
            "calls:2: after `x`: no earlier entry",
        ),
        (
            "group,collective,bytes,type\ntp=8,all-gather,8,bf17",
            "calls:2: `bf17` is no type; expected one of",
        ),
        (
            "group,collective,bytes\ntp={0 0},all-gather,8",
            "calls:2: rank 0 is listed twice",
        ),
        (
            "group,collective,bytes\ntp={3-1},all-gather,8",
            "calls:2: `3-1` is no list of ranks",
        ),
        (
            "{\"groups\": {\"x\": []}, \"calls\": []}",
            "calls:1: group x: no communicator",
        ),
        (
            "{\"calls\": [{\"group\": 1}]}",
            "calls:1: invalid type: integer `1`, expected a string",
        ),
        (
            "{\"calls\": [\n{\"groups\": \"x\"}]}",
            "calls:2: unknown field `groups`",
        ),
        (
            "{\"calls\": [{\"group\": \"8\", \"collective\": \"x\", \"bytes\": 1}]}",
            "calls:1: calls[0]: `x` is no collective",
        ),
    ] {
        let found = error(text);
        assert!(found.starts_with(expected), "{text:?}: {found}");
    }
}

#[test]
fn waits_stand_between_calls() {
    let csv = "group,collective,bytes,compute_us,name,after\n\
               x=all,all-reduce,8,,a,\n,wait,,5,,a\nx,all-reduce,8,,b,\n,wait,,,,a+b\n";
    let found = read("calls", csv, RANKS, None).unwrap();
    let wait = &found.calls[1].waits[0];
    assert_eq!((wait.compute_us, &wait.after[..]), (5.0, &[0][..]));
    assert_eq!(found.waits_after[0].after, [0, 1]);
    for row in [
        "x,wait,,5,,a",
        ",wait,8,5,,a",
        ",wait,,5,b,a",
        ",wait,,5,,c",
        ",wait,,-5,,a",
    ] {
        let text = format!(
            "group,collective,bytes,compute_us,name,after\nx=all,all-reduce,8,,a,\n{row}\n"
        );
        assert!(error(&text).starts_with("calls:3: "), "{row}");
    }
}

#[test]
fn communicators_hold_each_rank_once() {
    let of = |text: &str| {
        let members: Members = text.parse().unwrap();
        members
            .communicators(RANKS)
            .map(Iterator::collect::<Vec<_>>)
    };
    assert_eq!(of("4").unwrap()[1], [4, 5, 6, 7]);
    assert_eq!(of("2:8").unwrap()[3], [3, 11]);
    assert_eq!(of("2x2:8").unwrap()[1], [2, 3, 10, 11]);
    assert_eq!(of("all").unwrap(), [(0..16).collect::<Vec<_>>()]);
    for text in ["3", "2:16", "2:3", "2x2"] {
        let members = text.parse::<Members>();
        assert!(members.is_err() || of(text).is_err(), "{text}");
    }
    assert!(
        of("{0 16}")
            .unwrap_err()
            .to_string()
            .starts_with("rank 16 is not in the job")
    );
}

fn any_workload() -> impl Strategy<Value = Workload> {
    let entry = (
        0usize..3,
        0usize..Collective::ALL.len() + Direction::ALL.len(),
        1u64..1 << 40,
        1u64..100,
        0u32..1000,
        any::<bool>(),
    );
    prop::collection::vec(entry, 1..20).prop_map(|entries| {
        let shapes = ["8:1", "2:8", "{0-3}{4-7}"];
        let mut text =
            "group,collective,bytes,count,compute_us,blocks,name,after,experts,top_k\n".to_owned();
        for (at, (group, collective, bytes, count, us, blocks)) in entries.into_iter().enumerate() {
            let (collective, experts) = match Collective::ALL.get(collective) {
                Some(collective) => (collective.command_name(), ","),
                None => (
                    Direction::ALL[collective - Collective::ALL.len()].name(),
                    "64,8",
                ),
            };
            let after = at
                .checked_sub(1)
                .map_or_else(String::new, |it| format!("n{it}"));
            text += &format!(
                "g{group}={},{collective},{bytes},{count},{us},{blocks},n{at},{after},{experts}\n",
                shapes[group]
            );
            if us % 3 == 0 {
                text += &format!(",wait,,,{us},,,n{at}\n");
            }
        }
        read("any", &text, RANKS, None).unwrap()
    })
}

proptest! {
    #[test]
    fn a_written_list_is_read_again(workload in any_workload()) {
        let again = read("again", &csv::write(&workload), RANKS, None).unwrap();
        prop_assert_eq!(again, workload);
    }

    /// All communicators of a grid together hold each rank of the job once.
    #[test]
    fn grids_are_partitions(
        a in 1u32..5, b in 1u32..5, gap in 1u32..4, inner in 1u32..4, outer in 1u32..4,
    ) {
        let members: Members = format!("{a}:{inner}x{b}:{}", a * inner * gap + u32::from(a * gap == 1))
            .parse()
            .unwrap();
        let stride = a * inner * gap;
        let ranks = b * stride * outer;
        if let Ok(all) = members.communicators(ranks) {
            let mut held: Vec<u32> = all.flatten().collect();
            held.sort_unstable();
            prop_assert_eq!(held, (0..ranks).collect::<Vec<_>>());
        }
    }
}
