//! Compiles the logger for plug-ins: a variadic C function, which stable Rust cannot define.

fn main() {
    println!("cargo:rerun-if-changed=src/log.c");
    cc::Build::new()
        .file("src/log.c")
        .warnings(true)
        .compile("topo_net_plugin_log");
}
