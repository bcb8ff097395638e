//! The open elements during parsing, and the resulting tree.

use super::limits::{Limits, NCCL_FILE_ELEMENTS};
use super::notes::excerpt;
use super::tag::{self, Source};
use super::{Document, Element, Tag, c_int, lint, names};
use crate::error::{Error, Position};

/// An element without its end tag so far.
#[derive(Debug)]
struct Open<'a> {
    name: &'a str,
    position: Position,
    /// `None` for an element that is skipped.
    element: Option<Element>,
}

/// The state of the parser.
#[derive(Debug)]
pub(super) struct Parser<'a> {
    pub(super) source: Source<'a>,
    limits: Limits,
    open: Vec<Open<'a>>,
    elements: usize,
    version: i32,
    root: Option<Element>,
}

impl<'a> Parser<'a> {
    pub(super) fn new(source: Source<'a>, limits: Limits) -> Self {
        Self {
            source,
            limits,
            open: Vec::new(),
            elements: 0,
            version: 1,
            root: None,
        }
    }

    /// The name of the innermost open element.
    pub(super) fn inside(&self) -> Option<&'a str> {
        self.open.last().map(|open| open.name)
    }

    /// Handles the start tag or empty element between `start` and `end`.
    pub(super) fn start(&mut self, start: usize, end: usize, empty: bool) -> Result<(), Error> {
        // Inside a skipped element the outer option is set and the inner one is not.
        let parent = self
            .open
            .last()
            .map(|open| open.element.as_ref().map(|element| element.tag));
        let name = tag::name(&self.source.text[start + 1..end]);
        let known = match parent {
            None if self.root.is_none() => Some(Tag::System),
            Some(Some(tag)) => names::child(tag, name, self.version),
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
            Some(Some(parent)) if known.is_none() => self.note_skipped(parent, &tag),
            _ => {}
        }
        if known.is_some() {
            self.elements += 1;
            self.check_counts(&tag)?;
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

    /// Handles the end tag between `start` and `end`.
    pub(super) fn end(&mut self, start: usize, end: usize) -> Result<(), Error> {
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
            let position = self.source.locator.position(start);
            self.source
                .note("end tag", "", position, Some(name), None, || {
                    "NCCL refuses this file: an end tag must not hold spaces".to_owned()
                });
        }
        self.close(open.element);
        Ok(())
    }

    /// Adds a complete element to its parent.
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

    /// Checks an element at the top level.
    fn check_root(&mut self, tag: &tag::StartTag<'_>) -> Result<(), Error> {
        let place = self.source.place(tag.position, Some(tag.name), None);
        if self.root.is_some() {
            if tag.name == "system" {
                // NCCL would take the first as the root and look devices up in both.
                return Err(Error::new(
                    place,
                    "there is a second `<system>`",
                    "two topologies in one file",
                    "one `<system>`",
                ));
            }
            self.note_skipped_name("at the top of the file", tag);
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

    fn note_skipped(&mut self, parent: Tag, tag: &tag::StartTag<'_>) {
        if names::holds_children(parent) {
            self.note_skipped_name(&format!("in <{}>", parent.name()), tag);
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

    fn note_skipped_name(&mut self, place: &str, tag: &tag::StartTag<'_>) {
        self.source.note(
            "unknown element",
            tag.name,
            tag.position,
            Some(tag.name),
            None,
            || {
                format!(
                    "unknown element {} {place}: NCCL skips it and everything below it",
                    excerpt(&format!("<{}>", tag.name))
                )
            },
        );
    }

    /// Returns the document at the end of the file.
    pub(super) fn finish(mut self) -> Result<Document, Error> {
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
        if self.elements > NCCL_FILE_ELEMENTS {
            let elements = self.elements;
            self.source.note("elements", "", root.position, Some("system"), None, || {
                format!(
                    "{elements} elements: too large for NCCL_TOPO_FILE, of which NCCL reads at most \
                     {NCCL_FILE_ELEMENTS} elements and refuses more"
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
