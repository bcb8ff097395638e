//! topo
fn main() {}
