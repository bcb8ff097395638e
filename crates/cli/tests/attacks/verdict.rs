//! The launches that `topo run` checks.

use serde_json::Value;

use super::ranks::topo;

/// The launches of each figure: run and checked.
fn launches(arguments: &[&str], processes: bool) -> Vec<(u64, u64)> {
    let mut command = topo();
    command.args(["run", "--ranks", "2", "--json", "-b", "4K", "-e", "4K"]);
    command.args(arguments);
    if processes {
        command.arg("--processes");
    }
    let output = command.output().unwrap();
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{problem}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let row = &report["rows"][0];
    let of = |placement: &str| {
        let launches = &row[placement]["launches"];
        let number = |name: &str| launches[name].as_u64().unwrap_or(u64::MAX);
        (number("run"), number("checked"))
    };
    vec![of("out_of_place"), of("in_place")]
}

pub(crate) fn the_report_says_how_many_launches_were_checked() {
    for processes in [false, true] {
        // One before the warm-up, three of it, ten that are timed, and one that is checked again.
        let checked = launches(&["all-reduce", "-n", "10", "-w", "3"], processes);
        assert!(
            checked.iter().all(|it| it.0 >= 15 && it.1 == 2),
            "{checked:?}"
        );
        let unchecked = launches(&["all-gather", "-n", "1", "-c", "0"], processes);
        assert!(
            unchecked.iter().all(|it| it.0 >= 5 && it.1 == 0),
            "{unchecked:?}"
        );
        let by_time = launches(&["all-gather", "--time", "1"], processes);
        assert!(
            by_time.iter().all(|it| it.0 >= 10 && it.1 == 2),
            "{by_time:?}"
        );
    }
}
