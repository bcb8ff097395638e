//! NVIDIA's driver libraries in Debian's packages, which need no GPU to be loaded.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest, Sha256};
use xtask::workspace::driver_libraries;

/// Driver, version of the package, suite of Debian, SHA-256 of the package.
const PACKAGES: [(&str, &str, &str, &str); 2] = [
    (
        "535",
        "535.261.03-1",
        "bookworm",
        "de1e9ca34164a5983b3f752e6699cf1ad924790f1a843b7d582bab6f99206e1e",
    ),
    (
        "550",
        "550.163.01-2",
        "trixie",
        "8feff97aac61d6f27ded96a3c25b9e68025a680476e6072ff7eaf10623509135",
    ),
];

const PACKAGE: &str = "libcuda1";

/// Where the package has the library.
const FOLDER: &str = "usr/lib/x86_64-linux-gnu/nvidia/current";

/// Where Debian keeps its keys.
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Fetches the packages by the mirror that this machine's apt uses.
///
/// # Errors
/// This is no Debian, or a package cannot be had or is another one.
pub(super) fn fetch() -> Result<ExitCode> {
    for (driver, version, suite, hash) in PACKAGES {
        let place = driver_libraries().join(driver);
        if !place.join("libcuda.so.1").exists() {
            let beside = driver_libraries().join(format!("{driver}.new"));
            fs::create_dir_all(&beside)?;
            let fetched = one(&beside, version, suite, hash);
            let moved =
                fetched.and_then(|()| Ok(fs::rename(beside.join("package").join(FOLDER), &place)?));
            // What is left besides the library is of no use.
            let _ = fs::remove_dir_all(&beside);
            moved.with_context(|| format!("{PACKAGE} {version} of Debian"))?;
        }
        println!("driver {driver}: {}", place.display());
    }
    Ok(ExitCode::SUCCESS)
}

fn one(folder: &Path, version: &str, suite: &str, hash: &str) -> Result<()> {
    let lists = folder.join("lists");
    fs::create_dir_all(lists.join("partial"))?;
    let sources = folder.join("sources.list");
    let line = format!("deb [signed-by={KEYS}] {} {suite} non-free\n", mirror()?);
    fs::write(&sources, line)?;
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        let option = |name: &str, path: &Path| format!("-o{name}={}", path.display());
        command
            .current_dir(folder)
            .arg("--quiet")
            .arg(option("Dir::Etc::sourcelist", &sources))
            .arg(option("Dir::Etc::sourceparts", Path::new("/dev/null")))
            .arg(option("Dir::State::Lists", &lists))
            .args(arguments);
        ended(command)
    };
    apt(&["update"])?;
    apt(&["download", &format!("{PACKAGE}={version}")])?;
    let package = package(folder)?;
    let digest = Sha256::digest(fs::read(&package)?);
    let found: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    ensure!(found == hash, "its SHA-256 is {found}; expected {hash}");
    let mut unpack = Command::new("dpkg-deb");
    unpack.arg("-x").arg(package).arg(folder.join("package"));
    ended(unpack)
}

/// The address of Debian's packages in apt's own settings.
fn mirror() -> Result<String> {
    let targets = Command::new("apt-get")
        .args(["indextargets", "--format", "$(ORIGIN) $(LABEL) $(REPO_URI)"])
        .output()
        .context("apt-get, which fetches Debian's packages, cannot be started")?;
    let text = String::from_utf8_lossy(&targets.stdout);
    let mut lines = text.lines();
    let uri = lines.find_map(|line| line.strip_prefix("Debian Debian "));
    uri.map(str::to_owned)
        .context("apt knows no repository of Debian; run apt-get update, on Debian")
}

fn package(folder: &Path) -> Result<PathBuf> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|it| it == "deb") {
            return Ok(path);
        }
    }
    bail!("apt-get downloaded nothing")
}

fn ended(mut command: Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdout(Stdio::null()).output();
    let output = output.with_context(|| format!("cannot start {name}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{name}: {}",
        errors.lines().next_back().unwrap_or("it failed")
    );
    Ok(())
}
