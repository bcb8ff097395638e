//! The bandwidths per channel that the search tries, GB/s, descending. They are NCCL's, by
//! generation of the slowest GPU. Source: NCCL's public source, to 2.30.7, and the constants of the
//! binaries of 2.31.2 and 2.32.3.

use plan::NcclVersion;
use topology::bandwidth;

/// The table for a job inside one host or across hosts.
pub(super) fn table(version: NcclVersion, inter: bool, sm_min: i32) -> &'static [f32] {
    if version >= NcclVersion::V2_32 && bandwidth::is_rubin(sm_min) {
        return rubin(inter);
    }
    match (inter, sm_min) {
        (false, 100..) if version < NcclVersion::V2_29 => {
            &[90., 80., 70., 60., 50., 40., 30., 24., 20., 19., 18.]
        }
        (true, 100..) if version < NcclVersion::V2_29 => &[
            96., 48., 45.1, 42., 40., 30., 24., 22., 20., 17.5, 15., 12., 6., 3., 2.4, 1.2, 0.24,
            0.12,
        ],
        (true, 100..) if version < NcclVersion::V2_30 => &[
            96., 80., 48., 45.1, 42., 40., 30., 24., 22., 20., 17.5, 15., 12., 6., 3., 2.4, 1.2,
            0.24, 0.12,
        ],
        (true, 100..) if version < NcclVersion::V2_31 => &[
            96., 86., 80., 48., 45.1, 42., 40., 30., 24., 22., 20., 17.5, 15., 12., 6., 3., 2.4,
            1.2, 0.24, 0.12,
        ],
        (false, 100..) => &[90., 80., 70., 60., 50., 45., 40., 30., 24., 20., 19., 18.],
        (false, 90..) => &[60., 50., 40., 30., 24., 20., 15., 12., 11., 6., 3.],
        (false, _) => &[40., 30., 20., 18., 15., 12., 10., 9., 7., 6., 5., 4., 3.],
        (true, 100..) => &[
            96., 90.2, 86., 80., 48., 45.1, 42., 40., 30., 24., 22., 20., 17.5, 15., 12., 6., 3.,
            2.4, 1.2, 0.24, 0.12,
        ],
        (true, 90..) => &[
            48., 45., 42., 40., 30., 24., 22., 20., 17.5, 15., 12., 6., 3., 2.4, 1.2, 0.24, 0.12,
        ],
        (true, _) => &[
            48., 30., 28., 24., 20., 18., 15., 12., 10., 9., 7., 6., 5., 4., 3., 2.4, 1.2, 0.24,
            0.12,
        ],
    }
}

/// Those of Rubin. Source: the constants of the binary of 2.32.3.
const fn rubin(inter: bool) -> &'static [f32] {
    match inter {
        false => &[280.8, 187.2, 140.4, 93.6, 70.2, 46.8, 35.1, 23.4, 17.55],
        true => &[
            280.8, 187.2, 140.4, 96., 93.6, 74.6, 70.2, 48., 46.8, 37.4, 36.1, 35.1, 32.8, 24.6,
            23.4, 19.7, 18.1, 17.55, 16.4, 14.4, 12.3, 9.9, 4.9, 2.5, 2., 1., 0.2, 0.1,
        ],
    }
}
