//! The tuner plug-in: it changes nothing, and keeps what NCCL tells it.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::message::{NvlinkDomains, TunerCall};

const SUCCESS: c_int = 0;

/// Most algorithms and protocols that a table may have.
const MOST: c_int = 64;

/// A context: an address that nobody reads.
const SOMETHING: *mut c_void = std::ptr::without_provenance_mut(16);

static KEPT: Mutex<Kept> = Mutex::new(Kept {
    domains: None,
    calls: BTreeMap::new(),
});

struct Kept {
    domains: Option<NvlinkDomains>,
    /// By collective and bytes: the first call.
    calls: BTreeMap<(i32, u64), TunerCall>,
}

fn kept() -> MutexGuard<'static, Kept> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What NCCL told the plug-in.
pub(crate) fn calls() -> (Option<NvlinkDomains>, Vec<TunerCall>) {
    let kept = kept();
    (kept.domains, kept.calls.values().cloned().collect())
}

unsafe extern "C" fn init_v4(
    _: usize,
    _: usize,
    _: *mut c_void,
    context: *mut *mut c_void,
) -> c_int {
    // SAFETY: NCCL gives an address for the context.
    unsafe { context.write(SOMETHING) };
    SUCCESS
}

unsafe extern "C" fn init_v5(
    context: *mut *mut c_void,
    _: u64,
    _: usize,
    _: usize,
    _: *mut c_void,
    domains: *const NvlinkDomains,
    _: *mut c_void,
) -> c_int {
    // SAFETY: NCCL gives an address for the context, and a structure or null.
    unsafe {
        context.write(SOMETHING);
        if let Some(domains) = domains.as_ref() {
            kept().domains.get_or_insert(*domains);
        }
    }
    SUCCESS
}

unsafe extern "C" fn information(
    _: *mut c_void,
    collective: c_int,
    bytes: usize,
    operations: c_int,
    table: *const f32,
    algorithms: c_int,
    protocols: c_int,
    _: c_int,
    _: *mut c_int,
) -> c_int {
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

extern "C" fn finish(_: *mut c_void) -> c_int {
    SUCCESS
}

/// `ncclTuner_v4_t` and `ncclTuner_v5_t`: a name and three functions.
#[repr(C)]
struct Table {
    name: *const c_char,
    init: *const c_void,
    information: *const c_void,
    finish: *const c_void,
}

// SAFETY: the tables are never changed; they hold constants.
unsafe impl Sync for Table {}

static V4: Table = Table {
    name: c"topo".as_ptr(),
    init: init_v4 as *const c_void,
    information: information as *const c_void,
    finish: finish as *const c_void,
};

static V5: Table = Table {
    name: c"topo".as_ptr(),
    init: init_v5 as *const c_void,
    information: information as *const c_void,
    finish: finish as *const c_void,
};

/// The table that a library of plug-ins exports under a name.
pub(super) fn table(name: &str) -> Option<usize> {
    Some(match name {
        "ncclTunerPlugin_v4" => (&raw const V4).addr(),
        "ncclTunerPlugin_v5" => (&raw const V5).addr(),
        _ => return None,
    })
}
