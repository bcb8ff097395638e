//! Tags: name and attributes, within NCCL's limits.

use std::borrow::Cow;

use super::locate::{Locator, further};
use super::notes::{Notes, excerpt};
use super::{Attribute, names};
use crate::error::{Error, Place, Position};

/// Attributes per element that NCCL keeps.
const ATTRIBUTES: usize = 16;
/// Names and values of this many bytes or more make NCCL refuse a file.
const TEXT_BYTES: usize = 254;

/// Longest name in the place of a message; those that NCCL knows are shorter.
const PLACE_CHARACTERS: usize = 48;

/// The file and the state of its parser.
#[derive(Debug)]
pub(super) struct Source<'a> {
    pub(super) file: std::sync::Arc<str>,
    pub(super) text: &'a str,
    pub(super) locator: Locator<'a>,
    pub(super) notes: Notes,
}

impl Source<'_> {
    pub(super) fn place(
        &self,
        position: Position,
        element: Option<&str>,
        attribute: Option<&str>,
    ) -> Place {
        let short = |text: &str| match text.char_indices().nth(PLACE_CHARACTERS) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text.to_owned(),
        };
        Place {
            file: std::sync::Arc::clone(&self.file),
            position,
            element: element.map(short),
            attribute: attribute.map(short),
        }
    }

    /// Adds a warning; see [`Notes::add`].
    pub(super) fn note(
        &mut self,
        kind: &'static str,
        detail: &str,
        position: Position,
        element: Option<&str>,
        attribute: Option<&str>,
        message: impl FnOnce() -> String,
    ) {
        let mut notes = std::mem::take(&mut self.notes);
        notes.add(
            kind,
            detail,
            || self.place(position, element, attribute),
            message,
        );
        self.notes = notes;
    }
}

/// A start tag, or the whole of an empty element.
#[derive(Debug)]
pub(super) struct StartTag<'a> {
    pub(super) name: &'a str,
    pub(super) position: Position,
    pub(super) attributes: Vec<Attribute>,
}

/// The name at the start of a tag, after its `<`.
pub(super) fn name(text: &str) -> &str {
    let length = text.bytes().position(is_delimiter);
    &text[..length.unwrap_or(text.len())]
}

/// Reads the tag between `start` (its `<`) and `end` (after its `>`). All attributes are checked,
/// but returned only if `keep` is set.
pub(super) fn read<'a>(
    source: &mut Source<'a>,
    start: usize,
    end: usize,
    empty: bool,
    keep: bool,
) -> Result<StartTag<'a>, Error> {
    let text = source.text;
    let body = text
        .get(start + 1..end.saturating_sub(1 + usize::from(empty)))
        .unwrap_or("");
    let bytes = body.as_bytes();
    let position = source.locator.position(start);
    let name = checked_name(source, body, position, &text[start..end])?;
    let name_end = name.len();
    // Without an early end, so that the compiler can look at many bytes at once.
    let broken = bytes
        .iter()
        .fold(false, |found, b| found | matches!(b, b'\n' | b'\r' | b'\t'));
    let mut tag = StartTag {
        name,
        position,
        attributes: Vec::new(),
    };
    if keep && name_end < bytes.len() {
        let expected = bytes.iter().filter(|&&b| b == b'=').count();
        tag.attributes.reserve_exact(expected.min(ATTRIBUTES));
    }
    let mut at = name_end;
    let (mut spaces, mut attributes) = (0, 0);
    loop {
        let blank = bytes[at..].iter().take_while(|&&b| is_blank(b)).count();
        spaces += bytes[at..at + blank].iter().filter(|&&b| b == b' ').count();
        if broken && blank > 0 {
            note_broken(source, start + 1 + at, &bytes[at..at + blank], name);
        }
        at += blank;
        if at == bytes.len() {
            return Ok(tag);
        }
        // Positions are cheap on a tag of one line, which all of NCCL's are.
        let attribute_position = if broken {
            source.locator.position(start + 1 + at)
        } else {
            further(position, at + 1)
        };
        if blank == 0 {
            let place = source.place(attribute_position, Some(name), None);
            return Err(Error::new(
                place,
                "a tag is malformed",
                excerpt(&body[at..]),
                "a space, then `attribute=\"value\"`, or the end of the tag",
            ));
        }
        let (attribute, raw, next) = read_attribute(source, body, at, name, attribute_position)?;
        at = next;
        attributes += 1;
        // NCCL takes every space of a tag as the start of an attribute, if only of a nameless one.
        let slot = if broken { attributes } else { spaces };
        if slot > ATTRIBUTES {
            source.note("attributes", "", attribute_position, Some(name), Some(attribute), || {
                format!("NCCL keeps {ATTRIBUTES} attributes of an element (every space counts as one): this one is ignored")
            });
            continue;
        }
        let value = decode(source, raw, name, attribute, attribute_position)?;
        if attribute.len() >= TEXT_BYTES || raw.len() >= TEXT_BYTES {
            note_long(source, attribute_position, name, Some(attribute));
        }
        if !keep {
            continue;
        }
        if tag.attributes.iter().any(|other| other.name == attribute) {
            note_twice(source, attribute_position, name, attribute);
        }
        tag.attributes.push(Attribute {
            name: names::attribute(attribute),
            value: value.into_owned(),
            position: attribute_position,
        });
    }
}

/// Returns the name at the head of `body`, of the tag `whole`.
fn checked_name<'a>(
    source: &mut Source<'_>,
    body: &'a str,
    position: Position,
    whole: &str,
) -> Result<&'a str, Error> {
    let name = name(body);
    let (problem, expected) = if name.is_empty() {
        (
            "an element has no name",
            "the element's name directly behind `<`",
        )
    } else if name.contains(['<', '&', '"', '\'']) {
        (
            "an element's name is malformed",
            "a name, then a space, `/` or `>`",
        )
    } else {
        if name.len() >= TEXT_BYTES {
            note_long(source, position, name, None);
        }
        return Ok(name);
    };
    let place = source.place(position, None, None);
    Err(Error::new(place, problem, excerpt(whole), expected))
}

/// Reads `name="value"` at `at`. Returns the name, the raw value, and the offset after it.
fn read_attribute<'a>(
    source: &mut Source<'_>,
    body: &'a str,
    at: usize,
    element: &str,
    position: Position,
) -> Result<(&'a str, &'a str, usize), Error> {
    let bytes = body.as_bytes();
    let length = bytes[at..]
        .iter()
        .position(|&b| is_delimiter(b) || matches!(b, b'"' | b'\'' | b'<' | b'&'));
    let name_end = length.map_or(bytes.len(), |length| at + length);
    let name = &body[at..name_end];
    let skip_blanks =
        |from: usize| from + bytes[from..].iter().take_while(|&&b| is_blank(b)).count();
    let equals = skip_blanks(name_end);
    let malformed = |source: &mut Source<'_>, problem: &str, from: usize| {
        let place = source.place(position, Some(element), (!name.is_empty()).then_some(name));
        Error::new(
            place,
            problem,
            excerpt(&body[from..]),
            "`attribute=\"value\"`, with the value in quotes",
        )
    };
    if name.is_empty() {
        return Err(malformed(source, "an attribute has no name", at));
    }
    if bytes.get(equals) != Some(&b'=') {
        return Err(malformed(source, "an attribute has no value", at));
    }
    let quote_at = skip_blanks(equals + 1);
    let Some(&quote @ (b'"' | b'\'')) = bytes.get(quote_at) else {
        return Err(malformed(
            source,
            "an attribute's value is not in quotes",
            at,
        ));
    };
    if quote_at != name_end + 1 {
        source.note("equals", "", position, Some(element), Some(name), || {
            "NCCL refuses this file: it allows no space around `=`".to_owned()
        });
    }
    let from = quote_at + 1;
    let Some(length) = bytes[from..].iter().position(|&b| b == quote) else {
        return Err(malformed(source, "an attribute's value is not closed", at));
    };
    Ok((name, &body[from..from + length], from + length + 1))
}

/// Resolves standard references. A `&` that starts no reference stays, as in NCCL.
fn decode<'a>(
    source: &mut Source<'_>,
    raw: &'a str,
    element: &str,
    attribute: &str,
    position: Position,
) -> Result<Cow<'a, str>, Error> {
    if !raw.as_bytes().contains(&b'&') {
        return Ok(Cow::Borrowed(raw));
    }
    let mut value = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(start) = rest.find('&') {
        value.push_str(&rest[..start]);
        rest = &rest[start..];
        match reference(rest) {
            Reference::Character(character, length) => {
                value.push(character);
                rest = &rest[length..];
                source.note("reference", "", position, Some(element), Some(attribute), || {
                    "holds a reference such as `&amp;`, which NCCL does not resolve: it reads the text as it stands".to_owned()
                });
            }
            Reference::None => {
                value.push('&');
                rest = &rest[1..];
                source.note("ampersand", "", position, Some(element), Some(attribute), || {
                    "holds a bare `&`: NCCL reads it as it stands, but other XML readers refuse the file".to_owned()
                });
            }
            Reference::Unknown(length) => {
                let place = source.place(position, Some(element), Some(attribute));
                return Err(Error::new(
                    place,
                    "a value refers to an entity that does not exist",
                    excerpt(&rest[..length]),
                    "`&amp;`, `&lt;`, `&gt;`, `&quot;`, `&apos;` or a character number; a topology file defines no entities",
                ));
            }
        }
    }
    value.push_str(rest);
    Ok(Cow::Owned(value))
}

/// The meaning of a `&`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reference {
    /// This character, by a reference of this many bytes.
    Character(char, usize),
    /// A reference of this many bytes to something else.
    Unknown(usize),
    /// Nothing.
    None,
}

/// Reads the reference at the start of `text`, which starts with `&`.
pub(super) fn reference(text: &str) -> Reference {
    let is_part = |b: &u8| {
        b.is_ascii_alphanumeric() || matches!(b, b'#' | b'_' | b'-' | b'.' | b':') || !b.is_ascii()
    };
    let bytes = text.as_bytes();
    let length = bytes.iter().skip(1).take_while(|b| is_part(b)).count();
    if length == 0 || bytes.get(1 + length) != Some(&b';') {
        return Reference::None;
    }
    let name = &text[1..=length];
    let character = match name {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => name.strip_prefix('#').and_then(|number| {
            let number = match number.strip_prefix('x') {
                Some(digits) if digits.bytes().all(|b| b.is_ascii_hexdigit()) => {
                    u32::from_str_radix(digits, 16)
                }
                None if number.bytes().all(|b| b.is_ascii_digit()) => number.parse(),
                _ => return None,
            };
            number
                .ok()
                .and_then(char::from_u32)
                .filter(|&character| character != '\0')
        }),
    };
    character.map_or(Reference::Unknown(length + 2), |character| {
        Reference::Character(character, length + 2)
    })
}

fn note_twice(source: &mut Source<'_>, position: Position, element: &str, attribute: &str) {
    source.note(
        "twice",
        attribute,
        position,
        Some(element),
        Some(attribute),
        || "stands twice in one element: NCCL reads the first and ignores this one".to_owned(),
    );
}

fn note_long(source: &mut Source<'_>, position: Position, element: &str, attribute: Option<&str>) {
    source.note("long", "", position, Some(element), attribute, || {
        format!("NCCL refuses this file: names and values must be shorter than {TEXT_BYTES} bytes")
    });
}

fn note_broken(source: &mut Source<'_>, offset: usize, blanks: &[u8], element: &str) {
    let (kind, message) = if blanks.iter().any(|b| matches!(b, b'\n' | b'\r')) {
        (
            "tag lines",
            "NCCL refuses this file: a tag must stand on one line",
        )
    } else if blanks.contains(&b'\t') {
        (
            "tag tab",
            "NCCL refuses this file: a tag may hold spaces, but no tab",
        )
    } else {
        return;
    };
    let position = source.locator.position(offset);
    source.note(kind, "", position, Some(element), None, || {
        message.to_owned()
    });
}

const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

const fn is_delimiter(byte: u8) -> bool {
    is_blank(byte) || matches!(byte, b'=' | b'/' | b'>')
}
