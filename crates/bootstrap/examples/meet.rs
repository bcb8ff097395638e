//! Lets thousands of ranks meet in one process, and prints how long that takes and how much memory.
//!
//!     cargo run --release -p bootstrap --example meet -- 16384 16

use std::time::Instant;

use bootstrap::simulation::scale;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: u32| arguments.next().map_or(Ok(default), |it| it.parse());
    let (ranks, roots) = (number(16_384)?, number(1)?);
    let began = Instant::now();
    let scale = scale::run(ranks, roots, 1)?;
    let took = began.elapsed();
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    println!(
        "{ranks} ranks, {roots} roots: {:.2} s, {} at most",
        took.as_secs_f64(),
        peak.unwrap_or("unknown").trim(),
    );
    println!(
        "each rank sent {} to {} parts and {} to {} other messages; roots sent {} messages; {} connections; at most {} \
         messages on their way",
        scale.parts.0,
        scale.parts.1,
        scale.others.0,
        scale.others.1,
        scale.of_roots,
        scale.connections,
        scale.most_on_way
    );
    Ok(())
}
