//! Every collective by every way, type, operation, number of ranks and odd sizes, each element checked.
//!
//! By default a sample is run, which differs from day to day only if `TOPO_MATRIX_SEED` says so. The whole matrix is
//! `cargo xtask matrix`.

mod case;

use case::{Case, cases};

/// Cases of the sample.
const SAMPLE: usize = 600;

fn seed() -> u64 {
    let given = std::env::var("TOPO_MATRIX_SEED").ok();
    given
        .and_then(|text| text.parse().ok())
        .unwrap_or(20_260_101)
}

#[test]
fn sampled_matrix_of_threads() {
    let all = cases();
    let mut random = seed();
    let mut sample: Vec<&Case> = (0..SAMPLE)
        .map(|_| {
            // splitmix64
            random = random.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut x = random;
            x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            &all[((x ^ (x >> 31)) % all.len() as u64) as usize]
        })
        .collect();
    sample.sort_by_key(|case| case.ranks);
    case::run_all(&sample);
}

#[test]
#[ignore = "takes long; run it by `cargo xtask matrix`"]
fn whole_matrix_of_threads() {
    let all = cases();
    case::run_all(&all.iter().collect::<Vec<_>>());
}
