//! The tuner plug-in: it changes nothing, and keeps what NCCL tells it.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nccl_log::compare::answer::NvlinkDomains;
use tuner_plugin::abi::{self, Code, Context, Logger, SUCCESS, TunerV4, TunerV5};

use crate::message::TunerCall;

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

unsafe extern "C" fn init_v4(_: usize, _: usize, _: Option<Logger>, context: *mut Context) -> Code {
    // SAFETY: NCCL gives an address for the context.
    unsafe { context.write(SOMETHING) };
    SUCCESS
}

unsafe extern "C" fn init_v5(
    context: *mut Context,
    _: u64,
    _: usize,
    _: usize,
    _: Option<Logger>,
    domains: *const abi::NvlinkDomains,
    _: *mut c_void,
) -> Code {
    // SAFETY: NCCL gives an address for the context, and a structure or null.
    unsafe {
        context.write(SOMETHING);
        if let Some(domains) = domains.as_ref() {
            kept().domains.get_or_insert(NvlinkDomains {
                count: domains.count,
                least_ranks: domains.least_ranks,
                most_ranks: domains.most_ranks,
            });
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
    init: init_v5,
    information,
    finish,
};

/// The table that a library of plug-ins exports under a name.
pub(super) fn table(name: &str) -> Option<usize> {
    Some(match name {
        "ncclTunerPlugin_v4" => (&raw const V4).addr(),
        "ncclTunerPlugin_v5" => (&raw const V5).addr(),
        _ => return None,
    })
}
