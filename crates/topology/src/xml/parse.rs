//! Reads a topology file into a [`Document`].
//!
//! Every file that NCCL 2.30 reads is read with the same result. Other well-formed XML, which
//! NCCL's own reader refuses, is read too, with a warning: users of hand-written files want to see
//! the topology and the reason why NCCL will not accept the file.
//!
//! Refused: malformed XML; a root other than one `<system>` of version 1 or 2; a second `<system>`,
//! which NCCL would merge with the first; a document type definition; references to unknown
//! entities; and files beyond the [`Limits`].

use std::sync::Arc;

use quick_xml::events::Event;
use quick_xml::reader::Reader;

use super::Document;
use super::limits::Limits;
use super::locate::Locator;
use super::notes::{Notes, excerpt};
use super::tag::{self, Reference, Source};
use super::tree::Parser;
use crate::error::{Error, Place, Position};

/// Parses a topology file. `file` is its name in messages.
///
/// # Errors
/// The bytes are not XML or not a topology of NCCL or RCCL, or exceed [`Limits::default`].
pub fn parse(file: &str, bytes: &[u8]) -> Result<Document, Error> {
    parse_with(file, bytes, Limits::default())
}

/// Parses a topology file within given limits.
///
/// # Errors
/// As for [`parse`].
pub fn parse_with(file: &str, bytes: &[u8], limits: Limits) -> Result<Document, Error> {
    let file: Arc<str> = Arc::from(file);
    let text = check_text(&file, bytes, limits)?;
    let body = text.trim_start_matches('\u{feff}');
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
    let mut parser = Parser::new(source, limits);
    parser.run()?;
    parser.finish()
}

/// The file as text, if it is UTF-8 and not too large.
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
            format!("more than {} bytes", limits.bytes),
            format!("at most {} bytes", limits.bytes),
        ));
    }
    let valid = match std::str::from_utf8(bytes) {
        Ok(text) if !bytes.contains(&0) => return Ok(text),
        Ok(text) => text.len(),
        Err(error) => error.valid_up_to(),
    };
    let bad = bytes
        .iter()
        .position(|&byte| byte == 0)
        .map_or(valid, |zero| zero.min(valid));
    let before = std::str::from_utf8(&bytes[..bad]).unwrap_or("");
    let byte = bytes.get(bad).copied().unwrap_or(0);
    Err(Error::new(
        at(Locator::new(before).position(bad)),
        "the file is not text in UTF-8",
        format!("byte 0x{byte:02x}"),
        "XML in UTF-8 (or plain ASCII)",
    ))
}

impl Parser<'_> {
    /// Dispatches all events of the file.
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

    /// Text between elements: NCCL skips only spaces and line ends.
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
        let element = self.inside();
        self.source
            .note(kind, "", position, element, None, || message.to_owned());
    }

    pub(super) fn error_at(
        &mut self,
        offset: usize,
        problem: &str,
        found: String,
        expected: &str,
    ) -> Error {
        let position = self.source.locator.position(offset);
        let element = self.inside();
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
}
