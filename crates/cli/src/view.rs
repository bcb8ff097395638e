//! `topo view`: the page that plans in the browser, with a file at hand.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use answers::Machine;
use anyhow::{Context, Result, bail};
use serde_json::json;

use crate::arguments::picture::ViewArguments;
use crate::input;
use crate::output::{self, Output};

/// The page's name.
const PAGE: &str = "topo.html";

/// Most bytes of the page.
const MOST_BYTES: u64 = 16 << 20;

/// Where the file goes: before the planner.
const PLACE: &str = "<script id=\"module\"";

/// Programs that open a page: of Linux desktops, macOS, Windows.
const OPENERS: [&str; 3] = ["xdg-open", "open", EXPLORER];

/// It ends with status 1 when it has opened something.
const EXPLORER: &str = "explorer";

pub(crate) fn run(arguments: &ViewArguments, output: &mut Output) -> Result<()> {
    let given = arguments.file.as_ref();
    let machine = given.map(|it| input::machine(it, output)).transpose()?;
    let path = page()?;
    let text = files::read_text(&path, MOST_BYTES)
        .with_context(|| format!("cannot read {}", path.display()))?;
    let page = match &machine {
        None => text,
        Some(machine) => with_file(&text, machine)
            .with_context(|| format!("{} is not the page of cargo xtask web", path.display()))?,
    };
    if let Some(file) = &arguments.output {
        return output::write(file, &page);
    }
    let folder = tempfile::Builder::new().prefix("topo-view-").tempdir();
    // The browser reads it after this program has ended.
    let folder = folder.context("cannot make a temporary folder")?.keep();
    let written = folder.join(PAGE);
    output::write(&written, &page)?;
    output.text = match opened(&written) {
        true => format!("opened {}\n", written.display()),
        false => format!(
            "{}: no program opens pages here; open it in a browser\n",
            written.display()
        ),
    };
    Ok(())
}

/// The page: beside the program, in the folder of an installation, or where it was built.
fn page() -> Result<PathBuf> {
    let program = std::env::current_exe().context("cannot find the program's own file")?;
    let program = program.canonicalize().unwrap_or(program);
    let folder = program.parent().unwrap_or(Path::new("."));
    let places = ["", "../share/topo", "../web"].map(|it| folder.join(it).join(PAGE));
    match places.iter().find(|it| it.is_file()) {
        Some(found) => Ok(found.clone()),
        None => bail!(
            "{PAGE} is neither beside {} nor in ../share/topo; build it with cargo xtask web",
            program.display()
        ),
    }
}

/// The page with a machine in it, which it shows first.
fn with_file(page: &str, machine: &Machine) -> Option<String> {
    let at = page.find(PLACE)?;
    let text = topology::xml::write(&machine.document);
    let given = json!({ "name": machine.name, "text": text }).to_string();
    // No text ends the element.
    let given = given.replace('<', "\\u003c");
    let (before, after) = page.split_at(at);
    Some(format!(
        "{before}<script id=\"given\" type=\"application/json\">{given}</script>\n{after}"
    ))
}

/// Whether a program opened the page.
fn opened(page: &Path) -> bool {
    OPENERS.iter().any(|opener| {
        let mut command = Command::new(opener);
        command.arg(page);
        let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
        let ended = quiet.status();
        ended.is_ok_and(|it| it.success() || *opener == EXPLORER)
    })
}
