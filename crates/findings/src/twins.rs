//! Devices of a topology file that are worse than their twins in it: ports, PCI links above GPUs,
//! and GPUDirect RDMA.

use topology::bandwidth;
use topology::xml::{Document, Element, Tag, c_int};

use crate::finding::{AttributeChange, Effect, Finding, Rule, Selector, first_of};

use crate::document::IMPOSSIBLE;
use crate::places::{holds_gpu, lanes, mended};

/// Mb/s of a Gb/s.
const GIGABIT: f64 = 1000.0;

pub(crate) fn check(document: &Document) -> Vec<Finding> {
    let mut places = Vec::new();
    collect(&document.root, &mut Vec::new(), &mut places);
    let mut findings = slow_ports(&places);
    findings.extend(slow_links(&places));
    findings.extend(direct_access(document, &places));
    findings
}

/// A GPU in use or a port.
struct Place<'e> {
    device: &'e Element,
    /// The PCI functions from the CPU down to its own.
    above: Vec<&'e Element>,
}

impl Place<'_> {
    fn label(&self) -> String {
        match self.device.tag {
            Tag::Gpu => format!("GPU{}", self.device.get("dev").unwrap_or("?")),
            _ => self.device.get("name").unwrap_or("a NIC").to_owned(),
        }
    }
}

fn collect<'e>(element: &'e Element, above: &mut Vec<&'e Element>, found: &mut Vec<Place<'e>>) {
    for child in &element.children {
        match child.tag {
            Tag::Gpu if child.get("rank").is_none() => {}
            Tag::Gpu | Tag::Net => found.push(Place {
                device: child,
                above: above.clone(),
            }),
            Tag::Pci => {
                above.push(child);
                collect(child, above, found);
                above.pop();
            }
            _ => collect(child, above, found),
        }
    }
}

/// The model of a PCI function.
fn model(pci: &Element) -> [&str; 3] {
    ["vendor", "device", "subsystem_device"].map(|name| pci.get(name).unwrap_or_default())
}

/// The first element with the value that more than half of them have.
fn usual<T, V: PartialEq>(all: &[T], value: impl Fn(&T) -> V) -> Option<&T> {
    let has = |one: &&T| {
        let same = all.iter().filter(|other| value(other) == value(one));
        2 * same.count() > all.len()
    };
    all.iter().find(has)
}

/// Groups elements by a key, in the order of the file.
fn by_key<T, K: PartialEq>(all: impl Iterator<Item = (K, T)>) -> Vec<(K, Vec<T>)> {
    let mut groups: Vec<(K, Vec<T>)> = Vec::new();
    for (key, one) in all {
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, group)) => group.push(one),
            None => groups.push((key, vec![one])),
        }
    }
    groups
}

fn speed_of(port: &Element) -> i32 {
    port.get("speed").map_or(0, c_int)
}

/// Finds ports that are slower than most of their model. Those near GPUs are compared with one
/// another: others, for storage, may be slower on purpose.
fn slow_ports(places: &[Place<'_>]) -> Vec<Finding> {
    let ports = places.iter().filter_map(|place| {
        let own = place.above.last()?;
        let near = place.above.iter().any(|pci| holds_gpu(pci));
        let counts = place.device.tag == Tag::Net && speed_of(place.device) > 0;
        counts.then_some(((model(own), near), place))
    });
    let mut findings = Vec::new();
    for (_, ports) in by_key(ports) {
        let speed = |place: &&Place<'_>| speed_of(place.device);
        let Some(twin) = usual(&ports, speed) else {
            continue;
        };
        let slow = ports.iter().filter(|port| speed(port) < speed(twin));
        for (found, slow) in by_key(slow.map(|port| (speed(port), port.label()))) {
            let mended = slow.iter().map(|name| AttributeChange {
                at: Selector::Net(name.clone()),
                attribute: "speed",
                value: speed(twin).to_string(),
            });
            let effect = Effect {
                mended: mended.collect(),
                ..Effect::default()
            };
            let gigabits = |speed: i32| format!("{} Gb/s", f64::from(speed) / GIGABIT);
            let expected = format!("{}, as {} has", gigabits(speed(twin)), twin.label());
            let finding = Finding::of_all(Rule::PortSlow, &slow, gigabits(found), expected);
            findings.push(finding.with_effect(effect));
        }
    }
    findings
}

/// A PCI link above GPUs.
struct Link<'p, 'e> {
    /// The first GPU below it.
    gpu: &'p Place<'e>,
    pci: &'e Element,
    speed: &'e str,
    width: i32,
    /// Whether it is a GPU's own, and not that of a switch above.
    own: bool,
}

impl Link<'_, '_> {
    fn bandwidth(&self) -> f32 {
        bandwidth::pci(self.speed, self.width)
    }

    fn name(&self) -> String {
        match self.own {
            true => self.gpu.label(),
            false => self.pci.get("busid").unwrap_or_default().to_owned(),
        }
    }

    fn label(&self) -> String {
        match self.own {
            true => self.name(),
            false => format!("{} above {}", self.name(), self.gpu.label()),
        }
    }

    fn text(&self) -> String {
        format!("{} x{}", self.speed, self.width)
    }
}

/// Finds links of GPUs, and of the switches above them, that are slower than most at the same
/// place above a GPU of this kind.
fn slow_links(places: &[Place<'_>]) -> Vec<Finding> {
    let gpus = places.iter().filter(|place| place.device.tag == Tag::Gpu);
    let links = gpus.flat_map(|place| {
        let kind = place.device.get("sm").unwrap_or_default();
        let steps = place.above.iter().rev().enumerate();
        steps.filter_map(move |(step, pci)| {
            let link = Link {
                gpu: place,
                pci,
                speed: pci.get("link_speed")?,
                width: pci.get("link_width").map(|_| lanes(pci))?,
                own: step == 0,
            };
            // Impossible links are another finding.
            let possible = link.bandwidth() > IMPOSSIBLE;
            possible.then_some(((step, kind, model(pci)), link))
        })
    });
    let mut findings = Vec::new();
    for (_, mut links) in by_key(links) {
        // A switch is above several GPUs.
        links.dedup_by(|one, other| std::ptr::eq(one.pci, other.pci));
        let Some(twin) = usual(&links, Link::bandwidth) else {
            continue;
        };
        let slow = links
            .iter()
            .filter(|link| link.bandwidth() < twin.bandwidth());
        for (seen, slow) in by_key(slow.map(|link| (link.text(), link))) {
            let narrow = slow.iter().any(|link| link.width < twin.width);
            let rule = match narrow {
                true => Rule::Width,
                false => Rule::Speed,
            };
            let labels: Vec<String> = slow.iter().map(|link| link.label()).collect();
            let expected = format!("{}, as {} has", twin.text(), twin.name());
            let effect = Effect {
                mended: slow.iter().flat_map(|link| as_twin(link, twin)).collect(),
                ..Effect::default()
            };
            let finding = Finding::of_all(rule, &labels, seen, expected);
            findings.push(finding.with_effect(effect));
        }
    }
    findings
}

/// Gives a link the speed and width of another.
fn as_twin(link: &Link<'_, '_>, twin: &Link<'_, '_>) -> [AttributeChange; 2] {
    let bus_id = link.pci.get("busid").unwrap_or_default();
    let values = [
        ("link_speed", twin.speed.to_owned()),
        ("link_width", twin.width.to_string()),
    ];
    values.map(|(attribute, value)| AttributeChange {
        at: Selector::Pci(bus_id.to_owned()),
        attribute,
        value,
    })
}

/// Whether an element says that it cannot take part in GPUDirect RDMA. Sockets have port 0.
fn is_indirect(element: &Element) -> bool {
    can_be_direct(element) && element.get("gdr").is_some_and(|gdr| c_int(gdr) == 0)
}

fn can_be_direct(element: &Element) -> bool {
    match element.tag {
        Tag::Gpu => element.get("rank").is_some(),
        Tag::Net => element.get("port").is_some_and(|port| c_int(port) != 0),
        _ => false,
    }
}

/// One finding for all GPUs and ports without GPUDirect RDMA, because both ends need it.
fn direct_access(document: &Document, places: &[Place<'_>]) -> Option<Finding> {
    let able = |tag| {
        let able = move |place: &&Place<'_>| place.device.tag == tag && can_be_direct(place.device);
        places.iter().filter(able)
    };
    able(Tag::Net).next()?;
    let (mut without, mut twin) = (Vec::new(), None);
    for (tag, all) in [(Tag::Gpu, "all GPUs"), (Tag::Net, "all NICs")] {
        let (out, with): (Vec<&Place<'_>>, Vec<_>) =
            able(tag).partition(|place| is_indirect(place.device));
        let labels: Vec<String> = out.iter().map(|place| place.label()).collect();
        match (out.len(), with.first()) {
            (0, _) => {}
            (_, None) => without.push(all.to_owned()),
            (_, Some(other)) => {
                without.push(first_of(&labels));
                twin = twin.or(Some(other.label()));
            }
        }
    }
    if without.is_empty() {
        return None;
    }
    let has = twin.map_or_else(String::new, |twin| format!(", as {twin} has"));
    let mut root = document.root.clone();
    make_direct(&mut root);
    let finding = Finding::new(
        Rule::DirectAccess,
        without.join(", "),
        "gdr=\"0\"",
        format!("gdr=\"1\"{has}"),
    );
    Some(finding.with_effect(mended(root)))
}

fn make_direct(element: &mut Element) {
    if is_indirect(element) {
        element.set("gdr", "1".to_owned());
    }
    element.children.iter_mut().for_each(make_direct);
}
