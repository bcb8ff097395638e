//! Assumptions about a machine, and the machine with each other value.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::Deserialize;
use topology::NO_P2P;
use topology::xml::{Document, Element, Tag};

use crate::gpu::Kind;
use crate::pci_link::Link;

/// What else may be, and what settles it.
const FILE: &str = include_str!("assumptions.toml");

/// A machine with another value than is assumed.
#[derive(Debug, Clone, PartialEq)]
pub struct Alternative {
    /// What is assumed.
    pub assumed: String,
    /// What it may be instead.
    pub otherwise: String,
    /// The command whose output settles it.
    pub settled_by: String,
    /// The machine in this case.
    pub document: Document,
}

/// What was assumed of a machine.
#[derive(Debug, Default)]
pub(crate) struct Assumed {
    /// A sentence for each.
    pub(crate) texts: Vec<String>,
    /// Those that may decide: their ids, and what is assumed in a few words.
    decisive: Vec<(&'static str, String)>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    assumption: Vec<Assumption>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Assumption {
    id: String,
    settled_by: String,
    /// Kinds of GPUs of which it is; all if left out.
    of: Option<Vec<i32>>,
    otherwise: Vec<Otherwise>,
}

/// Another value: attributes of all elements of a kind.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Otherwise {
    is: String,
    #[serde(default)]
    cpu: BTreeMap<String, String>,
    #[serde(default)]
    gpu: BTreeMap<String, String>,
    #[serde(default)]
    gpu_pci: BTreeMap<String, String>,
    /// Another kind of all GPUs.
    sm: Option<i32>,
    /// A factor.
    net_speed: Option<f64>,
    #[serde(default)]
    no_peer_access: bool,
}

impl Assumed {
    pub(crate) fn push(&mut self, text: impl Into<String>) {
        self.texts.push(text.into());
    }

    /// Notes an assumption that may decide, by its id in the file.
    pub(crate) fn push_decisive(
        &mut self,
        id: &'static str,
        assumed: impl Into<String>,
        text: impl Into<String>,
    ) {
        self.decisive.push((id, assumed.into()));
        self.push(text);
    }

    /// The machine with each other value.
    pub(crate) fn alternatives(&self, document: &Document) -> Vec<Alternative> {
        let gpus = numbers(&document.root, "dev");
        let kinds = numbers(&document.root, "sm");
        let decisive = self.decisive.iter();
        let all = decisive.flat_map(|(id, assumed)| {
            let is_meant = |it: &&Assumption| {
                let is_of = |of: &Vec<i32>| kinds.iter().any(|it| of.contains(it));
                it.id == *id && it.of.as_ref().is_none_or(is_of)
            };
            let known = known().iter().filter(is_meant);
            known.flat_map(move |it| it.otherwise.iter().map(move |other| (it, other, assumed)))
        });
        let made = all.map(|(assumption, other, assumed)| {
            let mut document = document.clone();
            other.edit(&mut document.root, &gpus);
            Alternative {
                assumed: assumed.clone(),
                otherwise: other.is.clone(),
                settled_by: assumption.settled_by.clone(),
                document,
            }
        });
        made.filter(|it| it.document != *document).collect()
    }
}

/// The assumptions of the file.
fn known() -> &'static [Assumption] {
    static READ: OnceLock<Vec<Assumption>> = OnceLock::new();
    READ.get_or_init(|| toml::from_str(FILE).map_or_else(|_| Vec::new(), |it: File| it.assumption))
}

/// The numbers that GPUs have in an attribute.
fn numbers(element: &Element, attribute: &str) -> Vec<i32> {
    let own = element
        .get(attribute)
        .filter(|_| element.tag == Tag::Gpu)
        .and_then(|it| it.parse().ok());
    let below = element.children.iter();
    let below = below.flat_map(|it| numbers(it, attribute));
    own.into_iter().chain(below).collect()
}

impl Otherwise {
    fn edit(&'static self, element: &mut Element, gpus: &[i32]) {
        let has_gpu = element.children.iter().any(|it| it.tag == Tag::Gpu);
        let attributes = match element.tag {
            Tag::Cpu => Some(&self.cpu),
            Tag::Gpu => Some(&self.gpu),
            Tag::Pci if has_gpu => Some(&self.gpu_pci),
            _ => None,
        };
        for (name, value) in attributes.into_iter().flatten() {
            element.set(name, value.clone());
        }
        if let Some(sm) = self.sm {
            let rate = |sm: i32| Kind::of(sm).pci_speed;
            let own = numbers(element, "sm").first().copied();
            if has_gpu && own.is_some_and(|own| rate(own) != rate(sm)) {
                let link = Link {
                    speed: rate(sm),
                    ..Link::default()
                };
                element.set("link_speed", link.speed_text());
            }
            if element.tag == Tag::Gpu {
                element.set("sm", sm.to_string());
            }
        }
        if let (Tag::Net, Some(factor)) = (element.tag, self.net_speed) {
            let speed = element.get("speed").and_then(|it| it.parse::<f64>().ok());
            if let Some(speed) = speed {
                element.set("speed", format!("{:.0}", speed * factor));
            }
        }
        if element.tag == Tag::Gpu && self.no_peer_access {
            let own = element.get("dev").unwrap_or_default();
            let others = gpus.iter().map(i32::to_string).filter(|it| it != own);
            let others = others.collect::<Vec<_>>().join(",");
            element.set(NO_P2P, others);
        }
        for child in &mut element.children {
            self.edit(child, gpus);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{FILE, File};

    #[test]
    fn the_file_is_read() {
        let file: File = toml::from_str(FILE).unwrap();
        assert!(file.assumption.iter().any(|it| it.id == "processor"));
    }
}
