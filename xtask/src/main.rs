//! What a developer of the project runs: `cargo xtask …`.

mod replay;

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
}

fn main() -> ExitCode {
    let done = match Arguments::parse().chore {
        Chore::Replay(arguments) => replay::run(&arguments),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}
