//! Plans a job of two hosts that both have the given topology.
//!
//! `cargo run -p toporing-planner --example plan -- FILE`

use planner::{Job, Settings};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = std::env::args().nth(1).ok_or("expected a topology file")?;
    let bytes = std::fs::read(&file)?;
    let document = topology::xml::parse(&file, &bytes)?;
    let planned = planner::plan(&Job::hosts(document, 2), &Settings::default())?;
    println!("{}", planned.plan().to_json()?);
    eprint!("{}", planned.explain());
    Ok(())
}
