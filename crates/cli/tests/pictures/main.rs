//! Pictures of every machine: complete, small, and without labels over each other, which a browser
//! measures where there is one.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use quick_xml::Reader;
use quick_xml::events::Event;
use testkit::browser::Browser;

/// Most bytes of a picture.
const MOST_BYTES: usize = 300 << 10;

/// The labels over each other, and labels beyond the edges, of the pictures of a page.
const MEASURE: &str = include_str!("measure.js");

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let trials = vec![
        Trial::test("pictures_are_complete", || Ok(complete()?)),
        Trial::test("pictures_of_the_documents", || Ok(documents()?)),
        Trial::ignorable_test("labels_have_room", labels),
    ];
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn topologies() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../topologies");
    let entries = std::fs::read_dir(root).expect("the repository has machines");
    let mut folders: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    folders.retain(|folder| folder.join("topology.xml").is_file());
    folders.sort();
    folders
}

fn topo(arguments: &[&str], file: &Path) -> Result<String, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_topo"));
    command.arg(arguments[0]).arg(file).args(&arguments[1..]);
    let output = command.output().map_err(|why| why.to_string())?;
    match output.status.success() {
        true => String::from_utf8(output.stdout).map_err(|why| why.to_string()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// The pictures of a machine: alone, and with the rings of one and two hosts if they are planned.
fn pictures(file: &Path) -> Result<Vec<String>, String> {
    let mut pictures = vec![topo(&["show", "--format", "svg"], file)?];
    for hosts in ["1", "2"] {
        let arguments = [
            "plan",
            "--format",
            "svg",
            "--highlight",
            "ring",
            "--hosts",
            hosts,
        ];
        // NCCL refuses some machines.
        pictures.extend(topo(&arguments, file));
    }
    Ok(pictures)
}

/// The 18 hosts of an NVLink domain.
fn domain() -> Result<String, String> {
    let file = Path::new("gb200-nvl72-tray");
    let arguments = [
        "plan",
        "--format",
        "svg",
        "--hosts",
        "18",
        "--nvlink-domain",
    ];
    topo(&arguments, file)
}

/// The texts of a picture that are seen.
fn texts(picture: &str) -> Result<Vec<String>, String> {
    let mut reader = Reader::from_str(picture);
    let (mut texts, mut inside) = (Vec::new(), false);
    loop {
        match reader.read_event().map_err(|why| why.to_string())? {
            Event::Start(tag) if tag.name().as_ref() == "text" => {
                inside = true;
                texts.push(String::new());
            }
            Event::End(tag) if tag.name().as_ref() == "text" => inside = false,
            Event::Text(text) if inside => {
                texts.last_mut().expect("it began").push_str(&text);
            }
            Event::Eof => return Ok(texts),
            _ => {}
        }
    }
}

/// Every GPU and every port has a label in every picture of its machine.
fn complete() -> Result<(), String> {
    for file in topologies() {
        let json = topo(&["show", "--json"], &file)?;
        let shown: serde_json::Value = serde_json::from_str(&json).map_err(|it| it.to_string())?;
        for (number, picture) in pictures(&file)?.into_iter().enumerate() {
            let name = file.display();
            if picture.len() > MOST_BYTES {
                return Err(format!("{name}: {} bytes", picture.len()));
            }
            let texts: BTreeSet<String> = texts(&picture)?.into_iter().collect();
            let devices = shown["machines"][0]["devices"].as_array();
            for device in devices.into_iter().flatten() {
                let label = match (device["kind"].as_str(), number) {
                    (Some("GPU"), _) => &device["label"],
                    // A plan may join ports.
                    (Some("NET"), 0) if !device["name"].is_null() => &device["name"],
                    _ => continue,
                };
                if !texts.contains(label.as_str().unwrap_or_default()) {
                    return Err(format!("{name}, picture {number}: no label {label}"));
                }
            }
        }
    }
    let domain = domain()?;
    let ranks = texts(&domain)?;
    let ranks = ranks
        .iter()
        .filter(|text| text.starts_with("rank "))
        .count();
    match (ranks, domain.len() <= MOST_BYTES) {
        (72, true) => Ok(()),
        _ => Err(format!("{ranks} ranks, {} bytes", domain.len())),
    }
}

/// The pictures of docs/page.md are those that its commands make. `TOPO_BLESS=1` writes them.
fn documents() -> Result<(), String> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let read = |path: &Path| {
        std::fs::read_to_string(path).map_err(|why| format!("{}: {why}", path.display()))
    };
    let page = read(&docs.join("page.md"))?;
    let commands = page
        .lines()
        .filter_map(|line| line.trim().strip_prefix("topo "));
    let made = commands.filter_map(|line| line.split_once(" > docs/pictures/"));
    let mut count = 0;
    for (command, name) in made {
        let words: Vec<&str> = command.split_whitespace().collect();
        let (command, file) = (words[0], Path::new(words[1]));
        let arguments: Vec<&str> = [command]
            .into_iter()
            .chain(words[2..].iter().copied())
            .collect();
        let picture = topo(&arguments, file)?;
        let path = docs.join("pictures").join(name);
        if std::env::var_os("TOPO_BLESS").is_some() {
            std::fs::write(&path, &picture).map_err(|why| why.to_string())?;
        }
        if read(&path)? != picture {
            return Err(format!(
                "{name} is not what its command draws; TOPO_BLESS=1 writes it"
            ));
        }
        count += 1;
    }
    match count {
        0 => Err("docs/page.md has no command".to_owned()),
        _ => Ok(()),
    }
}

/// A browser draws all pictures and measures their labels.
fn labels() -> Result<Completion, Failed> {
    let mut browser = match Browser::start() {
        Ok(browser) => browser,
        Err(why) => return Ok(Completion::ignored_with(format!("not run: {why}"))),
    };
    let mut page = "<!doctype html><meta charset=\"utf-8\"><body>".to_owned();
    for file in topologies() {
        for (number, picture) in pictures(&file)?.into_iter().enumerate() {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            page.push_str(&format!(
                "<div data-name=\"{name} {number}\">{picture}</div>"
            ));
        }
    }
    page.push_str(&format!("<div data-name=\"domain\">{}</div>", domain()?));
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("page.html");
    std::fs::write(&file, page)?;
    browser.open(&file, "")?;
    let found = browser.run(MEASURE, &serde_json::json!([]))?;
    let found = found.as_str().unwrap_or("the browser did not measure");
    match (found, browser.errors()?.as_slice()) {
        ("measured", []) => Ok(Completion::Completed),
        (found, errors) => Err(format!("{found}\n{}", errors.join("\n")).into()),
    }
}
