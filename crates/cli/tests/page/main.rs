//! The page that plans in the browser (`cargo xtask web`): its plans are those of the program, and
//! a browser uses it as people do.

mod driver;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use serde_json::{Value, json};

/// What a reader does, one step after the other; each is a function of the script.
const STEPS: [&str; 11] = [
    "opens_and_plans",
    "a_dropped_file",
    "two_devices",
    "another_version",
    "a_device_taken_away",
    "every_view",
    "a_shared_address",
    "a_broken_file",
    "findings",
    "measured_results",
    "a_long_log",
];

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let trials = vec![
        Trial::test("plans_of_the_program", || Ok(plans_of_the_program()?)),
        Trial::ignorable_test("plans_in_the_browser", plans_in_the_browser),
        Trial::ignorable_test("as_people_use_it", as_people_use_it),
    ];
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The page, if it was built.
fn page() -> Option<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR");
    let target = target.map_or_else(|| repository().join("target"), PathBuf::from);
    let page = target.join("web/topo.html");
    page.is_file().then(|| page.canonicalize().unwrap_or(page))
}

/// The machines with their files.
fn topologies() -> Vec<(String, String)> {
    let entries = std::fs::read_dir(repository().join("topologies")).expect("there are machines");
    let mut machines: Vec<(String, String)> = entries
        .flatten()
        .filter_map(|entry| {
            let text = std::fs::read_to_string(entry.path().join("topology.xml")).ok()?;
            Some((entry.file_name().to_string_lossy().into_owned(), text))
        })
        .collect();
    machines.sort();
    machines
}

fn request(name: &str, text: &str, hosts: u32) -> Value {
    json!({ "do": "plan", "job": { "file": { "name": name, "text": text }, "hosts": hosts } })
}

/// The program's plan, or `None` where it refuses.
fn planned(name: &str, hosts: u32) -> Option<Value> {
    let output = Command::new(env!("CARGO_BIN_EXE_topo"))
        .args(["plan", "--json", "--hosts", &hosts.to_string()])
        .arg(repository().join("topologies").join(name))
        .output()
        .expect("the program was built");
    let plan = serde_json::from_slice(&output.stdout).ok();
    plan.filter(|_| output.status.success())
}

/// Compares an answer with the program's plan.
fn compare(name: &str, hosts: u32, answer: &Value) -> Result<(), String> {
    let found = answer["plan"].as_str();
    let found: Option<Value> = found.and_then(|text| serde_json::from_str(text).ok());
    match (planned(name, hosts), found) {
        (None, None) => Ok(()),
        (Some(expected), Some(found)) if expected == found => Ok(()),
        (Some(_), Some(_)) => Err(format!("{name}, {hosts} hosts: another plan")),
        (Some(_), None) => Err(format!("{name}, {hosts} hosts: {}", answer["error"])),
        (None, Some(_)) => Err(format!("{name}, {hosts} hosts: only the page plans it")),
    }
}

/// The page's code, compiled for this machine, plans as the program does.
fn plans_of_the_program() -> Result<(), String> {
    for (name, text) in topologies() {
        for hosts in [1, 2] {
            let answer = web::answer(request(&name, &text, hosts).to_string().as_bytes());
            let answer: Value = serde_json::from_str(&answer).map_err(|why| why.to_string())?;
            compare(&name, hosts, &answer)?;
        }
    }
    Ok(())
}

/// Opens the page; `Err` says why the test does not run.
fn open() -> Result<(driver::Browser, PathBuf), Completion> {
    let absent = |what: &str| Completion::ignored_with(format!("not run: {what}"));
    let page = page().ok_or_else(|| absent("the page is not there (cargo xtask web)"))?;
    let browser = driver::Browser::start();
    let browser = browser.map_err(|why| absent(&why))?;
    Ok((browser, page))
}

/// The page in a browser plans as the program does.
fn plans_in_the_browser() -> Result<Completion, Failed> {
    let (mut browser, page) = match open() {
        Ok(opened) => opened,
        Err(absent) => return Ok(absent),
    };
    browser.open(&page, "")?;
    for (name, text) in topologies() {
        for hosts in [1, 2] {
            let asked = json!([request(&name, &text, hosts)]);
            let script = "const done = arguments[1]; \
                 ask(arguments[0]).then(done, (why) => done({ error: why.message }));";
            let answer = browser.run(script, &asked)?;
            compare(&name, hosts, &answer)?;
        }
    }
    Ok(Completion::Completed)
}

/// Each step of a reader, without an error of the browser and without a request to anywhere.
fn as_people_use_it() -> Result<Completion, Failed> {
    let (mut browser, page) = match open() {
        Ok(opened) => opened,
        Err(absent) => return Ok(absent),
    };
    browser.open(&page, "")?;
    let steps = include_str!("steps.js");
    let machine = std::fs::read_to_string(repository().join("topologies/dgx-a100/topology.xml"))?;
    for step in STEPS {
        let script = format!(
            "{steps}\nconst done = arguments[1];\n\
             {step}(arguments[0]).then(() => done(null), (why) => done(String(why)));"
        );
        let found = browser.run(&script, &json!([machine]))?;
        if let Some(why) = found.as_str() {
            return Err(format!("{step}: {why}").into());
        }
    }
    let errors = browser.errors()?;
    match errors.is_empty() {
        true => Ok(Completion::Completed),
        false => Err(errors.join("\n").into()),
    }
}
