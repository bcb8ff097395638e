//! Mutations of JSON, TOML and XML documents that keep their syntax: they change numbers, strings
//! and items.
//!
//! Changes of single bytes nearly always break a document, so its reader refuses it and no other
//! code is reached.

use std::ops::Range;

/// Numbers at which programs often fail.
const NUMBERS: &str = "0 1 2 3 7 8 16 63 64 65 255 256 65535 65536 16777216 2147483647 2147483648 4294967295 \
    9007199254740993 9223372036854775807 18446744073709551615 -1 0.5 1e300";

/// Words that replace each other.
const WORDS: [&str; 3] = ["true", "false", "null"];

/// Pseudorandom numbers from a seed (SplitMix64).
pub struct Random(u64);

impl Random {
    /// From a seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `most`; 0 if `most` is 0.
    pub const fn below(&mut self, most: usize) -> usize {
        if most == 0 {
            return 0;
        }
        (self.next() % most as u64) as usize
    }

    fn one<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        of.get(self.below(of.len()))
    }
}

/// Returns the document with some changes.
pub fn document(document: &[u8], random: &mut Random) -> Vec<u8> {
    let mut changed = document.to_vec();
    for _ in 0..1 + random.below(3) {
        changed = once(&changed, random).unwrap_or(changed);
    }
    changed
}

fn once(text: &[u8], random: &mut Random) -> Option<Vec<u8>> {
    match random.below(8) {
        0..3 => number(text, random),
        3 => string(text, random),
        4 => word(text, random),
        _ => {
            let first = text.iter().find(|byte| !byte.is_ascii_whitespace());
            let parts = match first {
                Some(b'<') => elements(text),
                Some(b'{' | b'[') => items(text),
                _ => lines(text),
            };
            part(text, &parts, random)
        }
    }
}

fn replace(text: &[u8], range: Range<usize>, by: &[u8]) -> Vec<u8> {
    [&text[..range.start], by, &text[range.end..]].concat()
}

/// Runs of bytes of one kind.
fn runs(text: &[u8], kind: impl Fn(u8) -> bool) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut start = None;
    for (at, byte) in text.iter().chain([&0]).enumerate() {
        match (kind(*byte), start) {
            (true, None) => start = Some(at),
            (false, Some(begin)) => {
                found.push(begin..at);
                start = None;
            }
            _ => {}
        }
    }
    found
}

fn number(text: &[u8], random: &mut Random) -> Option<Vec<u8>> {
    let all = runs(text, |byte| byte.is_ascii_digit());
    let range = random.one(&all)?.clone();
    let old = std::str::from_utf8(&text[range.clone()]).ok()?;
    let numbers: Vec<&str> = NUMBERS.split(' ').collect();
    let new = match (random.below(6), old.parse::<u64>()) {
        (0, Ok(old)) => old.wrapping_add(1).to_string(),
        (1, Ok(old)) => old.saturating_sub(1).to_string(),
        (2..4, _) => String::from_utf8_lossy(&text[random.one(&all)?.clone()]).into_owned(),
        (4, _) => random.below(16).to_string(),
        _ => (*random.one(&numbers)?).to_owned(),
    };
    Some(replace(text, range, new.as_bytes()))
}

/// Strings without their quotes, except keys of JSON.
fn strings(text: &[u8]) -> Vec<Range<usize>> {
    let quotes: Vec<usize> = (0..text.len()).filter(|at| text[*at] == b'"').collect();
    let pairs = quotes.chunks_exact(2);
    let values = pairs.filter(|pair| text.get(pair[1] + 1) != Some(&b':'));
    values.map(|pair| pair[0] + 1..pair[1]).collect()
}

/// The end of the key or attribute before a string. Strings with equal ends are of one kind.
fn before<'a>(text: &'a [u8], range: &Range<usize>) -> &'a [u8] {
    let outside = &text[..range.start.saturating_sub(1)];
    let from = outside.len().saturating_sub(6);
    &outside[from..]
}

fn string(text: &[u8], random: &mut Random) -> Option<Vec<u8>> {
    let all = strings(text);
    let range = random.one(&all)?.clone();
    let new = match random.below(8) {
        0 => Vec::new(),
        1 => text[range.clone()].repeat(2),
        2 => text[random.one(&all)?.clone()].to_vec(),
        _ => {
            let kind = before(text, &range);
            let like = all.iter().filter(|other| before(text, other) == kind);
            let like: Vec<Range<usize>> = like.cloned().collect();
            text[random.one(&like)?.clone()].to_vec()
        }
    };
    Some(replace(text, range, &new))
}

fn word(text: &[u8], random: &mut Random) -> Option<Vec<u8>> {
    let all = runs(text, |byte| byte.is_ascii_alphabetic());
    let known = |range: &&Range<usize>| {
        let found = &text[range.start..range.end];
        WORDS.iter().any(|word| word.as_bytes() == found)
    };
    let all: Vec<Range<usize>> = all.iter().filter(known).cloned().collect();
    let range = random.one(&all)?.clone();
    let new = match (random.below(8), &text[range.clone()]) {
        (0, _) => *random.one(&WORDS)?,
        (_, b"true") => "false",
        _ => "true",
    };
    Some(replace(text, range, new.as_bytes()))
}

/// Items of JSON between brackets and commas, each with the comma after it.
fn items(text: &[u8]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    let mut quoted = false;
    let mut escaped = false;
    for (at, byte) in text.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'{' | b'[' => open.push(at + 1),
            b',' => {
                if let Some(begin) = open.last_mut() {
                    found.push(*begin..at + 1);
                    *begin = at + 1;
                }
            }
            b'}' | b']' => {
                // The last item has no comma, so only items without their comma replace it.
                if let Some(begin) = open.pop().filter(|begin| *begin < at) {
                    found.push(begin..at);
                }
            }
            _ => {}
        }
    }
    found
}

/// Elements of XML with their content.
fn elements(text: &[u8]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    let mut at = 0;
    while let Some(begin) = find(text, at, b'<') {
        let Some(end) = find(text, begin, b'>') else {
            break;
        };
        at = end + 1;
        if text.get(begin + 1) == Some(&b'/') {
            found.extend(open.pop().map(|begin| begin..at));
        } else if text[end - 1] == b'/' {
            found.push(begin..at);
        } else {
            open.push(begin);
        }
    }
    found
}

fn find(text: &[u8], from: usize, byte: u8) -> Option<usize> {
    let found = text.get(from..)?.iter().position(|other| *other == byte);
    found.map(|at| from + at)
}

fn lines(text: &[u8]) -> Vec<Range<usize>> {
    let mut begin = 0;
    let line = |line: &[u8]| {
        let range = begin..begin + line.len();
        begin = range.end;
        range
    };
    text.split_inclusive(|byte| *byte == b'\n')
        .map(line)
        .collect()
}

/// The name of a part: a field of JSON, a key of TOML, an element of XML. Parts of one name can
/// replace each other. Items of lists have their first byte instead.
fn name(part: &[u8]) -> (bool, &[u8]) {
    let part = part.trim_ascii_start();
    let end = match part.first() {
        Some(b'"') => find(part, 1, b'"').filter(|end| part.get(end + 1) == Some(&b':')),
        Some(b'<') => part.iter().position(|byte| b" />".contains(byte)),
        Some(b'{' | b'[') => None,
        _ => find(part, 0, b'='),
    };
    let named = end.is_some() && part.first() != Some(&b'<');
    (named, &part[..end.unwrap_or(part.len().min(1))])
}

/// Replaces a part by another one of the same name. Sometimes removes or doubles it, which is
/// seldom valid for fields.
fn part(text: &[u8], parts: &[Range<usize>], random: &mut Random) -> Option<Vec<u8>> {
    let range = random.one(parts)?.clone();
    let own = &text[range.clone()];
    let comma = own.last() == Some(&b',');
    let kind = name(own);
    let changes_count = random.below(if kind.0 { 8 } else { 2 }) == 0;
    let new = match (changes_count, random.below(2)) {
        (true, 0) => Vec::new(),
        (true, _) if comma || own.ends_with(b"\n") || own.ends_with(b">") => own.repeat(2),
        (true, _) => [own, b",", own].concat(),
        (false, _) => {
            let like = |other: &&Range<usize>| name(&text[other.start..other.end]) == kind;
            let like: Vec<Range<usize>> = parts.iter().filter(like).cloned().collect();
            let other = &text[random.one(&like)?.clone()];
            let mut new = other.strip_suffix(b",").unwrap_or(other).to_vec();
            if comma {
                new.push(b',');
            }
            new
        }
    };
    Some(replace(text, range, &new))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_changes_keep_the_syntax() {
        let json = br#"{"a": [1, 2, {"b": "x,y", "c": null}], "d": {"e": true}, "f": [[], [3]]}"#;
        let xml = b"<a x=\"1\"><b y=\"2\"/><c><d/></c></a>";
        let mut random = Random::new(1);
        let (mut kept, mut new) = (0, 0);
        for _ in 0..1000 {
            let changed = document(json, &mut random);
            new += usize::from(changed != json);
            kept += usize::from(serde_json::from_slice::<serde_json::Value>(&changed).is_ok());
            let _ = document(xml, &mut random);
        }
        assert!(kept > 900 && new > 700, "{kept} kept, {new} new");
    }

    #[test]
    fn nothing_is_too_short() {
        let mut random = Random::new(2);
        for text in [&b""[..], b"<", b"{", b"\"", b">", b"1", b"}", b"\n"] {
            for _ in 0..100 {
                let _ = document(text, &mut random);
            }
        }
    }
}
