//! Oddities of planned jobs.

use crate::common::{equal, plan};
use plan::Connection;
use planner::Note;

#[test]
fn transports_that_differ_by_direction() {
    let planned = plan(&equal("random-00119", 1), &[]).expect("NCCL plans it");
    assert!(planned.notes.contains(&Note::Transports { from: 1, to: 4 }));
    let connection = |from, to| planned.job.expansion.p2p_connection(from, to, 0);
    assert!(matches!(connection(4, 1), Ok(Connection::Direct { .. })));
    assert!(matches!(
        connection(1, 4),
        Ok(Connection::SharedMemory { .. })
    ));
    let planned = plan(&equal("dgx-h100", 1), &[]).expect("NCCL plans it");
    assert_eq!(planned.notes, []);
}
