//! Cost profiles of NCCL. Every accepted profile predicts times.

use planner::NcclVersion;
use planner::cost::profile::built_in_toml;
use planner::cost::{AlphaBeta, CostProfile, Inputs};
use planner::{Rules, Settings, cost};
use program::Collective;

use crate::input::Depth;
use crate::jobs;

/// Message sizes, bytes.
const SIZES: [u64; 5] = [1, 4096, 1 << 20, 1 << 33, i64::MAX as u64];

thread_local! {
    /// Jobs whose times are predicted.
    static JOBS: Vec<Inputs> = [
        ("workstation-2gpu-nvlink", 1, false),
        ("dgx-h100", 2, false),
        ("gh200", 4, true),
    ]
    .into_iter()
    .map(|(name, hosts, collnet)| {
        let planned = jobs::planned(&jobs::document(name), hosts, collnet, &Settings::default());
        planned.unwrap_or_else(|error| panic!("{name}: {error}")).job.cost_inputs()
    })
    .collect();
}

/// The built-in profile.
pub fn seeds() -> Vec<Vec<u8>> {
    vec![built_in_toml(NcclVersion::NEWEST).as_bytes().to_vec()]
}

/// Reads a profile and predicts the times of jobs with it.
///
/// # Panics
/// A predicted time is negative or not a number.
pub fn run(bytes: &[u8]) -> Depth {
    let text = String::from_utf8_lossy(bytes);
    let profile = match CostProfile::from_toml("fuzz.toml", &text) {
        Ok(profile) => profile,
        Err(error) => {
            let _ = error.to_string();
            return match error {
                cost::CostProfileError::Syntax { .. } => Depth::Outside,
                _ => Depth::Inside,
            };
        }
    };
    let tuning = Settings::default().tuning;
    JOBS.with(|jobs| {
        for inputs in jobs {
            let table = cost::table(inputs, &tuning, &profile, Rules::default())
                .expect("nothing is restricted");
            for collective in Collective::ALL {
                for bytes in SIZES {
                    if let Ok(choice) = table.choose(collective, bytes) {
                        assert!(choice.time_us >= 0.0, "{choice:?}");
                    }
                }
            }
            let model = AlphaBeta::of(inputs, &profile);
            assert!(model.is_none_or(|it| it.alpha_us() >= 0.0), "{model:?}");
        }
    });
    Depth::Accepted
}
