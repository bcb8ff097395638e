//! Replacement of what names hosts, users and devices: names, addresses, guids, serial numbers,
//! and secrets.

mod content;
mod forms;
mod names;
mod secrets;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use sha2::{Digest, Sha256};

pub(crate) use content::Content;

/// Most full stops, dashes and the like in a host's name without its domain.
const MOST_PIECES: usize = 16;

/// Fewest digits of a guid behind `0x`: pointers have 12. Where a word says that it is a guid or a
/// hash, fewer will do.
const LEAST_DIGITS: usize = 14;
const LEAST_OF_GUID: usize = 5;

/// Most names that are known.
const MOST_NAMES: usize = 1 << 18;

/// Most characters of a domain.
const MOST_OF_DOMAIN: usize = 255;

/// Most addresses of ports that are looked for within words.
const MOST_PORTS: usize = 1 << 12;

/// Ends of domains. What else has a full stop may be a file's name or a version.
const DOMAINS: [&str; 38] = [
    "com",
    "org",
    "net",
    "edu",
    "gov",
    "mil",
    "int",
    "io",
    "ai",
    "dev",
    "cloud",
    "internal",
    "local",
    "localdomain",
    "lan",
    "corp",
    "intra",
    "intranet",
    "home",
    "cluster",
    "hpc",
    "svc",
    "ac",
    "de",
    "au",
    "ca",
    "ch",
    "cn",
    "dk",
    "eu",
    "fr",
    "jp",
    "kr",
    "nl",
    "se",
    "sg",
    "tw",
    "uk",
];

/// Domains that are no secret.
const PUBLIC: [&str; 5] = [
    "github.com",
    "nvidia.com",
    "pytorch.org",
    "kernel.org",
    "python.org",
];

/// Names and addresses that are replaced. The same word replaces them alike on all hosts, so that
/// their archives still fit together.
#[derive(Debug)]
pub struct Redaction {
    word: String,
    /// Names of hosts and users and serial numbers, in small letters, with the first word of what
    /// replaces them.
    names: BTreeMap<String, &'static str>,
    /// Names of hosts that are usual words for devices, too, as they were written: `gpu1` is a
    /// host, and `GPU1` is not.
    written: BTreeSet<String>,
    /// Names of hosts without the number at their end: of those that no device has, and of all.
    stems: BTreeSet<String>,
    lists: BTreeSet<String>,
    /// Digits of ports' addresses, which longer words may contain.
    ports: BTreeSet<String>,
    /// There are more names than are known.
    overflows: bool,
}

impl Redaction {
    /// One that knows no name yet. `word` makes the replacements.
    pub fn new(word: &str) -> Self {
        Self {
            word: word.to_owned(),
            names: BTreeMap::new(),
            written: BTreeSet::new(),
            stems: BTreeSet::new(),
            lists: BTreeSet::new(),
            ports: BTreeSet::new(),
            overflows: false,
        }
    }

    /// Checks that all names are known.
    ///
    /// # Errors
    /// There are too many.
    pub fn check(&self) -> Result<(), String> {
        match self.overflows {
            true => Err(format!(
                "the files name more than {MOST_NAMES} hosts and users, which cannot be redacted; give fewer files"
            )),
            false => Ok(()),
        }
    }

    /// Adds a host's name. Its domain, and addresses, need not be added.
    pub fn add(&mut self, name: &str) {
        let (label, _) = name.split_once('.').unwrap_or((name, ""));
        let written = label.trim_end_matches(['-', '_']);
        let label = written.to_ascii_lowercase();
        let has_letter = label.contains(|it: char| it.is_ascii_alphabetic());
        if !has_letter || label == "localhost" || name.parse::<IpAddr>().is_ok() {
            return;
        }
        if self.names.len() >= MOST_NAMES {
            self.overflows = true;
            return;
        }
        let stem = label.trim_end_matches(|it: char| it.is_ascii_digit());
        if stem.len() < label.len() {
            self.lists.insert(stem.to_owned());
            if stem.len() >= 3 && !names::is_common(stem) {
                self.stems.insert(stem.to_owned());
            }
        }
        if names::is_common(&label) {
            self.written.insert(written.to_owned());
        }
        self.names.insert(label, "host");
    }

    /// Adds a user's name.
    pub fn add_user(&mut self, name: &str) {
        let is_role = ["root", "user", "users", "data", "shared", "home"].contains(&name);
        if name.len() >= 3 && !is_role && !names::is_common(name) {
            let name = name.to_ascii_lowercase();
            self.names.entry(name).or_insert("user");
        }
    }

    /// Adds the hosts, users, serial numbers and addresses of ports that a text names.
    pub fn add_of(&mut self, text: &str) {
        names::listing(text, &mut |host| {
            if !names::is_usual(host) {
                self.add(host);
            }
        });
        for line in text.lines() {
            names::logged(line, &mut |host| self.add(host));
            names::hosts(line, &mut |host, is_certain| {
                let is_word = match is_certain {
                    true => names::is_usual(host),
                    false => names::is_common(host),
                };
                if !is_word {
                    self.add(host);
                }
            });
            names::users(line, &mut |user| self.add_user(user));
            if let Some(serial) = names::serial(line) {
                let serial = serial.to_ascii_lowercase();
                self.names.insert(serial, "serial");
            }
            for run in line.split(|it| !is_of_address(it)) {
                let port = forms::identifier(run, LEAST_DIGITS).map(|it| plain(&run[it.0..it.1]));
                let port = port.filter(|it| it.len() == forms::MAC);
                if let Some(port) = port.filter(|_| self.ports.len() < MOST_PORTS) {
                    self.ports.insert(port);
                }
            }
        }
    }

    /// Adds what a file names, unless it is no text.
    pub fn add_of_file(&mut self, bytes: &[u8]) {
        if let Some(content) = Content::of(bytes) {
            self.add_of(&content.text);
        }
    }

    /// The text that replaces a host's name, with or without its domain.
    pub fn name(&self, name: &str) -> String {
        let (label, _) = name.split_once('.').unwrap_or((name, ""));
        self.replacement("host", label)
    }

    fn replacement(&self, kind: &str, word: &str) -> String {
        let [a, b, c, d, ..] = self.digest(&word.to_ascii_lowercase());
        format!("{kind}-{a:02x}{b:02x}{c:02x}{d:02x}")
    }

    /// A text without what names hosts, users and devices, and without secrets.
    pub fn text(&self, text: &str) -> String {
        let mut hidden = String::with_capacity(text.len());
        for line in text.split_inclusive('\n') {
            let line = secrets::without(line, &|kind, word| self.replacement(kind, word));
            let mut done = 0;
            while let Some(begin) = line[done..].find(is_of_address) {
                let begin = done + begin;
                hidden.push_str(&line[done..begin]);
                let rest = &line[begin..];
                let end = rest.find(|it| !is_of_address(it)).unwrap_or(rest.len());
                let stem = match rest[end..].starts_with('[') {
                    true => self.stem(&rest[..end]),
                    false => end,
                };
                self.run(&rest[..stem], least(&line[..begin]), &mut hidden);
                if stem < end {
                    hidden.push_str(&self.replacement("hosts", &rest[stem..end]));
                }
                done = begin + end;
            }
            hidden.push_str(&line[done..]);
        }
        hidden
    }

    /// Where the name of a list of hosts, such as `n-[01-20]`, begins in what precedes its bracket.
    /// Its end if these are no known hosts.
    fn stem(&self, run: &str) -> usize {
        let begin = run.rfind(':').map_or(0, |it| it + 1);
        let stem = run[begin..].to_ascii_lowercase();
        if self.lists.contains(&stem) {
            begin
        } else {
            run.len()
        }
    }

    /// Characters of names and addresses: addresses and words with marks between them.
    fn run(&self, run: &str, least: usize, hidden: &mut String) {
        let mut rest = run;
        while let Some((begin, end)) = forms::version6(rest) {
            let [a, b, c, d, ..] = self.digest(&rest[begin..end]);
            self.words(&rest[..begin], least, hidden);
            // The range for examples.
            hidden.push_str(&format!("2001:db8::{a:02x}{b:02x}:{c:02x}{d:02x}"));
            rest = &rest[end..];
        }
        self.words(rest, least, hidden);
    }

    /// The same, without addresses of version 6.
    fn words(&self, run: &str, least: usize, hidden: &mut String) {
        let mut done = 0;
        while done < run.len() {
            let rest = &run[done..];
            let follows_stop = run[..done].ends_with('.');
            let is_numa = ["NUMA ", "/node/"].iter().any(|it| hidden.ends_with(it));
            if let Some((begin, end)) = forms::identifier(rest, least) {
                hidden.push_str(&rest[..begin]);
                hidden.push_str(&self.digits(&rest[begin..end]));
                done += end;
            } else if let Some(end) = forms::version4(rest).filter(|_| !follows_stop) {
                // Addresses that are reserved and used by nobody.
                let [a, b, c, d, ..] = self.digest(&rest[..end]);
                hidden.push_str(&format!("{}.{b}.{c}.{d}", 240 | a & 0xf));
                done += end;
            } else if let Some((end, replacement)) = self.known(rest).filter(|_| !is_numa) {
                hidden.push_str(&replacement);
                done += end;
            } else {
                let end = rest
                    .find(|it: char| !it.is_ascii_alphanumeric())
                    .map_or(rest.len(), |it| it + 1);
                hidden.push_str(&rest[..end]);
                done += end;
            }
        }
    }

    /// A known name at the begin of a text, with its domain: its length, and what replaces it.
    fn known(&self, text: &str) -> Option<(usize, String)> {
        let ends = text.match_indices(|it: char| !it.is_ascii_alphanumeric());
        let mut ends: Vec<usize> = ends.map(|it| it.0).take(MOST_PIECES).collect();
        if ends.len() < MOST_PIECES {
            ends.push(text.len());
        }
        for end in ends.iter().rev() {
            let name = text[..*end].to_ascii_lowercase();
            let stem = name.trim_end_matches(|it: char| it.is_ascii_digit());
            let kind = self.names.get(&name).copied();
            let is_other = |kind: &&str| {
                *kind == "host" && names::is_common(&name) && !self.written.contains(&text[..*end])
            };
            let kind = kind.filter(|it| !is_other(it));
            let is_of_kin = stem.len() < name.len() && self.stems.contains(stem);
            let is_dashed = !name.contains(['.', ':']) && forms::has_dashed_address(&name);
            if let Some(kind) = kind.or((is_of_kin || is_dashed).then_some("host")) {
                return Some((end + domain(&text[*end..]), self.replacement(kind, &name)));
            }
        }
        let end = ends.first().copied().unwrap_or(text.len());
        let piece = text[..end].to_ascii_lowercase();
        if piece.len() >= forms::MAC && self.ports.iter().any(|it| piece.contains(it)) {
            return Some((end, self.replacement("port", &piece)));
        }
        let of_domain = domain(&text[end..]);
        let is_public = PUBLIC
            .iter()
            .any(|it| text[..end + of_domain].ends_with(it));
        (of_domain > 0 && end > 0 && !is_public && is_domain(&text[end..end + of_domain]))
            .then(|| (end + of_domain, self.replacement("host", &piece)))
    }

    /// Other digits in the places of an identifier's, alike for all ways in which it is written.
    /// Zeros before a number stay.
    fn digits(&self, identifier: &str) -> String {
        let own = plain(identifier);
        let significant = own.trim_start_matches('0');
        if significant.is_empty() || significant.bytes().all(|it| it == b'f') {
            return identifier.to_owned();
        }
        let digest = self.digest(if own.len() == forms::MAC {
            &own
        } else {
            significant
        });
        let digest: String = digest.iter().map(|it| format!("{it:02x}")).collect();
        let others = match own.len() {
            // The range for addresses of nobody's ports.
            forms::MAC => format!("0200{}", &digest[..8]),
            length => {
                let digits = digest[..significant.len()].replacen('0', "1", 1);
                format!("{digits:0>length$}")
            }
        };
        let mut others = others.chars();
        let other = |it: char| match it.is_ascii_hexdigit() {
            true => others.next().unwrap_or('0'),
            false => it,
        };
        identifier.chars().map(other).collect()
    }

    fn digest(&self, text: &str) -> [u8; 32] {
        let mut digest = Sha256::new();
        digest.update(self.word.as_bytes());
        digest.update([0]);
        digest.update(text.as_bytes());
        digest.finalize().into()
    }
}

/// The digits of an identifier, in small letters.
fn plain(identifier: &str) -> String {
    let digits = identifier.chars().filter(char::is_ascii_hexdigit);
    digits.map(|it| it.to_ascii_lowercase()).collect()
}

/// Fewest digits of a guid behind these words.
fn least(before: &str) -> usize {
    let word = before.trim_end_matches([' ', '\t', ':', '=', '"', '\'']);
    let tail: Vec<char> = word.chars().rev().take(4).collect();
    let tail: String = tail.iter().rev().collect::<String>().to_ascii_lowercase();
    match tail.as_str() {
        "guid" | "hash" => LEAST_OF_GUID,
        _ => LEAST_DIGITS,
    }
}

/// The length of a domain that follows a host's name. A suffix of a file's name has one full stop.
fn domain(rest: &str) -> usize {
    let of_labels = |it: &u8| it.is_ascii_alphanumeric() || matches!(it, b'.' | b'-');
    let most = rest.bytes().take(MOST_OF_DOMAIN);
    let end = most.take_while(of_labels).count();
    let labels = rest[..end].trim_end_matches(['.', '-']);
    let fits = labels.starts_with('.') && (labels.matches('.').count() > 1 || is_domain(labels));
    if fits { labels.len() } else { 0 }
}

/// Whether labels end as domains do.
fn is_domain(labels: &str) -> bool {
    let last = labels.rsplit('.').next().unwrap_or_default();
    DOMAINS.contains(&last.to_ascii_lowercase().as_str())
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
    fn guids_and_serial_numbers_are_replaced_alike() {
        let mut redaction = Redaction::new("word");
        redaction.add_of(
            "    Serial Number        : 1652922013877\n\t[SN] Serial number: MT2124X00001\n",
        );
        redaction.add_of("    Serial Number        : N/A\n");
        let text = "<serial>1652922013877</serial> MT2124X00001 N/A 16529220138770";
        let hidden = redaction.text(text);
        let is_hidden = !hidden.contains("1652922013877<") && !hidden.contains("MT2124X00001");
        assert!(
            is_hidden && hidden.starts_with("<serial>serial-"),
            "{hidden}"
        );
        assert!(hidden.ends_with(" N/A 16529220138770"), "{hidden}");
        let guid = |text: &str| redaction.text(text);
        let bare = |text: &str| text.replace([':', '-'], "");
        let own = guid("0x946dae0300abcdef");
        assert!(own.starts_with("0x") && own.len() == 18 && own != "0x946dae0300abcdef");
        assert_eq!(bare(&guid("946d:ae03:00ab:cdef")), own[2..]);
        assert_eq!(bare(&guid("94-6D-AE-03-00-AB-CD-EF")), own[2..]);
        let gpu = "GPU-5d3f1a2b-0011-2233-4455-66778899aabb";
        let hidden = guid(gpu);
        assert!(hidden.starts_with("GPU-") && hidden.len() == gpu.len() && hidden != gpu);
        for text in [
            "0x7f8c496ae9f6",
            "GPU-0",
            "12:34:56",
            "0x946dae0300abcdef0",
            "01-02-03",
        ] {
            assert_eq!(guid(text), text);
        }
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
    }
}
