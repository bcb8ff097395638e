//! The programs, libraries and the wheel, for an old C library by zig's compiler.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use xtask::workspace::{cargo, repository, target};

/// The version of glibc that the programs need: that of manylinux_2_28.
const GLIBC: &str = "2.28";

/// What builds, by pip.
const PACKAGES: [&str; 4] = [
    "maturin==1.16.*",
    "ziglang==0.17.*",
    "cargo-zigbuild==0.24.*",
    "auditwheel==6.*",
];

/// For what is built.
pub struct Platform {
    /// The processor.
    pub arch: String,
    /// Rust's name of it.
    pub triple: String,
    /// Whether it is built for the C library of this machine.
    pub is_native: bool,
}

impl Platform {
    /// A platform that is known.
    pub fn new(arch: &str, is_native: bool) -> Result<Self> {
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
        let listed = Command::new("rustup")
            .args(["target", "list", "--installed"])
            .output();
        if listed.is_ok_and(|it| !String::from_utf8_lossy(&it.stdout).contains(&triple)) {
            bail!(
                "the compiler has no target {triple}; install it with: rustup target add {triple}"
            );
        }
        Ok(Self {
            arch: arch.to_owned(),
            triple,
            is_native,
        })
    }

    /// Whether its programs run here.
    pub fn runs_here(&self) -> bool {
        self.arch == std::env::consts::ARCH
    }
}

/// What was built.
pub struct Built {
    /// The program.
    pub program: PathBuf,
    /// The C library as a shared object.
    pub shared: PathBuf,
    /// The C library as an archive.
    pub archived: PathBuf,
}

/// A virtual environment of Python with the tools.
pub struct Tools(PathBuf);

impl Tools {
    /// Makes it once.
    pub fn get(folder: &Path) -> Result<Self> {
        let place = folder.join("tools");
        if !place.join("bin/maturin").exists() {
            run(Command::new("python3").args(["-m", "venv"]).arg(&place))?;
            let mut pip = Command::new(place.join("bin/pip"));
            run(pip.args(["install", "--quiet"]).args(PACKAGES))?;
        }
        Ok(Self(place))
    }

    /// A tool; it finds the others.
    pub fn command(&self, name: &str) -> Command {
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

    /// Cargo for a platform.
    fn cargo(&self, platform: &Platform) -> Command {
        let mut command = cargo();
        self.set_path(&mut command);
        if platform.is_native {
            command.args(["build", "--target", &platform.triple]);
        } else {
            let old = format!("{}.{GLIBC}", platform.triple);
            command.args(["zigbuild", "--target", &old]);
        }
        command.args(["--locked", "--quiet"]);
        command
    }
}

/// Runs a command that must succeed.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command.status();
    let status = status.with_context(|| format!("cannot start {:?}", command.get_program()))?;
    ensure!(status.success(), "{command:?} failed: {status}");
    Ok(())
}

fn output(platform: &Platform, profile: &str, name: &str) -> PathBuf {
    target().join(&platform.triple).join(profile).join(name)
}

/// The program, without debug information.
pub fn program(tools: &Tools, platform: &Platform, profile: &str) -> Result<PathBuf> {
    let mut command = tools.cargo(platform);
    command.args(["-p", "topo", "--profile", profile]);
    let strip = format!("CARGO_PROFILE_{}_STRIP", profile.to_uppercase());
    run(command.env(strip, "symbols"))?;
    Ok(output(platform, profile, "topo"))
}

/// The C library, shared and as an archive.
pub fn c_library(tools: &Tools, platform: &Platform) -> Result<(PathBuf, PathBuf)> {
    run(tools
        .cargo(platform)
        .args(["-p", "capi", "--profile", "library"]))?;
    let file = |name| output(platform, "library", name);
    Ok((file("libtopo_c.so"), file("libtopo_c.a")))
}

/// The wheel, with the program in it.
pub fn package(
    tools: &Tools,
    platform: &Platform,
    folder: &Path,
    program: &Path,
) -> Result<PathBuf> {
    let scripts = folder.join("toporing.data/scripts");
    fs::create_dir_all(&scripts)?;
    fs::copy(program, scripts.join("topo")).with_context(|| program.display().to_string())?;
    let out = folder.join("wheels").join(&platform.arch);
    let _ = fs::remove_dir_all(&out);
    let mut command = tools.command("maturin");
    command.args([
        "build",
        "--quiet",
        "--manifest-path",
        "crates/python/Cargo.toml",
    ]);
    command
        .args(["--target", &platform.triple, "--out"])
        .arg(&out);
    if platform.is_native {
        command.args(["--compatibility", "linux"]);
    } else {
        command.args(["--zig", "--compatibility", "manylinux_2_28"]);
    }
    run(&mut command)?;
    let mut wheels = fs::read_dir(&out)?;
    let package = wheels
        .next()
        .with_context(|| format!("no wheel in {}", out.display()))??;
    Ok(package.path())
}
