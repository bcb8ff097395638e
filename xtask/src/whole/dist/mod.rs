//! `cargo xtask dist`: everything that a release consists of, in `target/dist`. Nothing is
//! published.

mod archive;
mod bill;
mod build;
mod check;

use std::fs;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;

use build::Platform;
use xtask::workspace::{exit, repository, target};

/// Most bytes of the wheel.
const MOST_WHEEL_BYTES: u64 = 12_000_000;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Processor: x86_64 or aarch64
    #[arg(long, default_value = std::env::consts::ARCH)]
    arch: String,
    /// Build only the wheel, and the program in it
    #[arg(long = "wheel")]
    package: bool,
    /// Build for this machine's C library alone, without zig
    #[arg(long)]
    native: bool,
    /// For trials: build much sooner, nearly as fast and larger
    #[arg(long)]
    quick: bool,
}

/// Builds, puts together and checks.
///
/// # Errors
/// Something does not build, or a check fails.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let platform = Platform::new(&arguments.arch, arguments.native)?;
    let folder = target().join("dist");
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let tools = build::Tools::get(&folder)?;
    let built = build::build(&tools, &platform, arguments.quick, arguments.package)?;
    let package = build::package(&tools, &platform, &folder, &built)?;
    let mut made = vec![package.clone()];
    if !arguments.package {
        made.extend(archive::make(&folder, &platform, &built)?);
        made.push(bill::write(&folder, &platform)?);
        let container = folder.join("Containerfile");
        fs::copy(
            repository().join("xtask/packaging/Containerfile"),
            &container,
        )?;
        made.push(container);
    }
    let sums = archive::checksums(&folder, &made)?;
    for file in made.iter().chain([&sums]) {
        let bytes = fs::metadata(file)?.len();
        println!("{:>9.3} MB  {}", bytes as f64 / 1e6, file.display());
    }
    let mut problems = check::all(&tools, &platform, &built.program, &made)?;
    let bytes = fs::metadata(&package)?.len();
    if bytes > MOST_WHEEL_BYTES && !arguments.quick {
        problems.push(format!(
            "the wheel has {bytes} bytes; {MOST_WHEEL_BYTES} are allowed"
        ));
    }
    problems.iter().for_each(|it| println!("error: {it}"));
    Ok(exit(problems.is_empty()))
}
