//! Replacement of host names, addresses, guids and serial numbers.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use sha2::{Digest, Sha256};

/// Most full stops, dashes and the like in a host's name without its domain.
const MOST_PIECES: usize = 16;

/// Words before a serial number.
const SERIALS: [&str; 4] = [
    "Serial Number",
    "Serial number",
    "<serial>",
    "<board_serial>",
];

/// Names and addresses that are replaced. The same word replaces them alike on all hosts, so that
/// their archives still fit together.
pub(super) struct Redaction {
    word: String,
    /// Names of hosts and serial numbers, with the first word of what replaces them.
    names: BTreeMap<String, &'static str>,
}

impl Redaction {
    pub(super) fn new(word: &str) -> Self {
        Self {
            word: word.to_owned(),
            names: BTreeMap::new(),
        }
    }

    /// Adds a host's name. Its domain, and addresses, need not be added.
    pub(super) fn add(&mut self, name: &str) {
        let (label, _) = name.split_once('.').unwrap_or((name, ""));
        if !label.is_empty() && label != "localhost" && name.parse::<IpAddr>().is_err() {
            self.names.insert(label.to_owned(), "host");
        }
    }

    /// Adds the hosts that begin lines of NCCL's log, `host:pid:tid [device] NCCL INFO …`, and
    /// those of RAS, `… on node host`. Adds serial numbers of GPUs and adapters.
    pub(super) fn add_of(&mut self, text: &str) {
        for line in text.lines() {
            if let Some((_, rest)) = line.split_once(" on node ") {
                let end = rest.find(|it| !is_of_name(it)).unwrap_or(rest.len());
                self.add(rest[..end].trim_end_matches('.'));
            }
            if let Some(serial) = serial(line) {
                self.names.insert(serial.to_owned(), "serial");
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
        self.replacement("host", label)
    }

    fn replacement(&self, kind: &str, word: &str) -> String {
        let [a, b, c, d, ..] = self.digest(word);
        format!("{kind}-{a:02x}{b:02x}{c:02x}{d:02x}")
    }

    /// Whether bytes that are no text hold a host's name.
    pub(super) fn is_in(&self, bytes: &[u8]) -> bool {
        let holds = |name: &String| {
            let name = name.as_bytes();
            bytes.windows(name.len()).any(|it| it == name)
        };
        self.names.keys().any(holds)
    }

    /// A text without names and addresses of hosts, guids and serial numbers.
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
        if is_guid(run) {
            return Cow::Owned(self.guid(run));
        }
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
                .find_map(|end| Some((end, self.names.get(&rest[..*end])?)));
            if let Some((end, kind)) = known {
                found = true;
                hidden.push_str(&self.replacement(kind, &rest[..*end]));
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

    /// Other digits in the places of a guid's, alike for all ways in which it is written.
    fn guid(&self, guid: &str) -> String {
        let (head, digits) = guid.split_at(guid.len() - digits_of(guid).len());
        let plain = digits.chars().filter(char::is_ascii_hexdigit);
        let plain: String = plain.map(|it| it.to_ascii_lowercase()).collect();
        let digest = self.digest(&plain);
        let mut others = digest.iter().flat_map(|it| [it >> 4, it & 0xf]);
        let mut other = |it: char| match it.is_ascii_hexdigit() {
            true => char::from_digit(others.next().unwrap_or(0).into(), 16).unwrap_or('0'),
            false => it,
        };
        let hidden: String = digits.chars().map(&mut other).collect();
        format!("{head}{hidden}")
    }

    fn digest(&self, text: &str) -> [u8; 32] {
        let mut digest = Sha256::new();
        digest.update(self.word.as_bytes());
        digest.update([0]);
        digest.update(text.as_bytes());
        digest.finalize().into()
    }
}

/// The serial number in a line of nvidia-smi or lspci.
fn serial(line: &str) -> Option<&str> {
    let rest = SERIALS.iter().find_map(|it| line.split_once(it))?.1;
    let rest = rest.trim_start_matches([' ', ':', '\t']);
    let end = rest
        .find(|it: char| !it.is_ascii_alphanumeric())
        .unwrap_or(rest.len());
    let serial = &rest[..end];
    let has_digit = serial.contains(|it: char| it.is_ascii_digit());
    (serial.len() >= 6 && has_digit).then_some(serial)
}

/// The digits of a guid, without `0x` and `GPU-`.
fn digits_of(guid: &str) -> &str {
    let heads = ["0x", "GPU-", "MIG-"];
    let bare = heads.iter().find_map(|it| guid.strip_prefix(it));
    bare.unwrap_or(guid)
}

/// Whether characters are a guid: `0x946dae0300abcdef`, `946d:ae03:00ab:cdef`,
/// `94-6d-ae-03-00-ab-cd-ef`, or the UUID of a GPU.
fn is_guid(run: &str) -> bool {
    let digits = digits_of(run);
    let fits = |parts: &[usize], mark: char| {
        let mut own = digits.split(mark);
        let hex = |it: &str| it.bytes().all(|it| it.is_ascii_hexdigit());
        let mut parts = parts.iter();
        let same = parts.all(|length| own.next().is_some_and(|it| it.len() == *length && hex(it)));
        same && own.next().is_none()
    };
    match run {
        _ if run.starts_with("0x") => fits(&[16], ' '),
        _ if digits.len() < run.len() => fits(&[8, 4, 4, 4, 12], '-'),
        _ => fits(&[4; 4], ':') || fits(&[2; 8], '-'),
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
        assert!(redaction.is_in(b"\x80\x02n1") && !redaction.is_in(b"\x80\x02n"));
    }
}
