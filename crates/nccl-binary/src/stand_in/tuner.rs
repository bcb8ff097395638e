//! The tuner plug-in: it changes nothing, and keeps what NCCL tells it.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use records::nccl_log::compare::answer::NvlinkDomains;
use tuner_plugin::abi::{self, Code, Constants, Context, Logger, SUCCESS};
use tuner_plugin::abi::{TunerV4, TunerV5, TunerV7};

use crate::message::{Report, TunerCall};

/// Most algorithms and protocols that a table may have.
const MOST: c_int = 64;

/// A context: an address that nobody reads.
const SOMETHING: *mut c_void = std::ptr::without_provenance_mut(16);

static KEPT: Mutex<Kept> = Mutex::new(Kept {
    domains: None,
    constants: Vec::new(),
    calls: BTreeMap::new(),
});

struct Kept {
    domains: Option<NvlinkDomains>,
    constants: Vec<f64>,
    /// By collective and bytes: the first call.
    calls: BTreeMap<(i32, u64), TunerCall>,
}

fn kept() -> MutexGuard<'static, Kept> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes what NCCL told the plug-in.
pub(crate) fn report_to(report: &mut Report) {
    let kept = kept();
    report.nvlink_domains = kept.domains;
    report.tuner_constants.clone_from(&kept.constants);
    report.tuner_calls = kept.calls.values().cloned().collect();
}

/// The constants of a version, in order; none if they are not given, or not all are numbers.
///
/// # Safety
/// The address is null, or that of as many rows as the version has.
unsafe fn numbers<const ROWS: usize>(constants: *const c_void) -> Vec<f64> {
    if constants.is_null() {
        return Vec::new();
    }
    let count = Constants::<ROWS>::NUMBERS;
    // SAFETY: the caller says so, and the structure is made of such numbers alone.
    let all = unsafe { std::slice::from_raw_parts(constants.cast::<f64>(), count) };
    match all.iter().all(|it| it.is_finite()) {
        true => all.to_vec(),
        false => Vec::new(),
    }
}

unsafe extern "C" fn init_v4(_: usize, _: usize, _: Option<Logger>, context: *mut Context) -> Code {
    // SAFETY: NCCL gives an address for the context.
    unsafe { context.write(SOMETHING) };
    SUCCESS
}

/// From version 5 on, by the rows of the constants.
unsafe extern "C" fn init_v5<const ROWS: usize>(
    context: *mut Context,
    _: u64,
    _: usize,
    _: usize,
    _: Option<Logger>,
    domains: *const abi::NvlinkDomains,
    constants: *mut c_void,
) -> Code {
    // SAFETY: NCCL gives an address for the context, and structures of the version or null.
    unsafe {
        context.write(SOMETHING);
        if let Some(domains) = domains.as_ref() {
            kept().domains.get_or_insert(NvlinkDomains {
                count: domains.count,
                least_ranks: domains.least_ranks,
                most_ranks: domains.most_ranks,
            });
        }
        let mut kept = kept();
        if kept.constants.is_empty() {
            kept.constants = numbers::<ROWS>(constants);
        }
    }
    SUCCESS
}

unsafe extern "C" fn information(
    _: Context,
    collective: c_int,
    bytes: usize,
    operations: c_int,
    table: *mut f32,
    algorithms: c_int,
    protocols: c_int,
    _: c_int,
    _: *mut c_int,
) -> Code {
    // From 2.31 on NCCL first asks about kernels of its symmetric memory, of which the table says
    // nothing.
    if operations < 1 {
        return SUCCESS;
    }
    if table.is_null() || !(1..=MOST).contains(&algorithms) || !(1..=MOST).contains(&protocols) {
        return SUCCESS;
    }
    // SAFETY: NCCL gives a table with a row for each algorithm, one behind the other.
    let times = unsafe { std::slice::from_raw_parts(table, (algorithms * protocols) as usize) };
    let call = TunerCall {
        collective,
        bytes: bytes as u64,
        operations,
        protocols: protocols as usize,
        times: times.to_vec(),
    };
    let mut kept = kept();
    kept.calls.entry((collective, bytes as u64)).or_insert(call);
    SUCCESS
}

unsafe extern "C" fn finish(_: Context) -> Code {
    SUCCESS
}

static V4: TunerV4 = TunerV4 {
    name: c"topo".as_ptr(),
    init: init_v4,
    information,
    finish,
};

static V5: TunerV5 = TunerV5 {
    name: c"topo".as_ptr(),
    init: init_v5::<4>,
    information,
    finish,
};

static V7: TunerV7 = TunerV7 {
    name: c"topo".as_ptr(),
    init: init_v5::<5>,
    information,
    finish,
    chunk_size: None,
};

/// The table that a library of plug-ins exports under a name.
pub(super) fn table(name: &str) -> Option<usize> {
    Some(match name {
        "ncclTunerPlugin_v4" => (&raw const V4).addr(),
        "ncclTunerPlugin_v5" => (&raw const V5).addr(),
        "ncclTunerPlugin_v7" => (&raw const V7).addr(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use tuner_plugin::abi::{ConstantsV5, ConstantsV7};

    use super::*;

    /// Memory that ends where the constants end, so that a sanitizer sees a longer read.
    fn values(count: usize) -> Box<[f64]> {
        (0..count).map(|it| it as f64).collect()
    }

    #[test]
    fn constants_have_the_rows_of_their_version() {
        for version in ["v4", "v5", "v7"] {
            assert!(table(&format!("ncclTunerPlugin_{version}")).is_some());
        }
        let (v5, v7) = (values(ConstantsV5::NUMBERS), values(ConstantsV7::NUMBERS));
        assert_eq!((v5.len(), v7.len()), (144, 159));
        // SAFETY: as many numbers as the version has, or null.
        unsafe {
            assert_eq!(numbers::<4>(v5.as_ptr().cast()), v5.to_vec());
            assert_eq!(numbers::<5>(v7.as_ptr().cast()), v7.to_vec());
            assert!(numbers::<5>(std::ptr::null()).is_empty());
        }
        let mut broken = values(ConstantsV7::NUMBERS);
        broken[158] = f64::NAN;
        // SAFETY: as above.
        assert!(unsafe { numbers::<5>(broken.as_ptr().cast()) }.is_empty());
    }

    #[test]
    fn version_7_keeps_its_constants() {
        let mut given = values(ConstantsV7::NUMBERS);
        let mut context = std::ptr::null_mut();
        let to = given.as_mut_ptr().cast();
        // SAFETY: the constants of the version, and no domains.
        let code = unsafe { (V7.init)(&mut context, 7, 8, 1, None, std::ptr::null(), to) };
        let mut report = Report::default();
        report_to(&mut report);
        assert_eq!((code, context), (SUCCESS, SOMETHING));
        assert_eq!(
            report.tuner_constants,
            values(ConstantsV7::NUMBERS).to_vec()
        );
        assert_eq!(given, values(ConstantsV7::NUMBERS));
    }
}
