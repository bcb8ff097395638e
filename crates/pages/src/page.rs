//! A page as data.

use serde::{Serialize, Serializer};

use crate::Table;

/// How much a sentence matters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Tone {
    /// As the rest.
    #[default]
    Plain,
    /// Of less importance.
    Faint,
    /// To notice.
    Notice,
}

/// A page.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Page {
    /// What it is about.
    pub title: String,
    /// What is said beside the title, with less importance.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub remark: String,
    /// Its head.
    pub fields: Vec<Field>,
    /// What follows.
    pub sections: Vec<Section>,
}

/// A line of a page's head.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Field {
    /// Its name; empty where it continues the field before.
    pub name: String,
    /// Its value.
    pub value: String,
    /// Commands and options of the program, which it shows after the value, and no other program.
    #[serde(skip)]
    pub hint: String,
    /// How much it matters.
    pub tone: Tone,
}

/// A part of a page.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Section {
    /// Its title; empty for one that only adds to the page.
    pub title: String,
    /// How much the title matters, which a terminal shows.
    #[serde(skip)]
    pub tone: Tone,
    /// What is said beside the title, with less importance.
    pub remark: String,
    /// Commands and options of the program, which it shows after the remark, and no other program.
    #[serde(skip)]
    pub hint: String,
    /// What it holds.
    #[serde(serialize_with = "without_hints")]
    pub blocks: Vec<Block>,
}

/// A piece of a section.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", content = "it", rename_all = "lowercase")]
pub enum Block {
    /// A table.
    Table(Table),
    /// A sentence or several; the width of the screen breaks it.
    Text {
        /// What stands before it, with blanks after it.
        #[serde(skip_serializing_if = "String::is_empty")]
        label: String,
        /// What it says.
        text: String,
        /// Commands and options of the program, which it shows after the text, and no other
        /// program.
        #[serde(skip)]
        hint: String,
        /// How much it matters.
        tone: Tone,
        /// What stands before its first line on a terminal.
        #[serde(skip)]
        first: &'static str,
        /// What stands before the others.
        #[serde(skip)]
        later: &'static str,
    },
    /// A word, what it is about, and below that what there is to say.
    Entry {
        /// The word.
        word: String,
        /// What it is about.
        about: String,
        /// What there is to say.
        text: String,
        /// How much that matters.
        tone: Tone,
    },
    /// Names with values, as in a page's head.
    Fields(Vec<Field>),
    /// Lines that stay as they are: a tree, a matrix.
    Lines(String),
}

impl Field {
    /// A field as important as the rest.
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            value: value.into(),
            hint: String::new(),
            tone: Tone::Plain,
        }
    }

    /// A line without a name.
    pub fn remark(tone: Tone, value: impl Into<String>) -> Self {
        Self {
            tone,
            ..Self::new("", value)
        }
    }
}

/// Blocks without those that only name commands and options of the program.
fn without_hints<S: Serializer>(blocks: &[Block], to: S) -> Result<S::Ok, S::Error> {
    let is_hint = |it: &&Block| matches!(it, Block::Text { text, .. } if text.is_empty());
    to.collect_seq(blocks.iter().filter(|it| !is_hint(it)))
}

impl Page {
    /// A page without sections.
    pub fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            ..Self::default()
        }
    }

    /// Adds a field.
    pub fn field(&mut self, name: &str, value: impl Into<String>) -> &mut Self {
        self.fields.push(Field::new(name, value));
        self
    }

    /// Adds commands and options of the program to the last field: only the program shows them.
    pub fn hint(&mut self, hint: impl Into<String>) -> &mut Self {
        if let Some(last) = self.fields.last_mut() {
            last.hint = hint.into();
        }
        self
    }

    /// Adds lines to the head, each to notice.
    pub fn notices(&mut self, notes: &[String]) -> &mut Self {
        let notes = notes.iter().map(|it| Field::remark(Tone::Notice, it));
        self.fields.extend(notes);
        self
    }

    /// Adds another page: its head becomes a section.
    pub fn append(&mut self, page: Self) -> &mut Self {
        let section = self.section(page.title, page.remark);
        section.blocks.push(Block::Fields(page.fields));
        self.sections.extend(page.sections);
        self
    }

    /// Adds a section, and returns it to be filled.
    pub fn section(&mut self, title: impl Into<String>, remark: impl Into<String>) -> &mut Section {
        self.sections.push(Section {
            title: title.into(),
            remark: remark.into(),
            ..Section::default()
        });
        let last = self.sections.len() - 1;
        &mut self.sections[last]
    }
}

impl Section {
    /// Adds a table.
    pub fn table(&mut self, table: Table) -> &mut Self {
        self.blocks.push(Block::Table(table));
        self
    }

    fn add(
        &mut self,
        text: impl Into<String>,
        tone: Tone,
        [first, later]: [&'static str; 2],
    ) -> &mut Self {
        self.blocks.push(Block::Text {
            label: String::new(),
            text: text.into(),
            hint: String::new(),
            tone,
            first,
            later,
        });
        self
    }

    /// Adds commands and options of the program to the last sentences, or to the remark if there
    /// is no block: only the program shows them.
    pub fn hint(&mut self, hint: impl Into<String>) -> &mut Self {
        match self.blocks.last_mut() {
            None => self.hint = hint.into(),
            Some(Block::Text { hint: it, .. }) => *it = hint.into(),
            Some(_) => return self.say("").hint(hint),
        }
        self
    }

    /// Adds sentences.
    pub fn say(&mut self, text: impl Into<String>) -> &mut Self {
        self.add(text, Tone::Plain, ["  ", "  "])
    }

    /// Adds sentences whose lines after the first are indented further, as an item of a list.
    pub fn item(&mut self, text: impl Into<String>) -> &mut Self {
        self.add(text, Tone::Plain, ["  ", "    "])
    }

    /// Adds sentences after a label, such as a rule's id; the label ends with blanks.
    pub fn labeled(&mut self, label: impl Into<String>, text: impl Into<String>) -> &mut Self {
        self.add(text, Tone::Plain, ["  ", "        "]);
        if let Some(Block::Text { label: it, .. }) = self.blocks.last_mut() {
            *it = label.into();
        }
        self
    }

    /// Adds sentences after `note: `.
    pub fn note(&mut self, text: impl Into<String>) -> &mut Self {
        self.add(text, Tone::Plain, ["note: ", "      "])
    }

    /// Adds sentences about the item before.
    pub fn below(&mut self, text: impl Into<String>) -> &mut Self {
        self.add(text, Tone::Plain, ["    ", "    "])
    }

    /// Adds sentences of less importance.
    pub fn faint(&mut self, text: impl Into<String>) -> &mut Self {
        self.add(text, Tone::Faint, ["  ", "  "])
    }

    /// Adds sentences to notice.
    pub fn notice(&mut self, text: impl Into<String>) -> &mut Self {
        self.add(text, Tone::Notice, ["  ", "  "])
    }

    /// Adds a word, what it is about, and below that what there is to say.
    pub fn entry(
        &mut self,
        word: &str,
        about: impl Into<String>,
        (tone, text): (Tone, &str),
    ) -> &mut Self {
        self.blocks.push(Block::Entry {
            word: word.to_owned(),
            about: about.into(),
            text: text.to_owned(),
            tone,
        });
        self
    }

    /// Adds a line with a name, as in a page's head.
    pub fn field(&mut self, name: &str, value: impl Into<String>) -> &mut Self {
        let field = Field::new(name, value);
        match self.blocks.last_mut() {
            Some(Block::Fields(fields)) => fields.push(field),
            _ => self.blocks.push(Block::Fields(vec![field])),
        }
        self
    }

    /// Adds lines that stay as they are.
    pub fn lines(&mut self, lines: impl Into<String>) -> &mut Self {
        self.blocks.push(Block::Lines(lines.into()));
        self
    }
}
