//! A machine with phantom GPUs: a folder that the loader searches, with a driver's library in place
//! of NVIDIA's, and the file that it reads.

use std::io::Result;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::fake::temporary;

/// A machine on which programs find a phantom driver.
#[derive(Debug)]
pub struct Phantom(TempDir);

impl Phantom {
    /// A machine of `topologies/`, with these lines of the machine file besides the usual ones.
    /// `libraries` has the libraries that Cargo built for a test: those of a driver and its
    /// kernels.
    ///
    /// # Errors
    /// The folder cannot be written, or a library or the topology is missing.
    pub fn new(libraries: &Path, machine: &str, lines: &[&str]) -> Result<Self> {
        let own = Self(temporary()?);
        let topologies = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../topologies");
        let text = format!(
            "topology {}\nmultiprocessors 8\nemulator {}\nreport {}\n{}\n",
            topologies
                .join(machine)
                .join("topology.xml")
                .canonicalize()?
                .display(),
            libraries
                .join("libphantom_kernels.so")
                .canonicalize()?
                .display(),
            own.path("report").display(),
            lines.join("\n")
        );
        std::fs::write(own.path("machine"), text)?;
        let driver = libraries.join("libphantom.so").canonicalize()?;
        symlink(driver, own.path("libcuda.so.1"))?;
        Ok(own)
    }

    /// A file of the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Lets a program find this machine.
    pub fn prepare(&self, command: &mut Command) {
        command
            .env("LD_LIBRARY_PATH", self.0.path())
            .env("TOPO_PHANTOM_MACHINE", self.path("machine"));
    }

    /// What the drivers of all processes so far report besides numbers of calls: broken rules,
    /// faults, leaks and functions that are not implemented.
    pub fn problems(&self) -> Vec<String> {
        let report = std::fs::read_to_string(self.path("report")).unwrap_or_default();
        let is_count = |it: &&str| it.starts_with("call ") || it.starts_with("wait ");
        let problems = report.lines().filter(|it| !is_count(it));
        problems.map(str::to_owned).collect()
    }
}
