//! The page that plans in the browser (`cargo xtask web`): its plans are those of the program, and
//! a browser uses it as people do.

mod inputs;
mod look;
mod questions;
mod tasks;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use serde_json::{Value, json};
use testkit::browser::Browser;

/// The steps of a reader, one after the other; each is a function of the script.
const STEPS: [&str; 25] = [
    "opens_and_plans",
    "a_dropped_file",
    "rings",
    "two_devices",
    "another_version",
    "a_device_taken_away",
    "every_view",
    "a_shared_address",
    "a_link_taken_away",
    "a_broken_file",
    "a_cost_plot",
    "a_row_lights_up",
    "trees",
    "hosts_that_differ",
    "an_example",
    "a_step",
    "findings",
    "measured_results",
    "a_long_log",
    "a_paste",
    "a_dropped_folder",
    "a_log_without_a_machine",
    "remains_of_a_job",
    "who_waits_for_whom",
    "a_stopped_answer",
];

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let trials = vec![
        Trial::test("plans_of_the_program", || Ok(plans_of_the_program()?)),
        Trial::test("every_field_is_asked", || {
            Ok(questions::every_field_is_asked()?)
        }),
        Trial::test("answers_of_the_program", || {
            Ok(questions::answers_of_the_program(40)?)
        }),
        Trial::test("deep::answers_of_the_program", || {
            Ok(questions::answers_of_the_program(400)?)
        })
        .with_ignored_flag(true),
        Trial::ignorable_test("plans_in_the_browser", plans_in_the_browser),
        Trial::ignorable_test("as_people_use_it", as_people_use_it),
        Trial::ignorable_test("no_other_script_runs", no_other_script_runs),
        Trial::ignorable_test("times", times),
        Trial::ignorable_test("ten_tasks::mouse", || tasks::ten(false)),
        Trial::ignorable_test("ten_tasks::keyboard", || tasks::ten(true)),
        Trial::ignorable_test("axe_finds_nothing", tasks::axe_finds_nothing),
        Trial::test("looks_are_compared", || Ok(looks_are_compared()?)),
        Trial::ignorable_test("a_page_that_looks_wrong", a_page_that_looks_wrong),
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
    json!({
        "do": "ask",
        "job": { "file": { "name": name, "text": text }, "hosts": hosts },
        "question": { "ask": "overview" },
    })
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
fn open() -> Result<(Browser, PathBuf), Completion> {
    let absent = |what: &str| Completion::ignored_with(format!("not run: {what}"));
    let page = page().ok_or_else(|| absent("the page is not there (cargo xtask web)"))?;
    let browser = Browser::start();
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
    let wait = format!(
        "{}\nopens_and_plans().then(arguments[0], arguments[0]);",
        include_str!("steps.js")
    );
    browser.run(&wait, &json!([]))?;
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
        let look = look::of(&mut browser)?;
        look::check(step, &look).map_err(|why| format!("{step}: {why}"))?;
    }
    let errors = browser.errors()?;
    match errors.is_empty() {
        true => Ok(Completion::Completed),
        false => Err(errors.join("\n").into()),
    }
}

/// The page's policy lets no script run that is written into the page, nor one of an attribute, and
/// no style in.
fn no_other_script_runs() -> Result<Completion, Failed> {
    let (mut browser, page) = match open() {
        Ok(opened) => opened,
        Err(absent) => return Ok(absent),
    };
    browser.open(&page, "")?;
    let script = "const script = document.createElement('script'); script.textContent = 'window.ran = 1'; \
                  document.body.append(script); const button = document.createElement('button'); \
                  button.setAttribute('onclick', 'window.ran = 2'); button.click(); \
                  const style = document.createElement('style'); style.textContent = 'body { opacity: .5 }'; \
                  document.head.append(style); document.body.setAttribute('style', 'opacity: .5'); \
                  setTimeout(() => arguments[0](`${window.ran} ${getComputedStyle(document.body).opacity}`), 50);";
    let ran = browser.run(script, &json!([]))?;
    match ran.as_str() {
        Some("undefined 1") => Ok(Completion::Completed),
        _ => Err(format!("{ran}: a script or style was let in").into()),
    }
}

/// Every step has a look, and those of different views are not alike.
fn looks_are_compared() -> Result<(), String> {
    let mut steps = STEPS.map(str::to_owned).to_vec();
    steps.sort();
    if look::accepted() != steps {
        return Err(format!("the looks are of {:?}", look::accepted()));
    }
    let one = "..\nrr\nrr\n";
    for (other, alike) in [
        (one, true),
        // A square further down, as with another font.
        ("\n..\nrr\nrr\n", true),
        ("##\nrr\nrr\n", true),
        ("..\n\n\n", false),
        ("..\nbb\nbb\n", false),
        ("\n\n\n..\nrr\nrr\n", false),
        ("", false),
    ] {
        if look::alike(one, other) != alike {
            return Err(format!("{other:?}: {}", look::difference(one, other)));
        }
    }
    Ok(())
}

/// A look passes with another font, and fails if a part of the page is missing, elsewhere or of
/// another color.
fn a_page_that_looks_wrong() -> Result<Completion, Failed> {
    let (mut browser, page) = match open() {
        Ok(opened) => opened,
        Err(absent) => return Ok(absent),
    };
    browser.open(&page, "")?;
    let steps = include_str!("steps.js");
    let wait = format!("{steps}\nopens_and_plans().then(arguments[0], arguments[0]);");
    browser.run(&wait, &json!([]))?;
    let look = look::of(&mut browser)?;
    let mut wrong = Vec::new();
    for (style, alike) in [
        ("", true),
        ("* { font-family: 'DejaVu Serif', serif !important }", true),
        ("* { letter-spacing: .3px }", true),
        (".picture rect { visibility: hidden }", false),
        (
            ".picture text { visibility: hidden } .picture path { visibility: hidden }",
            false,
        ),
        ("#panes { filter: hue-rotate(120deg) }", false),
        ("#panes { margin-left: 200px }", false),
        ("#job { display: none }", false),
    ] {
        let change = "const style = new CSSStyleSheet(); style.replaceSync(arguments[0]); \
                      document.adoptedStyleSheets = [style]; \
                      requestAnimationFrame(() => setTimeout(arguments[1], 50));";
        browser.run(change, &json!([style]))?;
        let changed = look::of(&mut browser)?;
        let difference = look::difference(&look, &changed);
        let imbalance = look::imbalance(&look, &changed);
        println!("{style:?}: {difference:.3} {imbalance:.3}");
        if look::alike(&look, &changed) != alike {
            wrong.push(format!(
                "{style:?}: {difference:.3} {imbalance:.3}\n{look}\n{changed}"
            ));
        }
    }
    match wrong.is_empty() {
        true => Ok(Completion::Completed),
        false => Err(wrong.join("\n").into()),
    }
}

/// Pages that are opened for their times.
const OPENED: usize = 5;

/// Longest times on a machine that does other things, too, ms: the first plan, and that of 72 GPUs.
/// docs/page.md has those of one that does not.
const LONGEST_MS: [f64; 2] = [3000.0, 10_000.0];

/// The time from opening the page to its first plan, and that of 18 hosts with 4 GPUs.
fn times() -> Result<Completion, Failed> {
    let (mut browser, page) = match open() {
        Ok(opened) => opened,
        Err(absent) => return Ok(absent),
    };
    let mut times = [Vec::new(), Vec::new()];
    for number in 0..OPENED {
        browser.open(&page, &format!("?{number}"))?;
        let script = format!(
            "{}\nfirst_and_large_plan().then(arguments[0]);",
            include_str!("steps.js")
        );
        let found = browser.run(&script, &json!([]))?;
        for (at, times) in times.iter_mut().enumerate() {
            times.push(found[at].as_f64().ok_or("the page has no times")?);
        }
    }
    for (times, longest) in times.iter_mut().zip(LONGEST_MS) {
        times.sort_by(f64::total_cmp);
        println!("{times:.0?} ms");
        if times[OPENED / 2] > longest {
            return Err(format!("{times:.0?} ms; expected at most {longest}").into());
        }
    }
    Ok(Completion::Completed)
}
