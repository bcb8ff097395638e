//! The attributes of a virtual device.

use crate::xml::{Element, Tag, c_int};

use super::devices::{Devices, Port};
use super::error::MergeError;
use super::options::MergeOptions;

/// Longest name in a file, characters.
const LONGEST_NAME: usize = 254;

/// The first bits of a virtual device's plane: a bit for each plane of its ports follows.
const PLANES: i32 = 16_384;

/// Most planes of a host that have a bit.
const MOST_PLANES: usize = 12;

/// The element of a virtual device. A device without attributes of its first port has none, too.
pub(super) fn of(
    name: &str,
    ports: &[&Port],
    dev: i32,
    devices: &Devices,
    options: &MergeOptions,
) -> Result<NewNet, MergeError> {
    let mut new = NewNet {
        name: name.chars().take(LONGEST_NAME).collect(),
        dev,
        rail: None,
        plane: None,
        members: ports.iter().map(|port| port.path.clone()).collect(),
    };
    if options.names_rails {
        let rail = ports.first().and_then(|port| port.rail);
        new.rail = rail.filter(|_| ports.iter().all(|port| port.rail == rail));
        new.plane = Some(plane(name, ports, &devices.planes())?);
    }
    Ok(new)
}

/// A virtual device that is to be written.
#[derive(Debug)]
pub(super) struct NewNet {
    name: String,
    dev: i32,
    rail: Option<i32>,
    plane: Option<i32>,
    members: Vec<Vec<usize>>,
}

impl NewNet {
    /// The element, with what its ports' elements say.
    pub(super) fn element(&self, root: &Element) -> Element {
        let members = self
            .members
            .iter()
            .map(|path| super::devices::at(root, path));
        let members: Vec<&Element> = members.collect();
        let of_first = |name: &str| members.first().and_then(|net| net.get(name));
        let speeds = members.iter().filter_map(|net| net.get("speed"));
        let speeds: Vec<i32> = speeds.map(c_int).collect();
        let speed = speeds
            .iter()
            .fold(0, |sum: i32, speed| sum.saturating_add(*speed));
        let mut net = Element::new(Tag::Net);
        let mut set = |name: &'static str, value: Option<String>| {
            if let Some(value) = value {
                net.set(name, value);
            }
        };
        let own = |name| of_first(name).map(str::to_owned);
        set("name", Some(self.name.clone()));
        set("dev", Some(self.dev.to_string()));
        set("latency", Some("0".to_owned()));
        set("speed", (!speeds.is_empty()).then(|| speed.to_string()));
        set("port", own("port"));
        set("rail", self.rail.map(|rail| rail.to_string()));
        set("plane", self.plane.map(|plane| plane.to_string()));
        set("guid", own("guid"));
        set("maxconn", own("maxconn"));
        set("gdr", own("gdr"));
        set("net", Some("1".to_owned()));
        net
    }
}

/// Gives the element of a device that is there already its number, and what it lacks.
pub(super) fn complete(known: &mut Element, new: &Element) {
    for attribute in &new.attributes {
        let always = matches!(&*attribute.name, "dev" | "net");
        if always || known.get(&attribute.name).is_none() {
            known.set(attribute.name.clone(), attribute.value.clone());
        }
    }
}

fn plane(name: &str, ports: &[&Port], planes: &[i32]) -> Result<i32, MergeError> {
    if planes.len() > MOST_PLANES {
        return Err(MergeError::TooManyPlanes {
            name: name.to_owned(),
            planes: planes.len(),
        });
    }
    let bit = |port: &&Port| match port.plane {
        None => 1,
        Some(plane) => {
            let known = planes.iter().position(|known| *known == plane);
            1 << known.map_or(0, |at| at + 1)
        }
    };
    Ok(PLANES + ports.iter().map(bit).fold(0, |bits: i32, bit| bits | bit))
}
