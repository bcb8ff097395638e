//! Choices in the formats of other programs, read as those programs read them.

use std::process::Command;

use export::coll_config::CollConfigs;
use export::ncclx;
use tuner_plugin::table::{Choice, Communicator, Table};

/// NCCL's numbers: all-gather and all-reduce; trees, rings and NVLS; LL, LL128 and Simple.
const ALL_GATHER: u8 = 2;
const ALL_REDUCE: u8 = 4;

fn choice(collective: u8, (least, most): (u64, u64), algorithm: u8, protocol: u8) -> Choice {
    Choice {
        collective,
        least,
        most,
        algorithm,
        protocol,
        channels: None,
        chunk: None,
    }
}

/// Two nodes of four ranks.
fn table() -> Table {
    let choices = vec![
        choice(ALL_GATHER, (0, 1_034_926), 1, 0),
        choice(ALL_GATHER, (1_034_927, u64::MAX), 1, 2),
        choice(ALL_REDUCE, (0, 65_535), 0, 0),
        choice(ALL_REDUCE, (65_536, 65_540), 1, 1),
        Choice {
            channels: Some(16),
            ..choice(ALL_REDUCE, (65_541, u64::MAX), 4, 2)
        },
    ];
    Table {
        communicators: vec![Communicator {
            nodes: 2,
            ranks: 8,
            gpus: vec!["0-3".to_owned()],
            choices,
            ..Communicator::default()
        }],
    }
}

/// A rule of NCCLX's file: it splits at commas outside of brackets.
fn fields(line: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    let mut depth = 0;
    for letter in line.chars() {
        match letter {
            '[' | '(' => depth += 1,
            ']' | ')' => depth -= 1,
            _ => {}
        }
        match letter {
            ',' if depth == 0 => found.push(String::new()),
            _ => found.last_mut().expect("one").push(letter),
        }
    }
    found
}

/// Whether an interval of NCCLX's file holds a number.
fn holds(interval: &str, number: u64) -> bool {
    let (least, most) = interval
        .trim_start_matches('[')
        .split_once(',')
        .expect("two bounds");
    let most = match most {
        ")" => u64::MAX,
        most => most.trim_end_matches(']').parse().expect("a number"),
    };
    (least.parse().expect("a number")..=most).contains(&number)
}

#[test]
fn ncclx_takes_the_choices() {
    let csv = ncclx::csv(&table());
    assert_eq!(csv.left_out, [""; 0]);
    let rules: Vec<Vec<String>> = csv
        .text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(fields)
        .collect();
    assert!(rules.iter().all(|rule| rule.len() == 7), "{}", csv.text);
    let taken = |collective: &str, bytes: u64| {
        let rule = rules.iter().find(|rule| {
            rule[0] == collective && holds(&rule[1], bytes / 8) && rule[5] == "2" && rule[6] == "4"
        });
        rule.map(|rule| rule[2..5].join(" "))
    };
    for (collective, bytes, choice) in [
        ("allgather", 8, "ring ll -1"),
        ("allgather", 1_034_920, "ring ll -1"),
        ("allgather", 1_034_928, "ring simple -1"),
        ("allreduce", 65_528, "tree ll -1"),
        ("allreduce", 65_536, "ring ll128 -1"),
        ("allreduce", 65_544, "nvls simple 16"),
        ("allreduce", 1 << 40, "nvls simple 16"),
        // Between two sizes of a rank.
        ("allreduce", 65_543, "ring ll128 -1"),
    ] {
        assert_eq!(taken(collective, bytes).as_deref(), Some(choice), "{bytes}");
    }
    assert_eq!(taken("broadcast", 8), None);
}

/// NCCL's rule: a tag selects all names that begin with it; `+` intersects, `^` negates.
fn selected(selection: &str) -> Vec<&'static str> {
    const NAMES: [&str; 11] = [
        "TREE_LL",
        "TREE_LL128",
        "TREE_SIMPLE",
        "RING_LL",
        "RING_LL128",
        "RING_SIMPLE",
        "COLLNET_DIRECT_SIMPLE",
        "COLLNET_CHAIN_SIMPLE",
        "NVLS_SIMPLE",
        "NVLSTREE_SIMPLE",
        "PAT_SIMPLE",
    ];
    let fits = |name: &str| {
        selection.split('+').all(|tag| match tag.strip_prefix('^') {
            Some(tag) => !name.starts_with(tag),
            None => name.starts_with(tag),
        })
    };
    NAMES.into_iter().filter(|name| fits(name)).collect()
}

#[test]
fn each_selection_is_one_algorithm() {
    let configs = CollConfigs::of(&table());
    let selections = configs.communicators[0].choices.iter();
    let names: Vec<_> = selections.map(|it| selected(&it.selection)).collect();
    let expected = [
        "RING_LL",
        "RING_SIMPLE",
        "TREE_LL",
        "RING_LL128",
        "NVLS_SIMPLE",
    ];
    assert_eq!(names, expected.map(|name| vec![name]));
    let json = serde_json::to_string(&configs).expect("JSON");
    let again: CollConfigs = serde_json::from_str(&json).expect("the same");
    assert_eq!(again, configs);
}

/// What a program needs of NCCL's header.
const NCCL: &str = "
#include <stddef.h>
typedef struct { int minCTAs, maxCTAs; const char *algSelection; int forceAlgSelection; } ncclCollConfig_t;
#define NCCL_COLLCONFIG_INITIALIZER { -1, -1, NULL, 1 }
";

const PROGRAM: &str = r#"
#include <stdio.h>
int main(void) {
  const topoCommunicator *of = &topoCommunicators[0];
  unsigned long long sizes[] = {0, 65535, 65536, 65541, ~0ULL};
  printf("%d %d %s\n", of->nodes, of->ranks, of->gpus);
  for (int i = 0; i < 5; i++) {
    ncclCollConfig_t it = topoCollConfig(topoFindChoice(of, "all-reduce", sizes[i]));
    printf("%s %d %d %d\n", it.algSelection, it.forceAlgSelection, it.minCTAs, it.maxCTAs);
  }
  printf("%d\n", topoCollConfig(topoFindChoice(of, "broadcast", 1)).forceAlgSelection);
  return 0;
}
"#;

#[test]
fn the_header_compiles_and_answers() {
    let folder = std::env::temp_dir().join(format!("topo-coll-config-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let (source, program) = (folder.join("main.c"), folder.join("main"));
    let text = format!("{NCCL}{}{PROGRAM}", CollConfigs::of(&table()).to_c());
    std::fs::write(&source, text).expect("the source");
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let compiled = Command::new(compiler)
        .args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-o"])
        .args([&program, &source])
        .output()
        .expect("a C compiler (CC or cc)");
    let errors = String::from_utf8_lossy(&compiled.stderr);
    assert!(compiled.status.success(), "{errors}");
    let ran = Command::new(&program).output().expect("the program");
    std::fs::remove_dir_all(&folder).expect("the folder");
    let printed = String::from_utf8_lossy(&ran.stdout);
    assert_eq!(
        printed.lines().collect::<Vec<_>>(),
        [
            "2 8 0-3",
            "TREE_LL+^TREE_LL128 0 -1 -1",
            "TREE_LL+^TREE_LL128 0 -1 -1",
            "RING_LL128 0 -1 -1",
            "NVLS_SIMPLE 0 16 16",
            "NVLS_SIMPLE 0 16 16",
            "1",
        ]
    );
}
