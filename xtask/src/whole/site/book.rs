//! The docs as chapters: Markdown as HTML, links between them, and their sections for the search.

use std::collections::BTreeSet;

use pulldown_cmark::{CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html};

/// A chapter.
pub(super) struct Chapter {
    /// Its file in the site.
    pub file: String,
    /// Its first heading.
    pub title: String,
    /// Its text.
    pub html: String,
    /// Its sections' names in addresses.
    pub anchors: BTreeSet<String>,
    /// The files and sections to which its links lead.
    pub links: Vec<(String, String)>,
}

/// All chapters.
#[derive(Default)]
pub(super) struct Book {
    pub chapters: Vec<Chapter>,
    /// Title, address and text of each section.
    pub sections: Vec<(String, String, String)>,
}

impl Book {
    /// Adds a chapter. `folder` is where its Markdown lies in the repository.
    pub(super) fn add(&mut self, file: &str, markdown: &str, folder: &str) {
        let parser = Parser::new_ext(markdown, Options::ENABLE_TABLES);
        let mut chapter = Chapter {
            file: file.to_owned(),
            title: String::new(),
            html: String::new(),
            anchors: BTreeSet::new(),
            links: Vec::new(),
        };
        let mut events: Vec<Event<'_>> = Vec::new();
        let mut heading: Option<(usize, String)> = None;
        let mut section = (String::new(), file.to_owned(), String::new());
        // Links out of the site are text.
        let mut is_linked = true;
        for event in parser {
            match event {
                Event::Start(Tag::Heading { .. }) => {
                    heading = Some((events.len(), String::new()));
                    events.push(event);
                }
                Event::End(TagEnd::Heading(level)) => {
                    let (at, title) = heading.take().unwrap_or_default();
                    let name = anchor(&title, &chapter.anchors);
                    if level == HeadingLevel::H1 && chapter.title.is_empty() {
                        chapter.title.clone_from(&title);
                    }
                    if let Some(Event::Start(Tag::Heading { id, .. })) = events.get_mut(at) {
                        *id = Some(CowStr::from(name.clone()));
                    }
                    let next = match chapter.title == title {
                        true => title,
                        false => format!("{}: {title}", chapter.title),
                    };
                    let next = (next, format!("{file}#{name}"), String::new());
                    self.sections.push(std::mem::replace(&mut section, next));
                    chapter.anchors.insert(name);
                    events.push(event);
                }
                Event::Start(Tag::Link {
                    link_type,
                    dest_url,
                    title,
                    id,
                }) => {
                    let address = address(&dest_url, file, folder, &mut chapter.links);
                    is_linked = address.is_some();
                    if let Some(address) = address {
                        events.push(Event::Start(Tag::Link {
                            link_type,
                            dest_url: address.into(),
                            title,
                            id,
                        }));
                    }
                }
                Event::End(TagEnd::Link) if !is_linked => is_linked = true,
                Event::Text(ref text) | Event::Code(ref text) => {
                    match &mut heading {
                        Some((_, title)) => title.push_str(text),
                        None => {
                            section.2.push_str(text);
                            section.2.push(' ');
                        }
                    }
                    events.push(event);
                }
                other => events.push(other),
            }
        }
        self.sections.push(section);
        self.sections.retain(|it| !it.0.is_empty());
        html::push_html(&mut chapter.html, events.into_iter());
        self.chapters.push(chapter);
    }
}

/// A heading's name in addresses, as GitHub makes it.
fn anchor(title: &str, taken: &BTreeSet<String>) -> String {
    let kept = title
        .trim()
        .chars()
        .filter(|it| it.is_alphanumeric() || matches!(it, ' ' | '-' | '_'));
    let name: String = kept.flat_map(char::to_lowercase).collect();
    let name = name.replace(' ', "-");
    let mut all = std::iter::once(name.clone()).chain((1..).map(|it| format!("{name}-{it}")));
    all.find(|it| !taken.contains(it)).unwrap_or(name)
}

/// Where a link of the repository leads in the site; `None` if the site has no such file.
fn address(
    link: &str,
    file: &str,
    folder: &str,
    links: &mut Vec<(String, String)>,
) -> Option<String> {
    if link.starts_with("http://") || link.starts_with("https://") {
        return Some(link.to_owned());
    }
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let mut parts: Vec<&str> = folder.split('/').filter(|it| !it.is_empty()).collect();
    for part in path.split('/').filter(|it| !it.is_empty()) {
        match part {
            "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    let wanted = match (path.is_empty(), parts.join("/").as_str()) {
        (true, _) => file.to_owned(),
        (_, "README.md") => "index.html".to_owned(),
        (_, "docs" | "docs/README.md") => "docs/index.html".to_owned(),
        (_, "topologies" | "topologies/README.md") => "machines.html".to_owned(),
        (_, path) => match path.strip_prefix("docs/") {
            Some(rest) if rest.ends_with(".md") => {
                format!("docs/{}html", rest.trim_end_matches("md"))
            }
            Some(rest) if rest.ends_with(".json") || rest.ends_with(".svg") => path.to_owned(),
            _ => return None,
        },
    };
    let anchor = if wanted == "machines.html" {
        ""
    } else {
        anchor
    };
    links.push((wanted.clone(), anchor.to_owned()));
    let root = "../".repeat(file.matches('/').count());
    let anchor = match anchor {
        "" => String::new(),
        anchor => format!("#{anchor}"),
    };
    Some(format!("{root}{wanted}{anchor}"))
}
