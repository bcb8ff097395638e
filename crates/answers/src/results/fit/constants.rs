//! The constants of a cost profile that can be fitted, by their place in the file.

use std::fmt;

use planner::cost::CostProfile;
use serde_json::Value;

/// Sections of a profile and their rank: of constants that data cannot tell apart, the first
/// section's are fitted and the others keep their values.
const SECTIONS: [(&str, u8); 5] = [
    ("bandwidth-limits-gbps", 0),
    ("efficiency", 0),
    ("hardware-latency-us", 1),
    ("base-latency-us", 2),
    ("latency", 3),
];

/// A number that decides a rule and is no cost.
const NO_COST: &str = "latency.ring-simple-bytes";

/// Names of the three values of the lists that have one per protocol.
const PROTOCOLS: [&str; 3] = ["LL", "LL128", "Simple"];

/// Names of the three values of the lists that have one per number of nodes.
const SCALES: [&str; 3] = ["1 node", "2 nodes", "3 nodes"];

/// A constant of a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Constant {
    /// Its place as a JSON pointer.
    pointer: String,
    /// Its name: the keys of the file, such as `hardware-latency-us.nvlink.ring[2]`.
    pub name: String,
    /// The meaning of the number in brackets: a protocol or a number of nodes.
    pub index: Option<&'static str>,
    /// Of constants that data cannot tell apart, that with the lowest number is fitted.
    pub(super) order: u8,
}

impl fmt::Display for Constant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// A profile whose constants can be changed one by one.
#[derive(Debug, Clone)]
pub(super) struct Changeable(Value);

impl Changeable {
    pub(super) fn new(profile: &CostProfile) -> Self {
        // A profile is numbers, lists and texts.
        Self(serde_json::to_value(profile).unwrap_or_default())
    }

    pub(super) fn get(&self, constant: &Constant) -> f64 {
        let found = self.0.pointer(&constant.pointer);
        found.and_then(Value::as_f64).unwrap_or(0.0)
    }

    pub(super) fn set(&mut self, constant: &Constant, value: f64) {
        if let Some(found) = self.0.pointer_mut(&constant.pointer) {
            *found = value.into();
        }
    }

    /// The profile with these constants; `None` if a number is not finite.
    pub(super) fn profile(&self) -> Option<CostProfile> {
        serde_json::from_value(self.0.clone()).ok()
    }

    /// All constants above 0. A constant of 0 belongs to what an algorithm does not have.
    pub(super) fn constants(&self) -> Vec<Constant> {
        let mut found = Vec::new();
        for (section, order) in SECTIONS {
            if let Some(value) = self.0.get(section) {
                collect(value, &format!("/{section}"), section, order, &mut found);
            }
        }
        found
    }
}

fn collect(value: &Value, pointer: &str, name: &str, order: u8, found: &mut Vec<Constant>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let (pointer, name) = (format!("{pointer}/{key}"), format!("{name}.{key}"));
                collect(value, &pointer, &name, order, found);
            }
        }
        Value::Array(values) => {
            let names = match name.starts_with("bandwidth-limits") {
                true => SCALES,
                false => PROTOCOLS,
            };
            for (at, value) in values.iter().enumerate() {
                if value.as_f64().is_some_and(|it| it > 0.0) {
                    found.push(Constant {
                        pointer: format!("{pointer}/{at}"),
                        name: format!("{name}[{at}]"),
                        index: names.get(at).copied(),
                        order,
                    });
                }
            }
        }
        Value::Number(number) if number.as_f64().is_some_and(|it| it > 0.0) && name != NO_COST => {
            found.push(Constant {
                pointer: pointer.to_owned(),
                name: name.to_owned(),
                index: None,
                order,
            });
        }
        _ => {}
    }
}
