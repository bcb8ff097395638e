//! The files of a machine.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use topology::xml::{Document, Element, Tag, c_int, c_unsigned_hexadecimal};

use super::FakeMachine;

/// From this family number on, NCCL's numbers are Linux's plus an extension.
const EXTENDED_FAMILY: i32 = 15;

/// Makes the tree of a document.
pub(super) fn build(machine: &mut FakeMachine, document: &Document) -> Result<()> {
    let mut used = BTreeSet::new();
    bus_ids(&document.root, &mut used);
    let mut layout = Layout {
        machine,
        used,
        next: 0,
        direct: false,
        kind: None,
    };
    let cpus: Vec<&Element> = document.root.children(Tag::Cpu).collect();
    let first = cpus.first().context("no <cpu>")?;
    layout.processor(first)?;
    for cpu in &cpus {
        layout.cpu(cpu, first)?;
    }
    if layout.direct {
        layout
            .machine
            .file("sys/module/nvidia_peermem/version", "580.82.07");
    }
    machine.file("proc/sys/kernel/osrelease", "6.8.0-45-generic");
    Ok(())
}

struct Layout<'m> {
    machine: &'m mut FakeMachine,
    used: BTreeSet<String>,
    next: u32,
    direct: bool,
    /// Whether the network devices use RDMA, once one is known.
    kind: Option<bool>,
}

fn bus_ids(element: &Element, used: &mut BTreeSet<String>) {
    used.extend(element.get("busid").map(str::to_owned));
    element
        .children
        .iter()
        .for_each(|child| bus_ids(child, used));
}

impl Layout<'_> {
    fn processor(&mut self, cpu: &Element) -> Result<()> {
        let get = |name| cpu.get(name).unwrap_or_default();
        let text = match get("arch") {
            "x86_64" => {
                let family = c_int(get("familyid"));
                ensure!(
                    family <= EXTENDED_FAMILY || (family - EXTENDED_FAMILY) % 16 == 0,
                    "the family {family}, which NCCL counts otherwise"
                );
                let family = match family {
                    family if family > EXTENDED_FAMILY => {
                        EXTENDED_FAMILY + ((family - EXTENDED_FAMILY) >> 4)
                    }
                    family => family,
                };
                format!(
                    "processor\t: 0\nvendor_id\t: {}\ncpu family\t: {family}\nmodel\t\t: {}\nmodel name\t: fake\nflags\t\t: fpu vme sse2\n\nprocessor\t: 1",
                    get("vendor"),
                    get("modelid"),
                )
            }
            "arm64" => {
                "processor\t: 0\nBogoMIPS\t: 2000.00\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f"
                    .to_owned()
            }
            "ppc64" => "processor\t: 0\ncpu\t\t: POWER9, altivec supported\nclock\t\t: 3800.0MHz"
                .to_owned(),
            other => anyhow::bail!("a processor of architecture {other:?}"),
        };
        self.machine.file("proc/cpuinfo", text);
        Ok(())
    }

    fn cpu(&mut self, cpu: &Element, first: &Element) -> Result<()> {
        let same = |name| cpu.get(name) == first.get(name);
        ensure!(
            same("arch") && same("vendor") && same("modelid"),
            "processors of several kinds"
        );
        let numa = cpu.get("numaid").context("no numaid")?;
        if let Some(mask) = cpu.get("affinity").filter(|_| c_int(numa) >= 0) {
            self.machine
                .file(format!("sys/devices/system/node/node{numa}/cpumap"), mask);
        }
        for child in &cpu.children {
            match child.tag {
                Tag::Pci => {
                    let domain = self.domain(child)?;
                    let root = self.free(&domain);
                    let complex =
                        format!("sys/devices/pci{domain}:{}", &root[domain.len() + 1..][..2]);
                    let port = self.port(&complex, child, numa, &root);
                    self.pci(child, &port, numa)?;
                }
                Tag::Nic => {
                    for net in child.children(Tag::Net) {
                        ensure!(
                            c_int(net.get("port").unwrap_or_default()) == 0,
                            "an RDMA device without a function"
                        );
                        self.interface(net, "sys/devices/virtual")?;
                    }
                }
                _ => anyhow::bail!("a <{}> directly below a <cpu>", child.tag.name()),
            }
        }
        Ok(())
    }

    fn domain(&self, pci: &Element) -> Result<String> {
        let bus_id = pci.get("busid").context("no busid")?;
        let domain = bus_id.split(':').next().unwrap_or_default();
        ensure!(bus_id.len() == 12, "the bus id {bus_id}");
        Ok(domain.to_owned())
    }

    /// An unused bus id.
    fn free(&mut self, domain: &str) -> String {
        loop {
            let (bus, device) = (self.next % 256, (self.next / 256) % 32);
            self.next += 1;
            let bus_id = format!("{domain}:{bus:02x}:{device:02x}.0");
            if self.used.insert(bus_id.clone()) {
                return bus_id;
            }
        }
    }

    /// A port with the link of the device below it.
    fn port(&mut self, above: &str, below: &Element, numa: &str, bus_id: &str) -> String {
        let folder = format!("{above}/{bus_id}");
        let mut port = Element::new(Tag::Pci);
        for (name, value) in [
            ("class", "0x060400"),
            ("vendor", "0x8086"),
            ("device", "0x352a"),
            ("link_speed", below.get("link_speed").unwrap_or_default()),
            ("link_width", below.get("link_width").unwrap_or_default()),
        ] {
            port.set(name, value);
        }
        self.function(&port, &folder, bus_id, numa);
        folder
    }

    fn function(&mut self, pci: &Element, folder: &str, bus_id: &str, numa: &str) {
        self.machine
            .link(format!("sys/bus/pci/devices/{bus_id}"), folder);
        let mut file = |name: &str, text: &str| self.machine.file(format!("{folder}/{name}"), text);
        for name in [
            "class",
            "vendor",
            "device",
            "subsystem_vendor",
            "subsystem_device",
        ] {
            if let Some(text) = pci.get(name) {
                file(name, text);
            }
        }
        file("numa_node", numa);
        let (speed, width) = (
            pci.get("link_speed").unwrap_or_default(),
            pci.get("link_width").unwrap_or_default(),
        );
        for (names, text) in [
            (["current_link_speed", "max_link_speed"], speed),
            (["current_link_width", "max_link_width"], width),
        ] {
            if !text.is_empty() {
                names.iter().for_each(|name| file(name, text));
            }
        }
    }

    fn pci(&mut self, pci: &Element, above: &str, numa: &str) -> Result<()> {
        let bus_id = pci.get("busid").context("no busid")?.to_owned();
        ensure!(bus_id.len() == 12, "the bus id {bus_id}");
        let folder = format!("{above}/{bus_id}");
        self.function(pci, &folder, &bus_id, numa);
        if pci
            .get("class")
            .is_some_and(|class| class.starts_with("0x03"))
        {
            self.machine
                .link(format!("{folder}/driver"), "sys/bus/pci/drivers/nvidia");
        }
        for child in &pci.children {
            match child.tag {
                Tag::Pci => {
                    let domain = self.domain(child)?;
                    let free = self.free(&domain);
                    let port = self.port(&folder, child, numa, &free);
                    self.pci(child, &port, numa)?;
                }
                Tag::Nic => self.nic(child, &folder, &bus_id)?,
                Tag::Pcilink => {
                    let target = child.get("target").unwrap_or_default();
                    self.machine.file(
                        format!(
                            "sys/kernel/pci_switch_link/virtual_switch_links/{bus_id}/{target}"
                        ),
                        "1",
                    );
                }
                Tag::Gpu => self.remote_ends(child)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// The functions at remote ends of NVLinks that are not GPUs of the file.
    fn remote_ends(&mut self, gpu: &Element) -> Result<()> {
        for link in gpu.children(Tag::Nvlink) {
            let target = link.get("target").unwrap_or_default();
            if target.len() == 12 && !self.used.contains(target) {
                self.used.insert(target.to_owned());
                let mut function = Element::new(Tag::Pci);
                function.set("class", link.get("tclass").unwrap_or_default());
                function.set("vendor", "0x10de");
                let folder = format!("sys/devices/pci{}:ff/{target}", &target[..4]);
                self.function(&function, &folder, target, "-1");
            }
        }
        Ok(())
    }

    /// An interface without RDMA, below a function or virtual.
    fn interface(&mut self, net: &Element, above: &str) -> Result<()> {
        let get = |name| net.get(name).unwrap_or_default();
        ensure!(
            self.kind.replace(false) != Some(true),
            "interfaces beside RDMA devices, of which NCCL lists one kind"
        );
        let (name, dev) = (get("name"), c_int(get("dev")));
        ensure!(!name.is_empty(), "a <net> without a name");
        let folder = format!("{above}/net/{name}");
        self.machine
            .link(format!("sys/class/net/{name}"), folder.clone());
        // NCCL lists interfaces by their numbers, after the loopback interface.
        let number = (dev + 2).to_string();
        for (file, text) in [
            ("ifindex", number.as_str()),
            ("operstate", "up"),
            ("type", "1"),
            ("speed", get("speed")),
        ] {
            self.machine.file(format!("{folder}/{file}"), text);
        }
        Ok(())
    }

    fn nic(&mut self, nic: &Element, folder: &str, bus_id: &str) -> Result<()> {
        for (number, net) in nic.children(Tag::Net).enumerate() {
            let get = |name| net.get(name).unwrap_or_default();
            let name = get("name");
            ensure!(!name.is_empty(), "a <net> without a name");
            if c_int(get("port")) == 0 {
                self.interface(net, folder)?;
                continue;
            }
            ensure!(
                self.kind.replace(true) != Some(false),
                "interfaces beside RDMA devices, of which NCCL lists one kind"
            );
            ensure!(
                c_int(get("port")) == number as i32 + 1,
                "ports of one board are not numbered 1, 2 …"
            );
            // The ports of a board are its functions.
            let own = format!("{}{number}", &bus_id[..bus_id.len() - 1]);
            let mut place = folder.to_owned();
            if number > 0 {
                let above = folder.rsplit_once('/').map_or("", |(above, _)| above);
                place = format!("{above}/{own}");
                let same = [
                    "class",
                    "vendor",
                    "device",
                    "numa_node",
                    "max_link_speed",
                    "max_link_width",
                    "current_link_speed",
                    "current_link_width",
                ];
                for file in same {
                    if let Some(bytes) =
                        self.machine.files.get(&format!("{folder}/{file}")).cloned()
                    {
                        self.machine.files.insert(format!("{place}/{file}"), bytes);
                    }
                }
                self.machine
                    .link(format!("sys/bus/pci/devices/{own}"), place.clone());
            }
            let device = format!("{place}/infiniband/{name}");
            self.machine
                .link(format!("sys/class/infiniband/{name}"), device.clone());
            let guid = c_unsigned_hexadecimal(get("guid")).swap_bytes();
            let groups: Vec<String> = (0..4)
                .rev()
                .map(|group| format!("{:04x}", guid >> (16 * group) & 0xffff))
                .collect();
            self.machine
                .file(format!("{device}/sys_image_guid"), groups.join(":"));
            let rate = f64::from(c_int(get("speed"))) / 1000.0;
            for (file, text) in [
                ("state", "4: ACTIVE".to_owned()),
                ("phys_state", "5: LinkUp".to_owned()),
                ("link_layer", "InfiniBand".to_owned()),
                ("rate", format!("{rate} Gb/sec (4X NDR)")),
            ] {
                self.machine.file(format!("{device}/ports/1/{file}"), text);
            }
            self.direct |= c_int(get("gdr")) != 0;
        }
        Ok(())
    }
}
