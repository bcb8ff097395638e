//! A phantom machine: a folder with the driver's libraries, a machine file and the report.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::Mutex;

/// A machine on which programs find a phantom driver.
pub(crate) struct Phantom {
    machine: testkit::phantom::Phantom,
}

/// A library that Cargo built for this test, beside its executable.
fn built(name: &str) -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let path = own.with_file_name(name);
    assert!(path.is_file(), "{} was not built", path.display());
    path
}

/// The folder with the libraries that Cargo built for this test.
pub(crate) fn libraries() -> PathBuf {
    let driver = built("libphantom.so");
    driver.parent().unwrap().to_owned()
}

/// Entry points and the versions that have them first.
const ENTRY_POINTS: &str = include_str!("../../../phantom/entry_points.txt");

/// The libraries of older drivers, by version, for all tests.
static OLDER: Mutex<BTreeMap<u32, Vec<u8>>> = Mutex::new(BTreeMap::new());

/// A library without the functions of newer versions: their names in its table are changed, so that
/// the loader does not find them.
fn without(mut library: Vec<u8>, version: u32) -> Vec<u8> {
    let newer: BTreeSet<&[u8]> = ENTRY_POINTS
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter(|(_, since)| since.parse::<u32>().unwrap() > version)
        .map(|(name, _)| name.as_bytes())
        .collect();
    let mut begin = 0;
    while let Some(length) = library[begin..].iter().position(|byte| *byte == 0) {
        if newer.contains(&library[begin..begin + length]) {
            library[begin] = b'x';
        }
        begin += length + 1;
    }
    library
}

impl Phantom {
    /// A machine of `topologies/` with these lines in its machine file. GPUs have 8
    /// multiprocessors, so that launches are small.
    pub(crate) fn new(topology: &str, lines: &[&str]) -> Self {
        let phantom = Self {
            machine: testkit::phantom::Phantom::new(&libraries(), topology, lines).unwrap(),
        };
        let nvml = built("libphantom.so");
        symlink(nvml, phantom.path("libnvidia-ml.so.1")).unwrap();
        phantom
    }

    /// Like [`Self::new`], with a driver of an older version: its library lacks newer functions.
    pub(crate) fn with_driver(topology: &str, version: u32, lines: &[&str]) -> Self {
        let version_line = format!("driver {version}");
        let lines: Vec<&str> = lines
            .iter()
            .copied()
            .chain([version_line.as_str()])
            .collect();
        let phantom = Self::new(topology, &lines);
        let library = phantom.path("libcuda.so.1");
        let mut known = OLDER.lock().unwrap();
        let older = known
            .entry(version)
            .or_insert_with(|| without(std::fs::read(&library).unwrap(), version));
        std::fs::remove_file(&library).unwrap();
        std::fs::write(&library, older).unwrap();
        phantom
    }

    /// A file of the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.machine.path(name)
    }

    /// `topo` on this machine, without variables of this test's own environment.
    pub(crate) fn topo(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_topo"));
        self.prepare(&mut command);
        command
    }

    /// Lets a program find this machine.
    pub(crate) fn prepare(&self, command: &mut Command) {
        command.current_dir(env!("CARGO_MANIFEST_DIR"));
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            let ours = ["NCCL_", "TOPO_", "CUDA_", "OMPI_", "PMI", "SLURM_"];
            if ours.iter().any(|it| text.starts_with(it)) {
                command.env_remove(&name);
            }
        }
        self.machine.prepare(command);
    }

    /// Runs a collective. Small messages, because a thread runs all threads of a GPU.
    pub(crate) fn run(&self, arguments: &str) -> Output {
        let small = "--backend cuda -b 64 -e 64K -f 1024 --channels=2 --warm 0";
        let mut command = self.topo();
        command.arg("run").args(arguments.split_whitespace());
        if !arguments.contains("-n ") {
            command.args(["-n", "2"]);
        }
        command.args(small.split_whitespace()).output().unwrap()
    }

    /// Runs a collective that must succeed without a broken rule, a fault or a leak. Returns the
    /// page.
    pub(crate) fn right(&self, arguments: &str) -> String {
        let output = self.run(arguments);
        let page = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        let report = self.report();
        assert!(
            output.status.success(),
            "{arguments}\n{page}\n{errors}\n{report:?}"
        );
        assert!(
            page.contains("every element is right"),
            "{arguments}\n{page}"
        );
        assert_eq!(report.problems, [] as [&str; 0], "{arguments}\n{page}");
        page
    }

    /// The driver's reports of all processes so far.
    pub(crate) fn report(&self) -> Report {
        let text = std::fs::read_to_string(self.path("report")).unwrap_or_default();
        let mut report = Report::default();
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["call", function, count] => {
                    let count: u64 = count.parse().unwrap();
                    *report.calls.entry(function.to_owned()).or_default() += count;
                }
                ["wait", ..] => {}
                _ => report.problems.push(line.to_owned()),
            }
        }
        report
    }
}

/// The report of a driver.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Calls by function.
    pub calls: BTreeMap<String, u64>,
    /// Broken rules, faults, leaks, and functions that are not implemented.
    pub problems: Vec<String>,
}
