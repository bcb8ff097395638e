//! Trees of `/sys` that others recorded: every device must be read as the recording says. Topologies that NCCL dumped on
//! machines of others: the machine, laid out again as files and driver answers, must give the same file.
//!
//! None of these files are part of the project.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use libtest_mimic::{Arguments, Completion, Trial};
use machines::FakeMachine;
use machines::elsewhere::{self, files};
use probe::machine::Detail;
use probe::nvml::Answers;
use probe::record::Recording;
use probe::{Machine, Probe, ProbeOptions, Sysfs};
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

/// Brings NCCL's file to the form of the present version, and leaves out what older ones did not write.
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

/// The processor is what `/proc/cpuinfo` says, in NCCL's numbers, and there are as many nodes as folders.
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
    check_processor(&machine, root, name);
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
        let options = ProbeOptions {
            all_devices,
            ..ProbeOptions::default()
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
