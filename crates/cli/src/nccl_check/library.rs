//! The library that is asked: a file, or a version from the cache.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use nccl_binary::package::{self, PACKAGE};

use crate::environment::Environment;
use crate::exit;

/// The folder of libraries in the cache.
const FOLDER: &str = "nccl";

/// The library's file. A version that the cache lacks is fetched, if the user agrees.
pub(crate) fn find(given: &Path, yes: bool, environment: &Environment) -> Result<PathBuf> {
    let version = given.to_str().filter(|text| package::is_version(text));
    let Some(version) = version.filter(|_| !given.exists()) else {
        return Ok(given.to_owned());
    };
    let cache = environment.cache.as_ref();
    let cache = cache.context(
        "there is no cache for NCCL: neither XDG_CACHE_HOME nor HOME is an absolute path",
    )?;
    let cache = cache.join(FOLDER);
    if let Some(library) = package::cached(&cache, version) {
        return Ok(library);
    }
    if !yes {
        bail!(
            "NCCL {version} is not in {}: with --yes, pip downloads {PACKAGE}=={version} (about 300 MB) into it, under \
             NVIDIA's license (https://pypi.org/project/{PACKAGE}/{version}/)",
            cache.display()
        );
    }
    let library = package::fetch(&cache, version)?;
    let license = package::license(&cache, version);
    let license = license.unwrap_or_else(|| "its license is not in the package\n".to_owned());
    exit::report(&format!(
        "NCCL {version} was fetched into {}, under this license:\n\n{license}\n",
        cache.display()
    ));
    Ok(library)
}
