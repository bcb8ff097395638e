//! Workloads: lists of calls as CSV and JSON, and workload text of SimAI. Every accepted workload
//! is written as a list and read again.

use workload::list::csv;
use workload::{Call, Group, Workload, read};

use crate::input::{Depth, checked};

/// Ranks of the job where a workload does not say them.
const RANKS: u32 = 16;

const LIST: &str = "\
group,collective,bytes,type,op,count,name,compute_us,overlap_us,start_us,after,blocks,micro_batch
tp=8,all-gather,48M,bf16,sum,10,a,100,20,,,yes,yes
dp=2:8,reduce-scatter,1G,f32,avg,1,b,,,5,,no,
x=2x2:8,all-to-all,1K,,,,c,,,,a+b,,
y={0-3}{4-7 9},all-reduce,8
z=all,send-recv,8
";

const JSON: &str = r#"{"ranks": 16, "groups": {"tp": "8", "x": [[0, 1], [2, 3]]}, "calls": [
{"group": "tp", "collective": "all-gather", "bytes": "48M", "type": "bf16", "count": 2, "name": "a"},
{"group": "x", "collective": "broadcast", "bytes": 8, "after": "a", "blocks": false}],
"compute_after_us": 3.5, "pipeline": {"stages": 2, "chunks": 1, "micro_batches": 4}}"#;

const SIMAI: &str = "\
HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 4 pp: 2 vpp: 3 ga: 5 all_gpus: 32 pp_comm: 4096.0
2
grad\t-1\t1\tNONE\t0\t1\tNONE\t0\t1\tREDUCESCATTER\t1000\t100
moe\t-1\t5000\tALLTOALL_EP\t8192\t6000\tALLTOALL_EP\t8192\t1\tALLGATHER_DP_EP\t512\t100
";

/// One of each format.
pub fn seeds() -> Vec<Vec<u8>> {
    let all = [
        LIST,
        JSON,
        SIMAI,
        "MICRO\n1\na -1 1 NONE 0 1 NONE 0 1 ALLREDUCE 4096 1\n",
    ];
    all.map(|text| text.as_bytes().to_vec()).to_vec()
}

/// Reads a workload, and its list again.
///
/// # Panics
/// The two differ.
pub fn run(bytes: &[u8]) -> Depth {
    let text = String::from_utf8_lossy(bytes);
    let Some(found) = checked(read("fuzz", &text, RANKS, None)) else {
        return Depth::Outside;
    };
    for group in &found.groups {
        if let Ok(all) = group.members.communicators(RANKS) {
            assert!(
                all.flatten().all(|rank| rank < RANKS),
                "a rank is not in the job"
            );
        }
    }
    // Names of layers repeat, and those of groups may hold what separates names.
    let plain = found.calls.iter().all(|call| call.after.is_empty());
    if plain && found.groups.iter().all(|group| is_plain(&group.name)) {
        let again = read("again", &csv::write(&found), RANKS, None);
        let again = again.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(calls(&found), calls(&again), "the list differs");
    }
    Depth::Accepted
}

/// Whether the name of a group is read as one.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && name != "all" && name.bytes().all(|byte| byte.is_ascii_alphabetic())
}

/// The calls as a list keeps them: with their groups, and without blanks around names.
fn calls(workload: &Workload) -> Vec<(Group, Call)> {
    let calls = workload.calls.iter();
    calls
        .map(|call| {
            let group = workload.groups[call.group].clone();
            let call = Call {
                group: 0,
                name: call.name.trim().to_owned(),
                ..call.clone()
            };
            (group, call)
        })
        .collect()
}
