//! The chores that need crates of the workspace. They are compiled, optimized, when one of them is
//! wanted, so that the tests and the repository's rules do not wait for them.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use clap::Args;
use xtask::workspace::repository;

/// The arguments of a chore, which the whole program reads.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Rest {
    #[arg(num_args = 0.., trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    rest: Vec<OsString>,
}

macro_rules! chores {
    ($($chore:ident)*) => {$(
        pub(crate) mod $chore {
            pub(crate) use super::Rest as Arguments;
            pub(crate) use super::run;
        }
    )*};
}

chores! { bless dist fetch kernels measure peers probe_gpu probing replay scale timing compare_library }

pub(crate) mod torch {
    pub(crate) use super::{Rest, run};

    chores! { peers steps suite }
}

pub(crate) mod site {
    pub(crate) use super::run_alone as run;
}

pub(crate) mod web {
    pub(crate) use super::run_alone as run;
}

/// Becomes the whole program, with the arguments of this one.
pub(crate) fn run(_: &Rest) -> Result<ExitCode> {
    run_alone()
}

pub(crate) fn run_alone() -> Result<ExitCode> {
    // Not in the repository's folder: paths among the arguments are relative to this one.
    let mut whole = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    let manifest = repository().join("Cargo.toml");
    whole.args(["run", "--quiet", "--release", "--package", "xtask"]);
    whole
        .args(["--features", "whole", "--manifest-path"])
        .arg(manifest);
    whole.arg("--").args(std::env::args_os().skip(1));
    Err(whole.exec()).context("starting cargo")
}
