//! The checks of the kernels' machine code: NVIDIA's disassembler, from a Python wheel, shows it.
//!
//! - A line of LL or LL128 is stored by 128-bit instructions, or its flag could be seen before its
//!   data. So every *strong* store, one that other GPUs may wait for, has 128 bits; others are
//!   counters, and have 64.
//! - A counter is stored directly after a fence of the whole system, or its receiver could see it
//!   before the data that it announces.
//! - Nothing is in local memory.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use backend_cuda::prebuilt::Target;

use crate::workspace::target;

/// The disassembler's package.
const PACKAGE: &str = "nvidia-cuda-nvdisasm";

/// Its version; the first in a wheel of its own. It reads all machine code from compute capability
/// 7.5 on.
const VERSION: &str = "13.2.51";

/// SHA-256 of the wheel for x86-64.
const WHEEL: &str = "5a7acf77c55d6d2911ed6155d4d5bc156ffadf9df7a68a89b0c1155f4b13688c";

/// Where the wheel has the program.
const PROGRAM: &str = "nvidia/cu13/bin/nvdisasm";

/// Offset of `e_flags` in a 64-bit ELF file, bytes. Two of its bytes are the compute capability.
const ELF_FLAGS: usize = 48;

/// Least stores of lines in a kernel: four lines of LL at once, one at the end of a message, one to
/// clear old flags; four lines of LL128 at once, or two of elements of a byte, one at the end. Of
/// the litmus kernels only one stores lines, four of each kind at once.
fn least_lines(kernel: &str) -> u32 {
    match kernel.strip_prefix("topo_litmus_") {
        Some("lines") => 8,
        Some(_) => 0,
        None if kernel.ends_with("i8") || kernel.ends_with("u8") => 9,
        None => 11,
    }
}

/// Counters that a kernel stores: the poster's, and a buffer table's launch. A litmus kernel has at
/// least one.
fn least_counters(kernel: &str) -> u32 {
    match kernel.starts_with("topo_litmus_") {
        true => 1,
        false => 2,
    }
}

/// Installs the disassembler from its Python wheel if it is missing. Returns its path.
///
/// # Errors
/// Python or the package is not available, or the wheel is another one.
pub fn install() -> Result<PathBuf> {
    let cache = target().join("nvdisasm");
    let folder = cache.join(VERSION);
    let program = folder.join(PROGRAM);
    if program.is_file() {
        return Ok(program);
    }
    let beside = cache.join(format!("{VERSION}.{}.new", std::process::id()));
    fs::create_dir_all(&beside).with_context(|| format!("creating {}", beside.display()))?;
    let wanted = beside.join("wanted.txt");
    fs::write(
        &wanted,
        format!("{PACKAGE}=={VERSION} --hash=sha256:{WHEEL}\n"),
    )
    .with_context(|| format!("writing {}", wanted.display()))?;
    eprintln!("installing {PACKAGE} {VERSION}");
    let status = Command::new("python3")
        .args(["-m", "pip", "install", "--quiet", "--no-deps"])
        .args(["--retries=1", "--only-binary=:all:"])
        .args(["--disable-pip-version-check", "--root-user-action=ignore"])
        .arg("--target")
        .arg(beside.join("package"))
        .arg("--requirement")
        .arg(&wanted)
        .status()
        .context("running python3 -m pip; the disassembler is installed from a Python wheel")?;
    if !status.success() {
        // What is left of a failure is of no use.
        let _ = fs::remove_dir_all(&beside);
        bail!("pip cannot install {PACKAGE} {VERSION}");
    }
    let unpacked = beside.join("package").join(PROGRAM);
    fs::set_permissions(&unpacked, fs::Permissions::from_mode(0o755))
        .with_context(|| format!("{PACKAGE} {VERSION} has no {PROGRAM}"))?;
    if fs::rename(beside.join("package"), &folder).is_err() {
        ensure!(program.is_file(), "cannot move to {}", folder.display());
    }
    let _ = fs::remove_dir_all(&beside);
    Ok(program)
}

/// The machine code of an image as text.
///
/// # Errors
/// The disassembler refuses the image.
pub fn disassemble(disassembler: &Path, target: &Target, image: &[u8]) -> Result<String> {
    let mut image = image.to_vec();
    if target.capability == 70
        && let Some(flags) = image.get_mut(ELF_FLAGS..ELF_FLAGS + 4)
    {
        // This version refuses Volta by its number; its instructions are encoded as Turing's.
        flags
            .iter_mut()
            .filter(|it| **it == 70)
            .for_each(|it| *it = 75);
    }
    let folder = crate::workspace::target().join("nvdisasm");
    let file = folder.join(format!("{}.{}", target.file(), std::process::id()));
    fs::write(&file, image).with_context(|| format!("writing {}", file.display()))?;
    let output = Command::new(disassembler)
        .arg("--print-code")
        .arg(&file)
        .output();
    fs::remove_file(&file).with_context(|| format!("removing {}", file.display()))?;
    let output = output.with_context(|| format!("running {}", disassembler.display()))?;
    ensure!(
        output.status.success(),
        "{}: {}",
        target.file(),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).context("the disassembler writes text")
}

/// A kernel's machine code.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Code {
    /// The kernel.
    pub kernel: String,
    /// All instructions.
    pub instructions: u32,
    /// Strong stores of 128 bits: lines, and data through a switch.
    pub lines: u32,
    /// Strong stores of 64 bits directly after a fence of the system.
    pub counters: u32,
    /// Other strong stores, of which there must be none.
    pub others: Vec<String>,
    /// Accesses to local memory.
    pub local: u32,
}

impl Code {
    /// Its line in a report.
    pub fn line(&self, target: &Target) -> String {
        format!(
            "sm_{:<4} {:14} {:>6} instructions {:>3} lines {:>2} counters {:>2} local",
            target.capability,
            self.kernel,
            self.instructions,
            self.lines,
            self.counters,
            self.local
        )
    }

    /// The faults of the code.
    pub fn problems(&self, target: &Target) -> Vec<String> {
        let name = format!("sm_{} {}", target.capability, self.kernel);
        let mut problems: Vec<String> = self
            .others
            .iter()
            .map(|store| {
                format!("{name}: `{store}` is neither 128 bits nor a counter after a fence")
            })
            .collect();
        let least = least_lines(&self.kernel);
        if self.lines < least {
            let lines = self.lines;
            problems.push(format!(
                "{name}: {lines} stores of lines; expected at least {least}"
            ));
        }
        let least = least_counters(&self.kernel);
        if self.counters < least {
            let counters = self.counters;
            problems.push(format!(
                "{name}: {counters} stores of counters; expected at least {least}"
            ));
        }
        if self.local > 0 {
            let local = self.local;
            problems.push(format!(
                "{name}: {local} accesses to local memory; expected none"
            ));
        }
        problems
    }
}

/// Reads the text of an image: its kernels, by name.
pub fn read(text: &str) -> Vec<Code> {
    let mut all: Vec<Code> = Vec::new();
    // Whether nothing was stored and no jump came in since the last fence of the system.
    let mut fenced = false;
    for line in text.lines() {
        let line = line.trim();
        if let Some(kernel) = line
            .strip_prefix(".text.")
            .and_then(|it| it.strip_suffix(':'))
        {
            all.push(Code {
                kernel: kernel.to_owned(),
                ..Code::default()
            });
            fenced = false;
            continue;
        }
        let Some(code) = all.last_mut() else {
            continue;
        };
        if line.ends_with(':') {
            fenced = false;
        }
        let Some(operation) = operation(line) else {
            continue;
        };
        code.instructions += 1;
        let mut words = operation.split('.');
        let name = words.next().unwrap_or_default();
        let parts: Vec<&str> = words.collect();
        match name {
            "MEMBAR" => fenced |= parts.contains(&"SYS"),
            "LDL" | "STL" => code.local += 1,
            "ST" | "STG" | "RED" | "REDG" | "ATOM" | "ATOMG" => {
                let strong = parts.contains(&"STRONG") || !name.starts_with("ST");
                if strong && parts.contains(&"128") {
                    code.lines += 1;
                } else if strong && parts.contains(&"64") && fenced {
                    code.counters += 1;
                } else if strong {
                    code.others.push(operation.to_owned());
                }
                fenced = false;
            }
            _ => {}
        }
    }
    all.sort_by(|one, other| one.kernel.cmp(&other.kernel));
    all
}

/// The operation of an instruction's line, without a predicate, such as `STG.E.64.STRONG.SYS`.
fn operation(line: &str) -> Option<&str> {
    let (_, rest) = line.strip_prefix("/*")?.split_once("*/")?;
    let mut words = rest.split_whitespace();
    let first = words.next()?;
    let operation = match first.starts_with('@') {
        true => words.next()?,
        false => first,
    };
    let operation = operation.trim_end_matches(';');
    operation
        .starts_with(|letter: char| letter.is_ascii_uppercase())
        .then_some(operation)
}

/// Reports the machine code of an image. Returns what is not as it must be.
///
/// # Errors
/// The disassembler refuses the image, or shows other kernels.
pub fn inspect(
    disassembler: &Path,
    target: &Target,
    image: &[u8],
    report: &mut String,
) -> Result<Vec<String>> {
    let codes = read(&disassemble(disassembler, target, image)?);
    let kernels = target.source.entries().len();
    ensure!(
        codes.len() == kernels,
        "{}: the disassembler shows {} kernels, expected {kernels}",
        target.file(),
        codes.len()
    );
    let mut problems = Vec::new();
    for code in codes {
        writeln!(report, "{}", code.line(target))?;
        problems.extend(code.problems(target));
    }
    Ok(problems)
}

#[cfg(test)]
mod tests {
    use backend_cuda::prebuilt::TARGETS;

    use super::*;

    const HEAD: &str = ".text.topo_run_f32:\n";

    fn of(text: &str) -> Code {
        read(&format!("{HEAD}{text}")).remove(0)
    }

    #[test]
    fn stores_are_told_apart() {
        let code = of("\
        /*0440*/               @P0 MEMBAR.ALL.SYS ;
        /*0450*/               @P0 ERRBAR;
        /*0460*/               @P0 STG.E.64.STRONG.SYS [R4], R2 ;
        /*0470*/                   STG.E.128.STRONG.SYS desc[UR6][R8.64+0x80], R32 ;
        /*0480*/                   ST.E.64 [R6.64+0x18], R20 ;
");
        let expected = Code {
            kernel: "topo_run_f32".to_owned(),
            instructions: 5,
            lines: 1,
            counters: 1,
            ..Code::default()
        };
        assert_eq!(code, expected);
        let problems = code.problems(&TARGETS[0]);
        assert_eq!(problems.len(), 2, "{problems:?}");
    }

    #[test]
    fn counters_without_a_fence_and_short_lines_are_found() {
        let others = |text: &str| of(text).others;
        let counter = "/*0010*/ STG.E.64.STRONG.SYS [R4], R2 ;";
        let fence = "/*0000*/ MEMBAR.SC.SYS ;";
        assert_eq!(others(counter), ["STG.E.64.STRONG.SYS"]);
        assert_eq!(others(&format!("{fence}\n{counter}")), [] as [&str; 0]);
        // A store or a jump comes between.
        let store = "/*0008*/ STG.E [R4], R2 ;";
        for between in [store, ".L_x_1:"] {
            let text = format!("{fence}\n{between}\n{counter}");
            assert_eq!(others(&text).len(), 1, "{between}");
        }
        // Of the GPU only.
        let narrow = "/*0000*/ MEMBAR.SC.GPU ;";
        assert_eq!(others(&format!("{narrow}\n{counter}")).len(), 1);
        assert_eq!(others("/*0000*/ STG.E.STRONG.SYS [R4], R2 ;").len(), 1);
    }

    #[test]
    fn local_memory_is_found() {
        let code = of("/*0000*/ STL.64 [R1+0x8], R2 ;\n/*0010*/ @!P0 LDL R4, [R1] ;");
        assert_eq!(code.local, 2);
        let problems = code.problems(&TARGETS[0]);
        assert!(problems.iter().any(|it| it.contains("local memory")));
    }
}
