//! The folder of an export: each file is written beside its place and then renamed.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::output;

/// The folder.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    /// The folders that were made, the innermost first; removed if no file gets into them.
    made: Vec<PathBuf>,
}

impl Drop for Folder {
    fn drop(&mut self) {
        for folder in &self.made {
            // A folder with files stays.
            let _ = fs::remove_dir(folder);
        }
    }
}

impl Folder {
    /// Makes the folder if it is not there.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let shown = path.display();
        let text = path.to_string_lossy();
        if text.contains(char::is_control) {
            bail!(
                "--dir {text:?}: the name has a control character, which NCCL's configuration file cannot hold; expected \
                 another name"
            );
        }
        let made = path.ancestors().take_while(|it| !it.exists());
        let made = made.filter(|it| !it.as_os_str().is_empty());
        let made = made.map(Path::to_owned).collect();
        if path.exists() && !path.is_dir() {
            bail!("--dir {shown}: this is a file; expected a folder, or a name for a new one");
        }
        fs::create_dir_all(path)
            .with_context(|| format!("--dir {shown}: cannot make the folder"))?;
        let path =
            output::full(path).with_context(|| format!("--dir {shown}: cannot find the folder"))?;
        Ok(Self { path, made })
    }

    /// Its absolute path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file.
    pub(super) fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.path.join(name);
        files::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))
    }
}
