//! Reads a topology file into a [`Document`].
//!
//! Every file that NCCL 2.30 reads is read, with the same result. Beyond that, ordinary XML that NCCL's own small reader
//! refuses is read too, with a warning that says so: a person looking at a hand-written file wants to see its topology
//! and the reason why NCCL will not take it.

use std::sync::Arc;

use quick_xml::events::Event;
use quick_xml::reader::Reader;

use super::locate::Locator;
use super::notes::{Notes, excerpt};
use super::tag::{self, Reference, Source};
use super::{Document, Element, Tag, c_int, lint, names};
use crate::error::{Error, Place, Position};

/// Elements that NCCL 2.30 has room for, per host.
const NCCL_ELEMENTS: usize = 256;

/// What a file may hold at most. A file beyond a limit is an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the file.
    pub bytes: usize,
    /// Elements that a topology has. NCCL 2.30 itself has room for 256 per host; more than that is a warning.
    pub elements: usize,
    /// Children of one element; the default is NCCL's own limit.
    pub children: usize,
    /// Elements inside one another, those that are skipped included.
    pub depth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bytes: 16 << 20,
            elements: 65_536,
            children: 640,
            depth: 64,
        }
    }
}

/// Reads a topology file. `file` is its name in messages.
///
/// # Errors
/// The bytes are no XML, or not a topology of NCCL (or RCCL), or more than [`Limits::default`] allows.
pub fn parse(file: &str, bytes: &[u8]) -> Result<Document, Error> {
    parse_with(file, bytes, Limits::default())
}

/// Reads a topology file within other limits than the default ones.
///
/// # Errors
/// As for [`parse`].
pub fn parse_with(file: &str, bytes: &[u8], limits: Limits) -> Result<Document, Error> {
    let file: Arc<str> = Arc::from(file);
    let text = check_text(&file, bytes, limits)?;
    let body = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut source = Source {
        file,
        text: body,
        locator: Locator::new(body),
        notes: Notes::default(),
    };
    if body.len() < text.len() {
        source.note(
            "mark",
            "",
            Position { line: 1, column: 1 },
            None,
            None,
            || "NCCL refuses this file: it starts with a byte order mark".to_owned(),
        );
    }
    let mut parser = Parser {
        source,
        limits,
        open: Vec::new(),
        skipping: 0,
        elements: 0,
        version: 1,
        root: None,
    };
    parser.run()?;
    parser.finish()
}

/// The file as text, if it is one and not too large.
fn check_text<'a>(file: &Arc<str>, bytes: &'a [u8], limits: Limits) -> Result<&'a str, Error> {
    let at = |position| Place {
        file: Arc::clone(file),
        position,
        element: None,
        attribute: None,
    };
    if bytes.len() > limits.bytes {
        return Err(Error::new(
            at(Position::default()),
            "the file is too large for a topology",
            format!("{} bytes", bytes.len()),
            format!("at most {} bytes", limits.bytes),
        ));
    }
    let text = std::str::from_utf8(bytes);
    let valid = text.map_or_else(|error| error.valid_up_to(), str::len);
    let end = bytes
        .iter()
        .position(|&byte| byte == 0)
        .map_or(valid, |nul| nul.min(valid));
    match text {
        Ok(text) if end == bytes.len() => Ok(text),
        _ => {
            let before = std::str::from_utf8(&bytes[..end]).unwrap_or("");
            let byte = bytes.get(end).copied().unwrap_or(0);
            Err(Error::new(
                at(Locator::new(before).position(end)),
                "the file is not text in UTF-8",
                format!("byte 0x{byte:02x}"),
                "XML in UTF-8 (or plain ASCII)",
            ))
        }
    }
}

/// An element whose end tag has not come yet.
#[derive(Debug)]
struct Open<'a> {
    name: &'a str,
    position: Position,
    /// `None` for an element that is skipped.
    element: Option<Element>,
}

#[derive(Debug)]
struct Parser<'a> {
    source: Source<'a>,
    limits: Limits,
    open: Vec<Open<'a>>,
    /// How many of the open elements are skipped; they are the innermost ones.
    skipping: usize,
    elements: usize,
    version: i32,
    root: Option<Element>,
}

impl<'a> Parser<'a> {
    fn run(&mut self) -> Result<(), Error> {
        let text = self.source.text;
        let mut reader = Reader::from_str(text);
        let config = reader.config_mut();
        // Names are compared here, where the place of the start tag is known. A lone `&` is text.
        config.check_end_names = false;
        config.allow_unmatched_ends = true;
        config.allow_dangling_amp = true;
        let offset = |position: u64| {
            usize::try_from(position)
                .unwrap_or(usize::MAX)
                .min(text.len())
        };
        loop {
            let start = offset(reader.buffer_position());
            let event = reader.read_event();
            let end = offset(reader.buffer_position());
            match event {
                Ok(Event::Text(_)) => self.text(start, end),
                Ok(Event::Start(_)) => self.start(start, end, false)?,
                Ok(Event::Empty(_)) => self.start(start, end, true)?,
                Ok(Event::End(_)) => self.end(start, end)?,
                Ok(Event::Comment(_)) => {}
                Ok(Event::Eof) => return Ok(()),
                Ok(Event::Decl(_) | Event::PI(_)) => {
                    self.note_at(
                        start,
                        "declaration",
                        "NCCL refuses this file: it knows no `<?…?>` declarations",
                    );
                }
                Ok(Event::CData(_)) => self.note_text(start),
                Ok(Event::GeneralRef(_)) => self.reference(start, end)?,
                Ok(Event::DocType(_)) => {
                    return Err(self.error_at(
                        start,
                        "a document type definition is not allowed",
                        excerpt(&text[start..end]),
                        "a topology file without `<!DOCTYPE …>`",
                    ));
                }
                Err(error) => {
                    let start = offset(reader.error_position());
                    return Err(self.malformed(start, &error));
                }
            }
        }
    }

    fn start(&mut self, start: usize, end: usize, empty: bool) -> Result<(), Error> {
        let parent = self
            .open
            .last()
            .map(|open| (open.name, open.element.as_ref().map(|element| element.tag)));
        let name = &self.source.text[start + 1..];
        let name = &name[..name
            .find([' ', '\t', '\n', '\r', '/', '>', '='])
            .unwrap_or(name.len())];
        let known = match parent {
            None if self.root.is_none() => Some(Tag::System),
            Some((_, Some(tag))) => names::child(tag, name, self.version),
            _ => None,
        };
        let tag = tag::read(&mut self.source, start, end, empty, known.is_some())?;
        if self.open.len() >= self.limits.depth {
            let place = self.source.place(tag.position, Some(tag.name), None);
            return Err(Error::new(
                place,
                "elements are nested too deeply",
                format!("{} elements inside one another", self.open.len() + 1),
                format!("at most {}", self.limits.depth),
            ));
        }
        match parent {
            None => self.check_root(&tag)?,
            Some((_, Some(parent))) if known.is_none() => self.note_skipped(parent, &tag),
            _ => {}
        }
        if known.is_some() {
            self.elements += 1;
            self.check_counts(&tag)?;
        } else if !empty {
            self.skipping += 1;
        }
        let element = known.map(|known| Element {
            tag: known,
            attributes: tag.attributes,
            children: Vec::new(),
            position: tag.position,
        });
        if empty {
            self.close(element);
        } else {
            self.open.push(Open {
                name: tag.name,
                position: tag.position,
                element,
            });
        }
        Ok(())
    }

    fn end(&mut self, start: usize, end: usize) -> Result<(), Error> {
        let raw = self
            .source
            .text
            .get(start + 2..end.saturating_sub(1))
            .unwrap_or("");
        let name = raw.trim_end_matches([' ', '\t', '\n', '\r']);
        let Some(open) = self.open.pop() else {
            return Err(self.error_at(
                start,
                "an end tag has no start tag",
                excerpt(&self.source.text[start..end]),
                "an end tag for an open element only",
            ));
        };
        if open.name != name {
            let position = self.source.locator.position(start);
            let place = self.source.place(position, Some(open.name), None);
            return Err(Error::new(
                place,
                format!(
                    "the element opened at line {}, column {} is not closed",
                    open.position.line, open.position.column
                ),
                excerpt(&self.source.text[start..end]),
                excerpt(&format!("</{}>", open.name)),
            ));
        }
        if name.len() < raw.len() {
            self.note_at(
                start,
                "end tag",
                "NCCL refuses this file: an end tag must not hold spaces",
            );
        }
        if open.element.is_none() {
            self.skipping = self.skipping.saturating_sub(1);
        }
        self.close(open.element);
        Ok(())
    }

    /// Puts a complete element where it belongs.
    fn close(&mut self, element: Option<Element>) {
        let Some(element) = element else { return };
        match self.open.last_mut() {
            Some(open) => {
                if let Some(parent) = &mut open.element {
                    parent.children.push(element);
                }
            }
            None => self.root = Some(element),
        }
    }

    /// Checks an element that stands at the top of the file.
    fn check_root(&mut self, tag: &tag::StartTag<'_>) -> Result<(), Error> {
        let place = self.source.place(tag.position, Some(tag.name), None);
        if self.root.is_some() {
            if tag.name == "system" {
                // NCCL would take the first as the root and still look devices up in both.
                return Err(Error::new(
                    place,
                    "there is a second `<system>`",
                    "two topologies in one file",
                    "one `<system>`",
                ));
            }
            self.note_skipped_name("the top of the file", tag);
            return Ok(());
        }
        if tag.name != "system" {
            let expected = match tag.name {
                "graphs" => {
                    "`<system version=\"1\">`; this is a graph file (NCCL_GRAPH_FILE), not a topology"
                }
                _ => "`<system version=\"1\">`, as in the files that NCCL_TOPO_DUMP_FILE makes",
            };
            return Err(Error::new(
                place,
                "this is not a topology of NCCL",
                excerpt(&format!("<{}>", tag.name)),
                expected,
            ));
        }
        let version = tag
            .attributes
            .iter()
            .find(|attribute| attribute.name == "version");
        let found = version.map(|version| (c_int(&version.value), version));
        match found {
            Some((1, _)) => {}
            Some((names::RCCL_VERSION, version)) => {
                self.version = names::RCCL_VERSION;
                self.source.note("version", "", version.position, Some(tag.name), Some("version"), || {
                    "a topology of AMD's RCCL (version 2): NCCL refuses it; it is read so that it can be shown".to_owned()
                });
            }
            _ => {
                let position = version.map_or(tag.position, |version| version.position);
                return Err(Error::new(
                    self.source.place(position, Some(tag.name), Some("version")),
                    "the topology's version is not supported",
                    version.map_or_else(|| "nothing".to_owned(), |version| excerpt(&version.value)),
                    "`version=\"1\"`",
                ));
            }
        }
        Ok(())
    }

    fn check_counts(&mut self, tag: &tag::StartTag<'_>) -> Result<(), Error> {
        let siblings = self
            .open
            .last()
            .and_then(|open| open.element.as_ref())
            .map_or(0, |parent| parent.children.len());
        let (problem, limit, what) = if self.elements > self.limits.elements {
            (
                "the file has too many elements",
                self.limits.elements,
                "elements in the file",
            )
        } else if siblings >= self.limits.children {
            (
                "an element has too many children",
                self.limits.children,
                "children of one element",
            )
        } else {
            return Ok(());
        };
        let place = self.source.place(tag.position, Some(tag.name), None);
        Err(Error::new(
            place,
            problem,
            format!("more than {limit} {what}"),
            format!("at most {limit}"),
        ))
    }

    /// Text between elements: NCCL passes over spaces and line ends only.
    fn text(&mut self, start: usize, end: usize) {
        let bytes = &self.source.text.as_bytes()[start..end];
        let Some(odd) = bytes
            .iter()
            .position(|byte| !matches!(byte, b' ' | b'\n' | b'\r'))
        else {
            return;
        };
        if bytes[odd] == b'\t' {
            self.note_at(
                start + odd,
                "tab",
                "NCCL refuses this file: elements may be indented with spaces, but not with tabs",
            );
        }
        let text = bytes
            .iter()
            .position(|byte| !matches!(byte, b' ' | b'\n' | b'\r' | b'\t'));
        if let Some(text) = text {
            self.note_text(start + text);
        }
    }

    fn reference(&mut self, start: usize, end: usize) -> Result<(), Error> {
        let text = &self.source.text[start..end];
        if matches!(tag::reference(text), Reference::Character(..)) {
            self.note_text(start);
            return Ok(());
        }
        Err(self.error_at(
            start,
            "the file refers to an entity that does not exist",
            excerpt(text),
            "elements only; a topology file defines no entities",
        ))
    }

    fn note_text(&mut self, offset: usize) {
        self.note_at(
            offset,
            "text",
            "NCCL refuses this file: there is text between elements (ignored here)",
        );
    }

    fn note_at(&mut self, offset: usize, kind: &'static str, message: &str) {
        let position = self.source.locator.position(offset);
        let element = self.open.last().map(|open| open.name);
        self.source
            .note(kind, "", position, element, None, || message.to_owned());
    }

    fn note_skipped(&mut self, parent: Tag, tag: &tag::StartTag<'_>) {
        if names::holds_children(parent) {
            self.note_skipped_name(&format!("<{}>", parent.name()), tag);
        } else {
            self.source.note(
                "leaf",
                parent.name(),
                tag.position,
                Some(tag.name),
                None,
                || format!("NCCL ignores everything inside <{}>", parent.name()),
            );
        }
    }

    fn note_skipped_name(&mut self, parent: &str, tag: &tag::StartTag<'_>) {
        self.source.note(
            "unknown element",
            tag.name,
            tag.position,
            Some(tag.name),
            None,
            || {
                format!(
                    "unknown element {} in {parent}: NCCL skips it and everything below it",
                    excerpt(&format!("<{}>", tag.name))
                )
            },
        );
    }

    fn error_at(&mut self, offset: usize, problem: &str, found: String, expected: &str) -> Error {
        let position = self.source.locator.position(offset);
        let element = self.open.last().map(|open| open.name);
        Error::new(
            self.source.place(position, element, None),
            problem,
            found,
            expected,
        )
    }

    fn malformed(&mut self, offset: usize, error: &quick_xml::Error) -> Error {
        let found = excerpt(self.source.text.get(offset..).unwrap_or(""));
        let expected = format!("well-formed XML: {error}");
        self.error_at(offset, "the file is not well-formed XML", found, &expected)
    }

    fn finish(mut self) -> Result<Document, Error> {
        if let Some(open) = self.open.pop() {
            let end = self.source.locator.position(self.source.text.len());
            let place = self.source.place(end, Some(open.name), None);
            return Err(Error::new(
                place,
                format!(
                    "the file ends inside the element opened at line {}, column {}",
                    open.position.line, open.position.column
                ),
                "the end of the file",
                excerpt(&format!("</{}>", open.name)),
            ));
        }
        let Some(root) = self.root else {
            let text = self.source.text.trim();
            let found = if text.is_empty() {
                "an empty file".to_owned()
            } else {
                excerpt(text)
            };
            let place = self
                .source
                .place(Position { line: 1, column: 1 }, None, None);
            return Err(Error::new(
                place,
                "this is not a topology of NCCL",
                found,
                "`<system version=\"1\">`",
            ));
        };
        if self.elements > NCCL_ELEMENTS {
            let elements = self.elements;
            self.source.note("elements", "", root.position, Some("system"), None, || {
                format!(
                    "{elements} elements: NCCL 2.30 has room for {NCCL_ELEMENTS} per host and refuses more, unless the \
                     host is in an NVLink domain of several hosts"
                )
            });
        }
        let mut document = Document {
            file: self.source.file,
            version: self.version,
            root,
            warnings: self.source.notes.into_warnings(),
        };
        let found = lint(&document);
        document.warnings.extend(found);
        Ok(document)
    }
}
