//! NCCL's libraries as their publisher gives them: packages of PyPI, in a cache of this user.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use thiserror::Error;

/// The package on PyPI.
pub const PACKAGE: &str = "nvidia-nccl-cu12";

/// Where the package has the library.
const LIBRARY: &str = "nvidia/nccl/lib/libnccl.so.2";

/// Where the package's description has the license.
const LICENSES: [&str; 2] = ["licenses/License.txt", "License.txt"];

/// Most bytes of a license.
const MOST_LICENSE_BYTES: u64 = 1 << 16;

/// SHA-256 of the wheels for x86-64 with which this crate is tested, by version.
pub const KNOWN: [(&str, &str); 6] = [
    (
        "2.27.7",
        "de5ba5562f08029a19cb1cd659404b18411ed0d6c90ac5f52f30bf99ad5809aa",
    ),
    (
        "2.28.9",
        "485776daa8447da5da39681af455aa3b2c2586ddcf4af8772495e7c532c7e5ab",
    ),
    (
        "2.29.7",
        "ecd0a012051abc20c1aa87328841efa8cade3ced65803046e38c2f03c0891fea",
    ),
    (
        "2.30.7",
        "8ce1b8213f61f2bfac132e6df890af6450b77cbd140c6ce4e98cb0c2d8e678c9",
    ),
    (
        "2.31.2",
        "f9b1dc3c2a7e20176054144ebb3b32fea83b40402ee5d7ac7045cd11ecc956c0",
    ),
    (
        "2.32.3",
        "bb94b2348e4861d5e8aa00b36c3d12d9bdf9c6369b82cbb723de0b582280a21c",
    ),
];

/// A library cannot be fetched.
#[derive(Debug, Error)]
pub enum FetchError {
    /// The cache cannot be used.
    #[error("cannot use the cache {}: {why}", folder.display())]
    Cache {
        /// The folder.
        folder: PathBuf,
        /// The system's error.
        why: io::Error,
    },
    /// Python or pip failed.
    #[error(
        "cannot fetch {PACKAGE}=={version}: {why}; where there is a network, run `python3 -m pip download --no-deps \
         {PACKAGE}=={version}`, unpack the wheel (`python3 -m zipfile -e`), and take its {LIBRARY}"
    )]
    Pip {
        /// The version.
        version: String,
        /// What went wrong.
        why: String,
    },
}

/// Whether a text is a version, such as 2.30.7.
pub fn is_version(text: &str) -> bool {
    let parts: Vec<&str> = text.split('.').collect();
    let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|it| it.is_ascii_digit());
    parts.len() == 3 && parts.iter().all(is_number)
}

/// The library of a version, if the cache has it.
pub fn cached(cache: &Path, version: &str) -> Option<PathBuf> {
    let library = cache.join(version).join(LIBRARY);
    library.is_file().then_some(library)
}

/// The text of the license in the package of a version, if the cache has it.
pub fn license(cache: &Path, version: &str) -> Option<String> {
    let entries = fs::read_dir(cache.join(version)).ok()?;
    let folders = entries.flatten().map(|entry| entry.path());
    let mut folders = folders.filter(|path| path.extension().is_some_and(|it| it == "dist-info"));
    let folder = folders.next()?;
    LICENSES
        .iter()
        .find_map(|name| files::read_text(&folder.join(name), MOST_LICENSE_BYTES).ok())
}

/// Fetches a version into a cache by pip, and returns the library. Wheels of [`KNOWN`] must have
/// their hash.
///
/// # Errors
/// The cache cannot be used, or pip fails.
pub fn fetch(cache: &Path, version: &str) -> Result<PathBuf, FetchError> {
    if let Some(library) = cached(cache, version) {
        return Ok(library);
    }
    let of_cache = |why| FetchError::Cache {
        folder: cache.to_owned(),
        why,
    };
    let mut folders = fs::DirBuilder::new();
    folders.recursive(true).mode(0o700);
    folders.create(cache).map_err(of_cache)?;
    let beside = cache.join(format!("{version}.{}.new", std::process::id()));
    let fetched = folders
        .create(&beside)
        .map_err(of_cache)
        .and_then(|()| fetch_into(&beside, version))
        .and_then(|()| {
            let place = cache.join(version);
            match fs::rename(beside.join("package"), &place) {
                // Another process was faster.
                Err(_) if cached(cache, version).is_some() => Ok(()),
                done => done.map_err(of_cache),
            }
        });
    // What is left of a failure is of no use.
    let _ = fs::remove_dir_all(&beside);
    fetched?;
    cached(cache, version).ok_or_else(|| FetchError::Pip {
        version: version.to_owned(),
        why: format!("the package has no {LIBRARY}"),
    })
}

fn fetch_into(folder: &Path, version: &str) -> Result<(), FetchError> {
    let failed = |why: String| FetchError::Pip {
        version: version.to_owned(),
        why,
    };
    let known = KNOWN.iter().find(|(known, _)| *known == version);
    let hash = known.map(|(_, hash)| format!(" --hash=sha256:{hash}"));
    let wanted = format!("{PACKAGE}=={version}{}\n", hash.unwrap_or_default());
    let list = folder.join("wanted.txt");
    fs::write(&list, wanted).map_err(|error| failed(error.to_string()))?;
    let pip = [
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--no-input",
    ];
    let mut command = Command::new("python3");
    command
        .args(pip)
        .args(["--disable-pip-version-check", "--retries=1"])
        .args(["--only-binary=:all:", "--platform=manylinux_2_28_x86_64"])
        .args([
            "--platform=manylinux_2_27_x86_64",
            "--platform=manylinux_2_18_x86_64",
        ])
        .args(["--platform=manylinux2014_x86_64", "--dest"])
        .arg(folder)
        .arg("--requirement")
        .arg(&list);
    run(&mut command).map_err(failed)?;
    let entries = fs::read_dir(folder).map_err(|error| failed(error.to_string()))?;
    let paths = entries.flatten().map(|entry| entry.path());
    let mut archives = paths.filter(|path| path.extension().is_some_and(|it| it == "whl"));
    let archive = archives.next();
    let archive = archive.ok_or_else(|| failed("pip downloaded no wheel".to_owned()))?;
    let mut unpack = Command::new("python3");
    unpack.args(["-m", "zipfile", "-e"]).arg(&archive);
    unpack.arg(folder.join("package"));
    run(&mut unpack).map_err(failed)
}

/// Runs a command. Its last words are the error.
fn run(command: &mut Command) -> Result<(), String> {
    let done = command.stdin(Stdio::null()).output();
    let done = done.map_err(|error| format!("python3 cannot be run: {error}"))?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    let last = said.lines().rev().find(|line| !line.trim().is_empty());
    Err(last.unwrap_or("python3 failed").trim().to_owned())
}
