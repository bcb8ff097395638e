//! The place of the file, and reading it within limits.

use std::env;
use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::table::Table;
use crate::{LARGEST_FILE, TABLE_FILE, VARIABLE};

/// `O_NONBLOCK` of Linux: opening a FIFO does not wait for a writer.
const NO_WAIT: c_int = 0x800;

/// `Dl_info` of the C library.
#[repr(C)]
struct LibraryInfo {
    file: *const c_char,
    address: *mut c_void,
    symbol: *const c_char,
    symbol_address: *mut c_void,
}

unsafe extern "C" {
    fn dladdr(address: *const c_void, to: *mut LibraryInfo) -> c_int;
}

/// The folder of the library that holds `address`.
fn folder_of(address: *const c_void) -> Option<PathBuf> {
    let mut loaded = LibraryInfo {
        file: std::ptr::null(),
        address: std::ptr::null_mut(),
        symbol: std::ptr::null(),
        symbol_address: std::ptr::null_mut(),
    };
    // SAFETY: the result is written to a variable of the C library's type.
    if unsafe { dladdr(address, &mut loaded) } == 0 || loaded.file.is_null() {
        return None;
    }
    // SAFETY: the C library gives the name of a library that stays loaded.
    let file = unsafe { CStr::from_ptr(loaded.file) };
    let path = Path::new(OsStr::from_bytes(file.to_bytes()));
    path.parent().map(Path::to_path_buf)
}

/// The file's path: what the variable says, or beside the library that holds `address`.
pub(crate) fn path(address: *const c_void) -> Option<PathBuf> {
    match env::var_os(VARIABLE) {
        Some(path) if !path.is_empty() => Some(PathBuf::from(path)),
        _ => Some(folder_of(address)?.join(TABLE_FILE)),
    }
}

/// No choices can be read.
pub(crate) enum NoTable {
    /// There is no file.
    Absent(String),
    /// The file cannot be used.
    Unusable(String),
}

/// Reads a file.
pub(crate) fn read(path: &Path) -> Result<Table, NoTable> {
    let shown = path.display();
    let unusable = |why: &dyn std::fmt::Display| NoTable::Unusable(format!("{shown}: {why}"));
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(NO_WAIT)
        .open(path);
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(NoTable::Absent(format!(
                "there is no {shown}; {VARIABLE} names another file"
            )));
        }
        Err(error) => return Err(unusable(&error)),
    };
    let about = file.metadata().map_err(|error| unusable(&error))?;
    if !about.is_file() {
        return Err(unusable(&"expected a file"));
    }
    let mut bytes = Vec::new();
    let read = file.take(LARGEST_FILE + 1).read_to_end(&mut bytes);
    read.map_err(|error| unusable(&error))?;
    if bytes.len() as u64 > LARGEST_FILE {
        return Err(unusable(&format!("expected at most {LARGEST_FILE} bytes")));
    }
    let text = std::str::from_utf8(&bytes).map_err(|_| unusable(&"expected text"))?;
    Table::parse(text).map_err(|error| unusable(&error))
}
