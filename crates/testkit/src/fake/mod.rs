//! Fake machines: a folder with `sys/` and `proc/` and the driver's answers, in which a probe must
//! find a given topology.
//!
//! The tree is laid out as by Linux: each device is below a root complex and a root port, and a
//! switch is an upstream port with downstream ports.

mod nvml;
mod tree;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;
use tempfile::TempDir;
use topology::xml::Document;

/// A machine that exists only as files.
#[derive(Debug, Clone, Default)]
pub struct FakeMachine {
    /// Files by path, such as `proc/cpuinfo`.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Symbolic links by path, with targets from the root of the tree.
    pub links: BTreeMap<String, String>,
    /// The driver's answers, in the form of `nvml.json`.
    pub nvml: Value,
    /// The GPUs' indices by rank.
    pub ranks: Vec<u32>,
}

impl FakeMachine {
    /// The machine of a topology.
    ///
    /// # Errors
    /// No probe could find this topology. The error says why.
    pub fn of(document: &Document) -> Result<Self> {
        let mut machine = Self::default();
        tree::build(&mut machine, document)?;
        nvml::build(&mut machine, document)?;
        Ok(machine)
    }

    /// Sets a file's text.
    pub fn file(&mut self, path: impl Into<String>, text: impl Into<String>) {
        self.files
            .insert(path.into(), (text.into() + "\n").into_bytes());
    }

    /// Sets a link.
    pub fn link(&mut self, path: impl Into<String>, target: impl Into<String>) {
        self.links.insert(path.into(), target.into());
    }

    /// The folder of a PCI function.
    pub fn function(&self, bus_id: &str) -> Result<String> {
        let link = self.links.get(&format!("sys/bus/pci/devices/{bus_id}"));
        link.cloned()
            .with_context(|| format!("no function {bus_id}"))
    }

    /// The function that is the port above another one.
    pub fn port(&self, bus_id: &str) -> Result<String> {
        let folder = self.function(bus_id)?;
        let port = folder.rsplit('/').nth(1).map(str::to_owned);
        port.with_context(|| format!("{bus_id} has no port"))
    }

    /// Writes the machine into a folder, as a recording.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let make = |path: &Path| -> Result<()> {
            let parent = path.parent().context("a path without a folder")?;
            std::fs::create_dir_all(parent).with_context(|| format!("making {}", parent.display()))
        };
        for (path, bytes) in &self.files {
            let path = folder.join(path);
            make(&path)?;
            std::fs::write(&path, bytes).with_context(|| format!("writing {}", path.display()))?;
        }
        for (path, target) in &self.links {
            let up = "../".repeat(path.matches('/').count());
            let full = folder.join(path);
            make(&full)?;
            link(Path::new(&format!("{up}{target}")), &full)
                .with_context(|| format!("linking {}", full.display()))?;
        }
        std::fs::write(
            folder.join("nvml.json"),
            serde_json::to_string_pretty(&self.nvml)? + "\n",
        )?;
        Ok(())
    }
}

/// Makes a symbolic link.
#[cfg(unix)]
fn link(target: &Path, path: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(target, path)
}

/// Windows makes links for administrators alone, and has no names with a colon, as devices have.
#[cfg(not(unix))]
fn link(_: &Path, _: &Path) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

/// A folder for a machine, which vanishes. A machine is hundreds of small files, so they are in
/// memory where that can be done.
///
/// # Errors
/// No folder can be made.
pub fn temporary() -> std::io::Result<TempDir> {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() {
        tempfile::tempdir_in(memory).ok()
    } else {
        None
    };
    made.map_or_else(tempfile::tempdir, Ok)
}
