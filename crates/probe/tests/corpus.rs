//! Trees of `/sys` that others recorded: every device must be read as the recording says.
//!
//! The trees are not part of the project.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use libtest_mimic::{Arguments, Completion, Trial};
use probe::machine::Detail;
use probe::nvml::Answers;
use probe::{Machine, Options, Probe, Sysfs};
use test_support::elsewhere::{self, files};

/// The folder with `sys` in an unpacked archive.
fn root(folder: &Path) -> PathBuf {
    let mut entries = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    entries.find(|path| path.join("sys").is_dir()).unwrap()
}

fn main() -> std::process::ExitCode {
    let arguments = Arguments::from_args();
    let tests = match elsewhere::corpus() {
        Ok(corpus) => files(&corpus.join("sysfs"), "bz2")
            .unwrap_or_default()
            .into_iter()
            .map(trial)
            .collect(),
        Err(why) => vec![not_run("sysfs".to_owned(), why)],
    };
    libtest_mimic::run(&arguments, tests).exit_code()
}

fn not_run(name: String, why: String) -> Trial {
    Trial::ignorable_test(name, move || {
        Ok(Completion::ignored_with(format!("not run: {why}")))
    })
}

fn trial(archive: PathBuf) -> Trial {
    let name = archive
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let test = name.clone();
    Trial::ignorable_test(name, move || {
        // Thousands of small files are better kept in memory.
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() {
            tempfile::tempdir_in(memory)?
        } else {
            tempfile::tempdir()?
        };
        let mut tar = Command::new("tar");
        tar.arg("xjf")
            .arg(&archive)
            .arg("-C")
            .arg(folder.path())
            .args(
                ["msi_irqs", "power", "system/cpu", "virtual", "memory*"]
                    .map(|name| format!("--exclude=*/{name}")),
            );
        if !tar.status().is_ok_and(|status| status.success()) {
            return Ok(Completion::ignored_with(
                "not run: tar and bzip2 are needed to unpack it",
            ));
        }
        check(&root(folder.path()), &test);
        Ok(Completion::Completed)
    })
}

/// Checks a tree device by device.
fn check(root: &Path, name: &str) {
    let text = |path: PathBuf| {
        fs::read_to_string(path)
            .ok()
            .map(|text| text.trim().to_owned())
    };
    let sysfs = Sysfs::new(root);
    let machine = Machine::read(&sysfs, Detail::Everything, None, []);
    let mut count = 0;
    for entry in fs::read_dir(root.join("sys/bus/pci/devices"))
        .into_iter()
        .flatten()
    {
        let path = entry.unwrap().path();
        let bus_id = path.file_name().unwrap().to_string_lossy().into_owned();
        let function = machine
            .pci
            .get(&bus_id)
            .unwrap_or_else(|| panic!("{name}: {bus_id} is not read"));
        let real = fs::canonicalize(&path).unwrap();
        let says = |file: &str| text(real.join(file));
        assert_eq!(
            function.class,
            says("class").unwrap_or_default(),
            "{name} {bus_id}"
        );
        assert_eq!(
            function.vendor,
            says("vendor").unwrap_or_default(),
            "{name} {bus_id}"
        );
        assert_eq!(
            function.device,
            says("device").unwrap_or_default(),
            "{name} {bus_id}"
        );
        assert_eq!(function.numa_node, says("numa_node"), "{name} {bus_id}");
        assert_eq!(
            function.link.current_speed,
            says("current_link_speed"),
            "{name} {bus_id}"
        );
        assert_eq!(
            function.link.max_speed,
            says("max_link_speed"),
            "{name} {bus_id}"
        );
        assert_eq!(
            function.link.current_width,
            says("current_link_width"),
            "{name} {bus_id}"
        );
        assert_eq!(
            function.link.max_width,
            says("max_link_width"),
            "{name} {bus_id}"
        );
        // The folders up to the root complex are the tree.
        let above = real
            .parent()
            .unwrap()
            .file_name()
            .unwrap()
            .to_string_lossy()
            .into_owned();
        match function.chain.len() {
            0 | 1 => assert!(!above.starts_with("pci0"), "{name} {bus_id}"),
            length => assert_eq!(function.chain[length - 2], above, "{name} {bus_id}"),
        }
        count += 1;
    }
    assert_eq!(machine.pci.len(), count, "{name}");
    for node in &machine.numa_nodes {
        let cpumap = text(root.join(format!(
            "sys/devices/system/node/node{}/cpumap",
            node.number
        )));
        assert_eq!(
            Some(&node.cpumap).filter(|map| !map.is_empty()),
            cpumap.as_ref().filter(|map| !map.is_empty()),
            "{name}"
        );
    }
    for all_devices in [false, true] {
        let options = Options {
            all_devices,
            ..Options::default()
        };
        let probe = Probe::of(&sysfs, Answers::none("no driver"), None, &options);
        let document = topology::xml::write(&probe.document);
        topology::xml::parse(name, document.as_bytes()).unwrap();
        assert!(!probe.document.root.children.is_empty(), "{name}");
        let arch = probe.document.root.children[0]
            .get("arch")
            .unwrap_or_default();
        assert!(
            ["x86_64", "arm64", "ppc64"].contains(&arch),
            "{name}: {arch}"
        );
        if all_devices {
            for function in machine
                .pci
                .iter()
                .filter(|function| !function.class.starts_with("0x06"))
            {
                let written = document.contains(&format!("busid=\"{}\"", function.bus_id));
                assert!(
                    written || function.class.is_empty(),
                    "{name} {}",
                    function.bus_id
                );
            }
        }
    }
}
