//! A browser without a window.

use std::path::PathBuf;
use std::process::Command;

/// Said where there is none.
pub const ABSENT: &str = "not run: there is no browser (apt install chromium)";

/// A browser.
pub struct Browser {
    program: PathBuf,
}

/// The browser of this machine.
pub fn find() -> Option<Browser> {
    let path = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let programs = names
        .iter()
        .flat_map(|name| folders.iter().map(move |it| it.join(name)));
    let program = programs.into_iter().find(|it| it.is_file())?;
    Some(Browser { program })
}

impl Browser {
    /// Opens a page and returns its document once its script has run.
    pub fn run(&self, page: &str) -> Result<String, String> {
        let folder = tempfile::tempdir().map_err(|why| why.to_string())?;
        let file = folder.path().join("page.html");
        std::fs::write(&file, page).map_err(|why| why.to_string())?;
        let output = Command::new("timeout")
            .arg("120")
            .arg(&self.program)
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-quic",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                "--dump-dom",
            ])
            .arg(format!(
                "--user-data-dir={}",
                folder.path().join("data").display()
            ))
            .arg(format!("file://{}", file.display()))
            .output()
            .map_err(|why| format!("{}: {why}", self.program.display()))?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }
}
