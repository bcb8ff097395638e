//! The program, the libraries and the wheel, for an old C library by zig's compiler.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use xtask::workspace::{cargo, repository, target};

/// The version of glibc that the programs need: that of manylinux_2_28.
const GLIBC: &str = "2.28";

/// The packages that build, by pip.
const PACKAGES: [&str; 5] = [
    "maturin==1.16.*",
    "ziglang==0.17.*",
    "cargo-zigbuild==0.24.*",
    "auditwheel==6.*",
    "wheel==0.*",
];

/// Shells, and where each looks for completions.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/topo"),
    ("zsh", "share/zsh/site-functions/_topo"),
    ("fish", "share/fish/vendor_completions.d/topo.fish"),
];

/// For what is built.
pub(super) struct Platform {
    /// The processor.
    pub arch: String,
    /// Rust's name of it.
    pub triple: String,
    /// Whether it is built for the C library of this machine.
    pub is_native: bool,
}

impl Platform {
    /// A platform that is known.
    pub(super) fn new(arch: &str, is_native: bool) -> Result<Self> {
        ensure!(
            ["x86_64", "aarch64"].contains(&arch),
            "{arch} is no processor that is built for; expected x86_64 or aarch64"
        );
        ensure!(
            !is_native || arch == std::env::consts::ARCH,
            "--native builds for this machine, which is {}",
            std::env::consts::ARCH
        );
        let triple = format!("{arch}-unknown-linux-gnu");
        expect_target(&triple)?;
        Ok(Self {
            arch: arch.to_owned(),
            triple,
            is_native,
        })
    }

    /// Whether its programs run here without an emulator.
    pub(super) fn is_here(&self) -> bool {
        self.arch == std::env::consts::ARCH
    }

    /// A program of this platform as a command: itself, or in an emulator of its processor.
    /// `None`: it does not run here, which is printed.
    pub(super) fn command(&self, program: &Path) -> Option<Command> {
        if self.is_here() {
            return Some(Command::new(program));
        }
        let emulator = format!("qemu-{}", self.arch);
        if Command::new(&emulator).arg("--version").output().is_err() {
            println!("not run: {}: there is no {emulator}", program.display());
            return None;
        }
        let mut command = Command::new(emulator);
        // Where Debian installs the C library of another processor.
        let libraries = format!("/usr/{}-linux-gnu", self.arch);
        command.arg("-L").arg(libraries).arg(program);
        Some(command)
    }
}

/// An error if the compiler cannot build for a target.
fn expect_target(triple: &str) -> Result<()> {
    let listed = Command::new("rustup")
        .args(["target", "list", "--installed"])
        .output();
    if listed.is_ok_and(|it| !String::from_utf8_lossy(&it.stdout).contains(triple)) {
        bail!("the compiler has no target {triple}; install it with: rustup target add {triple}");
    }
    Ok(())
}

/// The results of a build.
pub(super) struct BuildResults {
    /// The program.
    pub program: PathBuf,
    /// The program that needs no library of the system, if it was wanted.
    pub standalone: Option<PathBuf>,
    /// The module of the Python package.
    module: PathBuf,
    /// The C library as a shared object.
    pub shared: PathBuf,
    /// The C library as an archive.
    pub archived: PathBuf,
}

/// A virtual environment of Python with the tools.
pub(super) struct Tools(PathBuf);

impl Tools {
    /// Makes it once.
    pub(super) fn get(folder: &Path) -> Result<Self> {
        let place = folder.join("tools");
        if !place.join("bin/maturin").exists() {
            run(Command::new("python3").args(["-m", "venv"]).arg(&place))?;
            let mut pip = Command::new(place.join("bin/pip"));
            run(pip.args(["install", "--quiet"]).args(PACKAGES))?;
        }
        Ok(Self(place))
    }

    /// A tool; it finds the others.
    pub(super) fn command(&self, name: &str) -> Command {
        let mut command = Command::new(self.0.join("bin").join(name));
        self.set_path(&mut command);
        command
    }

    fn set_path(&self, command: &mut Command) {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut paths = vec![self.0.join("bin")];
        paths.extend(std::env::split_paths(&path));
        if let Ok(joined) = std::env::join_paths(paths) {
            command.env("PATH", joined);
        }
        command.current_dir(repository());
    }

    /// Cargo for a target.
    fn cargo(&self, with: &str, target: &str, profile: &str) -> Command {
        let mut command = cargo();
        self.set_path(&mut command);
        command.args([with, "--target", target]);
        command.args(["--locked", "--quiet", "--profile", profile]);
        let set = |key: &str| format!("CARGO_PROFILE_{}_{key}", profile.to_uppercase());
        command.env(set("STRIP"), "symbols");
        command.env(set("INCREMENTAL"), "false");
        // Python loads the module, and a panic becomes an exception there.
        command.env(set("PANIC"), "unwind");
        command
    }
}

/// Runs a command that must succeed.
pub(super) fn run(command: &mut Command) -> Result<()> {
    let status = command.status();
    let status = status.with_context(|| format!("cannot start {:?}", command.get_program()))?;
    ensure!(status.success(), "{command:?} failed: {status}");
    Ok(())
}

/// Builds optimized, or quickly for trials. One call of Cargo builds all that uses the system's C
/// library, so that nothing is compiled twice. Of a wheel alone there is neither the C library nor
/// the static program.
pub(super) fn build(
    tools: &Tools,
    platform: &Platform,
    is_quick: bool,
    only_package: bool,
) -> Result<BuildResults> {
    let profile = if is_quick { "release" } else { "library" };
    let old = format!("{}.{GLIBC}", platform.triple);
    let mut command = match platform.is_native {
        true => tools.cargo("build", &platform.triple, profile),
        false => tools.cargo("zigbuild", &old, profile),
    };
    command.args(["-p", "topo", "-p", "python"]);
    if !only_package {
        command.args(["-p", "capi"]);
    }
    run(&mut command)?;
    let mut standalone = None;
    if platform.is_native {
        println!("not made: the static program, which zig links");
    } else if !only_package {
        let triple = format!("{}-unknown-linux-musl", platform.arch);
        expect_target(&triple)?;
        run(tools
            .cargo("zigbuild", &triple, profile)
            .args(["-p", "topo"]))?;
        standalone = Some(target().join(triple).join(profile).join("topo"));
    }
    let folder = target().join(&platform.triple).join(profile);
    Ok(BuildResults {
        program: folder.join("topo"),
        standalone,
        module: folder.join("lib_native.so"),
        shared: folder.join("libtopo_c.so"),
        archived: folder.join("libtopo_c.a"),
    })
}

/// Completions and manual pages, which the program itself writes.
pub(super) fn pages(platform: &Platform, built: &BuildResults, prefix: &Path) -> Result<()> {
    let writer = built.standalone.as_ref().unwrap_or(&built.program);
    let generate = |what: &str| {
        let mut command = platform.command(writer)?;
        command.args(["gen", what]);
        Some(command)
    };
    for (shell, place) in COMPLETIONS {
        let Some(mut command) = generate("completions") else {
            println!("not made: completions and manual pages");
            return Ok(());
        };
        let written = command.arg(shell).output()?;
        let place = prefix.join(place);
        fs::create_dir_all(place.parent().unwrap_or(prefix))?;
        fs::write(place, written.stdout)?;
    }
    let manual = prefix.join("share/man/man1");
    fs::create_dir_all(&manual)?;
    generate("man").map_or(Ok(()), |mut it| run(it.arg(&manual).stdout(Stdio::null())))
}

/// Packs the wheel, with the program in it.
pub(super) fn package(
    tools: &Tools,
    platform: &Platform,
    folder: &Path,
    built: &BuildResults,
) -> Result<PathBuf> {
    let folder = folder.join("wheels").join(&platform.arch);
    let _ = fs::remove_dir_all(&folder);
    let unpacked = folder.join("unpacked");
    fs::create_dir_all(&unpacked)?;
    let described = tools
        .command("maturin")
        .args(["pep517", "write-dist-info", "--target", &platform.triple])
        .args(["--manifest-path", "crates/python/Cargo.toml"])
        .arg("--metadata-directory")
        .arg(&unpacked)
        .output()
        .context("cannot start maturin")?;
    let said = String::from_utf8_lossy(&described.stderr);
    ensure!(described.status.success(), "maturin: {said}");
    let source = repository().join("crates/python/python/toporing");
    run(Command::new("cp").arg("-r").arg(source).arg(&unpacked))?;
    // What Python compiled while the sources were used.
    let caches = [
        "-name",
        "__pycache__",
        "-prune",
        "-exec",
        "rm",
        "-r",
        "{}",
        "+",
    ];
    run(Command::new("find").arg(&unpacked).args(caches))?;
    let put = |from: &Path, to: &str| -> Result<()> {
        let to = unpacked.join(to);
        fs::create_dir_all(to.parent().unwrap_or(&unpacked))?;
        fs::copy(from, &to).with_context(|| from.display().to_string())?;
        Ok(())
    };
    put(&built.module, "toporing/_native.abi3.so")?;
    let data = format!("toporing-{}.data", env!("CARGO_PKG_VERSION"));
    put(&built.program, &format!("{data}/scripts/topo"))?;
    pages(platform, built, &unpacked.join(data).join("data"))?;
    let mut pack = tools.command("wheel");
    pack.arg("pack").arg(&unpacked).arg("--dest-dir");
    run(pack.arg(&folder).stdout(Stdio::null()))?;
    if !platform.is_native {
        let tag = format!("manylinux_{}_{}", GLIBC.replace('.', "_"), platform.arch);
        let mut tags = tools.command("wheel");
        tags.args(["tags", "--remove", "--platform-tag", &tag]);
        run(tags.arg(find_package(&folder)?).stdout(Stdio::null()))?;
    }
    fs::remove_dir_all(&unpacked)?;
    find_package(&folder)
}

/// The wheel in a folder.
fn find_package(folder: &Path) -> Result<PathBuf> {
    let files = fs::read_dir(folder)?.map_while(Result::ok);
    let mut wheels = files
        .map(|it| it.path())
        .filter(|it| it.extension().is_some_and(|it| it == "whl"));
    let none = || format!("no wheel in {}", folder.display());
    wheels.next().with_context(none)
}
