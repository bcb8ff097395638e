//! The elements of a graph file, with their positions.

use std::sync::Arc;

use quick_xml::events::{BytesStart, Event};
use quick_xml::reader::Reader;
use topology::{Error, Place, Position, Warning};

use crate::error::excerpt;

/// Largest file, in bytes. NCCL's largest, of 64 channels with 640 GPUs each, is well below.
const MAX_BYTES: usize = 16 << 20;
/// NCCL's limit of elements in a graph file.
const MAX_ELEMENTS: usize = 65_536;
/// NCCL's limit of children of one element.
const MAX_CHILDREN: usize = 640;
/// The deepest nesting, skipped elements included.
const MAX_DEPTH: usize = 64;
/// Most warnings that are kept.
pub(super) const MAX_WARNINGS: usize = 32;

/// The elements that NCCL knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GraphTag {
    Graphs,
    Graph,
    Channel,
    Net,
    Gpu,
}

impl GraphTag {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Graphs => "graphs",
            Self::Graph => "graph",
            Self::Channel => "channel",
            Self::Net => "net",
            Self::Gpu => "gpu",
        }
    }

    /// The tag of an element inside `parent`; `None` if NCCL skips it.
    fn inside(parent: Option<Self>, name: &str) -> Option<Self> {
        let tags: &[Self] = match parent {
            None => &[Self::Graphs],
            Some(Self::Graphs) => &[Self::Graph],
            Some(Self::Graph) => &[Self::Channel],
            Some(Self::Channel) => &[Self::Net, Self::Gpu],
            Some(Self::Net | Self::Gpu) => &[],
        };
        tags.iter().copied().find(|tag| tag.name() == name)
    }
}

/// The attributes that NCCL reads; others are dropped.
const ATTRIBUTES: [&str; 13] = [
    "version",
    "id",
    "pattern",
    "crossnic",
    "nchannels",
    "speedintra",
    "speedinter",
    "latencyinter",
    "typeintra",
    "typeinter",
    "samechannels",
    "dev",
    "rank",
];

/// One element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GraphElement {
    pub(super) tag: GraphTag,
    attributes: Vec<(&'static str, Box<str>)>,
    pub(super) children: Vec<GraphElement>,
    position: Position,
}

impl GraphElement {
    /// The value of an attribute; of several with this name, the first.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.attributes
            .iter()
            .find(|(key, _)| *key == name)
            .map(|(_, value)| &**value)
    }

    pub(super) fn place(&self, file: &Arc<str>, attribute: Option<&str>) -> Place {
        Place {
            file: Arc::clone(file),
            position: self.position,
            element: Some(self.tag.name().to_owned()),
            attribute: attribute.map(str::to_owned),
        }
    }

    pub(super) fn require(&self, file: &Arc<str>, name: &str) -> Result<&str, Error> {
        self.get(name).ok_or_else(|| {
            let place = self.place(file, Some(name));
            Error::new(
                place,
                "a required attribute is missing",
                "nothing",
                format!("`{name}=\"…\"`"),
            )
        })
    }
}

/// A graph file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GraphDocument {
    pub(super) file: Arc<str>,
    pub(super) root: GraphElement,
    pub(super) warnings: Vec<Warning>,
}

pub(super) fn parse(file: &str, text: &str) -> Result<GraphDocument, Error> {
    let mut parser = GraphParser {
        text,
        file: Arc::from(file),
        seen: 0,
        position: Position { line: 1, column: 1 },
        open: Vec::new(),
        skipping: 0,
        elements: 0,
        root: None,
        warnings: Vec::new(),
    };
    if text.len() > MAX_BYTES {
        let found = format!("{} bytes", text.len());
        return Err(parser.error(
            0,
            "the file is too large for a graph file",
            found,
            format!("at most {MAX_BYTES}"),
        ));
    }
    if text.starts_with('\u{feff}') {
        parser.warn(
            0,
            "NCCL refuses this file: it starts with a byte order mark".to_owned(),
        );
    }
    parser.run()?;
    parser.finish()
}

struct GraphParser<'a> {
    text: &'a str,
    file: Arc<str>,
    /// The offset whose position is known.
    seen: usize,
    position: Position,
    open: Vec<GraphElement>,
    /// How many skipped elements are open; they are inside the last of `open`.
    skipping: usize,
    elements: usize,
    root: Option<GraphElement>,
    warnings: Vec<Warning>,
}

impl<'a> GraphParser<'a> {
    fn run(&mut self) -> Result<(), Error> {
        let mut reader = Reader::from_str(self.text);
        let length = self.text.len();
        let offset = |position: u64| usize::try_from(position).unwrap_or(usize::MAX).min(length);
        loop {
            let start = offset(reader.buffer_position());
            match reader.read_event() {
                Ok(Event::Start(tag)) => self.start(start, &tag, false)?,
                Ok(Event::Empty(tag)) => self.start(start, &tag, true)?,
                Ok(Event::End(_)) => self.end(),
                Ok(Event::Text(text)) => self.check_text(start, &text.into_inner())?,
                Ok(Event::Comment(_)) => {}
                Ok(Event::Decl(_)) => {
                    self.warn(
                        start,
                        "NCCL refuses this file: it knows no `<?xml …?>` declaration".to_owned(),
                    );
                }
                Ok(Event::Eof) => return Ok(()),
                Ok(Event::CData(_) | Event::GeneralRef(_) | Event::PI(_) | Event::DocType(_)) => {
                    return Err(self.unexpected(start));
                }
                Err(error) => {
                    let start = offset(reader.error_position());
                    let found = self.excerpt(start);
                    return Err(self.error(
                        start,
                        "the file is not well-formed XML",
                        found,
                        error.to_string(),
                    ));
                }
            }
        }
    }

    fn start(&mut self, start: usize, tag: &BytesStart<'_>, empty: bool) -> Result<(), Error> {
        let depth = self.open.len() + self.skipping;
        if depth >= MAX_DEPTH {
            let found = format!("{} elements inside one another", depth + 1);
            return Err(self.error(
                start,
                "elements are nested too deeply",
                found,
                format!("at most {MAX_DEPTH}"),
            ));
        }
        let name = tag.name();
        let name = name.as_ref();
        let parent = self.open.last().map(|open| open.tag);
        let known = if self.skipping > 0 {
            None
        } else {
            GraphTag::inside(parent, name)
        };
        if parent.is_none() && (known.is_none() || self.root.is_some()) {
            let expected = match name {
                "system" => {
                    "one `<graphs version=\"1\">`; this is a topology (NCCL_TOPO_FILE), not a graph file"
                }
                _ => {
                    "one `<graphs version=\"1\">`, as in the files that NCCL_GRAPH_DUMP_FILE makes"
                }
            };
            return Err(self.error(
                start,
                "this is not a graph file",
                excerpt(&format!("<{name}>")),
                expected.to_owned(),
            ));
        }
        let attributes = self.attributes(start, tag, known)?;
        let Some(known) = known else {
            if self.skipping == 0 {
                let parent = parent.map_or("the file", GraphTag::name);
                self.warn(start, format!("unknown element <{name}> in {parent}: NCCL skips it and everything below it"));
            }
            self.skipping += usize::from(!empty);
            return Ok(());
        };
        self.elements += 1;
        let siblings = self.open.last().map_or(0, |parent| parent.children.len());
        if self.elements > MAX_ELEMENTS || siblings >= MAX_CHILDREN {
            let expected =
                format!("at most {MAX_ELEMENTS} elements, {MAX_CHILDREN} in one (NCCL's limits)");
            return Err(self.error(
                start,
                "the file has too many elements",
                "more".to_owned(),
                expected,
            ));
        }
        let element = GraphElement {
            tag: known,
            attributes,
            children: Vec::new(),
            position: self.locate(start),
        };
        if empty {
            self.close(element);
        } else {
            self.open.push(element);
        }
        Ok(())
    }

    /// The attributes that NCCL reads. All attributes must be well-formed.
    fn attributes(
        &mut self,
        start: usize,
        tag: &BytesStart<'_>,
        known: Option<GraphTag>,
    ) -> Result<Vec<(&'static str, Box<str>)>, Error> {
        let mut kept = Vec::new();
        let mut all = tag.attributes();
        // NCCL takes the first of several attributes with one name.
        all.with_checks(false);
        for attribute in all {
            let attribute = match attribute {
                Ok(attribute) => attribute,
                Err(error) => {
                    let found = self.excerpt(start);
                    return Err(self.error(
                        start,
                        "an attribute is not well-formed",
                        found,
                        error.to_string(),
                    ));
                }
            };
            let name = ATTRIBUTES
                .into_iter()
                .find(|name| *name == attribute.key.as_ref());
            if let (Some(name), Some(_)) = (name, known)
                && !kept.iter().any(|(key, _)| *key == name)
            {
                kept.push((name, Box::from(&*attribute.value)));
            }
        }
        Ok(kept)
    }

    fn end(&mut self) {
        // quick-xml has checked that the end tag matches.
        if self.skipping > 0 {
            self.skipping -= 1;
        } else if let Some(element) = self.open.pop() {
            self.close(element);
        }
    }

    fn close(&mut self, element: GraphElement) {
        match self.open.last_mut() {
            Some(parent) => parent.children.push(element),
            None => self.root = Some(element),
        }
    }

    fn check_text(&mut self, start: usize, text: &str) -> Result<(), Error> {
        if let Some(odd) =
            text.find(|character: char| !matches!(character, ' ' | '\n' | '\r' | '\t'))
        {
            return Err(self.unexpected(start + odd));
        }
        if let Some(tab) = text.find('\t') {
            self.warn(
                start + tab,
                "NCCL refuses this file: elements may be indented with spaces, not with tabs"
                    .to_owned(),
            );
        }
        Ok(())
    }

    fn finish(mut self) -> Result<GraphDocument, Error> {
        let end = self.text.len();
        if let Some(open) = self.open.last() {
            let found = "the end of the file".to_owned();
            let problem = format!(
                "the element opened at line {} is not closed",
                open.position.line
            );
            let expected = format!("`</{}>`", open.tag.name());
            return Err(self.error(end, &problem, found, expected));
        }
        let Some(root) = self.root.take() else {
            let expected = "`<graphs version=\"1\">`".to_owned();
            return Err(self.error(
                0,
                "this is not a graph file",
                "no element".to_owned(),
                expected,
            ));
        };
        Ok(GraphDocument {
            file: self.file,
            root,
            warnings: self.warnings,
        })
    }

    fn unexpected(&mut self, offset: usize) -> Error {
        let found = self.excerpt(offset);
        self.error(
            offset,
            "there is something else than elements",
            found,
            "elements and comments only".to_owned(),
        )
    }

    fn error(&mut self, offset: usize, problem: &str, found: String, expected: String) -> Error {
        let place = self.place(offset);
        Error::new(place, problem, found, expected)
    }

    fn warn(&mut self, offset: usize, message: String) {
        let place = self.place(offset);
        if self.warnings.len() < MAX_WARNINGS
            && !self
                .warnings
                .iter()
                .any(|warning| warning.message == message)
        {
            self.warnings.push(Warning { place, message });
        }
    }

    fn place(&mut self, offset: usize) -> Place {
        Place {
            file: Arc::clone(&self.file),
            position: self.locate(offset),
            element: None,
            attribute: None,
        }
    }

    fn excerpt(&self, offset: usize) -> String {
        excerpt(self.text.get(offset..).unwrap_or(""))
    }

    /// Line and column of an offset, looking at each byte once as long as offsets grow.
    fn locate(&mut self, offset: usize) -> Position {
        if offset < self.seen {
            self.seen = 0;
            self.position = Position { line: 1, column: 1 };
        }
        for byte in &self.text.as_bytes()[self.seen..offset] {
            if *byte == b'\n' {
                self.position = Position {
                    line: self.position.line.saturating_add(1),
                    column: 1,
                };
            } else {
                self.position.column = self.position.column.saturating_add(1);
            }
        }
        self.seen = offset;
        self.position
    }
}
