//! Compiles the kernels for the processor: as they are, and once more for each bug that is planted into them.

/// Planted bugs; the list with what they are is `src/lib.rs`.
const BUGS: u32 = 10;

/// Sanitizer to compile with: `address` or `thread`.
const SANITIZER: &str = "TOPO_SANITIZER";

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
    println!("cargo:rerun-if-env-changed={SANITIZER}");
    let sanitizer = std::env::var(SANITIZER).ok();
    let mut scheduler = compiler();
    if let Some(sanitizer) = &sanitizer {
        let name = format!("TOPO_{}SAN", sanitizer[..1].to_uppercase());
        scheduler.define(&name, None);
    }
    scheduler
        .file("../../kernels/host/emulator.cpp")
        .file("../../kernels/host/layout.cpp")
        .compile("topo_emulator");
    for bug in 0..=BUGS {
        let mut build = compiler();
        build
            .file("../../kernels/execute_program.cu")
            // The name says CUDA, but this is for the host's compiler.
            .flag("-xc++")
            .define("TOPO_NAMESPACE", &*format!("topo_bug_{bug}"))
            .define("TOPO_BUG", &*bug.to_string())
            .define("TOPO_NAME(name)", &*format!("topo_run_##name##_bug_{bug}"));
        if bug > 0 {
            build.define("TOPO_ELEMENTS(entry)", "entry(move, Moved) entry(i32, I32)");
        }
        if let Some(sanitizer) = &sanitizer {
            build
                .flag(format!("-fsanitize={sanitizer}"))
                .flag("-g")
                .flag("-fno-omit-frame-pointer");
        }
        build
            .cargo_metadata(true)
            .compile(&format!("topo_kernels_bug_{bug}"));
    }
}
