//! The remains of a job that hangs. Any bytes are read to their end, as an archive, as a pickle, as
//! JSON and as text, and explained.

use std::io::Write;
use std::time::Duration;

use diagnose::watch::{Limits, Polled, Watch};
use diagnose::{Floor, Pile, archive};
use rawzip::ZipArchiveWriter;
use records::evidence::ras::answer;

use crate::input::Depth;

/// Lines of PyTorch, NCCL, the kernel and RAS.
const LINES: &str = "\
[rank5]:[E618 04:54:22.8 ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=216, OpType=ALLTOALL_BASE, NumelIn=13, NumelOut=15, Timeout(ms)=600000) ran for 600045 milliseconds before timing out.
[rank5]:[E] [PG ID 11 PG GUID 119(tp) Rank 1]  failure detected by watchdog at work sequence id: 216 PG status: last enqueued work: 220, last completed work: -1
[rank3]:[E] [PG ID 0 PG GUID 0 Rank 3] Received a dump signal due to a collective timeout. Last enqueued NCCL work: 215, last completed NCCL work: 215.
#2 step from /home/user/train.py:15
 - [1, 3] finished collective #4, but didn't join collective #5 (count from 1)
RuntimeError: Detected mismatch between collectives on ranks. Rank 0 is running collective: CollectiveFingerPrint(OpType=ALLGATHER, TensorShape=[4]), but Rank 2 is running collective: CollectiveFingerPrint(OpType=ALLREDUCE).
[Rank 0]: Ranks 1, 2 failed to pass monitoredBarrier in 10000 ms
Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    0         1         2         4         8         8   RUNNING      OK
#1-0 (9a3f) MISMATCH
  Communicator ranks have different AllReduce operation counts
  7 ranks have launched up to operation 40
  Rank 5 has launched up to operation 39 -- GPU 1 managed by process 77 on node n2
graph/xml.h: NCCL WARN Error : too many XML nodes (max 256)
n1:7:9 [0] NCCL INFO GPU Direct RDMA Disabled for GPU 81000 / HCA 1 (distance 7 > 4), read 0
NVRM: Xid (PCI:0000:1b:00): 79, pid=7, GPU has fallen off the bus.
{\"header\":{\"id\":\"0xc0\",\"rank\":1,\"n_ranks\":2},\"metadata\":{\"hostname\":\"n1\"},\"coll_perf\":{\"coll\":\"AllReduce\",\"coll_sn\":7,\"coll_exec_time_us\":300}}
";

/// A recorder in JSON.
const RECORDER: &str = r#"{"version":"2.5","pg_config":{"0":{"name":"0","desc":"default_pg","ranks":"[0, 1, 2]"}},
"entries":[{"record_id":3,"process_group":["0","default_pg"],"collective_seq_id":4,"profiling_name":"nccl:all_reduce",
"state":"scheduled","input_sizes":[[2,3],[4]],"input_dtypes":["Float"],"frames":[{"name":"f","filename":"a.py","line":3}]},
{"record_id":4,"process_group":["0","default_pg"],"p2p_seq_id":4,"profiling_name":"nccl:send 0->2","is_p2p":true}]}"#;

/// A report of RAS in JSON.
const REPORT: &str = r#"{"nccl_version":"2.31.2","communicators_count":1,"communicators":[{"hash":"0x1","size":2,
"ranks":[{"rank":0,"host":"a","status":{"async_error":0},"collective_counts":{"AllReduce":5}}],
"missing_ranks":[{"rank":1,"host":"b","status":{"considered_dead":true}}]}],"ras":{}}"#;

/// A recorder as a pickle of protocol 4.
const PICKLE: &[u8] = b"\x80\x04\x95\x60\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x09pg_config\x94}\x94\x8c\x010\x94}\x94\
(\x8c\x04name\x94h\x03\x8c\x05ranks\x94\x8c\x06[0, 1]\x94us\x8c\x07entries\x94]\x94}\x94(\x8c\x0eprofiling_name\x94\
\x8c\x0fnccl:all_reduce\x94\x8c\x05state\x94\x8c\x07started\x94uau.";

/// The lines, whole and each alone, recorders and reports.
pub fn seeds() -> Vec<Vec<u8>> {
    let all = LINES.lines().chain([LINES, RECORDER, REPORT]);
    let texts = all.map(|text| text.as_bytes().to_vec());
    texts
        .chain([PICKLE.to_vec(), tar(), zip().unwrap_or_default()])
        .collect()
}

/// A tar archive of a recorder.
fn tar() -> Vec<u8> {
    let mut bytes = vec![0; 512];
    bytes[..6].copy_from_slice(b"rank_0");
    bytes[124..135].copy_from_slice(format!("{:011o}", RECORDER.len()).as_bytes());
    bytes[148..156].fill(b' ');
    bytes[156] = b'0';
    bytes[257..262].copy_from_slice(b"ustar");
    let sum: u32 = bytes.iter().map(|it| u32::from(*it)).sum();
    bytes[148..154].copy_from_slice(format!("{sum:06o}").as_bytes());
    bytes.extend(RECORDER.as_bytes());
    bytes.resize(bytes.len().next_multiple_of(512) + 1024, 0);
    bytes
}

/// A zip archive of a recorder.
fn zip() -> Result<Vec<u8>, rawzip::Error> {
    let mut archive = ZipArchiveWriter::new(Vec::new());
    let (mut entry, config) = archive.new_file("rank_0").start()?;
    let mut content = config.wrap(&mut entry);
    content.write_all(RECORDER.as_bytes())?;
    let (_, descriptor) = content.finish()?;
    entry.finish(descriptor)?;
    archive.finish()
}

/// Watches a job whose RAS answers with the input, or its pieces by turns.
fn watch(bytes: &[u8]) {
    let mut watch = Watch::new(Limits::default());
    for (at, piece) in (0..100).step_by(9).zip(bytes.split(|it| *it == 0).cycle()) {
        let polled = answer::read(piece).map_or(Polled::Silent, Polled::Answer);
        watch.take(Duration::from_secs(at), "host", polled);
        assert!(!watch.situation().line().is_empty());
    }
}

/// Reads and explains an input.
///
/// # Panics
/// A verdict has no sentence, or a line of evidence is not from the input.
pub fn run(bytes: &[u8]) -> Depth {
    watch(bytes);
    let mut pile = Pile::default();
    // The same rank twice, and as another rank: circles and duplicates.
    let mut left = 64;
    for name in ["rank_0", "rank_1", "rank_0"] {
        if archive::file(bytes, name, &mut pile, &mut left).is_err() {
            return Depth::Outside;
        }
    }
    let diagnosis = pile.finish(&Floor);
    let is_packed = bytes.starts_with(&[0x1f]) || archive::is_zip(bytes) || archive::is_tar(bytes);
    assert!(is_packed || diagnosis.inputs.len() == 3);
    for verdict in &diagnosis.verdicts {
        assert!(!verdict.what.is_empty(), "{verdict:?}");
        for line in &verdict.lines {
            assert!(line.input.starts_with("rank_"), "{line:?}");
        }
    }
    Depth::accepted_if(!diagnosis.verdicts.is_empty(), Depth::Inside)
}
