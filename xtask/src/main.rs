//! What a developer of the project runs: `cargo xtask …`.

mod replay;
mod scale;
mod timing;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Chores of the project")]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Plan every golden case of a folder again and compare with what NCCL decided
    Replay(replay::Arguments),
    /// Time and measure joining many equal hosts
    Scale(scale::Arguments),
    /// Time planning beside what NCCL's own code took
    Timing(timing::Arguments),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().chore {
        Chore::Replay(arguments) => replay::run(&arguments),
        Chore::Scale(arguments) => scale::run(&arguments),
        Chore::Timing(arguments) => timing::run(&arguments),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}
