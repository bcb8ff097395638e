//! The options of commands that judge: files of what was checked.

use std::path::PathBuf;
use std::time::SystemTime;

use anyhow::{Context, Result, bail};
use clap::Args;
use findings::check::{Check, Verdict, junit, prometheus, verdict};

use crate::output::{Output, refuse_overwriting, write};

/// Largest file of DCGM that is read, bytes.
const MOST_OF_DCGM: u64 = 16 << 20;

/// Files of DCGM, whose tests are checks.
#[derive(Debug, Default, Args)]
pub(crate) struct DcgmFiles {
    /// What `dcgmi diag` (also -j) or `dcgmi health -c` printed on the machine: more checks
    #[arg(long, value_name = "FILE")]
    pub dcgm: Vec<PathBuf>,
}

impl DcgmFiles {
    /// Reads them, with their names.
    pub(crate) fn read(&self) -> Result<Vec<(String, Vec<u8>)>> {
        let read = |file: &PathBuf| {
            let name = file.display().to_string();
            let bytes = files::read(file, MOST_OF_DCGM);
            let bytes = bytes.with_context(|| format!("cannot read {name}"))?;
            Ok((name, bytes))
        };
        self.dcgm.iter().map(read).collect()
    }
}

/// Files of what was checked.
#[derive(Debug, Default, Args)]
pub(crate) struct CheckFiles {
    /// Also write what was checked as JUnit's XML
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Also write it for Prometheus' node exporter
    #[arg(long, value_name = "FILE")]
    pub prometheus: Option<PathBuf>,
}

impl CheckFiles {
    /// Refuses to write over what a command reads, or both files into one.
    pub(crate) fn refuse_overwriting(&self, inputs: &[PathBuf]) -> Result<()> {
        let outputs = [("--junit", &self.junit), ("--prometheus", &self.prometheus)];
        for (option, file) in outputs {
            if let Some(file) = file {
                refuse_overwriting(option, file, inputs)?;
            }
        }
        match (&self.junit, &self.prometheus) {
            (Some(one), Some(other)) if one == other => bail!(
                "--junit and --prometheus: both are {}; expected two files",
                one.display()
            ),
            _ => Ok(()),
        }
    }

    /// Writes the files of a command, and sets its exit status.
    pub(crate) fn judge(&self, command: &str, checks: &[Check], output: &mut Output) -> Result<()> {
        match verdict(checks) {
            Verdict::Fail => output.differs = true,
            Verdict::Unknown(why) => output.unknown = Some(why),
            Verdict::Pass | Verdict::Skipped(_) => {}
        }
        if let Some(file) = &self.junit {
            write(file, &junit(command, checks))?;
        }
        if let Some(file) = &self.prometheus {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            let now = now.unwrap_or_default().as_secs();
            write(file, &prometheus(command, checks, now))?;
        }
        Ok(())
    }
}
