//! Compiles the kernels for the processor: unchanged, for memory that keeps no more order than a
//! GPU promises, and once per planted bug. Writes a table of the compiled kernels, `entries.rs`.

mod mutations;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use mutations::{Edit, MUTATIONS, Memory, Mutation};

/// The folder of the GPU's sources.
const KERNELS: &str = "../../kernels";

/// The host's side of `device.cuh`.
const HOST: &str = "host";

/// Entries of `execute_program.cu` without bugs on the processor's own memory.
const ALL: [&str; 11] = [
    "move", "i8", "u8", "i32", "u32", "i64", "u64", "f16", "bf16", "f32", "f64",
];

/// Entries without bugs on weak memory.
const WEAK: [&str; 3] = ["move", "u8", "i32"];

/// Litmus kernels, entries of `litmus.cu`, compiled only with checks.
const LITMUS: [&str; 5] = ["hold", "meet", "lines", "messages", "ticks"];

/// Entries that count their accesses.
const COUNTED: [&str; 3] = ["move", "u8", "f32"];

/// Entries with bugs.
const WITH_BUG: [&str; 2] = ["move", "i32"];

/// The bug that ThreadSanitizer finds. Other kernels with bugs are compiled without sanitizers.
const SANITIZED_BUG: &str = "WeakFence";

/// The sanitizer to compile with, by the features of this crate.
fn sanitizer() -> Option<&'static str> {
    let wanted = |name: &str| {
        let feature = name.to_uppercase();
        std::env::var_os(format!("CARGO_FEATURE_{feature}_SANITIZER")).is_some()
    };
    match (wanted("address"), wanted("thread")) {
        (true, true) => panic!("features address-sanitizer and thread-sanitizer: expected one"),
        (true, false) => Some("address"),
        (false, true) => Some("thread"),
        (false, false) => None,
    }
}

/// GCC's runtime of AddressSanitizer, to which tests are linked.
fn link_address_sanitizer() {
    let library = "libasan.so";
    let cc = cc::Build::new().get_compiler();
    let found = cc
        .to_command()
        .arg(format!("-print-file-name={library}"))
        .output();
    let found = found.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    match found {
        Ok(path) if std::path::Path::new(&path).is_absolute() => {
            println!("cargo:rustc-link-arg-tests={path}");
        }
        _ => panic!("the C compiler has no {library}; install GCC's sanitizers"),
    }
}

fn compiler() -> cc::Build {
    let mut build = cc::Build::new();
    build
        .cpp(true)
        .std("c++17")
        .opt_level(1)
        .include(KERNELS)
        // For `host/device_host.h`, which `device.cuh` includes.
        .include(".")
        .flag("-fno-strict-aliasing")
        .flag("-ffp-contract=off")
        .warnings(true)
        // A step has a source at least, which sets its sums; the compiler cannot know that.
        .flag_if_supported("-Wno-maybe-uninitialized");
    build
}

fn files(folder: &str) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("reading {folder}: {error}"));
    let paths = entries.map(|entry| entry.expect("a folder can be listed").path());
    paths.filter(|path| path.is_file())
}

/// Copies the sources with a bug into a folder. Fails if the text to replace is not there exactly
/// once.
fn plant(bug: &str, edits: &[Edit], to: &Path) {
    fs::create_dir_all(to.join(HOST)).expect("the build's folder can be written");
    for (folder, below) in [(KERNELS, ""), (HOST, HOST)] {
        for path in files(folder) {
            let name = path.file_name().expect("a file has a name");
            fs::copy(&path, to.join(below).join(name)).expect("sources can be copied");
        }
    }
    for (file, find, replace) in edits {
        let path = to.join(file);
        let text = fs::read_to_string(&path).expect("a mutation names a file of the kernels");
        let count = text.matches(find).count();
        assert!(
            count == 1,
            "mutations.rs: {bug}: {file} holds {find:?} {count} times, expected once"
        );
        fs::write(&path, text.replace(find, replace)).expect("sources can be written");
    }
}

/// The compiled kernels and their table.
#[derive(Default)]
struct Variants {
    /// Files to compile with the sanitizer, if there is one, and without.
    sanitized: Vec<PathBuf>,
    others: Vec<PathBuf>,
    /// Files to compile with calls before each access.
    checked: Vec<PathBuf>,
    functions: String,
    rows: String,
    checked_rows: String,
    counted_rows: String,
}

impl Variants {
    /// Adds a file that includes the kernels of a folder with these entries.
    fn add(&mut self, folder: &Path, bug: &str, memory: Memory, entries: &[&str]) {
        let weak = memory == Memory::Weak;
        let variant = format!("{memory:?}_{bug}").to_lowercase();
        let mut elements = String::new();
        for name in entries {
            let element = match *name {
                "move" => "Moved".to_owned(),
                name => name[..1].to_uppercase() + &name[1..],
            };
            let _ = write!(elements, " entry({name}, {element})");
            let function = format!("topo_run_{name}_{variant}");
            let _ = writeln!(self.functions, "fn {function}(launch: *const Launch);");
            let _ = match memory {
                Memory::Checked => {
                    writeln!(self.checked_rows, "(\"topo_run_{name}\", {function}),")
                }
                Memory::Counted => writeln!(self.counted_rows, "({name:?}, {function}),"),
                _ => writeln!(self.rows, "(Bug::{bug}, {weak}, {name:?}, {function}),"),
            };
        }
        let text = format!(
            "#define TOPO_NAMESPACE topo_{variant}\n#define TOPO_WEAK {}\n#define TOPO_COUNTED {}\n#define TOPO_NAME(name) topo_run_##name##_{variant}\n\
             #define TOPO_ELEMENTS(entry){elements}\n#include \"{}\"\n",
            u8::from(weak),
            u8::from(memory == Memory::Counted),
            folder.join("execute_program.cu").display(),
        );
        let path = output().join(format!("{variant}_{}.cpp", entries.join("_")));
        fs::write(&path, text).expect("the build's folder can be written");
        if memory == Memory::Checked {
            self.checked.push(path);
        } else if ["None", SANITIZED_BUG].contains(&bug) {
            self.sanitized.push(path);
        } else {
            self.others.push(path);
        }
    }

    /// Adds the litmus kernels, compiled with checks.
    fn add_litmus(&mut self, folder: &Path) {
        for name in LITMUS {
            let function = format!("topo_litmus_{name}_checked");
            let _ = writeln!(self.functions, "fn {function}(launch: *const Launch);");
            let _ = writeln!(self.checked_rows, "(\"topo_litmus_{name}\", {function}),");
        }
        let text = format!(
            "#define TOPO_NAMESPACE topo_litmus_checked\n#define TOPO_WEAK 0\n\
             #define TOPO_LITMUS(name) topo_litmus_##name##_checked\n#include \"{}\"\n",
            folder.join("litmus.cu").display(),
        );
        let path = output().join("litmus_checked.cpp");
        fs::write(&path, text).expect("the build's folder can be written");
        self.checked.push(path);
    }

    /// Writes the functions and the table for `src/native.rs`.
    fn write_table(&self) {
        let Self {
            functions,
            rows,
            checked_rows,
            counted_rows,
            ..
        } = self;
        let text = format!(
            "// SAFETY: build.rs compiles a function of this name and type for each.\n\
             unsafe extern \"C\" {{\n{functions}}}\n\
             /// What was compiled: the bug, whether memory is weak, the kernel's suffix, its
             /// function.\n\
             const ENTRIES: &[(Bug, bool, &str, Entry)] = &[\n{rows}];\n\
             /// What was compiled with checks: the kernel's entry, its function.\n\
             const CHECKED: &[(&str, Entry)] = &[\n{checked_rows}];\n\
             /// What was compiled to count: the kernel's suffix, its function.\n\
             const COUNTED: &[(&str, Entry)] = &[\n{counted_rows}];\n"
        );
        fs::write(output().join("entries.rs"), text).expect("the build's folder can be written");
    }
}

fn output() -> PathBuf {
    PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo names the folder"))
}

/// The kernels without bugs, and with each.
fn variants(with_checks: bool) -> Variants {
    let mut variants = Variants::default();
    let own = fs::canonicalize(KERNELS).expect("the kernels are in the repository");
    // One file per entry: together they take longest, and several compilers run at once.
    for entry in ALL {
        variants.add(&own, "None", Memory::Plain, &[entry]);
        if with_checks {
            variants.add(&own, "None", Memory::Checked, &[entry]);
        }
    }
    if with_checks {
        variants.add_litmus(&own);
    }
    variants.add(&own, "None", Memory::Weak, &WEAK);
    variants.add(&own, "None", Memory::Counted, &COUNTED);
    for Mutation { bug, memory, edits } in MUTATIONS {
        let folder = output().join(bug);
        plant(bug, edits, &folder);
        for memory in memory {
            variants.add(&folder, bug, *memory, &WITH_BUG);
        }
    }
    variants
}

fn main() {
    println!("cargo:rerun-if-changed={HOST}");
    // Not the folder, which has compiled kernels, too.
    for path in files(KERNELS) {
        println!("cargo:rerun-if-changed={}", path.display());
    }
    let sanitizer = sanitizer();
    if sanitizer == Some("address") {
        link_address_sanitizer();
    }
    // ThreadSanitizer's own functions take the place of the checks.
    let variants = variants(sanitizer != Some("thread"));
    variants.write_table();
    // The option only inserts calls, which `host/checked.cpp` answers.
    compiler()
        .files(&variants.checked)
        .flag("-fsanitize=thread")
        .compile("topo_kernels_with_checks");
    compiler()
        .files(&variants.others)
        .compile("topo_kernels_with_bugs");
    // Tests spend most of their time in it.
    let mut scheduler = compiler();
    scheduler.opt_level(2);
    scheduler.files(files(HOST).filter(|path| path.extension().is_some_and(|it| it == "cpp")));
    let mut kernels = compiler();
    kernels.files(&variants.sanitized);
    if let Some(sanitizer) = sanitizer {
        // The sources check these.
        let define = format!("TOPO_{}SAN", sanitizer[..1].to_uppercase());
        scheduler.define(&define, None);
        kernels
            .define(&define, None)
            .flag(format!("-fsanitize={sanitizer}"))
            .flag("-g")
            .flag("-fno-omit-frame-pointer");
    }
    kernels.compile("topo_kernels");
    scheduler.compile("topo_emulator");
}
