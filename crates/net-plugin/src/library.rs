//! Finding and opening the library.

use std::ffi::{CStr, c_void};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use crate::error::{Error, Place};
use crate::functions::{Functions, VERSIONS};

/// The library that NCCL loads by default.
pub const DEFAULT_LIBRARY: &str = "libnccl-net.so";

/// Most libraries of a list, as in NCCL (`NCCL_NET_MAX_PLUGINS`).
const MOST_LIBRARIES: usize = 16;

/// Which plug-in is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Wanted {
    /// None.
    Nothing,
    /// `libnccl-net.so`, if it can be found.
    #[default]
    Found,
    /// The first of these that works.
    Named(Vec<String>),
}

impl Wanted {
    /// What `NCCL_NET_PLUGIN` says: names, suffixes or paths, separated by commas, or `none`.
    ///
    /// # Errors
    /// There are too many, or one is meant for a plug-in that is part of a program.
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
                    "NCCL_NET_PLUGIN={text} asks for none and for others; expected one of both"
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

/// Files that a name may stand for, in the order in which they are tried.
fn candidates(name: &str) -> Vec<String> {
    let mut all = vec![name.to_owned()];
    if !name.contains('/') {
        all.push(format!("libnccl-net-{name}.so"));
    }
    all
}

fn open_file(file: &str) -> Result<Library, String> {
    // The loader would wait for ever for somebody to write to a FIFO. What is missing it says itself.
    if file.contains('/') && std::fs::metadata(file).is_ok_and(|found| !found.is_file()) {
        return Err(format!("{file} is no file"));
    }
    // SAFETY: what a library does when it is loaded is its own affair: whoever names it trusts it, as with NCCL.
    let library = unsafe { Library::open(Some(file), RTLD_NOW | RTLD_LOCAL) };
    library.map_err(|error| {
        // The loader's own words, without the name of the function that was called.
        let text = std::error::Error::source(&error).map_or(error.to_string(), ToString::to_string);
        text.trim().to_owned()
    })
}

/// The functions of the library that a name stands for.
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

/// The functions of [`DEFAULT_LIBRARY`]; none if there is no such file.
pub fn find() -> Result<Option<Functions>, Error> {
    match open_file(DEFAULT_LIBRARY) {
        Ok(library) => functions(library, DEFAULT_LIBRARY).map(Some),
        // The loader names the file that is missing: the library, or something that it needs.
        Err(why) if why.starts_with(DEFAULT_LIBRARY) && why.contains("No such file") => Ok(None),
        Err(why) => Err(Error::Open {
            wanted: DEFAULT_LIBRARY.to_owned(),
            why,
        }),
    }
}

fn symbol(library: &Library, version: u32) -> Option<*const c_void> {
    let name = format!("ncclNetPlugin_v{version}");
    // SAFETY: a symbol of that name is a table of that version, of which only the address is taken here.
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
    // A plug-in may have threads of its own and knows no end before v11, so it is never unloaded.
    std::mem::forget(library);
    let place = Place {
        library: path_of(table).unwrap_or_else(|| file.to_owned()),
        version,
    };
    // SAFETY: the symbol of that name is the version's table, and the library stays.
    unsafe { Functions::of(place, table) }
}

/// The file that an address is from.
fn path_of(address: *const c_void) -> Option<String> {
    // SAFETY: zeros are right for pointers; the function fills them in.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: the address is not read, and the result has its place.
    let found = unsafe { libc::dladdr(address, &mut info) };
    if found == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader's text ends, and stays while the library does.
    let text = unsafe { CStr::from_ptr(info.dli_fname) };
    Some(text.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wanted_is_read_as_nccl_does() {
        assert_eq!(Wanted::parse(""), Ok(Wanted::Found));
        assert_eq!(Wanted::parse("none"), Ok(Wanted::Nothing));
        let named = |names: &[&str]| {
            Ok(Wanted::Named(
                names.iter().map(|it| (*it).to_owned()).collect(),
            ))
        };
        assert_eq!(Wanted::parse("aws-ofi"), named(&["aws-ofi"]));
        assert_eq!(Wanted::parse("a, /b/c.so"), named(&["a", "/b/c.so"]));
        assert!(Wanted::parse("STATIC_PLUGIN").is_err());
        assert!(Wanted::parse("none,a").is_err());
        assert!(Wanted::parse(&["a"; 17].join(",")).is_err());
    }

    #[test]
    fn a_name_stands_for_a_file_or_its_suffix() {
        assert_eq!(candidates("/a/b.so"), ["/a/b.so"]);
        assert_eq!(candidates("aws-ofi"), ["aws-ofi", "libnccl-net-aws-ofi.so"]);
    }
}
