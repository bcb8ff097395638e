//! Entry points by name: the list of all, with those that are not implemented.

use std::ffi::{c_char, c_void};

use cudarc::driver::sys::CUresult;

use crate::answer::{Answer, Section, ensure, refuse};
use crate::arguments::{Out, text};
use crate::call::entry_points;
use crate::start;

use super::context::*;
use super::copies::*;
use super::device::*;
use super::event::*;
use super::graph::*;
use super::host::*;
use super::ipc::*;
use super::launch::*;
use super::memory::*;
use super::module::*;
use super::multicast::*;
use super::pointer::*;
use super::sharing::*;
use super::stream::*;
use super::virtual_memory::*;

const SECTION: Section = Section::EntryPoint;

/// `CU_GET_PROC_ADDRESS_SUCCESS`, `_SYMBOL_NOT_FOUND` and `_VERSION_NOT_SUFFICIENT`.
const SUCCESS: u32 = 0;
const NOT_FOUND: u32 = 1;
const TOO_OLD: u32 = 2;

/// An entry point.
struct EntryPoint {
    /// Its symbol.
    symbol: &'static str,
    /// The first version of the driver that has it, as CUDA's number.
    since: u32,
    address: *const (),
}

// SAFETY: the address is of a function.
unsafe impl Sync for EntryPoint {}

include!(concat!(env!("OUT_DIR"), "/entry_points.rs"));

/// The name without `_v2` and the like.
fn base(symbol: &str) -> &str {
    let parts = symbol.rsplit_once("_v");
    parts
        .filter(|(_, it)| it.parse::<u32>().is_ok())
        .map_or(symbol, |(base, _)| base)
}

/// The newest symbol of a name in a version of CUDA, and of this driver.
fn find(name: &str, version: u32) -> Result<usize, u32> {
    let driver = start::machine().map_or(0, |it| it.setup.driver);
    let named = || ENTRY_POINTS.iter().filter(|it| base(it.symbol) == name);
    let found = named().filter(|it| it.since <= version.min(driver));
    match found.max_by_key(|it| it.since) {
        Some(found) => Ok(found.address.expose_provenance()),
        None if named().next().is_some() => Err(TOO_OLD),
        None => Err(NOT_FOUND),
    }
}

fn answer(
    name: *const c_char,
    address: Out<usize>,
    version: i32,
    status: Option<Out<u32>>,
) -> Answer {
    let name = text(name, SECTION)?;
    let found = find(&name, u32::try_from(version).unwrap_or_default());
    if let Some(status) = status {
        status.put_if_wanted(found.err().unwrap_or(SUCCESS));
    }
    address.put(found.unwrap_or(0), SECTION)?;
    let error = CUresult::CUDA_ERROR_NOT_FOUND;
    ensure(
        found.is_ok(),
        error,
        SECTION,
        &format!("there is no `{name}` in version {version}"),
    )
}

entry_points! {
    /// The address of a function in a version of CUDA.
    fn cuGetProcAddress(name: *const c_char, address: Out<usize>, version: i32, _flags: u64) {
        answer(name, address, version, None)
    }

    /// The address of a function in a version of CUDA, and why there is none.
    fn cuGetProcAddress_v2(
        name: *const c_char,
        address: Out<usize>,
        version: i32,
        _flags: u64,
        status: Out<u32>,
    ) {
        answer(name, address, version, Some(status))
    }

    /// Tables without documentation; there are none.
    fn cuGetExportTable(table: Out<*const c_void>, _id: *const c_void) {
        table.put_if_wanted(std::ptr::null());
        refuse(CUresult::CUDA_ERROR_NOT_FOUND, SECTION, "only documented interfaces are presented")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_without_versions() {
        assert_eq!(base("cuMemAlloc_v2"), "cuMemAlloc");
        assert_eq!(base("cuMemAlloc"), "cuMemAlloc");
        assert_eq!(base("cuMemcpy2D_v2_ptds"), "cuMemcpy2D_v2_ptds");
        assert_eq!(find("cuNothing", 13_000), Err(NOT_FOUND));
        // Without a machine file, the driver is of no version.
        assert_eq!(find("cuMemAlloc", 13_000), Err(TOO_OLD));
        assert!(ENTRY_POINTS.len() > 600);
    }
}
