//! One driver of GPUs where the loader finds two.

use std::ffi::OsString;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use backend_cuda::{Error, presence};
use files::Folder;

use crate::environment::Environment;

/// The driver's names. Programs for the driver look for either.
const NAMES: [&str; 2] = ["libcuda.so", "libcuda.so.1"];

/// Starts this program again if the loader finds another library as `libcuda.so` than as
/// `libcuda.so.1`, as in images with a stub for compiling: with a folder before all others in which
/// both names lead to the driver.
///
/// # Errors
/// The driver hangs, the folder cannot be made, or the program cannot be started.
pub(super) fn only_one(environment: &Environment, longest: Duration) -> Result<()> {
    let driver = match presence::check(longest) {
        Err(Error::TwoDrivers {
            file: Some(driver), ..
        }) => driver,
        Err(hangs @ Error::Silent { .. }) => return Err(hangs.into()),
        _ => return Ok(()),
    };
    let Some(cache) = &environment.cache else {
        return Ok(());
    };
    let folder = cache.join("driver");
    let mut paths: Vec<_> = environment
        .library_path
        .iter()
        .flat_map(std::env::split_paths)
        .collect();
    if paths.contains(&folder) {
        // That was tried.
        return Ok(());
    }
    link(&folder, &driver).with_context(|| format!("cannot make links in {}", folder.display()))?;
    paths.insert(0, folder);
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let mut again = Command::new(program);
    again
        .args(arguments)
        .env("LD_LIBRARY_PATH", std::env::join_paths(paths)?);
    Err(again.exec()).context("cannot start this program again")
}

/// Makes the driver's names lead to its file. Other processes may do the same.
fn link(folder: &Path, driver: &Path) -> Result<()> {
    std::fs::create_dir_all(folder.parent().unwrap_or(folder))?;
    let own = Folder::make_own(folder)?;
    for name in NAMES {
        let (link, new) = (
            own.path_of(name.as_ref()),
            own.path_of(format!("{name}.{}", std::process::id()).as_ref()),
        );
        if std::fs::read_link(&link).is_ok_and(|to| to == driver) {
            continue;
        }
        symlink(driver, &new)?;
        std::fs::rename(&new, &link)?;
    }
    Ok(())
}
