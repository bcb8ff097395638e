//! Trees of `/sys` that others recorded: every device must be read as the recording says.
//! Topologies that NCCL dumped on machines of others: the machine, laid out again as files and
//! driver answers, must give the same file.
//!
//! None of these files are part of the project.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use libtest_mimic::{Arguments, Completion, Trial};
use probe::machine::{Detail, PciFunction};
use probe::nvml::Answers;
use probe::record::Recording;
use probe::{Machine, Probe, ProbeOptions, Sysfs};
use testkit::FakeMachine;
use testkit::elsewhere::{self, files};
use topology::xml::{Document, Element, c_unsigned_hexadecimal};

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
        Ok(corpus) => {
            let trees = files(&corpus.join("sysfs"), "bz2").unwrap_or_default();
            let mut tests: Vec<Trial> = trees.into_iter().map(trial).collect();
            tests.extend(DUMPS.map(|(name, ordered)| {
                dump(name, ordered, corpus.join(format!("nccl/{name}.xml")))
            }));
            tests
        }
        Err(why) => vec![
            not_run("sysfs".to_owned(), why.clone()),
            not_run("dumps".to_owned(), why),
        ],
    };
    libtest_mimic::run(&arguments, tests).exit_code()
}

fn not_run(name: String, why: String) -> Trial {
    Trial::ignorable_test(name, move || {
        Ok(Completion::ignored_with(format!("not run: {why}")))
    })
}

/// Files that NCCL wrote itself, whole, and whether its version puts siblings in the present order.
const DUMPS: [(&str, bool); 7] = [
    ("adpdit-topology", false),
    ("gb10-spark-c2c", false),
    ("gb300-nvl72-1tray.placeholders-filled", true),
    ("ncclissue-2xA100pcie-roce-ubuntu2", true),
    ("ncclissue-2xA100pcie-roce-ubuntu4", true),
    ("panlichen-topo", false),
    ("timez-2xA100pcie-nvl-normal", true),
];

/// Attributes that NCCL computes itself when it reads a file, or that no file of the kernel tells.
const NOT_PROBED: [&str; 2] = ["host_hash", "maxconn"];

/// Attributes that NCCL 2.30 writes, and older versions did not.
const NEW: [&str; 3] = ["mlopart", "net", "gin"];

/// NCCL's file comes back: elements, their order, attributes, their order and their text.
fn dump(name: &str, ordered: bool, path: PathBuf) -> Trial {
    let name = name.to_owned();
    Trial::ignorable_test(format!("dump::{name}"), move || {
        let document = topology::xml::parse(&name, &fs::read(&path)?)?;
        let fake = match FakeMachine::of(&document) {
            Ok(fake) => fake,
            Err(why) => return Ok(Completion::ignored_with(format!("not run: {why:#}"))),
        };
        let folder = tempfile::tempdir()?;
        fake.write(folder.path())?;
        let recording = Recording::open(folder.path())?;
        let options = ProbeOptions {
            gpus: Some(fake.ranks.clone()),
            ..ProbeOptions::default()
        };
        let probe = Probe::of(&recording.sysfs, recording.answers, None, &options);
        let (mut theirs, mut ours) = (document.root, probe.document.root);
        if !ordered {
            sort(&mut theirs);
            sort(&mut ours);
        }
        as_written_now(&mut theirs, &mut ours);
        let text = |root| topology::xml::write(&Document::from_root(name.as_str(), root));
        let (theirs, ours) = (text(theirs), text(ours));
        let mut lines = theirs.lines().zip(ours.lines());
        match lines.find(|(theirs, ours)| theirs != ours) {
            Some((theirs, ours)) => Err(format!("NCCL wrote\n{theirs}\nfound\n{ours}").into()),
            None if theirs != ours => Err("one file is longer".into()),
            None => Ok(Completion::Completed),
        }
    })
}

/// Puts siblings in order.
fn sort(element: &mut Element) {
    element.children.sort_by_key(|child| {
        let names = ["numaid", "busid", "target", "name"];
        let name = names.iter().find_map(|name| child.get(name));
        (child.tag, name.unwrap_or_default().to_owned())
    });
    element.children.iter_mut().for_each(sort);
}

/// Brings NCCL's file to the form of the present version, and leaves out what older ones did not
/// write.
fn as_written_now(theirs: &mut Element, ours: &mut Element) {
    let probed = |name: &str| !NOT_PROBED.contains(&name);
    theirs
        .attributes
        .retain(|attribute| probed(&attribute.name));
    ours.attributes.retain(|attribute| {
        let is_new = NEW.contains(&&*attribute.name) && theirs.get(&attribute.name).is_none();
        probed(&attribute.name) && !is_new
    });
    for element in [&mut *theirs, &mut *ours] {
        // Versions differ in leading zeros of what drivers tell, and a guid was filled in by hand.
        for name in ["subsystem_vendor", "subsystem_device", "guid"] {
            if let Some(number) = element.get(name).map(c_unsigned_hexadecimal) {
                element.set(name, format!("{number:#x}"));
            }
        }
    }
    if let Some(latency) = theirs.get("latency").map(topology::xml::c_float) {
        theirs.set("latency", latency.to_string());
        // It moved forward in 2.27.
        if theirs.attributes[2].name != "latency" {
            let at = theirs
                .attributes
                .iter()
                .position(|attribute| attribute.name == "latency");
            let latency = theirs.attributes.remove(at.unwrap_or_default());
            theirs.attributes.insert(2, latency);
        }
    }
    for (theirs, ours) in theirs.children.iter_mut().zip(&mut ours.children) {
        as_written_now(theirs, ours);
    }
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

/// The processor is what `/proc/cpuinfo` says, in NCCL's numbers, and there are as many nodes as
/// folders.
fn check_processor(machine: &Machine, root: &Path, name: &str) {
    let cpuinfo = fs::read_to_string(root.join("proc/cpuinfo")).unwrap_or_default();
    let says = |key: &str| {
        let mut lines = cpuinfo.lines().map(|line| line.split_once(':'));
        let found = lines.find_map(|pair| pair.filter(|(found, _)| found.trim() == key));
        found.map(|(_, value)| value.trim().to_owned())
    };
    let processor = &machine.processor;
    assert_eq!(processor.vendor, says("vendor_id"), "{name}");
    let number = |key: &str| says(key).and_then(|text| text.parse::<i32>().ok());
    if processor.arch == "x86_64" {
        // Families up to 15 are the same numbers in NCCL; none of the trees has another.
        assert_eq!(processor.family, number("cpu family"), "{name}");
        assert_eq!(processor.model, number("model"), "{name}");
    }
    let nodes = fs::read_dir(root.join("sys/devices/system/node"));
    let is_node = |entry: &fs::DirEntry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        let number = name.strip_prefix("node").map(str::parse::<u32>);
        matches!(number, Some(Ok(_)))
    };
    let count = nodes
        .into_iter()
        .flatten()
        .flatten()
        .filter(is_node)
        .count();
    assert_eq!(machine.numa_nodes.len(), count, "{name}");
}

/// Checks a tree device by device.
fn check(root: &Path, name: &str) {
    let sysfs = Sysfs::new(root);
    let machine = Machine::read(&sysfs, Detail::Everything, None, []);
    let devices = fs::read_dir(root.join("sys/bus/pci/devices"));
    let devices: Vec<PathBuf> = (devices.into_iter().flatten())
        .map(|entry| entry.unwrap().path())
        .collect();
    for path in &devices {
        let bus_id = path.file_name().unwrap().to_string_lossy();
        let function = machine.pci.get(&bus_id);
        let function = function.unwrap_or_else(|| panic!("{name}: {bus_id} is not read"));
        check_function(function, path, &format!("{name} {bus_id}"));
    }
    assert_eq!(machine.pci.len(), devices.len(), "{name}");
    check_processor(&machine, root, name);
    for node in &machine.numa_nodes {
        let number = node.number;
        let cpumap = text(root.join(format!("sys/devices/system/node/node{number}/cpumap")));
        assert_eq!(node.cpumap, cpumap.unwrap_or_default(), "{name}");
    }
    for all_devices in [false, true] {
        check_document(&sysfs, &machine, all_devices, name);
    }
}

/// The trimmed text of a file.
fn text(path: PathBuf) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned())
}

/// Checks a function of PCI against its folder.
fn check_function(function: &PciFunction, path: &Path, place: &str) {
    let real = fs::canonicalize(path).unwrap();
    let says = |file: &str| text(real.join(file));
    for (found, file) in [
        (&function.class, "class"),
        (&function.vendor, "vendor"),
        (&function.device, "device"),
    ] {
        assert_eq!(*found, says(file).unwrap_or_default(), "{place} {file}");
    }
    for (found, file) in [
        (&function.numa_node, "numa_node"),
        (&function.link.current_speed, "current_link_speed"),
        (&function.link.max_speed, "max_link_speed"),
        (&function.link.current_width, "current_link_width"),
        (&function.link.max_width, "max_link_width"),
    ] {
        assert_eq!(*found, says(file), "{place} {file}");
    }
    // The folders up to the root complex are the tree.
    let above = real.parent().and_then(Path::file_name).unwrap();
    let above = above.to_string_lossy();
    match function.chain.len() {
        0 | 1 => assert!(!above.starts_with("pci0"), "{place}"),
        length => assert_eq!(function.chain[length - 2], above, "{place}"),
    }
}

/// Checks the topology that is made of a tree.
fn check_document(sysfs: &Sysfs, machine: &Machine, all_devices: bool, name: &str) {
    let options = ProbeOptions {
        all_devices,
        ..ProbeOptions::default()
    };
    let probe = Probe::of(sysfs, Answers::none("no driver"), None, &options);
    let document = topology::xml::write(&probe.document);
    topology::xml::parse(name, document.as_bytes()).unwrap();
    let first = probe.document.root.children.first();
    let arch = first.and_then(|it| it.get("arch")).unwrap_or_default();
    assert!(
        ["x86_64", "arm64", "ppc64"].contains(&arch),
        "{name}: {arch}"
    );
    let devices = machine.pci.iter();
    for function in devices.filter(|it| all_devices && !it.class.starts_with("0x06")) {
        let bus_id = &function.bus_id;
        let written = document.contains(&format!("busid=\"{bus_id}\""));
        assert!(written || function.class.is_empty(), "{name} {bus_id}");
    }
}
