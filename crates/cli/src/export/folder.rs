//! The folder of an export: each file is written beside its place and then renamed.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use plan::Plan;

use super::json::{ExportReport, Kind, LeftOut, WrittenFile};
use crate::output;

/// The folder.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    files: Vec<WrittenFile>,
    left_out: Vec<LeftOut>,
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
    pub fn open(path: &Path) -> Result<Self> {
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
        Ok(Self {
            path,
            files: Vec::new(),
            left_out: Vec::new(),
            made,
        })
    }

    /// Its absolute path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The files that were written.
    pub fn files(&self) -> &[WrittenFile] {
        &self.files
    }

    /// Writes a file.
    pub fn write(&mut self, name: &str, kind: Kind, bytes: &[u8]) -> Result<()> {
        let path = self.path.join(name);
        files::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
        self.files.push(WrittenFile {
            file: name.to_owned(),
            kind,
            bytes: bytes.len() as u64,
            gpus: None,
            readers: None,
        });
        Ok(())
    }

    /// Writes the graph file of a set of GPUs, for all its ranks or those on some.
    pub fn write_graph(
        &mut self,
        name: &str,
        gpus: &str,
        readers: Option<String>,
        text: &str,
    ) -> Result<()> {
        self.write(name, Kind::Graph, text.as_bytes())?;
        if let Some(last) = self.files.last_mut() {
            last.gpus = Some(gpus.to_owned());
            last.readers = readers;
        }
        Ok(())
    }

    /// Keeps what cannot be exported, and why.
    pub fn leave_out(&mut self, what: String, why: String) {
        self.left_out.push(LeftOut { what, why });
    }

    /// What was written.
    pub fn finish(mut self, name: &str, plan: &Plan) -> ExportReport {
        ExportReport {
            name: name.to_owned(),
            profile: plan.profile.clone(),
            folder: self.path.display().to_string(),
            files: std::mem::take(&mut self.files),
            left_out: std::mem::take(&mut self.left_out),
        }
    }
}
