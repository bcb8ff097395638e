//! The archive, the Debian package and the checksums.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

use super::build::{BuildResults, Platform, run};
use xtask::workspace::repository;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Shells, and where each looks for completions.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/topo"),
    ("zsh", "share/zsh/site-functions/_topo"),
    ("fish", "share/fish/vendor_completions.d/topo.fish"),
];

/// Puts everything in one folder as below a prefix; makes the archive and the package of it.
pub(super) fn make(
    folder: &Path,
    platform: &Platform,
    built: &BuildResults,
) -> Result<Vec<PathBuf>> {
    let name = format!("topo-{VERSION}-{}-linux", platform.arch);
    let prefix = folder.join(&name);
    let _ = fs::remove_dir_all(&prefix);
    let put = |from: &Path, to: &str| -> Result<()> {
        let to = prefix.join(to);
        fs::create_dir_all(to.parent().unwrap_or(&prefix))?;
        fs::copy(from, &to).with_context(|| from.display().to_string())?;
        Ok(())
    };
    put(&built.program, "bin/topo")?;
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
    for license in ["LICENSE-APACHE", "LICENSE-MIT", "README.md"] {
        put(&root.join(license), &format!("share/doc/topo/{license}"))?;
    }
    pages(platform, built, &prefix)?;
    let mut made = vec![tarball(folder, &name)?];
    made.extend(debian(folder, platform, &prefix)?);
    Ok(made)
}

/// Completions and manual pages, which the program itself writes.
fn pages(platform: &Platform, built: &BuildResults, prefix: &Path) -> Result<()> {
    if !platform.runs_here() {
        println!(
            "not made: completions and manual pages, because {} does not run here",
            platform.arch
        );
        return Ok(());
    }
    for (shell, place) in COMPLETIONS {
        let written = Command::new(&built.program)
            .args(["gen", "completions", shell])
            .output()?;
        let place = prefix.join(place);
        fs::create_dir_all(place.parent().unwrap_or(prefix))?;
        fs::write(place, written.stdout)?;
    }
    let manual = prefix.join("share/man/man1");
    fs::create_dir_all(&manual)?;
    let mut command = Command::new(&built.program);
    run(command
        .args(["gen", "man"])
        .arg(&manual)
        .stdout(std::process::Stdio::null()))
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
    run(tool.stdout(std::process::Stdio::null()))?;
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
