//! An inference engine by its name, and what it sets before NCCL starts.

use serde::{Deserialize, Deserializer, de};

use super::facts::{self, EngineFacts};
use crate::suggest;

/// An inference engine, by its name for commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Engine(pub(super) String);

impl Engine {
    /// Reads a name: `vllm`, `vLLM`, `TensorRT-LLM`.
    ///
    /// # Errors
    /// There is no such engine; a sentence.
    pub fn read(text: &str) -> Result<Self, String> {
        let engines = &facts::facts()?.engines;
        let is = |it: &&EngineFacts| {
            [&it.id, &it.name]
                .iter()
                .any(|it| it.eq_ignore_ascii_case(text))
        };
        if let Some(engine) = engines.iter().find(is) {
            return Ok(Self(engine.id.clone()));
        }
        let names = || engines.iter().map(|it| it.id.as_str());
        let near = suggest::nearest(text, names(), 1);
        let all: Vec<&str> = names().collect();
        Err(format!(
            "expected {}{}",
            all.join(", "),
            suggest::question(&near)
        ))
    }

    /// What is known of it.
    fn facts(&self) -> Option<&'static EngineFacts> {
        let engines = &facts::facts().ok()?.engines;
        engines.iter().find(|it| it.id == self.0)
    }

    /// What it sets before NCCL starts, where nothing else sets it.
    pub fn sets(&self) -> Vec<(String, String)> {
        let sets = self.facts().map_or(&[][..], |it| &it.sets);
        let pairs = sets.iter().filter_map(|it| it.split_once('='));
        pairs
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    }

    /// The same in a sentence, if it sets any.
    pub fn in_words(&self) -> Option<String> {
        let facts = self.facts().filter(|it| !it.sets.is_empty())?;
        Some(format!(
            "{} sets {} before NCCL starts; what is said elsewhere outranks it",
            facts.name,
            facts.sets.join(" ")
        ))
    }
}

impl<'de> Deserialize<'de> for Engine {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        Self::read(&text).map_err(|why| de::Error::custom(format!("engine {text}: {why}")))
    }
}
