//! `cargo xtask fetch`: libraries of others with which tests run, into a cache in `target`.

mod browser;
mod drivers;
mod python;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};
use nccl_binary::package::{KNOWN, PACKAGE, fetch};

use xtask::workspace::nccl_libraries;

#[derive(Args)]
pub(crate) struct Arguments {
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
    /// NVIDIA's driver libraries 535 and 550, from Debian's packages by apt-get: NVIDIA's license
    Drivers,
    /// A browser for the tests of the page: says which there is, or which packages bring one
    Browser,
    /// The client of the Model Context Protocol with Python, and mypy, in a virtual environment of
    /// 140 MB, from PyPI by pip
    Mcp,
    /// The inspector of that protocol, 150 MB, from npm; needs Node.js
    Inspector,
    /// axe-core, which judges the page, 3 MB, from npm; needs Node.js
    Axe,
    /// Parsers of what topo writes for others (JUnit, Prometheus, Kubernetes, shellcheck, pytest),
    /// in a virtual environment of 170 MB, from PyPI by pip
    Readers,
    /// PyTorch with Python, in a virtual environment of 5 GB, from PyPI by pip
    Torch {
        /// A version; none: the newest
        version: Option<String>,
    },
}

/// Fetches what is not there yet.
///
/// # Errors
/// The cache cannot be used, or pip or apt-get fails.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    match &arguments.what {
        What::Nccl { versions } => nccl(versions),
        What::Drivers => drivers::fetch(),
        What::Browser => browser::fetch(),
        What::Torch { version } => python::fetch(version.as_deref()),
        What::Mcp => python::fetch_packages("mcp", &["mcp>=2,<3", "mypy"]),
        What::Inspector => python::fetch_npm("inspector", "@modelcontextprotocol/inspector"),
        What::Axe => python::fetch_npm("axe", "axe-core"),
        What::Readers => python::fetch_packages("readers", &python::READERS),
    }
}

fn nccl(versions: &[String]) -> Result<ExitCode> {
    let cache = nccl_libraries();
    let all = KNOWN.iter().map(|(version, _)| (*version).to_owned());
    let versions = match versions.is_empty() {
        true => all.collect(),
        false => versions.to_vec(),
    };
    for version in versions {
        let library = fetch(&cache, &version)?;
        println!("{PACKAGE} {version}: {}", library.display());
    }
    Ok(ExitCode::SUCCESS)
}
