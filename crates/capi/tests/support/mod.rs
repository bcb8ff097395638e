//! Programs in C: how they are compiled, and run for a bounded time.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Longest run of a program.
const LONGEST: Duration = Duration::from_secs(600);

/// The folder of the package.
pub(crate) fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The folder with the library that was built beside this test.
pub(crate) fn libraries() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().unwrap();
    assert!(folder.join("libtopo_c.so").exists(), "{folder:?}");
    folder.to_owned()
}

/// Compiles a program.
pub(crate) fn compile(source: &str, folder: &Path) -> PathBuf {
    build(Path::new("cc"), source, folder)
}

/// Compiles a program with this compiler.
pub(crate) fn build(compiler: &Path, source: &str, folder: &Path) -> PathBuf {
    let program = folder.join("program");
    let libraries = libraries();
    let compiled = Command::new(compiler)
        .args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-o"])
        .arg(&program)
        .arg(here().join(source))
        .arg("-I")
        .arg(here().join("include"))
        .arg("-L")
        .arg(&libraries)
        .args(["-ltopo_c", "-lpthread"])
        .arg(format!("-Wl,-rpath,{}", libraries.display()))
        .output();
    let compiled = compiled.unwrap();
    let said = String::from_utf8_lossy(&compiled.stderr);
    assert!(compiled.status.success(), "{said}");
    program
}

/// Runs a command, and ends it when the time is over.
pub(crate) fn finish(command: &mut Command) -> Output {
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child: Child = child.unwrap();
    let until = Instant::now() + LONGEST;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > until {
            child.kill().unwrap();
            let said = child.wait_with_output().unwrap();
            panic!("{command:?} did not end: {said:?}");
        }
        sleep(Duration::from_millis(5));
    }
    child.wait_with_output().unwrap()
}
