//! The facts about inference engines: methods, what admits them, sizes, settings. They are in
//! `facts.json`; each rule has how sure it is.
//!
//! A rule is one method of an engine with all that must hold. Rules are in the order in which the
//! engine asks: the first that holds takes the message. `use` names a block of `shared` whose
//! fields the rule has, too.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::text::{Architectures, ByArchitecture, Ranks, Types};

/// All facts.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EngineTable {
    /// The engines.
    pub engines: Vec<EngineFacts>,
    /// TensorRT-LLM's table: by architecture and GPUs, for widths 128 to 8192 a letter (`O`: one
    /// shot, `T`: two shots, `N`: NCCL) for each power of two of rows.
    pub strategies: BTreeMap<Architectures, BTreeMap<u32, Vec<String>>>,
    /// Published sizes at which methods and NCCL are as fast.
    pub crossovers: Vec<Crossover>,
}

/// An engine.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EngineFacts {
    /// Its name for commands.
    pub id: String,
    /// Its name.
    pub name: String,
    /// What was read.
    pub read: String,
    /// The versions that were read, oldest first.
    pub versions: Vec<String>,
    /// What is not known of versions before the newest.
    pub old: Option<String>,
    /// The type that it reduces, if that is no choice of the model.
    pub types: Option<Types>,
    /// What it sets before NCCL starts, where nothing else does.
    #[serde(default)]
    pub sets: Vec<String>,
    /// What else to know.
    pub notes: Vec<String>,
    /// A command that shows its choice.
    pub proof: Option<String>,
    /// Its methods in the order in which it asks them.
    pub rules: Vec<Rule>,
    /// Settings that are safe, by what peer access does.
    pub safe: Vec<SafeSetting>,
}

/// Settings that are safe.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SafeSetting {
    /// What peer access does.
    pub peer: String,
    /// Variables and options.
    pub set: Vec<String>,
    /// Why.
    pub why: String,
}

/// A method, and what must hold.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Its name, as the engine has it.
    pub method: String,
    /// The first version that has it.
    pub since: Option<String>,
    /// The first version that no longer has it so.
    pub before: Option<String>,
    /// Settings.
    #[serde(default)]
    pub switches: Vec<Switch>,
    /// Another platform than CUDA, which it needs.
    pub platform: Option<String>,
    /// `linux` or `other`.
    pub os: Option<String>,
    /// What peer access does, for what happens only then.
    pub peer_is: Option<String>,
    /// Numbers of GPUs.
    pub ranks: Option<Ranks>,
    /// The same by architecture.
    pub ranks_by_arch: Option<BTreeMap<Architectures, Ranks>>,
    /// Architectures.
    pub arch: Option<Architectures>,
    /// Architectures that it does not serve.
    pub not_arch: Option<Architectures>,
    /// Links between the GPUs.
    pub link: Option<Link>,
    /// How it learns whether peer access works.
    pub check: Option<Check>,
    /// The setting with which it tests by writing.
    pub write_test: Option<Switch>,
    /// Types of elements.
    pub types: Option<Types>,
    /// The size is a multiple of this, bytes.
    pub grain: Option<u64>,
    /// The unit of `sizes`.
    #[serde(default)]
    pub unit: Unit,
    /// Sizes.
    pub sizes: Option<ByArchitecture>,
    /// The method beside which other sizes hold.
    pub beside: Option<String>,
    /// Those sizes.
    pub sizes_beside: Option<ByArchitecture>,
    /// Further sizes in another unit.
    pub narrow: Option<Narrow>,
    /// A setting that caps the size.
    pub cap: Option<Cap>,
    /// The message has a row for each GPU at least.
    #[serde(default)]
    pub rows_for_each_rank: bool,
    /// Methods that must not serve such GPUs.
    #[serde(default)]
    pub unless: Vec<String>,
    /// Methods that must not take the message.
    #[serde(default)]
    pub behind: Vec<String>,
    /// Its kernels, of which the first that holds runs.
    #[serde(default)]
    pub kernels: Vec<Kernel>,
    /// A table of `strategies` decides.
    pub table: Option<String>,
    /// NCCL is called.
    #[serde(default)]
    pub is_nccl: bool,
    /// NCCL may be called, as measured at the start.
    #[serde(default)]
    pub perhaps_nccl: bool,
    /// Nothing is reduced.
    #[serde(default)]
    pub no_reduction: bool,
    /// What happens although the rule holds, by what peer access does.
    #[serde(default)]
    pub hazards: BTreeMap<String, String>,
    /// What is assumed.
    pub assumes: Option<String>,
    /// How sure the rule is.
    pub sure: Sure,
}

/// How sure a fact is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, serde::Serialize, crate::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Sure {
    /// The release's code was run with stand-ins for torch and communicators.
    Run,
    /// Read in the source.
    Read,
    /// Said in the documents.
    Docs,
    /// Reported in a thread.
    Reported,
}

/// A setting of an engine: a variable, or an option as its command line has it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Switch {
    /// Its name.
    pub name: String,
    /// Its value where it is not set.
    pub default: String,
    /// Values that hold; empty: all but those of `not`.
    #[serde(default)]
    pub is: Vec<String>,
    /// Values that do not hold.
    #[serde(default)]
    pub not: Vec<String>,
}

/// Links between GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Link {
    /// NVLink with multicast.
    Multicast,
    /// NVLink between every pair.
    Nvlink,
    /// Two GPUs, or NVLink between every pair.
    NvlinkOrPair,
    /// Peer access.
    Peer,
}

/// How a method learns whether peer access works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Check {
    /// It asks the driver.
    Driver,
    /// It opens the peers' memory by CUDA IPC, and fails or falls back if that fails.
    Ipc,
}

/// The unit in which a size is compared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Bytes of the message.
    #[default]
    Bytes,
    /// Bytes of the messages of all ranks.
    AllRanks,
    /// Bytes for each rank.
    PerRank,
    /// Bytes if the elements are sent in 16 bits.
    Wire,
    /// Elements.
    Elements,
    /// Rows.
    Rows,
}

/// Further sizes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Narrow {
    /// Their unit.
    pub unit: Unit,
    /// The sizes.
    pub sizes: ByArchitecture,
}

/// A setting that caps the size.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cap {
    /// Its name.
    pub name: String,
    /// Bytes of its unit.
    pub unit: u64,
}

/// A kernel of a method.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kernel {
    /// Its name.
    pub kernel: String,
    /// `graph` or `eager`: calls that CUDA graphs captured, or others.
    pub mode: Option<Mode>,
    /// Architectures.
    pub arch: Option<Architectures>,
    /// Numbers of GPUs.
    pub ranks: Option<Ranks>,
    /// Links.
    pub link: Option<Link>,
    /// Types of elements.
    pub types: Option<Types>,
    /// Settings.
    #[serde(default)]
    pub switches: Vec<Switch>,
    /// The unit of `sizes`.
    #[serde(default)]
    pub unit: Unit,
    /// Sizes.
    pub sizes: Option<ByArchitecture>,
}

/// How a call is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, serde::Serialize, crate::JsonSchema)]
#[cfg_attr(feature = "arguments", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Captured in a CUDA graph, as decoding is
    Graph,
    /// Called by itself, as most of prefill is
    Eager,
}

/// A published size at which a method and NCCL are as fast.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Crossover {
    /// The engine.
    pub engine: String,
    /// The method.
    pub method: String,
    /// Architectures that were measured.
    pub arch: Option<Architectures>,
    /// GPUs that were measured.
    pub ranks: Option<Ranks>,
    /// `multicast`, `nvlink` or `pcie`.
    pub link: String,
    /// The sizes; empty if none was found.
    pub bytes: Vec<String>,
    /// What was found.
    pub text: String,
    /// Where it is published.
    pub source: String,
}

/// The facts.
///
/// # Errors
/// The file that this program holds is none; a sentence. A test shows that it never happens.
pub fn facts() -> Result<&'static EngineTable, String> {
    static FACTS: LazyLock<Result<EngineTable, String>> =
        LazyLock::new(|| read(include_str!("facts.json")));
    FACTS.as_ref().map_err(Clone::clone)
}

/// Reads facts.
fn read(text: &str) -> Result<EngineTable, String> {
    let wrong = |why: serde_json::Error| format!("the facts about engines: {why}");
    let mut all: Value = serde_json::from_str(text).map_err(wrong)?;
    let shared = all.as_object_mut().and_then(|it| it.remove("shared"));
    let shared = shared.unwrap_or_default();
    let engines = all["engines"].as_array_mut().into_iter().flatten();
    for rule in engines.flat_map(|it| it["rules"].as_array_mut().into_iter().flatten()) {
        if let Some(rule) = rule.as_object_mut()
            && let Some(name) = rule.remove("use")
        {
            let block = shared[name.as_str().unwrap_or_default()].as_object();
            let block = block.ok_or_else(|| format!("the facts about engines: no block {name}"))?;
            add(rule, block);
        }
    }
    serde_json::from_value(all).map_err(wrong)
}

/// Adds the fields of a shared block to a rule, whose own ones come first.
fn add(rule: &mut Map<String, Value>, block: &Map<String, Value>) {
    for (name, value) in block {
        match (rule.get_mut(name).and_then(Value::as_array_mut), value) {
            (Some(own), Value::Array(more)) if name == "switches" => own.extend(more.clone()),
            _ => {
                rule.entry(name).or_insert_with(|| value.clone());
            }
        }
    }
}

impl EngineFacts {
    /// The place of a version among those that were read, and what is to be said of it.
    pub fn version(&self, asked: Option<&str>) -> (usize, Option<String>) {
        let newest = self.versions.len().saturating_sub(1);
        let Some(asked) = asked else {
            return (newest, None);
        };
        let asked = asked.trim();
        let known = |it: &String| asked.split([' ', '=', '@']).any(|word| word == it);
        if let Some(at) = self.versions.iter().position(known) {
            return (at, self.old.clone().filter(|_| at < newest));
        }
        let number = |text: &str| -> Option<Vec<u64>> {
            text.split('.').map(|it| it.parse().ok()).collect()
        };
        // `v0.28.1.dev3+g1234` is 0.28.1.
        let parts = asked.trim_start_matches('v').split(['.', '+', '-', 'r']);
        let given: Vec<u64> = parts.map_while(|it| it.parse().ok()).collect();
        let comparable = !given.is_empty() && number(&self.versions[newest]).is_some();
        let mut older = self.versions.iter().enumerate().rev();
        let at = match comparable {
            true => {
                let at = older.find(|(_, it)| number(it).is_some_and(|it| it <= given));
                at.map_or(0, |(at, _)| at)
            }
            false => newest,
        };
        let note = format!(
            "{} {asked} was not read: taken for {}",
            self.name, self.versions[at]
        );
        (at, Some(note))
    }

    /// Whether a rule is in force at the place of a version.
    pub fn has(&self, rule: &Rule, version: usize) -> bool {
        let place = |name: &String| self.versions.iter().position(|it| it == name);
        rule.since
            .as_ref()
            .and_then(place)
            .is_none_or(|it| version >= it)
            && rule
                .before
                .as_ref()
                .and_then(place)
                .is_none_or(|it| version < it)
    }
}

#[cfg(test)]
mod tests {
    use program::size;

    use super::*;

    #[test]
    fn the_facts_are_read_and_name_known_things() {
        let facts = facts().unwrap();
        for engine in &facts.engines {
            assert!(!engine.versions.is_empty(), "{}", engine.id);
            let methods: Vec<&str> = engine.rules.iter().map(|it| it.method.as_str()).collect();
            for rule in &engine.rules {
                for version in rule.since.iter().chain(&rule.before) {
                    assert!(
                        engine.versions.contains(version),
                        "{} {version}",
                        rule.method
                    );
                }
                for name in rule.unless.iter().chain(&rule.behind).chain(&rule.beside) {
                    assert!(methods.contains(&name.as_str()), "{} {name}", rule.method);
                }
            }
            // Something takes every message of every GPU.
            let last = engine.rules.last().unwrap();
            assert!(
                last.switches.is_empty() && last.sizes.is_none(),
                "{}",
                engine.id
            );
        }
        for it in &facts.crossovers {
            let engine = facts
                .engines
                .iter()
                .find(|engine| engine.id == it.engine)
                .unwrap();
            assert!(
                engine.rules.iter().any(|rule| rule.method == it.method),
                "{}",
                it.method
            );
            assert!(it.bytes.iter().all(|it| size::parse(it).is_ok()));
        }
        for widths in facts.strategies.values().flat_map(BTreeMap::values) {
            assert_eq!(widths.len(), 7);
            assert!(widths.iter().all(|rows| rows.len() == 15));
        }
    }

    #[test]
    fn damaged_facts_are_refused_in_a_sentence() {
        let whole = include_str!("facts.json");
        for (from, to, why) in [
            ("\"..64M\"", "\"64M\"", "64M"),
            ("\"ranks\": \"2,4,8\"", "\"ranks\": \"two\"", "two"),
            ("\"use\": \"vllm-custom\"", "\"use\": \"none\"", "no block"),
            ("\"9.0\":", "\"nine\":", "facts about engines"),
        ] {
            let text = whole.replacen(from, to, 1);
            assert_ne!(text, whole);
            let refused = read(&text).unwrap_err();
            assert!(
                refused.contains("facts about engines")
                    && (refused.contains(why) || refused.contains("untagged")),
                "{refused}"
            );
        }
    }
}
