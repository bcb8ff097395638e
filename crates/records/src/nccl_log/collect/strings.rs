//! Texts that are kept once.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::nccl_log::message::Hosts;

/// The number of a kept text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Text(u32);

/// Most texts that are kept.
const MOST_TEXTS: usize = 1 << 17;

/// Longest text that is kept, bytes.
const MOST_BYTES: usize = 2048;

/// Texts that are kept once, with numbers.
#[derive(Debug, Default)]
pub struct Strings {
    texts: Vec<Box<str>>,
    /// The host that was kept last: many lines in a row have one.
    last_host: Option<Text>,
    numbers: FxHashMap<Box<str>, Text>,
    /// By a class and a text the number of both joined, and the pair that was joined last.
    pairs: FxHashMap<(&'static str, Text), Text>,
    last_pair: Option<(&'static str, Text, Text)>,
}

impl Strings {
    /// Keeps a text. Once too many are kept, new ones get the number of `…`.
    pub fn keep(&mut self, text: &str) -> Text {
        let mut end = text.len().min(MOST_BYTES);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let text = &text[..end];
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let text = match self.texts.len() {
            MOST_TEXTS.. => "…",
            _ => text,
        };
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = Text(u32::try_from(self.texts.len()).unwrap_or(u32::MAX));
        self.texts.push(text.into());
        self.numbers.insert(text.into(), number);
        number
    }

    /// Keeps the name of a host.
    pub fn keep_host(&mut self, host: &str) -> Text {
        if let Some(last) = self.last_host
            && self.text(last) == host
        {
            return last;
        }
        let kept = self.keep(host);
        self.last_host = Some(kept);
        kept
    }

    /// Keeps a class and a text, joined: `P2P/` and `IPC`.
    pub fn keep_joined(&mut self, class: &'static str, text: &str) -> Text {
        if let Some((last, own, number)) = self.last_pair
            && last == class
            && self.text(own) == text
        {
            return number;
        }
        let own = self.keep(text);
        let known = self.pairs.get(&(class, own)).copied();
        let number = known.unwrap_or_else(|| self.keep(&format!("{class}{text}")));
        self.pairs.insert((class, own), number);
        self.last_pair = Some((class, own, number));
        number
    }

    /// The text of a number.
    pub fn text(&self, number: Text) -> &str {
        self.texts.get(number.0 as usize).map_or("", |text| text)
    }
}

/// Names of hosts that began a line.
#[derive(Debug, Default)]
pub struct KnownHosts {
    names: FxHashSet<Box<str>>,
    /// The last one that was added.
    last: String,
}

/// Most names that are compared.
const MOST_HOSTS: usize = 4096;

impl KnownHosts {
    /// Remembers a host.
    pub fn add(&mut self, host: &str) {
        if self.last == host {
            return;
        }
        self.last.clear();
        self.last.push_str(host);
        if self.names.len() < MOST_HOSTS && !self.names.contains(host) {
            self.names.insert(host.into());
        }
    }
}

impl Hosts for KnownHosts {
    fn known_end(&self, text: &str) -> Option<usize> {
        let known = self.names.iter().filter(|host| text.ends_with(&***host));
        known.map(|host| host.len()).max()
    }
}
