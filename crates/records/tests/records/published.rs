//! Published runs, each left out in turn, beside what the others let one expect. To see the table:
//! `cargo test -p records --test records published -- --nocapture`.

use records::results::published::{Expected, PublishedRun, runs};

/// A published bandwidth beside its expectation by other runs.
struct LeftOut {
    run: &'static PublishedRun,
    mib: f64,
    gbps: f64,
    expected: Option<Expected>,
}

impl LeftOut {
    /// All rows of all runs. Runs of one page and job are one source: they are left out together.
    fn all() -> Vec<Self> {
        let rows = runs()
            .iter()
            .flat_map(|run| run.mib.iter().map(move |row| (run, *row)));
        rows.map(|(run, (mib, gbps))| {
            let others = runs().iter().filter(|other| !std::ptr::eq(*other, run));
            let bytes = (mib * f64::from(1 << 20)) as u64;
            let expected = Expected::by(others, &run.job, bytes);
            if let Err(why) = &expected {
                println!("{:<60} {mib:>9} {gbps:>8.2}  unknown: {why}", run.name);
            }
            Self {
                run,
                mib,
                gbps,
                expected: expected.ok(),
            }
        })
        .collect()
    }

    fn is_healthy(&self) -> bool {
        self.run.degraded.is_none()
    }

    fn passes(&self) -> Option<bool> {
        let expected = self.expected.as_ref()?;
        Some(self.gbps >= expected.floor_gbps)
    }
}

#[test]
fn healthy_published_runs_pass_and_degraded_ones_fail() {
    let rows = LeftOut::all();
    let mut near = 0;
    let known = || {
        rows.iter()
            .filter(|it| it.is_healthy() && it.expected.is_some())
    };
    for row in rows.iter().filter(|it| it.expected.is_some()) {
        let expected = row.expected.as_ref().unwrap();
        let ratio = expected.bus_gbps / row.gbps;
        let is_near = (1.0 / 1.15..=1.15).contains(&ratio);
        near += usize::from(is_near && row.is_healthy());
        println!(
            "{:<60} {:>9} {:>8.2} {:>8.2} {:>8.2} × {ratio:.2}{}",
            row.run.name,
            row.mib,
            row.gbps,
            expected.bus_gbps,
            expected.floor_gbps,
            if is_near { "" } else { " !" },
        );
        let name = (&row.run.name, row.mib, row.gbps, expected);
        assert_eq!(row.passes(), Some(row.is_healthy()), "{name:?}");
    }
    let healthy = rows.iter().filter(|it| it.is_healthy()).count();
    let unknown = healthy - known().count();
    println!(
        "{healthy} healthy rows: {unknown} unknown, {near} of {} within 15 %",
        known().count()
    );
    let silent = runs().iter().filter(|run| run.degraded.is_none());
    let silent = silent.filter(|run| known().all(|row| !std::ptr::eq(row.run, *run)));
    println!("{} runs without any", silent.count());
    assert!(near * 100 >= 85 * known().count());
}
