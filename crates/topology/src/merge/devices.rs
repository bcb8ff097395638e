//! The network ports of a host, and where they are in its tree.

use crate::xml::{Element, Tag, c_int, c_unsigned_hexadecimal};

use super::number;

/// The way from the root to an element: positions among the children.
pub(super) type PortPath = Vec<usize>;

/// A network port.
#[derive(Debug)]
pub(super) struct Port {
    pub path: PortPath,
    pub name: String,
    /// The port of its card; `None` if the file does not say.
    pub port: Option<i32>,
    pub rail: Option<i32>,
    pub plane: Option<i32>,
    /// The link layer is InfiniBand, not Ethernet.
    pub infiniband: bool,
}

impl Port {
    /// Whether it is a socket's interface: NCCL counts ports of InfiniBand and RoCE from 1.
    pub(super) fn is_socket(&self) -> bool {
        self.port == Some(0)
    }
}

/// The network ports of a host.
#[derive(Debug)]
pub(super) struct Devices {
    /// Positions of the host's CPUs.
    pub cpus: Vec<usize>,
    /// The ports, by number.
    pub ports: Vec<Port>,
    /// Virtual devices that an earlier merge left in the file.
    left_over: Vec<PortPath>,
}

/// The element at the end of a path.
pub(super) fn at<'a>(root: &'a Element, path: &[usize]) -> &'a Element {
    path.iter().fold(root, |element, at| &element.children[*at])
}

/// The element at the end of a path.
pub(super) fn at_mut<'a>(root: &'a mut Element, path: &[usize]) -> &'a mut Element {
    path.iter()
        .fold(root, |element, at| &mut element.children[*at])
}

/// All ports of a host, in the file's order.
fn nets(root: &Element, cpus: &[usize]) -> Vec<PortPath> {
    fn walk(element: &Element, path: &mut PortPath, found: &mut Vec<PortPath>) {
        for (at, child) in element.children.iter().enumerate() {
            path.push(at);
            match child.tag {
                Tag::Net => found.push(path.clone()),
                Tag::Pci | Tag::Nic => walk(child, path, found),
                _ => {}
            }
            path.pop();
        }
    }
    let mut found = Vec::new();
    for cpu in cpus {
        walk(&root.children[*cpu], &mut vec![*cpu], &mut found);
    }
    found
}

/// The first port with this name.
pub(super) fn named(root: &Element, cpus: &[usize], name: &str) -> Option<PortPath> {
    let mut paths = nets(root, cpus).into_iter();
    paths.find(|path| at(root, path).get("name") == Some(name))
}

/// Whether the nearest PCI function has the class of InfiniBand.
fn is_infiniband(root: &Element, path: &[usize]) -> bool {
    let above = (0..path.len()).rev().map(|end| at(root, &path[..end]));
    let mut functions = above.filter(|element| element.tag == Tag::Pci);
    let class = functions.next().and_then(|pci| pci.get("class"));
    class.is_some_and(|class| class.starts_with("0x0207"))
}

impl Devices {
    /// The ports below these CPUs.
    pub(super) fn of(root: &Element, cpus: &[usize]) -> Self {
        let paths = nets(root, cpus);
        let name = |path: &PortPath| at(root, path).get("name").unwrap_or_default();
        let names: Vec<&str> = paths.iter().map(name).collect();
        let is_left_over = |name: &str| {
            let mut parts = name.split('+');
            name.contains('+') && parts.all(|part| names.contains(&part))
        };
        // Elements of other plug-ins only are no ports.
        let is_port = |path: &&PortPath| {
            let net = at(root, path);
            number(net).is_some() && net.get("net").is_none_or(|net| c_int(net) != 0)
        };
        let (left_over, mut physical): (Vec<PortPath>, Vec<PortPath>) = paths
            .iter()
            .filter(is_port)
            .cloned()
            .partition(|path| is_left_over(name(path)));
        physical.sort_by_key(|path| number(at(root, path)));
        let port = |own: PortPath| {
            let net = at(root, &own);
            let defined = |name| net.get(name).map(c_int).filter(|value| *value != -1);
            // NCCL finds a port's element by its name.
            let first = || {
                paths
                    .iter()
                    .find(|path| at(root, path).get("name") == net.get("name"))
            };
            let path = net.get("name").and_then(|_| first()).unwrap_or(&own);
            Port {
                name: net.get("name").unwrap_or_default().to_owned(),
                port: net.get("port").map(c_int),
                rail: defined("rail"),
                plane: defined("plane"),
                infiniband: is_infiniband(root, &own),
                path: path.clone(),
            }
        };
        Self {
            cpus: cpus.to_vec(),
            ports: physical.into_iter().map(port).collect(),
            left_over,
        }
    }

    /// Whether the ports have the numbers that NCCL gives them, and the file holds no others.
    pub(super) fn are_numbered(&self, root: &Element) -> bool {
        let mut numbered = (0..).zip(&self.ports);
        self.left_over.is_empty()
            && numbered.all(|(dev, port)| number(at(root, &port.path)) == Some(dev))
    }

    /// Numbers the ports as NCCL does: 0, 1, 2 and so on.
    pub(super) fn number(&self, root: &mut Element) {
        for (dev, port) in self.ports.iter().enumerate() {
            at_mut(root, &port.path).set("dev", dev.to_string());
        }
    }

    /// Removes the ports of virtual devices and what earlier merges left over.
    pub(super) fn remove_merged(&self, root: &mut Element, groups: &[Vec<usize>]) {
        let members = groups.iter().flatten().map(|at| &self.ports[*at].path);
        for path in members {
            let net = at_mut(root, path);
            net.set("net", "0");
            let serves = |name| net.get(name).map_or(0, c_int) != 0;
            if !serves("gin") && !serves("coll") {
                net.attributes.retain(|attribute| attribute.name != "dev");
            }
        }
        let made: Vec<String> = groups.iter().map(|group| self.name(group)).collect();
        for path in &self.left_over {
            let net = at_mut(root, path);
            if !net
                .get("name")
                .is_some_and(|name| made.iter().any(|made| made == name))
            {
                net.attributes.retain(|attribute| attribute.name != "dev");
            }
        }
        let mut gone: Vec<PortPath> = nets(root, &self.cpus);
        gone.retain(|path| number(at(root, path)).is_none());
        // From the end, so that the other paths stay valid.
        for path in gone.iter().rev() {
            remove(root, path);
        }
    }

    /// The name of a group's virtual device.
    pub(super) fn name(&self, group: &[usize]) -> String {
        let names: Vec<&str> = group.iter().map(|at| &*self.ports[*at].name).collect();
        names.join("+")
    }

    /// The planes of the host, in the order of the ports that have them.
    pub(super) fn planes(&self) -> Vec<i32> {
        let mut planes = Vec::new();
        for plane in self.ports.iter().filter_map(|port| port.plane) {
            if !planes.contains(&plane) {
                planes.push(plane);
            }
        }
        planes
    }
}

/// Removes an element, and those above it that hold nothing else.
fn remove(root: &mut Element, path: &[usize]) {
    let Some((last, above)) = path.split_last() else {
        return;
    };
    let parent = at_mut(root, above);
    parent.children.remove(*last);
    if parent.children.is_empty() && matches!(parent.tag, Tag::Nic | Tag::Pci) {
        remove(root, above);
    }
}

/// The number of a bus id, all digits read as one.
pub(super) fn bus_number(text: &str) -> u64 {
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    c_unsigned_hexadecimal(&digits)
}
