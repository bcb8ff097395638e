//! The archive, the Debian package and the checksums.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

use super::build::{BuildResults, Platform, pages, run};
use xtask::workspace::repository;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Puts everything in one folder as below a prefix; makes the archive and the package of it, and an
/// archive of the static program.
pub(super) fn make(
    folder: &Path,
    platform: &Platform,
    built: &BuildResults,
) -> Result<Vec<PathBuf>> {
    let name = format!("topo-{VERSION}-{}-linux", platform.arch);
    let prefix = folder.join(&name);
    let put = |from: &Path, to: &str| put(&prefix, from, to);
    program(platform, built, &built.program, &prefix)?;
    let mut made = Vec::new();
    if let Some(standalone) = &built.standalone {
        let name = format!("{name}-static");
        program(platform, built, standalone, &folder.join(&name))?;
        made.push(tarball(folder, &name)?);
    }
    put(&built.shared, "lib/libtopo_c.so")?;
    put(&built.archived, "lib/libtopo_c.a")?;
    let root = repository();
    put(&root.join("crates/capi/include/topo.h"), "include/topo.h")?;
    let template = fs::read_to_string(root.join("crates/capi/topo.pc.in"))?;
    let described = template.replace("@VERSION@", VERSION);
    // A package description that moves with its folder.
    let moving = described.replace("@PREFIX@", "${pcfiledir}/../..");
    fs::create_dir_all(prefix.join("lib/pkgconfig"))?;
    fs::write(prefix.join("lib/pkgconfig/topo.pc"), moving)?;
    made.push(tarball(folder, &name)?);
    made.extend(debian(folder, platform, &prefix)?);
    Ok(made)
}

/// Copies a file below a prefix.
fn put(prefix: &Path, from: &Path, to: &str) -> Result<()> {
    let to = prefix.join(to);
    fs::create_dir_all(to.parent().unwrap_or(prefix))?;
    fs::copy(from, &to).with_context(|| from.display().to_string())?;
    Ok(())
}

/// A program with its pages and licenses in a folder that holds nothing else.
fn program(platform: &Platform, built: &BuildResults, program: &Path, prefix: &Path) -> Result<()> {
    let _ = fs::remove_dir_all(prefix);
    put(prefix, program, "bin/topo")?;
    for license in ["LICENSE-APACHE", "LICENSE-MIT", "README.md"] {
        let to = format!("share/doc/topo/{license}");
        put(prefix, &repository().join(license), &to)?;
    }
    pages(platform, built, prefix)
}

/// The folder as an archive that is equal for equal files.
fn tarball(folder: &Path, name: &str) -> Result<PathBuf> {
    let file = folder.join(format!("{name}.tar.gz"));
    let mut tar = Command::new("tar");
    tar.args([
        "--sort=name",
        "--owner=0",
        "--group=0",
        "--numeric-owner",
        "--mtime=@0",
    ]);
    tar.arg("--directory")
        .arg(folder)
        .args(["--use-compress-program", "gzip -9n"]);
    run(tar.arg("--create").arg("--file").arg(&file).arg(name))?;
    Ok(file)
}

/// The Debian package, if its tool is here.
fn debian(folder: &Path, platform: &Platform, prefix: &Path) -> Result<Option<PathBuf>> {
    if Command::new("dpkg-deb").arg("--version").output().is_err() {
        println!("not made: the Debian package, because there is no dpkg-deb");
        return Ok(None);
    }
    let arch = if platform.arch == "x86_64" {
        "amd64"
    } else {
        "arm64"
    };
    let name = format!("topo_{VERSION}_{arch}");
    let root = folder.join(&name);
    let _ = fs::remove_dir_all(&root);
    fs::create_dir_all(root.join("DEBIAN"))?;
    run(Command::new("cp")
        .arg("-a")
        .arg(prefix)
        .arg(root.join("usr")))?;
    let control = fs::read_to_string(repository().join("xtask/packaging/control"))?;
    let control = control
        .replace("@VERSION@", VERSION)
        .replace("@ARCH@", arch);
    fs::write(root.join("DEBIAN/control"), control)?;
    let file = folder.join(format!("{name}.deb"));
    let mut tool = Command::new("dpkg-deb");
    tool.args(["--root-owner-group", "--build"])
        .arg(&root)
        .arg(&file);
    run(tool.stdout(Stdio::null()))?;
    fs::remove_dir_all(&root)?;
    Ok(Some(file))
}

/// SHA-256 of each file, as `sha256sum --check` reads them.
pub(super) fn checksums(folder: &Path, files: &[PathBuf]) -> Result<PathBuf> {
    let mut text = String::new();
    for file in files {
        let digest = Sha256::digest(fs::read(file)?);
        for byte in digest {
            let _ = write!(text, "{byte:02x}");
        }
        let name = file.strip_prefix(folder).unwrap_or(file);
        let _ = writeln!(text, "  {}", name.display());
    }
    let sums = folder.join("SHA256SUMS");
    fs::write(&sums, text)?;
    Ok(sums)
}
