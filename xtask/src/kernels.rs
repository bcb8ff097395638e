//! `cargo xtask kernels`: compiles the GPU kernels for all architectures with NVRTC from Python
//! wheels. Needs no GPU.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail, ensure};
use backend_cuda::compiler::{Compiler, OPTIONS};
use backend_cuda::prebuilt::{self, Form, Source, TARGETS, Target};
use clap::Args;
use sha2::{Digest, Sha256};

use crate::sass;
use crate::workspace::{exit, repository, target, write_beside};

/// Most registers of a thread: two blocks of 448 threads, or one (`kernels/device.cuh`), share the
/// 65536 registers of a multiprocessor.
const fn most_registers(capability: u32) -> u32 {
    match capability {
        86 | 89 | 120 => 144,
        _ => 72,
    }
}

/// The level of compression.
const LEVEL: i32 = 19;

/// Arguments of `cargo xtask kernels`.
#[derive(Args)]
pub struct Arguments {
    /// Write nothing, and fail if the committed images differ from what the sources give
    #[arg(long)]
    check: bool,
    /// Only these compute capabilities, such as 90,100
    #[arg(long, value_delimiter = ',')]
    only: Vec<u32>,
    /// Only the litmus kernels
    #[arg(long)]
    litmus: bool,
}

impl Arguments {
    /// Whether a target is asked for.
    fn wants(&self, target: &Target) -> bool {
        (self.only.is_empty() || self.only.contains(&target.capability))
            && (!self.litmus || target.source == Source::Litmus)
    }
}

/// The resources of one kernel.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Resources {
    registers: u32,
    stack_bytes: u32,
    spill_bytes: u32,
    shared_bytes: u32,
}

/// Compiles all targets.
///
/// # Errors
/// The compiler cannot be installed, or refuses the sources.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let kept = kept();
    let (mut report, mut verified) = (String::new(), String::new());
    let mut instructions = Instructions::default();
    let mut problems = Vec::new();
    let wanted = TARGETS.into_iter().filter(|target| arguments.wants(target));
    for (built, packed) in build_all(&wanted.collect::<Vec<_>>())? {
        let (target, same) = (built.target, built.is_kept());
        report.push_str(&built.report);
        problems.extend(built.beyond.iter().cloned());
        problems.extend(instructions.add(&target, &built.image)?);
        if !same && arguments.check {
            problems.push(format!(
                "{}: the sources give something else",
                target.file()
            ));
        }
        if !same && !arguments.check {
            write_beside(&kept.join(target.file()), &packed)?;
        }
        if built.beyond.is_empty() {
            verified.push_str(&verified_line(&target)?);
        }
    }
    print!("{report}{}", instructions.report);
    if let Some(why) = &instructions.not_run {
        println!("the machine code is not checked: not run: {why}");
    }
    if TARGETS.iter().all(|target| arguments.wants(target)) {
        let sources = format!("{}\n", prebuilt::fingerprint());
        let mut files = vec![
            (RESOURCES, report),
            (VERIFIED, verified),
            ("sources.sha256", sources),
        ];
        if instructions.not_run.is_none() {
            files.push((INSTRUCTIONS, instructions.report));
        }
        for (name, text) in files {
            let file = kept.join(name);
            let same = fs::read_to_string(&file).is_ok_and(|before| before == text);
            if !same && arguments.check {
                problems.push(format!("{name}: not what the sources give"));
            } else if !same {
                write_beside(&file, text.as_bytes())?;
            }
        }
    }
    for problem in &problems {
        println!("{problem}");
    }
    Ok(exit(problems.is_empty()))
}

/// The machine code of all targets, if the disassembler can be installed.
#[derive(Default)]
struct Instructions {
    report: String,
    /// Why nothing is checked.
    not_run: Option<String>,
}

impl Instructions {
    /// Adds an image. Returns what is not as it must be.
    fn add(&mut self, target: &Target, image: &[u8]) -> Result<Vec<String>> {
        if target.form == Form::Ptx || self.not_run.is_some() {
            return Ok(Vec::new());
        }
        match sass::install() {
            Ok(disassembler) => sass::inspect(&disassembler, target, image, &mut self.report),
            Err(error) => {
                self.not_run = Some(format!("{error:#}"));
                Ok(Vec::new())
            }
        }
    }
}

/// Disassembles the committed image of a target. Returns what is not as it must be, or as
/// committed.
///
/// # Errors
/// The image cannot be read or disassembled.
pub fn check_instructions(target: &Target, disassembler: &Path) -> Result<Vec<String>> {
    let name = target.file();
    let image = fs::read(kept().join(&name)).with_context(|| format!("reading {name}"))?;
    let image = prebuilt::unpack(&image).map_err(|why| anyhow!("{name}: {why}"))?;
    let mut report = String::new();
    let mut problems = sass::inspect(disassembler, target, &image, &mut report)?;
    let known = fs::read_to_string(kept().join(INSTRUCTIONS)).unwrap_or_default();
    let missing = report.lines().filter(|line| !known.contains(line));
    problems.extend(missing.map(|line| format!("{INSTRUCTIONS} lacks `{line}`")));
    Ok(problems)
}

/// The file with what the machine code of each kernel has.
const INSTRUCTIONS: &str = "instructions.txt";

/// The file with the resources of each kernel.
const RESOURCES: &str = "resources.txt";

/// The file that says which sources and compiler each image was made from, within the limit of
/// registers.
const VERIFIED: &str = "verified.sha256";

/// An image's line in that file: the SHA-256 of the sources, the compiler, its options and the
/// image, then the image's name.
fn verified_line(target: &Target) -> Result<String> {
    let name = target.file();
    let image = fs::read(kept().join(&name)).with_context(|| format!("reading {name}"))?;
    let mut digest = Sha256::new();
    for part in [
        target.source.text(),
        target.compiler.to_owned(),
        target.option(),
    ] {
        digest.update(part);
        digest.update([0]);
    }
    digest.update(OPTIONS.join(" "));
    digest.update(image);
    let digits = digest.finalize();
    let digits: String = digits.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("{digits}  {name}\n"))
}

/// Returns `true` if the image of a target was made from the present sources, without compiling
/// them.
///
/// # Errors
/// The image cannot be read.
pub fn is_verified(target: &Target) -> Result<bool> {
    let verified = fs::read_to_string(kept().join(VERIFIED)).unwrap_or_default();
    Ok(verified.contains(&verified_line(target)?))
}

/// The folder of committed images.
fn kept() -> PathBuf {
    repository().join("kernels/prebuilt")
}

/// A compiled target.
struct CompiledTarget {
    target: Target,
    image: Vec<u8>,
    /// The resources of each kernel, one line each; empty for PTX.
    report: String,
    /// Kernels that exceed a limit.
    beyond: Vec<String>,
}

impl CompiledTarget {
    /// Whether the committed image is the same.
    fn is_kept(&self) -> bool {
        fs::read(kept().join(self.target.file()))
            .ok()
            .and_then(|bytes| prebuilt::unpack(&bytes).ok())
            .is_some_and(|bytes| bytes == self.image)
    }
}

/// Compiles targets, one on each core, and compresses the images.
fn build_all(targets: &[Target]) -> Result<Vec<(CompiledTarget, Vec<u8>)>> {
    let mut compilers = BTreeMap::new();
    for target in targets {
        compilers.insert(target.compiler, install(target.compiler)?);
    }
    let one = |target: &Target| {
        let began = Instant::now();
        let built = build(target, &compilers[target.compiler])?;
        let packed = zstd::bulk::compress(&built.image, LEVEL).context("compressing")?;
        println!(
            "{:26} {:>9} bytes, {:>7} compressed, {:>5.1} s, {}",
            target.file(),
            built.image.len(),
            packed.len(),
            began.elapsed().as_secs_f64(),
            if built.is_kept() {
                "as kept"
            } else {
                "differs from what is kept"
            }
        );
        Ok((built, packed))
    };
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let next = AtomicUsize::new(0);
    let built: Mutex<Vec<_>> = Mutex::default();
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while let at = next.fetch_add(1, Ordering::Relaxed)
                    && let Some(target) = targets.get(at)
                {
                    let made = one(target);
                    built
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push((at, made));
                }
            });
        }
    });
    let mut built = built.into_inner().unwrap_or_else(PoisonError::into_inner);
    built.sort_by_key(|(at, _)| *at);
    built.into_iter().map(|(_, made)| made).collect()
}

fn build(target: &Target, compiler: &Path) -> Result<CompiledTarget> {
    let compiler = Compiler::open(Some(compiler)).map_err(|why| anyhow!(why))?;
    let mut options = vec![target.option()];
    options.extend(OPTIONS.map(str::to_owned));
    if target.form == Form::Cubin {
        options.extend(["-Xptxas".to_owned(), "-v".to_owned()]);
    }
    let compiled = compiler.compile(target.source.file(), &target.source.text(), &options);
    let compiled = compiled.map_err(|why| anyhow!("{}: {why}", target.file()))?;
    let (mut report, mut beyond) = (String::new(), Vec::new());
    if target.form == Form::Cubin {
        report_resources(target, &compiled.log, &mut report, &mut beyond)?;
    }
    Ok(CompiledTarget {
        target: *target,
        image: match target.form {
            Form::Cubin => compiled.cubin,
            Form::Ptx => compiled.ptx,
        },
        report,
        beyond,
    })
}

/// Compiles one target. Returns its problems: kernels that exceed a limit, or that differ from the
/// committed image.
///
/// # Errors
/// The compiler refuses the sources.
pub fn check(target: &Target, compiler: &Path) -> Result<Vec<String>> {
    let built = build(target, compiler)?;
    let mut problems = built.beyond.clone();
    if !built.is_kept() {
        problems.push(format!(
            "{}: the sources give something else; run `cargo xtask kernels`",
            target.file()
        ));
    }
    let known = fs::read_to_string(kept().join(RESOURCES)).unwrap_or_default();
    let missing = built.report.lines().filter(|line| !known.contains(line));
    problems.extend(missing.map(|line| format!("{RESOURCES} lacks `{line}`")));
    Ok(problems)
}

/// Installs a version of NVRTC from its Python wheel if it is missing. Returns the path of its
/// library.
///
/// # Errors
/// Python or the package is not available.
pub fn install(version: &str) -> Result<PathBuf> {
    let cache = target().join("nvrtc");
    let folder = cache.join(version);
    if let Some(library) = library(&folder) {
        return Ok(library);
    }
    let package = if version.starts_with("12.") {
        "nvidia-cuda-nvrtc-cu12"
    } else {
        "nvidia-cuda-nvrtc"
    };
    let beside = cache.join(format!("{version}.new"));
    eprintln!("installing {package} {version}");
    let status = Command::new("python3")
        .args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--retries=1",
        ])
        .args(["--disable-pip-version-check", "--root-user-action=ignore"])
        .args([format!("{package}=={version}").as_str(), "--target"])
        .arg(&beside)
        .status()
        .context("running python3 -m pip; the compiler is installed from a Python wheel")?;
    ensure!(status.success(), "pip cannot install {package} {version}");
    fs::rename(&beside, &folder).with_context(|| format!("moving to {}", folder.display()))?;
    library(&folder).with_context(|| format!("{package} {version} has no libnvrtc.so"))
}

/// The library in the folder of a wheel.
fn library(folder: &Path) -> Option<PathBuf> {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).ok()?.flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            if path.is_dir() {
                folders.push(path);
            } else if name.starts_with("libnvrtc.so.") {
                return Some(path);
            }
        }
    }
    None
}

/// Reports each kernel's resources from the assembler's output, and compares them with the limits.
fn report_resources(
    target: &Target,
    log: &str,
    report: &mut String,
    problems: &mut Vec<String>,
) -> Result<()> {
    let kernels = resources(log);
    let most = most_registers(target.capability);
    let expected = target.source.entries().len();
    if kernels.len() != expected {
        bail!(
            "{}: the assembler tells of {} kernels, expected {expected}:\n{log}",
            target.file(),
            kernels.len()
        );
    }
    for (name, needs) in kernels {
        writeln!(
            report,
            "sm_{:<4} {name:14} {:>3} registers {:>3} bytes of stack {:>3} spilled {:>5} shared",
            target.capability,
            needs.registers,
            needs.stack_bytes,
            needs.spill_bytes,
            needs.shared_bytes
        )?;
        if needs.spill_bytes > 0 || needs.registers > most {
            problems.push(format!(
                "sm_{} {name}: {} registers and {} spilled bytes; expected at most {most} and none",
                target.capability, needs.registers, needs.spill_bytes
            ));
        }
    }
    Ok(())
}

/// The number before these words.
fn number_before(line: &str, words: &str) -> u32 {
    let before = line.split(words).next().unwrap_or_default();
    if !line.contains(words) {
        return 0;
    }
    let mut numbers = before.split(|letter: char| !letter.is_ascii_digit());
    numbers
        .rfind(|part| !part.is_empty())
        .and_then(|part| part.parse().ok())
        .unwrap_or(0)
}

/// Reads the output of `ptxas -v`.
fn resources(log: &str) -> BTreeMap<String, Resources> {
    let mut all: BTreeMap<String, Resources> = BTreeMap::new();
    let mut current = String::new();
    for line in log.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            current = rest.split('\'').next().unwrap_or_default().to_owned();
            all.insert(current.clone(), Resources::default());
        }
        let Some(own) = all.get_mut(&current) else {
            continue;
        };
        if line.contains("bytes spill stores") {
            own.stack_bytes = number_before(line, " bytes stack frame");
            own.spill_bytes = number_before(line, " bytes spill stores")
                + number_before(line, " bytes spill loads");
        }
        if line.contains(" registers") && line.contains("Used ") {
            own.registers = number_before(line, " registers");
            own.shared_bytes = number_before(line, " bytes smem");
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_the_assembler() {
        let log = "\
ptxas info    : Compiling entry function 'topo_run_f32' for 'sm_90'
ptxas info    : Function properties for topo_run_f32
ptxas         .     8 bytes stack frame, 12 bytes spill stores, 4 bytes spill loads
ptxas info    : Used 70 registers, used 16 barriers, 8 bytes cumulative stack size, 992 bytes smem
";
        let needs = &resources(log)["topo_run_f32"];
        let expected = Resources {
            registers: 70,
            stack_bytes: 8,
            spill_bytes: 16,
            shared_bytes: 992,
        };
        assert_eq!(*needs, expected);
    }
}
