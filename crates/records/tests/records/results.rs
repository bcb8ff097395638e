//! Tables of several jobs in one file: where one ends, and which rows are left out.

use std::sync::Arc;

use program::Collective;
use records::results::values::Contradictions;
use records::results::{Collector, Results, Table};

const JOB: &str = "\
NCCL version 2.27.7+cuda12.9
# nThread 1 nGpus 2 minBytes 1048576 maxBytes 2097152 step: 2(factor) warmup iters: 1 iters: 20 agg iters: 1 validation: 1 graph: 0
#
# Using devices
#  Rank  0 Group  0 Pid  65704 on       mew0 device  0 [0000:17:00] NVIDIA A100-PCIE-40GB
#  Rank  1 Group  0 Pid  65704 on       mew1 device  0 [0x65] NVIDIA A100-PCIE-40GB
#
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
     1048576        262144     float     sum      -1    52.40   20.01   20.01      0    52.40   20.01   20.01      0
     2097152        524288     float     sum      -1    84.00   24.97   24.97      0    84.00   24.97   24.97      1
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 22.49
#
";

fn read(text: &str) -> Results {
    let mut collector = Collector::default();
    collector.begin("job");
    text.lines().for_each(|line| collector.line(line));
    collector.finish()
}

#[test]
fn jobs_of_one_file_are_parted() {
    let command = "+ NCCL_ALGO=Ring ./build/all_gather_perf -g 2\n";
    let results = read(&format!("{JOB}{command}{JOB}"));
    let [first, second] = &results.tables[..] else {
        panic!("{results:?}");
    };
    assert_eq!((first.rows.len(), first.line), (2, 9));
    assert_eq!(first.nccl.as_deref(), Some("2.27.7"));
    assert_eq!((first.rank_count(), first.host_count()), (Some(2), Some(2)));
    assert_eq!(first.collective, Some(Collective::AllReduce));
    assert!(first.is_guessed);
    assert_eq!((first.average_bus_gbps, first.wrong()), (Some(22.49), 1));
    assert_eq!(second.collective, Some(Collective::AllGather));
    assert!(!second.is_guessed);
    let algorithm = ("NCCL_ALGO".to_owned(), "Ring".to_owned());
    assert_eq!(*second.settings, [algorithm]);
    assert_eq!(second.devices.len(), 2);
    assert_eq!(second.devices[1].bus, "0x65");
}

/// The first lines of the job.
fn cut(lines: usize) -> String {
    JOB.lines().take(lines).flat_map(|it| [it, "\n"]).collect()
}

#[test]
fn a_job_that_was_cut_leaves_nothing_to_the_next() {
    let command = "NCCL_ALGO=Ring ./all_reduce_perf -g 2\n";
    let next = "./reduce_perf -g 2\n";
    // After the first row, the header of columns, the GPUs and the first header.
    for lines in [9, 8, 6, 2] {
        let text = format!("{command}{}{next}{JOB}{}{JOB}", cut(lines), cut(lines));
        let results = read(&text);
        let ranks = results.tables.iter().map(Table::rank_count);
        assert!(ranks.eq(results.tables.iter().map(|_| Some(2))), "{lines}");
        let programs = results.tables.iter().map(|it| it.program.as_deref());
        let (first, reduce) = (Some("all_reduce_perf"), Some("reduce_perf"));
        let expected = match lines {
            9 => vec![first, reduce, None, None],
            _ => vec![reduce, None],
        };
        assert!(programs.eq(expected), "{lines}: {results:?}");
        let without = results.tables.iter().filter(|it| it.settings.is_empty());
        assert_eq!(
            without.count(),
            results.tables.len() - usize::from(lines == 9)
        );
    }
}

#[test]
fn a_program_that_prints_its_header_again_keeps_one_list_of_gpus() {
    let header = JOB.lines().nth(7).unwrap();
    let row = JOB.lines().nth(8).unwrap();
    let text = format!("{}{header}\n{row}\n", cut(9));
    let results = read(&text);
    let [first, second] = &results.tables[..] else {
        panic!("{results:?}");
    };
    assert_eq!(first.devices.len(), 2);
    assert!(Arc::ptr_eq(&first.devices, &second.devices));
}

#[test]
fn rows_that_contradict_themselves_are_left_out() {
    let row = "     2097152        524288     float     sum      -1    84.00   24.97";
    for wrong in ["0.00", "49.94", "12.48"] {
        let text = JOB.replace(&format!("{row}   24.97"), &format!("{row}   {wrong}"));
        let results = read(&format!("./all_reduce_perf -g 2\n{text}"));
        let table = &results.tables[0];
        assert_eq!((table.rows.len(), table.damaged), (1, 1), "{wrong}");
        assert_eq!((table.first_damaged, table.rows[0].line), (11, 10));
        let expected = Contradictions {
            rows: 1,
            line: 11,
            bytes: (2 << 20, 2 << 20),
        };
        assert_eq!(table.contradictions, Some(expected));
    }
}
