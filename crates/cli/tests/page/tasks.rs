//! Questions of readers, answered by mouse and by keyboard alone; and what axe-core says.

use std::time::Instant;

use libtest_mimic::{Completion, Failed};
use serde_json::json;
use testkit::browser::Browser;

use crate::{open, repository};

const TAB: &str = "\u{E004}";
const ENTER: &str = "\u{E007}";
/// End, and twice backwards.
const CLEAR: &str = "\u{E010}\u{E003}\u{E003}";

const STUCK: &str = "[rank3]:[E504 10:00:00.000000000 ProcessGroupNCCL.cpp:629] [Rank 3] Watchdog caught \
    collective operation timeout: WorkNCCL(SeqNum=41, OpType=ALLREDUCE, NumelIn=1048576, \
    NumelOut=1048576, Timeout(ms)=600000) ran for 600026 milliseconds before timing out.";

/// A question; the parts of the page that are clicked, or reached by the keyboard, each with the
/// keys pressed there; and what the page then says, which it did not say before.
type Task = (
    &'static str,
    &'static [(&'static str, &'static [&'static str])],
    &'static str,
);

const TASKS: [Task; 10] = [
    (
        "Why 12 channels?",
        &[("Search", &[])],
        "Each rung[^]*6 became 12",
    ),
    (
        "Which NIC is near GPU5?",
        &[("GPU5", &[]), ("NIC5", &[])],
        r"GPU5 \([^]*PIX, 48",
    ),
    (
        "What limits all-gather?",
        &[("Bound", &[])],
        r"into GPU0\s*NVL NVSwitch→GPU0",
    ),
    (
        "When does NCCL leave LL?",
        &[("Cost", &[])],
        r"Ring LL first, then NVLS Simple from \d+ [KM]iB",
    ),
    (
        "What did 2.27 take?",
        &[("Cost", &[]), ("beside", &["2.27", ENTER])],
        "NCCL 2.27",
    ),
    (
        "What is normal here?",
        &[("Expect", &[])],
        "floor[^]*Azure ND H100 v5",
    ),
    (
        "Is the machine's file right?",
        &[("Doctor", &[])],
        "no findings",
    ),
    (
        "What is it with 16 hosts?",
        &[("hosts", &[CLEAR, "16", ENTER])],
        "128 ranks",
    ),
    ("Where is the graph file?", &[("Files", &[])], "graph.xml"),
    (
        "Why does my job hang?",
        &[("text", &[STUCK, TAB])],
        "pasted.txt:1:",
    ),
];

/// Calls a function of the steps with arguments; an error is what it throws.
fn call(browser: &mut Browser, call: &str) -> Result<serde_json::Value, String> {
    let script = format!(
        "{}\nPromise.resolve({call}).then((it) => arguments[0]([it ?? null]), (why) => arguments[0](String(why)));",
        include_str!("steps.js")
    );
    let found = browser.run(&script, &json!([]))?;
    let why = || found.to_string();
    found.get(0).cloned().ok_or_else(why)
}

/// Presses Tab until a part has the focus; returns how often.
fn reach(browser: &mut Browser, part: &str) -> Result<usize, String> {
    let is_there = format!("part({part:?}) === document.activeElement");
    for presses in 1..500 {
        browser.press(TAB)?;
        if call(browser, &is_there)? == true {
            return Ok(presses);
        }
    }
    Err(format!("Tab does not reach {part}"))
}

/// Answers all questions. It prints the time of each, ms, and how often Tab was pressed.
pub(crate) fn ten(by_keyboard: bool) -> Result<Completion, Failed> {
    let (mut browser, page) = match open() {
        Ok(opened) => opened,
        Err(absent) => return Ok(absent),
    };
    browser.open(&page, "")?;
    call(&mut browser, "opens_and_plans()")?;
    for (question, parts, answer) in TASKS {
        let (began, mut presses) = (Instant::now(), 0);
        let said = call(
            &mut browser,
            &format!("new RegExp({answer:?}).test(text())"),
        )?;
        if said == true {
            return Err(format!("{question} is answered before it is asked").into());
        }
        for (at, (part, keys)) in parts.iter().enumerate() {
            let ready = call(&mut browser, "document.body.dataset.ready")?;
            if by_keyboard {
                presses += reach(&mut browser, part)?;
            } else {
                let element = call(&mut browser, &format!("part({part:?})"))?;
                browser.click(&element)?;
            }
            match (by_keyboard, keys.is_empty()) {
                (true, true) => browser.press(ENTER)?,
                _ => keys.iter().try_for_each(|it| browser.press(it))?,
            }
            // A chosen device asks nothing.
            let ready = if part.ends_with('5') {
                "none".into()
            } else {
                ready
            };
            let expected = if at + 1 == parts.len() { answer } else { "" };
            let answered = format!("answered({expected:?}, {ready})");
            call(&mut browser, &answered).map_err(|why| format!("{question} {why}"))?;
        }
        println!(
            "{question}: {} ms, Tab {presses} times",
            began.elapsed().as_millis()
        );
    }
    Ok(Completion::Completed)
}

/// axe-core finds nothing in any view with its example, light, dark and on a phone.
pub(crate) fn axe_finds_nothing() -> Result<Completion, Failed> {
    let (mut browser, page) = match open() {
        Ok(opened) => opened,
        Err(absent) => return Ok(absent),
    };
    let target = std::env::var_os("CARGO_TARGET_DIR");
    let target = target.map_or_else(|| repository().join("target"), Into::into);
    let Ok(axe) = std::fs::read_to_string(target.join("axe/node_modules/axe-core/axe.min.js"))
    else {
        let why = "not run: there is no axe-core (cargo xtask fetch axe)";
        return Ok(Completion::ignored_with(why));
    };
    browser.open(&page, "")?;
    call(&mut browser, "opens_and_plans()")?;
    let views = "[...document.querySelectorAll('[role=tab]')].map((it) => it.textContent)";
    let views = call(&mut browser, views)?;
    for view in views.as_array().into_iter().flatten() {
        call(&mut browser, &format!("tab({view})"))?;
        let example = "(() => { const it = document.getElementById('example'); return it && act(() => it.click()); })()";
        call(&mut browser, example)?;
        for (dark, size) in [
            (false, [1280, 1000]),
            (true, [1280, 1000]),
            (false, [400, 800]),
        ] {
            browser.prefer_dark(dark)?;
            browser.resize(size)?;
            let script = format!(
                "{axe}\naxe.run().then((it) => arguments[0](it.violations.map((it) => \
                 `${{it.help}}: ${{it.nodes.map((it) => it.html)}}`)), (why) => arguments[0]([String(why)]));"
            );
            let found = browser.run(&script, &json!([]))?;
            if found != json!([]) {
                return Err(format!("{view}, dark {dark}, {size:?}: {found:#}").into());
            }
        }
    }
    Ok(Completion::Completed)
}
