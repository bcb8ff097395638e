//! Compiles the logger that plug-ins are given: a C function of variable arguments, which stable Rust cannot define.

fn main() {
    println!("cargo:rerun-if-changed=src/log.c");
    cc::Build::new()
        .file("src/log.c")
        .warnings(true)
        .compile("topo_net_plugin_log");
}
