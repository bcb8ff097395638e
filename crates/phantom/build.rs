//! Exports every entry point of the list: those that no file of `src/calls` defines refuse and
//! report their name. Gives the library the name of NVIDIA's.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// Symbol and first version of the driver that has it, one per line.
const LIST: &str = "entry_points.txt";

/// The folder of the implemented functions.
const CALLS: &str = "src/calls";

/// The names behind `fn ` in a file.
fn defined(path: &Path, names: &mut BTreeSet<String>) {
    let text = fs::read_to_string(path).expect("a source file can be read");
    for rest in text.split("fn cu").skip(1) {
        let name: String = rest
            .chars()
            .take_while(|it| it.is_alphanumeric() || *it == '_')
            .collect();
        names.insert(format!("cu{name}"));
    }
}

fn main() {
    println!("cargo:rerun-if-changed={LIST}");
    println!("cargo:rerun-if-changed={CALLS}");
    let mut own = BTreeSet::new();
    for entry in fs::read_dir(CALLS).expect("the folder can be listed") {
        defined(&entry.expect("the folder can be listed").path(), &mut own);
    }
    let list = fs::read_to_string(LIST).expect("the list can be read");
    let (mut stubs, mut table) = (String::new(), String::new());
    for line in list.lines() {
        let (name, version) = line
            .split_once(' ')
            .expect("a line has a name and a version");
        let _ = writeln!(
            table,
            "EntryPoint {{ symbol: {name:?}, since: {version}, address: {name} as *const () }},"
        );
        if !own.remove(name) {
            let _ = writeln!(
                stubs,
                "/// Not implemented.\n#[unsafe(no_mangle)]\n\
                 extern \"C\" fn {name}() -> u32 {{ crate::call::missing({name:?}) }}"
            );
        }
    }
    assert!(own.is_empty(), "not in {LIST}: {own:?}");
    let text = format!(
        "{stubs}\n/// Every entry point.\nstatic ENTRY_POINTS: &[EntryPoint] = &[\n{table}];\n"
    );
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo names the folder"));
    fs::write(out.join("entry_points.rs"), text).expect("the build's folder can be written");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
    // It uses its own functions, also where a test takes one out of the table of names.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic");
    // Threads of streams run in it, so it stays loaded.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
