//! Finding and opening the library.

use std::ffi::{CStr, c_void};
use std::fmt;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use crate::error::{Error, Place};
use crate::functions::{Functions, VERSIONS};

/// The library that NCCL loads by default.
pub const DEFAULT_LIBRARY: &str = "libnccl-net.so";

/// Most libraries of a list, as in NCCL (`NCCL_NET_MAX_PLUGINS`).
const MOST_LIBRARIES: usize = 16;

/// The user's choice of a plug-in.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum PluginChoice {
    /// No plug-in.
    Nothing,
    /// `libnccl-net.so`, if it can be found.
    #[default]
    Found,
    /// The first library that works.
    Named(Vec<String>),
}

impl PluginChoice {
    /// The choice in `NCCL_NET_PLUGIN`: names, suffixes or paths, separated by commas, or `none`.
    ///
    /// # Errors
    /// There are too many names, or one means a plug-in that is linked into the program.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let names: Vec<String> = text
            .split(',')
            .map(|it| it.trim().to_owned())
            .filter(|it| !it.is_empty())
            .collect();
        if names.is_empty() {
            return Ok(Self::Found);
        }
        if names.iter().any(|it| it.eq_ignore_ascii_case("none")) {
            return if names.len() == 1 {
                Ok(Self::Nothing)
            } else {
                let what = format!(
                    "NCCL_NET_PLUGIN={text} contains none and other names; expected either"
                );
                Err(Error::Name(what))
            };
        }
        if names.iter().any(|it| it == "STATIC_PLUGIN") {
            return Err(Error::Name(
                "NCCL_NET_PLUGIN=STATIC_PLUGIN means a plug-in that is part of the program, and this one has none; expected a \
                 library"
                    .to_owned(),
            ));
        }
        if names.len() > MOST_LIBRARIES {
            let what = format!(
                "NCCL_NET_PLUGIN names {} libraries; expected {MOST_LIBRARIES} at most",
                names.len()
            );
            return Err(Error::Name(what));
        }
        Ok(Self::Named(names))
    }
}

impl fmt::Display for PluginChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("none"),
            Self::Found => f.write_str(DEFAULT_LIBRARY),
            Self::Named(names) => f.write_str(&names.join(", ")),
        }
    }
}

/// Files to try for a name, in order.
fn candidates(name: &str) -> Vec<String> {
    let mut all = vec![name.to_owned()];
    if !name.contains('/') {
        all.push(format!("libnccl-net-{name}.so"));
    }
    all
}

fn open_file(file: &str) -> Result<Library, String> {
    // Opening a FIFO would block. The loader reports a missing file itself.
    if file.contains('/') && std::fs::metadata(file).is_ok_and(|found| !found.is_file()) {
        return Err(format!("{file} is no file"));
    }
    // SAFETY: a library may do anything when it is loaded; the user who chose it trusts it, as with
    // NCCL.
    let library = unsafe { Library::open(Some(file), RTLD_NOW | RTLD_LOCAL) };
    library.map_err(|error| {
        // The loader's message without the name of the called function.
        let text = std::error::Error::source(&error).map_or(error.to_string(), ToString::to_string);
        text.trim().to_owned()
    })
}

/// The functions of the library with this name.
pub fn open(name: &str) -> Result<Functions, Error> {
    let mut why = Vec::new();
    for file in candidates(name) {
        match open_file(&file) {
            Ok(library) => return functions(library, &file),
            Err(error) => why.push(error),
        }
    }
    Err(Error::Open {
        wanted: name.to_owned(),
        why: why.join("; "),
    })
}

/// The functions of [`DEFAULT_LIBRARY`]; `None` if there is no such file.
pub fn find() -> Result<Option<Functions>, Error> {
    match open_file(DEFAULT_LIBRARY) {
        Ok(library) => functions(library, DEFAULT_LIBRARY).map(Some),
        // The loader's message begins with the missing file: the library, or something that it
        // needs.
        Err(why) if why.starts_with(DEFAULT_LIBRARY) && why.contains("No such file") => Ok(None),
        Err(why) => Err(Error::Open {
            wanted: DEFAULT_LIBRARY.to_owned(),
            why,
        }),
    }
}

fn symbol(library: &Library, version: u32) -> Option<*const c_void> {
    let name = format!("ncclNetPlugin_v{version}");
    // SAFETY: a symbol of that name is a table of that version; only its address is used here.
    let found = unsafe { library.get::<*const c_void>(name.as_bytes()) };
    let address = found.ok()?.as_raw_ptr();
    (!address.is_null()).then_some(address.cast_const())
}

fn functions(library: Library, file: &str) -> Result<Functions, Error> {
    let newest = VERSIONS
        .into_iter()
        .find_map(|version| Some((version, symbol(&library, version)?)));
    let Some((version, table)) = newest else {
        let older = (1..VERSIONS[VERSIONS.len() - 1]).rev();
        let older = older
            .into_iter()
            .find(|version| symbol(&library, *version).is_some());
        return Err(Error::NoTable {
            library: file.to_owned(),
            older,
        });
    };
    // A plug-in may have threads and has no function to end it before v11, so it is never unloaded.
    std::mem::forget(library);
    let place = Place {
        library: path_of(table).unwrap_or_else(|| file.to_owned()),
        version,
    };
    // SAFETY: the symbol of that name is the version's table, and the library stays.
    unsafe { Functions::of(place, table) }
}

/// The file that contains an address.
fn path_of(address: *const c_void) -> Option<String> {
    // SAFETY: the fields may be zero; the function fills them in.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: the address is not read, and the result has its place.
    let found = unsafe { libc::dladdr(address, &mut info) };
    if found == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader's string is terminated, and stays while the library does.
    let text = unsafe { CStr::from_ptr(info.dli_fname) };
    Some(text.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_is_read_as_in_nccl() {
        assert_eq!(PluginChoice::parse(""), Ok(PluginChoice::Found));
        assert_eq!(PluginChoice::parse("none"), Ok(PluginChoice::Nothing));
        let named = |names: &[&str]| {
            Ok(PluginChoice::Named(
                names.iter().map(|it| (*it).to_owned()).collect(),
            ))
        };
        assert_eq!(PluginChoice::parse("aws-ofi"), named(&["aws-ofi"]));
        assert_eq!(PluginChoice::parse("a, /b/c.so"), named(&["a", "/b/c.so"]));
        assert!(PluginChoice::parse("STATIC_PLUGIN").is_err());
        assert!(PluginChoice::parse("none,a").is_err());
        assert!(PluginChoice::parse(&["a"; 17].join(",")).is_err());
    }

    #[test]
    fn a_name_is_a_file_or_a_suffix() {
        assert_eq!(candidates("/a/b.so"), ["/a/b.so"]);
        assert_eq!(candidates("aws-ofi"), ["aws-ofi", "libnccl-net-aws-ofi.so"]);
    }
}
