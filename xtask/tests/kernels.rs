//! Compiles the kernels for every GPU with NVRTC and compares resources and images with the
//! committed ones; disassembles those; runs the kernels on the emulator with a sanitizer
//! (`cargo xtask deep`). A test that cannot run here says why.
//!
//! An image whose sources are recorded by `cargo xtask kernels` is compiled again only if
//! `TOPO_KERNELS` is set.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Mutex, OnceLock, PoisonError};

use backend_cuda::prebuilt::{Form, Source, TARGETS, Target};
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use xtask::kernels;
use xtask::sanitize::{self, Sanitizer};
use xtask::sass;

/// Set this to run ThreadSanitizer too, which compiles the standard library first.
const THREADS: &str = "TOPO_THREAD_SANITIZER";

/// The compute capability whose machine code every test run disassembles.
const OFTEN: u32 = 90;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let compiled = TARGETS.into_iter().map(|target| {
        let name = format!("compiled::{}", name(&target));
        Trial::ignorable_test(name, move || compiles(&target))
    });
    let machine_code = TARGETS.into_iter().filter(|it| it.form == Form::Cubin);
    let disassembled = machine_code.map(|target| {
        let is_deep = target.capability != OFTEN;
        let deep = if is_deep { "deep::" } else { "" };
        let name = format!("{deep}disassembled::{}", name(&target));
        Trial::ignorable_test(name, move || has_the_instructions(&target))
            .with_ignored_flag(is_deep)
    });
    let compiled = compiled.chain(disassembled);
    let watched = [
        ("deep::sanitizers::address", Sanitizer::Address),
        ("deep::sanitizers::thread", Sanitizer::Thread),
    ];
    let watched = watched.into_iter().map(|(name, sanitizer)| {
        Trial::ignorable_test(name, move || is_clean(sanitizer)).with_ignored_flag(true)
    });
    // The longest tests begin first.
    libtest_mimic::run(&arguments, watched.chain(compiled).collect()).exit_code()
}

/// A target's name.
fn name(target: &Target) -> String {
    let of = match target.source {
        Source::Programs => "",
        Source::Litmus => "litmus_",
    };
    let form = match target.form {
        Form::Cubin => "machine_code",
        Form::Ptx => "ptx",
    };
    format!("{of}{form}_{}", target.capability)
}

/// The compiler of a version, installed once, or why it cannot be installed.
fn compiler(version: &'static str) -> Result<PathBuf, String> {
    type Installed = Vec<(&'static str, Result<PathBuf, String>)>;
    static INSTALLED: OnceLock<Mutex<Installed>> = OnceLock::new();
    let installed = INSTALLED.get_or_init(Mutex::default);
    let mut installed = installed.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, known)) = installed.iter().find(|(known, _)| *known == version) {
        return known.clone();
    }
    let made = kernels::install(version).map_err(|error| format!("{error:#}"));
    installed.push((version, made.clone()));
    made
}

fn compiles(target: &Target) -> Result<Completion, Failed> {
    let known = kernels::is_verified(target).map_err(|error| format!("{error:#}"))?;
    if known && std::env::var_os("TOPO_KERNELS").is_none() {
        return Ok(Completion::Completed);
    }
    let compiler = match compiler(target.compiler) {
        Ok(compiler) => compiler,
        Err(why) => return Ok(Completion::ignored_with(format!("not run: {why}"))),
    };
    let problems = kernels::check(target, &compiler).map_err(|error| format!("{error:#}"))?;
    match problems.is_empty() {
        true => Ok(Completion::Completed),
        false => Err(problems.join("\n").into()),
    }
}

/// Compares the machine code of a committed image with what it must be.
fn has_the_instructions(target: &Target) -> Result<Completion, Failed> {
    static INSTALLED: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let installed = INSTALLED.get_or_init(|| sass::install().map_err(|error| format!("{error:#}")));
    let disassembler = match installed {
        Ok(disassembler) => disassembler,
        Err(why) => return Ok(Completion::ignored_with(format!("not run: {why}"))),
    };
    let problems = kernels::check_instructions(target, disassembler);
    let problems = problems.map_err(|error| format!("{error:#}"))?;
    match problems.is_empty() {
        true => Ok(Completion::Completed),
        false => Err(problems.join("\n").into()),
    }
}

fn is_clean(sanitizer: Sanitizer) -> Result<Completion, Failed> {
    if sanitizer == Sanitizer::Thread && std::env::var_os(THREADS).is_none() {
        let why = format!("not run: set {THREADS}, or `cargo xtask sanitize thread`");
        return Ok(Completion::ignored_with(why));
    }
    if let Some(why) = sanitize::lacking(sanitizer) {
        return Ok(Completion::ignored_with(format!("not run: {why}")));
    }
    for finding in sanitize::check(sanitizer).map_err(|error| format!("{error:#}"))? {
        if !finding.well {
            return Err(format!("{}: no\n{}", finding.what, finding.said).into());
        }
    }
    Ok(Completion::Completed)
}
