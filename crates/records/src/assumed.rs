//! Assumptions about a machine, and the machine with each other value.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::Deserialize;
use topology::NO_P2P;
use topology::xml::{Document, Element, Tag};

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
    decisive: Vec<(String, String)>,
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
        id: impl Into<String>,
        assumed: impl Into<String>,
        text: impl Into<String>,
    ) {
        self.decisive.push((id.into(), assumed.into()));
        self.push(text);
    }

    /// The machine with each other value.
    pub(crate) fn alternatives(&self, document: &Document) -> Vec<Alternative> {
        let decisive = self.decisive.iter();
        let all = decisive.flat_map(|(id, assumed)| {
            let known = known().iter().filter(move |it| it.id == *id);
            known.flat_map(move |it| it.otherwise.iter().map(move |other| (it, other, assumed)))
        });
        let made = all.map(|(assumption, other, assumed)| {
            let mut document = document.clone();
            let gpus = numbers(&document.root);
            other.edit(&mut document.root, &gpus);
            Alternative {
                assumed: assumed.clone(),
                otherwise: other.is.clone(),
                settled_by: assumption.settled_by.clone(),
                document,
            }
        });
        made.collect()
    }
}

/// The assumptions of the file.
fn known() -> &'static [Assumption] {
    static READ: OnceLock<Vec<Assumption>> = OnceLock::new();
    READ.get_or_init(|| toml::from_str(FILE).map_or_else(|_| Vec::new(), |it: File| it.assumption))
}

/// The numbers of all GPUs.
fn numbers(element: &Element) -> Vec<String> {
    let own = element.get("dev").filter(|_| element.tag == Tag::Gpu);
    let own = own.map(str::to_owned).into_iter();
    own.chain(element.children.iter().flat_map(numbers))
        .collect()
}

impl Otherwise {
    fn edit(&'static self, element: &mut Element, gpus: &[String]) {
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
        if let (Tag::Net, Some(factor)) = (element.tag, self.net_speed) {
            let speed = element.get("speed").and_then(|it| it.parse::<f64>().ok());
            if let Some(speed) = speed {
                element.set("speed", format!("{:.0}", speed * factor));
            }
        }
        if element.tag == Tag::Gpu && self.no_peer_access {
            let own = element.get("dev").unwrap_or_default();
            let others = gpus.iter().map(String::as_str).filter(|it| *it != own);
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
