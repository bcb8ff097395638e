//! Measurements are made from known constants without the cost model; the fit finds the constants.

use std::collections::BTreeMap;

use answers::results::fit::{Fit, FitError, FitJob, Measurement, fit};
use fastrand::Rng;
use plan::{Algorithm, NcclVersion};
use planner::cost::CostProfile;
use planner::{Job, Rules, Settings, with_gpus};
use program::{Collective, Protocol};
use testkit::Machine;

const COLLECTIVES: [Collective; 3] = [
    Collective::AllReduce,
    Collective::AllGather,
    Collective::ReduceScatter,
];

/// Bytes from 8 to 4 GiB.
fn sizes() -> impl Iterator<Item = u64> {
    (3..=32).map(|shift| 1 << shift)
}

/// A job of equal hosts with these GPUs.
fn job(gpus: i32, hosts: u32) -> FitJob {
    let document = Machine::named("dgx-h100")
        .and_then(|it| it.document())
        .expect("the machine");
    let devices: Vec<i32> = (0..gpus).collect();
    let settings = Settings::default();
    let job = Job::hosts(with_gpus(&document, &devices), hosts);
    let planned = planner::plan(&job, &settings).expect("a plan");
    FitJob {
        inputs: planned.job.cost_inputs(),
        tuning: settings.tuning.clone(),
        rules: Rules::default(),
    }
}

/// A time with a normally distributed error of 5 %.
fn noisy(time_us: f64, random: &mut Rng) -> f64 {
    let normal: f64 = (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
    time_us * (1.0 + 0.05 * normal)
}

fn start() -> CostProfile {
    CostProfile::of(NcclVersion::NEWEST)
}

fn steps(collective: Collective, ranks: u32) -> f64 {
    match collective {
        Collective::AllReduce => f64::from(2 * (ranks - 1)),
        _ => f64::from(ranks - 1),
    }
}

/// Checks that exactly these constants were fitted, each within 3 %.
fn check(fit: &Fit, truth: &[(&str, f64)]) {
    let found: BTreeMap<&str, f64> = fit
        .constants
        .iter()
        .map(|it| (it.constant.name.as_str(), it.value))
        .collect();
    for (name, value) in truth {
        let found = found
            .get(name)
            .unwrap_or_else(|| panic!("{name} was not fitted: {fit:#?}"));
        let error = (found / value - 1.0).abs();
        assert!(error < 0.03, "{name}: {found} instead of {value}");
    }
    assert_eq!(found.len(), truth.len(), "{found:?}");
}

/// Rings in one host, by each protocol.
fn rings(
    seed: u64,
    gpu_counts: &[i32],
    collectives: &[Collective],
) -> (Vec<FitJob>, Vec<Measurement>) {
    let mut random = Rng::with_seed(seed);
    let mut jobs = Vec::new();
    let mut measurements = Vec::new();
    for (at, gpus) in gpu_counts.iter().enumerate() {
        let job = job(*gpus, 1);
        let ranks = job.inputs.ranks;
        let links = f64::from(job.inputs.ring.channels) * f64::from(job.inputs.ring.bw_intra);
        for collective in collectives {
            let steps = steps(*collective, ranks);
            for (protocol, start, step, bus) in [
                (Protocol::Ll, 5.0, 0.75, 120.0_f64.min(0.5 * links)),
                (Protocol::Ll128, 11.0, 2.2, 0.8 * links),
                (Protocol::Simple, 9.5, 4.1, 0.88 * links),
            ] {
                for bytes in sizes().flat_map(|it| [it, it]) {
                    let share = f64::from(ranks) / steps;
                    let time = start + steps * step + bytes as f64 / (1000.0 * bus * share);
                    measurements.push(Measurement {
                        job: at,
                        collective: *collective,
                        bytes,
                        choice: (Algorithm::Ring, protocol),
                        time_us: noisy(time, &mut random),
                    });
                }
            }
        }
        jobs.push(job);
    }
    (jobs, measurements)
}

#[test]
fn constants_of_rings_are_found_behind_noise() {
    for seed in 0..5 {
        let (jobs, measurements) = rings(seed, &[2, 4, 8], &COLLECTIVES);
        let fit = fit(&jobs, &measurements, &start()).expect("a fit");
        check(
            &fit,
            &[
                ("base-latency-us.ring[0]", 5.0),
                ("base-latency-us.ring[1]", 11.0),
                ("base-latency-us.ring[2]", 9.5),
                ("hardware-latency-us.nvlink.ring[0]", 0.75),
                ("hardware-latency-us.nvlink.ring[1]", 2.2),
                ("hardware-latency-us.nvlink.ring[2]", 4.1),
                ("bandwidth-limits-gbps.ll.hopper[0]", 120.0),
                ("efficiency.ring-ll128", 0.8),
                ("efficiency.ring-simple", 0.88),
            ],
        );
        for it in &fit.constants {
            assert!(it.error.is_some_and(|error| error < 0.03), "{it:?}");
        }
        // Half of such errors are below 3.4 %, also at sizes that the fit has not seen.
        let held = fit.held.expect("enough sizes");
        for median in [fit.after.median, held.errors.median] {
            assert!((0.028..0.04).contains(&median), "{median}");
        }
        assert!(fit.before.median > 0.1);
        assert!(
            fit.steps.iter().all(|it| it.bias.abs() < 0.02),
            "{:?}",
            fit.steps
        );
        // The written profile is read again, and says the same.
        let text = fit.profile.to_toml().expect("numbers");
        assert_eq!(CostProfile::from_toml("fit.toml", &text), Ok(fit.profile));
    }
}

#[test]
fn what_one_table_cannot_tell_apart_is_said() {
    let (jobs, measurements) = rings(1, &[8], &[Collective::AllReduce]);
    let fit = fit(&jobs, &measurements, &start()).expect("a fit");
    let like: Vec<(&str, &str)> = fit
        .undetermined
        .iter()
        .filter_map(|it| Some((it.constant.as_str(), it.like.as_deref()?)))
        .collect();
    let expected = [0, 1, 2].map(|at| {
        (
            format!("base-latency-us.ring[{at}]"),
            format!("hardware-latency-us.nvlink.ring[{at}]"),
        )
    });
    for (one, other) in &expected {
        assert!(like.contains(&(one.as_str(), other.as_str())), "{like:?}");
    }
    // The sum of both is right: 5 + 14 · 0.75.
    let latency = |name: &str| {
        let found = fit.constants.iter().find(|it| it.constant.name == name);
        found.map_or(0.0, |it| it.value)
    };
    let sum = 6.6 + 14.0 * latency("hardware-latency-us.nvlink.ring[0]");
    assert!((sum / 15.5 - 1.0).abs() < 0.03, "{sum}");
}

#[test]
fn constants_of_the_network_are_found() {
    let mut random = Rng::with_seed(7);
    let mut jobs = Vec::new();
    let mut measurements = Vec::new();
    // Rings by LL over 2, 4 and 8 hosts of 2 and 8 GPUs: 3 µs to start, 1.3 µs for each message
    // of a processor, which a step inside waits for, and 3.6 µs between hosts.
    for (gpus, hosts) in [(2, 2), (2, 4), (2, 8), (8, 2), (8, 4), (8, 8)] {
        let job = job(gpus, hosts);
        let ranks = job.inputs.ranks;
        for collective in COLLECTIVES {
            let (all, between) = (steps(collective, ranks), steps(collective, hosts));
            let between_us = 3.6 + f64::from(job.inputs.ring.latency_inter);
            let latency = 3.0 + (all - between) * 1.3 + between * between_us;
            for bytes in sizes().take(12).flat_map(|it| [it, it, it]) {
                measurements.push(Measurement {
                    job: jobs.len(),
                    collective,
                    bytes,
                    choice: (Algorithm::Ring, Protocol::Ll),
                    time_us: noisy(latency, &mut random),
                });
            }
        }
        jobs.push(job);
    }
    let fit = fit(&jobs, &measurements, &start()).expect("a fit");
    let value = |name: &str| {
        let found = fit.constants.iter().find(|it| it.constant.name == name);
        found.unwrap_or_else(|| panic!("{name}: {fit:#?}")).value
    };
    assert!(
        (value("hardware-latency-us.net.ring[0]") / 3.6 - 1.0).abs() < 0.03,
        "{fit:#?}"
    );
    assert!(
        (value("latency.net-overhead-us") / 1.3 - 1.0).abs() < 0.03,
        "{fit:#?}"
    );
}

#[test]
fn a_few_wild_times_do_not_change_much() {
    let (jobs, mut measurements) = rings(3, &[2, 4, 8], &COLLECTIVES);
    for it in measurements.iter_mut().step_by(40) {
        it.time_us *= 8.0;
    }
    let fit = fit(&jobs, &measurements, &start()).expect("a fit");
    let simple = fit
        .constants
        .iter()
        .find(|it| it.constant.name == "efficiency.ring-simple");
    assert!(
        simple.is_some_and(|it| (it.value / 0.88 - 1.0).abs() < 0.03),
        "{simple:?}"
    );
}

#[test]
fn nothing_is_made_of_nothing() {
    let jobs = [job(8, 1)];
    let error = |measurements: &[Measurement]| fit(&jobs, measurements, &start()).unwrap_err();
    assert_eq!(error(&[]), FitError::NoMeasurements);
    let collnet = Measurement {
        job: 0,
        collective: Collective::AllReduce,
        bytes: 1024,
        choice: (Algorithm::CollNetChain, Protocol::Simple),
        time_us: 10.0,
    };
    assert_eq!(error(&[collnet]), FitError::NoMeasurements);
}
