//! Compiles the kernels for the processor: as they are, once more for each bug that is planted into them, and once more for
//! memory that keeps no more order than a GPU promises.

/// Planted bugs; the list with what they are is `src/lib.rs`. 0 is none.
const BUGS: [u32; 12] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 15];

/// Those that are watched by a sanitizer: none, and the fence that ThreadSanitizer finds.
const SANITIZED: [u32; 2] = [0, 10];

/// Bugs that are planted into kernels on weak memory.
const WEAK_BUGS: [u32; 6] = [0, 10, 11, 12, 13, 14];

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
        .include("../../kernels")
        .flag("-fno-strict-aliasing")
        .flag("-ffp-contract=off")
        .warnings(true);
    build
}

fn main() {
    println!("cargo:rerun-if-changed=../../kernels");
    let sanitizer = sanitizer();
    if sanitizer == Some("address") {
        link_address_sanitizer();
    }
    let mut scheduler = compiler();
    // What the sources ask for.
    let sanitized = sanitizer
        .as_ref()
        .map(|name| format!("TOPO_{}SAN", name[..1].to_uppercase()));
    if let Some(sanitized) = &sanitized {
        scheduler.define(sanitized, None);
    }
    scheduler
        .file("../../kernels/host/emulator.cpp")
        .file("../../kernels/host/layout.cpp")
        .file("../../kernels/host/multicast.cpp")
        .file("../../kernels/host/weak_memory.cpp")
        .compile("topo_emulator");
    let plain = BUGS.map(|bug| (bug, false));
    let weak = WEAK_BUGS.map(|bug| (bug, true));
    for (bug, weak) in plain.into_iter().chain(weak) {
        let name = format!("{}_{bug}", if weak { "weak" } else { "bug" });
        let mut build = compiler();
        build
            .file("../../kernels/execute_program.cu")
            // The name says CUDA, but this is for the host's compiler.
            .flag("-xc++")
            .define("TOPO_NAMESPACE", &*format!("topo_{name}"))
            .define("TOPO_BUG", &*bug.to_string())
            .define("TOPO_WEAK", if weak { "1" } else { "0" })
            .define("TOPO_NAME(name)", &*format!("topo_run_##name##_{name}"));
        let elements = match (bug, weak) {
            (0, false) => None,
            (0, true) => Some("entry(move, Moved) entry(u8, U8) entry(i32, I32)"),
            _ => Some("entry(move, Moved) entry(i32, I32)"),
        };
        if let Some(elements) = elements {
            build.define("TOPO_ELEMENTS(entry)", elements);
        }
        // Other bugs than these are found without one.
        if let Some(sanitizer) = sanitizer
            && SANITIZED.contains(&bug)
        {
            build
                .define(sanitized.as_deref().unwrap_or("TOPO_SANITIZED"), None)
                .flag(format!("-fsanitize={sanitizer}"))
                .flag("-g")
                .flag("-fno-omit-frame-pointer");
        }
        build
            .cargo_metadata(true)
            .compile(&format!("topo_kernels_{name}"));
    }
}
