//! The library that is asked: a file, or a version from the cache.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use nccl_binary::package::{self, PACKAGE};

use crate::arguments::nccl_check::NcclCheckArguments;
use crate::environment::Environment;
use crate::output::Output;

/// The folder of libraries in the cache.
const FOLDER: &str = "nccl";

/// The library's file. A version that the cache lacks is fetched, if the user agrees.
pub fn find(
    arguments: &NcclCheckArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<PathBuf> {
    let given = &arguments.nccl;
    let version = given.to_str().filter(|text| package::is_version(text));
    let Some(version) = version.filter(|_| !given.exists()) else {
        return Ok(given.clone());
    };
    let cache = environment.cache.as_ref();
    let cache = cache.context(
        "there is no cache for NCCL: neither XDG_CACHE_HOME nor HOME is an absolute path",
    )?;
    let cache = cache.join(FOLDER);
    if let Some(library) = package::cached(&cache, version) {
        return Ok(library);
    }
    let license = format!(
        "NVIDIA publishes it under the license at https://pypi.org/project/{PACKAGE}/{version}/"
    );
    if !arguments.yes {
        bail!(
            "NCCL {version} is not in {}: with --yes, pip downloads {PACKAGE}=={version} (about 300 MB) into it; {license}",
            cache.display()
        );
    }
    output.warnings.push(format!(
        "NCCL {version} was fetched into {}; {license}",
        cache.display()
    ));
    Ok(package::fetch(&cache, version)?)
}
