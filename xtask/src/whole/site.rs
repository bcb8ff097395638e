//! Builds the site: one folder with a front page, the page that plans, the docs as a book with a
//! search, the schemas, and the machines with their pictures. To publish it is to copy it.

mod book;
mod views;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use answers::built_in::MACHINES;
use answers::overview::picture;
use answers::request::JobRequest;
use anyhow::{Context, Result, anyhow, ensure};
use pages::draw::text::escape;

use xtask::workspace::{repository, target, web};

use book::{Book, Chapter};
use views::{Views, views};

/// Most bytes of the site.
const MOST_BYTES: u64 = 15 << 20;

/// Builds the site in `target/site`.
///
/// # Errors
/// The page was not built, a file cannot be read or written, a link leads nowhere, a page loads
/// something from elsewhere, or the site is too large.
pub(crate) fn run() -> Result<ExitCode> {
    let page = web().join("topo.html");
    let text = fs::read(&page)
        .with_context(|| format!("{}: build it first: cargo xtask web", page.display()))?;
    let mut site = Site::default();
    site.add("topo.html", text);
    let docs = repository().join("docs");
    for (folder, ending) in [("schemas", "json"), ("pictures", "svg")] {
        for path in files_in(&docs.join(folder), ending)? {
            let name = format!("docs/{folder}/{}", name_of(&path));
            site.add(&name, read(&path)?.into_bytes());
        }
    }
    let mut book = Book::default();
    book.add("index.html", &read(&repository().join("README.md"))?, "");
    for path in files_in(&docs, "md")? {
        let name = match name_of(&path).as_str() {
            "README.md" => "docs/index.html".to_owned(),
            name => format!("docs/{}", name.replace(".md", ".html")),
        };
        book.add(&name, &read(&path)?, "docs");
    }
    let gallery = gallery(&mut site)?;
    let folder = repository().join("xtask/site");
    let style = [
        pages::draw::svg::STYLE,
        pages::draw::html::PAGE,
        &read(&folder.join("style.css"))?,
    ]
    .concat();
    site.add("style.css", style.into_bytes());
    let search = format!(
        "\"use strict\";\nconst SECTIONS = {};\n{}",
        serde_json::to_string(&book.sections)?,
        read(&folder.join("search.js"))?
    );
    site.add("search.js", search.into_bytes());
    let mut others = vec![("machines.html", "Machines", gallery)];
    match views(&fs::canonicalize(page)?)? {
        Some(Views { text, pictures }) => {
            others.push(("views.html", "Views", text));
            site.files.extend(pictures);
        }
        None => eprintln!("not made: pictures of views (apt install chromium chromium-driver)"),
    }
    let links: Vec<(&str, &str)> = others.iter().map(|it| (it.0, it.1)).collect();
    for (file, title, text) in &others {
        let chapter = Chapter {
            file: (*file).to_owned(),
            title: (*title).to_owned(),
            html: String::new(),
            anchors: BTreeSet::new(),
            links: Vec::new(),
        };
        site.add(file, shown(&book, &links, &chapter, text).into_bytes());
    }
    for chapter in &book.chapters {
        let front = match chapter.file.as_str() {
            "index.html" => FRONT,
            _ => "",
        };
        let text = format!("{front}{}", chapter.html);
        site.add(
            &chapter.file,
            shown(&book, &links, chapter, &text).into_bytes(),
        );
    }
    site.check(&book)?;
    let folder = target().join("site");
    site.write(&folder)?;
    println!(
        "{}: {} files, {} KB; {} sections can be found",
        folder.display(),
        site.files.len(),
        site.bytes() / 1000,
        book.sections.len()
    );
    Ok(ExitCode::SUCCESS)
}

/// What the front page offers before the text.
const FRONT: &str = "<div class=\"front\"><a href=\"topo.html\">Plan in the browser</a>\
                     <a href=\"docs/index.html\">All tasks</a><a href=\"machines.html\">Machines</a></div>\n";

/// The files of the site.
#[derive(Default)]
struct Site {
    files: Vec<(String, Vec<u8>)>,
}

impl Site {
    fn add(&mut self, name: &str, content: Vec<u8>) {
        self.files.push((name.to_owned(), content));
    }

    fn bytes(&self) -> u64 {
        self.files.iter().map(|it| it.1.len() as u64).sum()
    }

    /// Every link of the book leads to a file or section, no page but the planner has a script of
    /// its own or loads from elsewhere, and all is small enough.
    fn check(&self, book: &Book) -> Result<()> {
        let names: BTreeSet<&str> = self.files.iter().map(|it| it.0.as_str()).collect();
        let mut broken = Vec::new();
        for chapter in &book.chapters {
            for (file, anchor) in &chapter.links {
                let of = book.chapters.iter().find(|it| it.file == *file);
                let has_anchor =
                    anchor.is_empty() || of.is_some_and(|it| it.anchors.contains(anchor.as_str()));
                if !names.contains(file.as_str()) || !has_anchor {
                    broken.push(format!("{}: {file}#{anchor}", chapter.file));
                }
            }
        }
        ensure!(broken.is_empty(), "broken links:\n{}", broken.join("\n"));
        for (name, content) in &self.files {
            if name.ends_with(".html") && name != "topo.html" {
                let text = String::from_utf8_lossy(content);
                let loads = ["src=\"http", "@import", "<iframe", "url(http"];
                let found = loads.iter().find(|it| text.contains(**it));
                ensure!(
                    found.is_none(),
                    "{name}: loads something from elsewhere ({})",
                    found.unwrap_or(&"")
                );
            }
        }
        ensure!(
            self.bytes() <= MOST_BYTES,
            "the site has {} bytes; expected at most {MOST_BYTES}",
            self.bytes()
        );
        Ok(())
    }

    /// Writes all files, and removes those of an earlier site.
    fn write(&self, folder: &Path) -> Result<()> {
        let place = |path: &Path| format!("cannot write {}", path.display());
        if folder.exists() {
            fs::remove_dir_all(folder).with_context(|| place(folder))?;
        }
        for (name, content) in &self.files {
            let path = folder.join(name);
            let parent = path.parent().unwrap_or(folder);
            fs::create_dir_all(parent).with_context(|| place(parent))?;
            files::write(&path, content).with_context(|| place(&path))?;
        }
        Ok(())
    }
}

/// A page of the site with its navigation.
fn shown(book: &Book, others: &[(&str, &str)], chapter: &Chapter, text: &str) -> String {
    let root = "../".repeat(chapter.file.matches('/').count());
    let mut links = String::new();
    let page = [("topo.html", "Plan in the browser")];
    let chapters = book.chapters.iter();
    let chapters = chapters.map(|it| (it.file.as_str(), it.title.as_str()));
    for (file, title) in page
        .into_iter()
        .chain(others.iter().copied())
        .chain(chapters)
    {
        let current = match file == chapter.file {
            true => " aria-current=\"page\"",
            false => "",
        };
        let _ = writeln!(
            links,
            "<a href=\"{root}{file}\"{current}>{}</a>",
            escape(title)
        );
    }
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
         <link rel=\"stylesheet\" href=\"{root}style.css\">\n</head>\n\
         <body class=\"page\" data-root=\"{root}\">\n<nav class=\"book\" aria-label=\"Pages\">\n\
         <input id=\"search\" type=\"search\" placeholder=\"Search\" aria-label=\"Search\">\n\
         <div id=\"found\" aria-live=\"polite\"></div>\n{links}</nav>\n\
         <main class=\"text\">\n{text}</main>\n<script src=\"{root}search.js\"></script>\n\
         </body>\n</html>\n",
        title = escape(&chapter.title),
    )
}

/// The machines with their pictures.
fn gallery(site: &mut Site) -> Result<String> {
    let mut text = "<h1>Machines</h1>\n<p>Each name can be given to any command instead of a file, \
                    and chosen on <a href=\"topo.html\">the page</a>.</p>\n<div class=\"machines\">\n"
        .to_owned();
    for machine in MACHINES {
        let drawn = JobRequest::of(machine.name)
            .plan()
            .and_then(|job| picture(&job, 0, None));
        let drawn = drawn.map_err(|why| anyhow!("{}: {why}", machine.name))?;
        let file = format!("machines/{}.svg", machine.name);
        let _ = writeln!(
            text,
            "<div class=\"machine\"><h2>{}</h2><p><code>{}</code>: {}</p>\
             <p><a href=\"topo.html?file=machines/{name}.xml\">Open its file on the page</a></p>\
             <a href=\"{file}\"><img src=\"{file}\" alt=\"{}\" loading=\"lazy\"></a></div>",
            escape(machine.title),
            escape(machine.name),
            escape(machine.summary),
            escape(machine.title),
            name = machine.name,
        );
        site.add(&file, drawn.into_bytes());
        site.add(
            &format!("machines/{}.xml", machine.name),
            machine.text.as_bytes().to_vec(),
        );
    }
    text.push_str("</div>\n");
    Ok(text)
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| path.display().to_string())
}

fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// The files of a folder with this ending, by name.
fn files_in(folder: &Path, ending: &str) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut paths: Vec<PathBuf> = entries
        .flatten()
        .map(|it| it.path())
        .filter(|it| it.extension().is_some_and(|it| it == ending))
        .collect();
    paths.sort();
    Ok(paths)
}
