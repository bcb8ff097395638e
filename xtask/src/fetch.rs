//! `cargo xtask fetch`: libraries of others with which tests run, into a cache in `target`.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};
use nccl_binary::package::{KNOWN, PACKAGE, fetch};

use xtask::workspace::nccl_libraries;

#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// NCCL's libraries of all versions that are tested, from PyPI by pip: NVIDIA's license
    Nccl {
        /// Only these versions
        versions: Vec<String>,
    },
}

/// Fetches what is not there yet.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let What::Nccl { versions } = &arguments.what;
    let cache = nccl_libraries();
    let all = KNOWN.iter().map(|(version, _)| (*version).to_owned());
    let versions = match versions.is_empty() {
        true => all.collect(),
        false => versions.clone(),
    };
    for version in versions {
        let library = fetch(&cache, &version)?;
        println!("{PACKAGE} {version}: {}", library.display());
    }
    Ok(ExitCode::SUCCESS)
}
