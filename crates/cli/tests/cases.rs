//! Runs the cases of `cases/*.toml`: commands as a user types them, with what they must print.
//!
//! docs/testing.md explains the format.

mod elsewhere;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use serde::Deserialize;
use similar::TextDiff;
use testkit::{FakeMachine, Machine};
use toml::Spanned;

/// Seconds after which a script is stopped. All of them need far less, even on a busy machine.
const LONGEST: &str = "120";

/// Lets a script call `topo` as users do, and writes the exit status of each call into a file.
const PRELUDE: &str = r#"
topo() { "$PROGRAM" "$@"; last=$?; echo $last >> "$STATUSES"; return $last; }
"#;

const HOW_TO_BLESS: &str =
    "if this is what was meant: `TOPO_BLESS=1 cargo test -p topo --test cases`";

/// One command or script, or several that must all print the same.
#[derive(Deserialize)]
#[serde(untagged)]
enum Run {
    One(String),
    Each(Vec<String>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    run: Spanned<Run>,
    /// A script that makes files for the others.
    prepare: Option<String>,
    /// Files that the scripts find in their folder, by path.
    #[serde(default)]
    files: BTreeMap<String, String>,
    /// The machine of `topologies/` that the scripts find recorded in `recording/`.
    recording: Option<String>,
    /// Why a program for another system prints something else.
    only_on_linux: Option<String>,
    /// The name of a socket that listens in the scripts' folder.
    socket: Option<String>,
    /// The exit status of every call of `topo`.
    #[serde(default)]
    status: i32,
    /// Only the lines of standard output with one of these texts are compared.
    #[serde(default)]
    only: Vec<String>,
    /// Expected standard output; none if it must be empty.
    out: Option<Spanned<String>>,
    /// A file of `pages/` with the expected standard output.
    page: Option<String>,
    /// Expected standard error; none if it must be empty.
    err: Option<Spanned<String>>,
}

/// A file of cases, and the texts that blessing replaces in it.
struct CaseFile {
    path: PathBuf,
    text: String,
    edits: Mutex<Vec<(Range<usize>, String)>>,
}

fn home() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases")
}

fn blessing() -> bool {
    !elsewhere::is_asked() && std::env::var_os("TOPO_BLESS").is_some_and(|bless| bless == "1")
}

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Some scripts only wait, so more of them run at a time than there are cores.
    arguments.test_threads.get_or_insert(4);
    match list() {
        Ok((case_files, trials)) => {
            let code = libtest_mimic::run(&arguments, trials).exit_code();
            case_files.iter().for_each(CaseFile::save);
            code
        }
        Err(error) => {
            eprintln!("error: the cases cannot be read: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The files of a folder with this extension; another file is an error.
fn files(folder: &Path, extension: &str) -> Result<BTreeSet<PathBuf>, String> {
    let entries = fs::read_dir(folder).map_err(|error| error.to_string())?;
    let paths = entries.flatten().map(|entry| entry.path());
    let found: BTreeSet<PathBuf> = paths.filter(|path| path.is_file()).collect();
    match found
        .iter()
        .find(|it| it.extension() != Some(OsStr::new(extension)))
    {
        Some(odd) => Err(format!("{}: expected *.{extension}", odd.display())),
        None => Ok(found),
    }
}

fn list() -> Result<(Vec<Arc<CaseFile>>, Vec<Trial>), String> {
    let (mut case_files, mut trials) = (Vec::new(), Vec::new());
    let mut unused = files(&home().join("pages"), "txt")?;
    for path in files(&home(), "toml")? {
        let text = fs::read_to_string(&path).map_err(|error| error.to_string())?;
        let cases: BTreeMap<String, Case> =
            toml::from_str(&text).map_err(|error| format!("{}:\n{error}", path.display()))?;
        let topic = path.file_stem().unwrap_or_default().to_string_lossy();
        let topic = topic.into_owned();
        let edits = Mutex::default();
        let file = Arc::new(CaseFile { path, text, edits });
        for (name, case) in cases {
            let name = format!("{topic}::{name}");
            if let Some(page) = &case.page {
                if case.out.is_some() {
                    return Err(format!("{name}: expected `out` or `page`, found both"));
                }
                unused.remove(&home().join("pages").join(page));
            }
            let file = Arc::clone(&file);
            trials.push(Trial::ignorable_test(name, move || {
                match case.why_not_elsewhere() {
                    Some(why) => Ok(Completion::ignored_with(format!("not run: {why}"))),
                    None => case.check(&file).map(|()| Completion::Completed),
                }
            }));
        }
        case_files.push(file);
    }
    match unused.first() {
        Some(page) => Err(format!("{}: no case names this page", page.display())),
        None => Ok((case_files, trials)),
    }
}

/// The output of a script.
struct Printed {
    out: String,
    err: String,
}

impl Printed {
    /// Without the lines of standard output that have none of these texts, if there are any.
    fn chosen(mut self, texts: &[String]) -> Result<Self, Failed> {
        if let Some(text) = texts.iter().find(|text| !self.out.contains(*text)) {
            return Err(format!("no line has `{text}`:\n{}{}", self.out, self.err).into());
        }
        let is_chosen = |line: &&str| texts.is_empty() || texts.iter().any(|it| line.contains(it));
        self.out = self.out.split_inclusive('\n').filter(is_chosen).collect();
        Ok(self)
    }
}

impl Case {
    /// Why a program for another system cannot run this case; `None` if it can, or is not asked.
    fn why_not_elsewhere(&self) -> Option<String> {
        if !elsewhere::is_asked() {
            return None;
        }
        if let Some(why) = &self.only_on_linux {
            return Some(why.clone());
        }
        let files = self.recording.as_ref().or(self.socket.as_ref());
        let scripts = match self.run.get_ref() {
            Run::One(script) => std::slice::from_ref(script),
            Run::Each(scripts) => scripts,
        };
        let mut scripts = scripts.iter().chain(&self.prepare);
        let needs = scripts.find_map(|script| elsewhere::needs(script));
        needs
            .or(files.map(|_| "a recording or a socket"))
            .map(str::to_owned)
    }

    fn check(&self, file: &CaseFile) -> Result<(), Failed> {
        let folder = self.folder()?;
        let scripts = match self.run.get_ref() {
            Run::One(script) => std::slice::from_ref(script),
            Run::Each(scripts) => scripts,
        };
        let socket = self.socket.as_ref();
        let _socket = socket.map(|name| UnixListener::bind(folder.path().join(name)));
        let (first, others) = scripts.split_first().ok_or("`run` is empty")?;
        if let Some(script) = &self.prepare {
            self.printed(folder.path(), script, None)?;
        }
        let printed = self
            .printed(folder.path(), first, Some(self.status))?
            .chosen(&self.only)?;
        for script in others {
            let other = self
                .printed(folder.path(), script, Some(self.status))?
                .chosen(&self.only)?;
            compare(&printed.out, &other.out, first, script)?;
            compare(&printed.err, &other.err, first, script)?;
        }
        let out = match &self.page {
            Some(page) => expect_page(&home().join("pages").join(page), &printed.out),
            None => self.expect(file, "out", self.out.as_ref(), &printed.out),
        };
        out.and(self.expect(file, "err", self.err.as_ref(), &printed.err))
    }

    /// The folder in which the scripts run. It has the repository's `topologies`.
    fn folder(&self) -> Result<tempfile::TempDir, Failed> {
        // In memory, because a recording has many small files.
        let memory = Some(Path::new("/dev/shm")).filter(|it| it.is_dir());
        let folder = match memory.filter(|_| self.recording.is_some()) {
            Some(memory) => tempfile::tempdir_in(memory)?,
            None => tempfile::tempdir()?,
        };
        symlink(Machine::home(), folder.path().join("topologies"))?;
        if let Some(name) = &self.recording {
            let document = Machine::named(name).and_then(|machine| machine.document());
            let fake = document.and_then(|document| FakeMachine::of(&document));
            let written = fake.and_then(|fake| fake.write(&folder.path().join("recording")));
            written.map_err(|error| error.to_string())?;
        }
        for (name, text) in &self.files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap_or(folder.path()))?;
            fs::write(path, text)?;
        }
        Ok(folder)
    }

    /// Runs a script, whose calls of `topo` must all end with this status; without one, with 0.
    fn printed(&self, folder: &Path, script: &str, status: Option<i32>) -> Result<Printed, Failed> {
        let beside = tempfile::tempdir()?;
        let at = |name: &str| beside.path().join(name);
        let ended = Command::new("timeout")
            .args([LONGEST, "bash", "-c", &format!("{PRELUDE}{script}")])
            .current_dir(folder)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("PROGRAM", elsewhere::program())
            .env("STATUSES", at("statuses"))
            .stdin(Stdio::null())
            .stdout(File::create(at("out"))?)
            .stderr(File::create(at("err"))?)
            .status()?;
        let text = |name: &str| -> Result<String, Failed> {
            let text = String::from_utf8(fs::read(at(name)).unwrap_or_default())?;
            // The name of a temporary folder is another one in each run.
            Ok(elsewhere::alike(&text).replace(&*folder.to_string_lossy(), "$PWD"))
        };
        let (out, err, statuses) = (text("out")?, text("err")?, text("statuses")?);
        let statuses: Vec<&str> = statuses.lines().collect();
        let expected = status.unwrap_or(0).to_string();
        let well = match status {
            Some(_) => !statuses.is_empty(),
            None => ended.success(),
        };
        if well && statuses.iter().all(|it| *it == expected) {
            return Ok(Printed { out, err });
        }
        let statuses = statuses.join(", ");
        Err(format!(
            "{script}\nended with {ended}, topo with [{statuses}], expected {expected}:\n{out}{err}"
        )
        .into())
    }

    /// Compares with a text of the case's own file, or notes how to change that one.
    fn expect(
        &self,
        file: &CaseFile,
        key: &str,
        expected: Option<&Spanned<String>>,
        printed: &str,
    ) -> Result<(), Failed> {
        let text = expected.map(|it| it.get_ref().as_str()).unwrap_or_default();
        // The last newline of an expected text may be left out, so that one line needs one line.
        let whole = match text {
            "" => String::new(),
            text => format!("{}\n", text.strip_suffix('\n').unwrap_or(text)),
        };
        if !blessing() || whole == printed {
            return compare(&whole, printed, "expected", key);
        }
        let value = match printed.strip_suffix('\n') {
            Some(line) if !line.contains('\n') => line,
            _ => printed,
        };
        let value = toml::Value::from(value).to_string();
        let edit = match expected {
            Some(expected) => (expected.span(), value),
            None => {
                let end = self.run.span().end;
                (end..end, format!("\n{key} = {value}"))
            }
        };
        let mut edits = file.edits.lock().unwrap_or_else(PoisonError::into_inner);
        edits.push(edit);
        Ok(())
    }
}

impl CaseFile {
    /// Writes the file with what was blessed.
    fn save(self: &Arc<Self>) {
        let mut edits = self.edits.lock().unwrap_or_else(PoisonError::into_inner);
        if edits.is_empty() {
            return;
        }
        let mut text = self.text.clone();
        // The last first, so that the places of the others stay right.
        edits.sort_by_key(|edit| edit.0.end);
        for (place, value) in edits.drain(..).rev() {
            text.replace_range(place, &value);
        }
        match fs::write(&self.path, text) {
            Ok(()) => println!("blessed {}", self.path.display()),
            Err(error) => eprintln!("error: cannot write {}: {error}", self.path.display()),
        }
    }
}

fn expect_page(path: &Path, printed: &str) -> Result<(), Failed> {
    let expected = fs::read_to_string(path).unwrap_or_default();
    if blessing() && expected != printed {
        println!("blessed {}", path.display());
        return Ok(fs::write(path, printed)?);
    }
    compare(&expected, printed, &path.display().to_string(), "now")
}

/// Fails with the lines that differ.
fn compare(expected: &str, printed: &str, before: &str, after: &str) -> Result<(), Failed> {
    let (expected, printed) = (&elsewhere::alike(expected), &elsewhere::alike(printed));
    if expected == printed {
        return Ok(());
    }
    let diff = TextDiff::from_lines(expected, printed);
    let mut unified = diff.unified_diff();
    let unified = unified.context_radius(2).header(before, after);
    Err(format!("{unified}\n{HOW_TO_BLESS}").into())
}
