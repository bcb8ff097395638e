//! The folder of an export: all files are written beside their places and then renamed.

use std::fs;
use std::path::{Path, PathBuf};

use answers::export::{CONFIGURATION_FILE, ExportFile, written_with};
use anyhow::{Context, Result, bail};

use crate::output;

/// Most bytes of a configuration that are read.
const MOST_BYTES: u64 = 1 << 20;

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

    /// The names of the files that an earlier run wrote, the configuration first. A configuration
    /// by others is none of them.
    pub(super) fn earlier(&self) -> Vec<String> {
        let path = self.path.join(CONFIGURATION_FILE);
        let text = path.is_file().then(|| files::read_text(&path, MOST_BYTES));
        let text = text.and_then(Result::ok).unwrap_or_default();
        let others = written_with(&text);
        let all = others.map(|others| std::iter::once(CONFIGURATION_FILE).chain(others));
        all.into_iter().flatten().map(str::to_owned).collect()
    }

    /// Writes all files, or none.
    pub(super) fn write(&self, all: &[ExportFile]) -> Result<()> {
        let all = all
            .iter()
            .map(|it| (self.path.join(&it.name), &*it.content));
        files::write_all(&all.collect::<Vec<_>>()).map_err(|(path, why)| {
            anyhow::Error::from(why).context(format!("cannot write {}", path.display()))
        })
    }

    /// Removes files of an earlier run. Returns a sentence about those that were there.
    pub(super) fn remove(&self, names: &[String]) -> Result<Option<String>> {
        let mut removed = Vec::new();
        for name in names {
            let path = self.path.join(name);
            // A name leads nowhere else.
            let is_here = Path::new(name).file_name() == Some(name.as_ref());
            if is_here && path.symlink_metadata().is_ok_and(|it| it.is_file()) {
                fs::remove_file(&path)
                    .with_context(|| format!("cannot remove {}", path.display()))?;
                removed.push(name.as_str());
            }
        }
        let names = removed.join(", ");
        let folder = self.path.display();
        Ok((!removed.is_empty())
            .then(|| format!("{folder}: removed {names}, which an earlier run wrote")))
    }
}
