//! NCCL's version and variables in a page: collect_env of PyTorch, vLLM and SGLang, issues.

use crate::text::{has, item};

/// Most variables that are kept.
const MOST: usize = 256;

/// NCCL's version and variables.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Said {
    /// The version, such as `2.29.7`.
    pub nccl: Option<String>,
    /// The variables, without those that name files of another machine.
    pub set: Vec<(String, String)>,
    /// The text says of each pair of GPUs whether the driver grants peer access.
    pub peers: bool,
}

impl Said {
    /// Reads a line.
    pub(crate) fn line(&mut self, line: &str) {
        if let Some(version) = version(line) {
            self.nccl = self.nccl.take().or(Some(version));
        } else if let Some((name, value)) = variable(line) {
            self.set.retain(|(known, _)| *known != name);
            if self.set.len() < MOST {
                self.set.push((name, value));
            }
        }
    }
}

/// `nvidia-nccl-cu13==2.29.7`, `nvidia-nccl-cu12  2.27.5`, `NCCL version 2.21.5+cuda12.4`.
fn version(line: &str) -> Option<String> {
    if !has(line, "NCCL") && !has(line, "-nccl-cu") {
        return None;
    }
    let behind = |words: &str| line.split_once(words).map(|(_, rest)| rest);
    let of_package = behind("nvidia-nccl-cu").map(|it| {
        let rest = it.trim_start_matches(|it: char| it.is_ascii_digit());
        rest.trim_start_matches(['=', ' ', '\t'])
    });
    let alone = || {
        let rest = item(line).strip_prefix("NCCL")?;
        let rest = rest.trim_start_matches(['*', ':', ' ', '`']);
        let is_version = |it: char| it.is_ascii_digit() || ".`* ".contains(it);
        rest.chars().all(is_version).then_some(rest)
    };
    let text = of_package
        .or_else(|| behind("NCCL version "))
        .or_else(alone)?;
    let is_part = |it: char| it.is_ascii_digit() || it == '.';
    let number = &text[..text.find(|it| !is_part(it)).unwrap_or(text.len())];
    let number = number.trim_end_matches('.');
    (number.split('.').count() >= 2 && !number.starts_with('.')).then(|| number.to_owned())
}

/// `NCCL_P2P_LEVEL=SYS` alone on a line, also as an item, exported, or as an option of a launcher.
fn variable(line: &str) -> Option<(String, String)> {
    if line.trim_start().starts_with('#') {
        return None;
    }
    let mut text = item(line).trim_end_matches(['\\', ';', ' ', '\t']);
    for word in ["export ", "-x ", "-e ", "x ", "e "] {
        text = text.strip_prefix(word).unwrap_or(text).trim_start();
    }
    let (name, value) = text.split_once('=')?;
    let is_name = name.starts_with("NCCL_")
        && name
            .chars()
            .all(|it| it.is_ascii_uppercase() || it.is_ascii_digit() || it == '_');
    let value = value.trim().trim_matches(['"', '\'', '`']);
    let of_this_machine = ["FILE", "PLUGIN", "DEBUG"];
    let decides = !of_this_machine.iter().any(|it| name.contains(it));
    let is_alone = !value.contains(|it: char| it.is_whitespace() || it == '$') && value.len() < 256;
    (is_name && decides && is_alone).then(|| (name.to_owned(), value.to_owned()))
}
