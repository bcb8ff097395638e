//! The browser of the page's tests. It cannot be kept in a cache: it needs some hundred libraries
//! of the system, which only the system's own packages bring.

use std::process::{Command, ExitCode, Stdio};

use anyhow::Result;

/// The browser and what drives it. Tests start the second, which starts the first.
const PROGRAMS: [&str; 2] = ["chromium", "chromedriver"];

/// Other names of the browser.
const ALSO: [&str; 2] = ["google-chrome", "chrome"];

/// The commands that install both, by the program that installs packages.
const INSTALLERS: [(&str, &str); 5] = [
    ("apt-get", "apt-get install chromium chromium-driver"),
    ("dnf", "dnf install chromium chromedriver"),
    ("pacman", "pacman -S chromium"),
    ("apk", "apk add chromium chromium-chromedriver"),
    ("brew", "brew install --cask chromium chromedriver"),
];

/// Says which browser tests use, or how to install one.
///
/// # Errors
/// None; the exit status says whether there is one.
pub(super) fn fetch() -> Result<ExitCode> {
    let [browser, driver] = PROGRAMS;
    let browsers = [browser].into_iter().chain(ALSO);
    let found = browsers.filter_map(version).next();
    if let (Some(browser), Some(driver)) = (found, version(driver)) {
        println!("{browser}\n{driver}");
        return Ok(ExitCode::SUCCESS);
    }
    let install = INSTALLERS
        .iter()
        .find(|(program, _)| version(program).is_some());
    let install = install.map_or("install Chromium and chromedriver of one version", |it| {
        it.1
    });
    println!(
        "not run: tests of the page in a browser: there is no chromium with chromedriver; {install}"
    );
    Ok(ExitCode::from(2))
}

/// The version that a program prints.
fn version(program: &str) -> Option<String> {
    let mut command = Command::new(program);
    let output = command
        .arg("--version")
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().next().filter(|_| output.status.success())?;
    Some(line.trim().to_owned())
}
