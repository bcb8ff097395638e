//! Replacement of host names and addresses.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use sha2::{Digest, Sha256};

/// Most full stops, dashes and the like in a host's name without its domain.
const MOST_PIECES: usize = 16;

/// Names and addresses that are replaced. The same word replaces them alike on all hosts, so that
/// their archives still fit together.
pub(super) struct Redaction {
    word: String,
    names: BTreeSet<String>,
}

impl Redaction {
    pub(super) fn new(word: &str) -> Self {
        Self {
            word: word.to_owned(),
            names: BTreeSet::new(),
        }
    }

    /// Adds a host's name. Its domain, and addresses, need not be added.
    pub(super) fn add(&mut self, name: &str) {
        let (label, _) = name.split_once('.').unwrap_or((name, ""));
        if !label.is_empty() && label != "localhost" && name.parse::<IpAddr>().is_err() {
            self.names.insert(label.to_owned());
        }
    }

    /// Adds the hosts that begin lines of NCCL's log, `host:pid:tid [device] NCCL INFO …`, and
    /// those of RAS, `… on node host`.
    pub(super) fn add_of(&mut self, text: &str) {
        for line in text.lines() {
            if let Some((_, rest)) = line.split_once(" on node ") {
                let end = rest.find(|it| !is_of_name(it)).unwrap_or(rest.len());
                self.add(rest[..end].trim_end_matches('.'));
            }
            let mut parts = line.splitn(4, ':');
            let name = parts.next().unwrap_or_default();
            let is_number = |it: Option<&str>| {
                let digits = it.and_then(|it| it.split(' ').next()).unwrap_or_default();
                !digits.is_empty() && digits.bytes().all(|it| it.is_ascii_digit())
            };
            if is_number(parts.next()) && is_number(parts.next()) && name.chars().all(is_of_name) {
                self.add(name);
            }
        }
    }

    /// The text that replaces a host's name, with or without its domain.
    pub(super) fn name(&self, name: &str) -> String {
        let (label, _) = name.split_once('.').unwrap_or((name, ""));
        let [a, b, c, d, ..] = self.digest(label);
        format!("host-{a:02x}{b:02x}{c:02x}{d:02x}")
    }

    /// Whether bytes that are no text hold a host's name.
    pub(super) fn is_in(&self, bytes: &[u8]) -> bool {
        let holds = |name: &String| {
            let name = name.as_bytes();
            bytes.windows(name.len()).any(|it| it == name)
        };
        self.names.iter().any(holds)
    }

    /// A text without names and addresses of hosts.
    pub(super) fn text(&self, text: &str) -> String {
        let mut hidden = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(begin) = rest.find(is_of_address) {
            hidden.push_str(&rest[..begin]);
            rest = &rest[begin..];
            let end = rest.find(|it| !is_of_address(it)).unwrap_or(rest.len());
            hidden.push_str(&self.run(&rest[..end]));
            rest = &rest[end..];
        }
        hidden.push_str(rest);
        hidden
    }

    /// Characters of names and addresses: one address, or words with colons between them.
    fn run<'a>(&self, run: &'a str) -> Cow<'a, str> {
        if run.matches(':').count() >= 2
            && let Some(hidden) = self.long_address(run)
        {
            return Cow::Owned(hidden);
        }
        let words: Vec<_> = run.split(':').map(|word| self.single(word)).collect();
        match words.iter().any(|it| matches!(it, Cow::Owned(_))) {
            true => Cow::Owned(words.join(":")),
            false => Cow::Borrowed(run),
        }
    }

    /// A name, or an address of version 4; a full stop at its end is none of it.
    fn single<'a>(&self, word: &'a str) -> Cow<'a, str> {
        let bare = word.trim_end_matches('.');
        let stops = &word[bare.len()..];
        if let Ok(address) = bare.parse::<Ipv4Addr>() {
            if address.is_loopback() || address.is_unspecified() {
                return Cow::Borrowed(word);
            }
            // Addresses that are reserved and used by nobody.
            let [a, b, c, d, ..] = self.digest(bare);
            return Cow::Owned(format!("{}.{b}.{c}.{d}{stops}", 240 | a & 0xf));
        }
        self.words(word).map_or(Cow::Borrowed(word), Cow::Owned)
    }

    /// A word with names in it: each begins and ends where no letter or digit is beside it, and a
    /// domain belongs to it. `None` if there are none.
    fn words(&self, word: &str) -> Option<String> {
        let is_of_piece = |it: char| it.is_ascii_alphanumeric();
        let mut hidden = String::new();
        let mut rest = word;
        let mut found = false;
        while !rest.is_empty() {
            let ends = rest.match_indices(|it| !is_of_piece(it)).map(|it| it.0);
            let mut ends: Vec<usize> = ends.take(MOST_PIECES).collect();
            ends.push(rest.len());
            let known = ends
                .iter()
                .rev()
                .find(|end| self.names.contains(&rest[..**end]));
            if let Some(end) = known {
                found = true;
                hidden.push_str(&self.name(&rest[..*end]));
                rest = &rest[*end..];
                // A suffix of a file's name has one full stop.
                let labels = rest.trim_end_matches('.');
                if labels.starts_with('.') && labels.matches('.').count() > 1 {
                    rest = &rest[labels.len()..];
                }
            } else {
                let end = rest
                    .find(|it| !is_of_piece(it))
                    .map_or(rest.len(), |it| it + 1);
                hidden.push_str(&rest[..end]);
                rest = &rest[end..];
            }
        }
        found.then_some(hidden)
    }

    /// An address of version 6, or of an Ethernet port.
    fn long_address(&self, run: &str) -> Option<String> {
        let bytes = run.split(':');
        let is_port = bytes.clone().count() == 6
            && bytes.clone().all(|it| it.len() == 2)
            && bytes.clone().all(|it| u8::from_str_radix(it, 16).is_ok());
        let [a, b, c, d, ..] = self.digest(run);
        if is_port {
            return Some(format!("02:00:{a:02x}:{b:02x}:{c:02x}:{d:02x}"));
        }
        let address: Ipv6Addr = run.parse().ok()?;
        let is_plain = address.is_loopback() || address.is_unspecified();
        // The range for examples.
        let hidden = format!("2001:db8::{a:02x}{b:02x}:{c:02x}{d:02x}");
        (!is_plain).then_some(hidden)
    }

    fn digest(&self, text: &str) -> [u8; 32] {
        let mut digest = Sha256::new();
        digest.update(self.word.as_bytes());
        digest.update([0]);
        digest.update(text.as_bytes());
        digest.finalize().into()
    }
}

const fn is_of_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '.' | '-' | '_')
}

const fn is_of_address(character: char) -> bool {
    is_of_name(character) || character == ':'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_are_replaced_alike() {
        let mut one = Redaction::new("word");
        let log = "gpu-12:100:200 [0] NCCL INFO NET/Socket : Using [0]eth0:10.1.2.3<0>\n";
        one.add_of(log);
        let mut other = Redaction::new("word");
        other.add("gpu-12.example.com");
        let hidden = one.text(log);
        assert!(hidden.starts_with(&format!("{}:100:200 [0] NCCL", one.name("gpu-12"))));
        assert!(
            !hidden.contains("10.1.2.3") && hidden.contains("]eth0:24"),
            "{hidden}"
        );
        assert_eq!(other.text(log), hidden);
        assert_ne!(Redaction::new("another").text(log), hidden);
        assert_eq!(
            one.text("to gpu-12.example.com."),
            format!("to {}.", one.name("gpu-12"))
        );
        one.add_of("  Process 55 on node n2 managing GPU 3\n");
        assert_eq!(
            one.text("job-n2.log n2:5 n22"),
            format!("job-{0}.log {0}:5 n22", one.name("n2"))
        );
    }

    #[test]
    fn other_words_stay() {
        let mut redaction = Redaction::new("word");
        redaction.add("n1");
        for text in [
            "127.0.0.1 ::1 0.0.0.0 localhost 2.32.3",
            "0000:3b:00.0 n10 n1x 12:34:56",
            "at 17:48:01.0 step 1.2.3.4.5",
        ] {
            assert_eq!(redaction.text(text), text);
        }
        let hidden = redaction.text("fe80::1 02:42:ac:11:00:02 n1:5");
        assert!(hidden.starts_with("2001:db8::"), "{hidden}");
        assert!(
            !hidden.contains("ac:11") && !hidden.contains("n1"),
            "{hidden}"
        );
        assert!(redaction.is_in(b"\x80\x02n1") && !redaction.is_in(b"\x80\x02n"));
    }
}
