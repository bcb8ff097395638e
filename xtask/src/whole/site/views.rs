//! Pictures of the page's views, light and dark, taken by a browser.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pages::draw::text::escape;
use serde_json::json;
use testkit::browser::Browser;

/// A view: the name of its file, what it shows, and what a reader does to see it.
struct View {
    name: &'static str,
    title: &'static str,
    actions: &'static str,
}

const fn view(name: &'static str, title: &'static str, actions: &'static str) -> View {
    View {
        name,
        title,
        actions,
    }
}

/// Loads the example of a view.
const EXAMPLE: &str = "await act(() => document.getElementById('example').click());";

const VIEWS: [View; 20] = [
    view("machine", "A machine, its channels, and why these", ""),
    view(
        "ring",
        "One ring",
        "await change('kind', 'ring'); await change('channel', '1');",
    ),
    view(
        "rings",
        "All rings at once",
        "await change('kind', 'ring'); document.querySelector('#channels summary').click();",
    ),
    view(
        "path",
        "The path between two devices",
        "box('GPU0').dispatchEvent(new MouseEvent('click', { bubbles: true })); \
         box('NIC5').dispatchEvent(new MouseEvent('click', { bubbles: true })); \
         await until('path', () => text().includes('GPU0 ('));",
    ),
    view("search", "The search as a ladder", "await tab('Search');"),
    view("cost", "What NCCL takes by size", "await tab('Cost');"),
    view(
        "versions",
        "Bus bandwidth beside another version and the bound",
        "await tab('Cost'); await change('unit', 'bandwidth'); await change('beside', \
         [...document.getElementById('nccl').options].map((it) => it.value).find((it) => it.startsWith('2.27')));",
    ),
    view(
        "bound",
        "What no schedule exceeds, with the links that limit it",
        "await tab('Bound'); document.querySelector('tr.about').click();",
    ),
    view(
        "expect",
        "What a healthy machine reaches",
        "await tab('Expect');",
    ),
    view(
        "tune",
        "What NCCL can be told to be faster",
        "await change('machine', 'pcie-8gpu-turin'); await tab('Tune');",
    ),
    view(
        "step",
        "A training step",
        "await change('hosts', '4'); await tab('Step');",
    ),
    view(
        "places",
        "Better places of ranks",
        "await change('hosts', '4'); await tab('Step'); await drop('calls.csv', \
         'group,collective,bytes,type,count,compute_us\\ntp=8:4,all-gather,48M,bf16,96,400\\ntp,reduce-scatter,48M,bf16,96,400\\n\
         dp=4,reduce-scatter,1G,f32,1,\\n'); await act(() => document.getElementById('places').click());",
    ),
    view(
        "compare",
        "Two machines",
        "await tab('Compare'); await act(() => { const other = document.getElementById('other'); other.value = 'dgx-a100'; \
         other.dispatchEvent(new Event('change')); });",
    ),
    view(
        "failure",
        "A machine without a link",
        "await change('machine', 'dgx-1v'); await change('without', 'GPU0:GPU3');",
    ),
    view(
        "results",
        "Measurements beside the prediction",
        "await tab('Results');",
    ),
    view("log", "A log of NCCL", "await tab('Log');"),
    view("diagnose", "Why a job hangs", "await tab('Diagnose');"),
    view("files", "Files to take along", "await tab('Files');"),
    view(
        "rack",
        "72 GPUs in one NVLink domain",
        "document.getElementById('domain').checked = true; document.getElementById('hosts').value = '18'; \
         await change('machine', 'gb200-nvl72-tray');",
    ),
    view(
        "hosts",
        "128 hosts",
        "await change('hosts', '128'); await change('kind', 'tree');",
    ),
];

/// Width of a picture, and most of its height, pixels.
const SIZE: [u32; 2] = [1280, 2000];

/// The chapter of the views.
pub(super) struct Views {
    /// Its text, HTML.
    pub(super) text: String,
    /// Its pictures, by the names of their files.
    pub(super) pictures: Vec<(String, Vec<u8>)>,
}

/// Takes the pictures; `None` if there is no browser.
pub(super) fn views(page: &Path) -> Result<Option<Views>> {
    let Ok(mut browser) = Browser::start() else {
        return Ok(None);
    };
    let mut pictures = Vec::new();
    let mut text =
        "<h1>Views</h1>\n<p>Each opens on <a href=\"topo.html\">the page</a> by what is \
                    visible there.</p>\n<div class=\"views\">\n"
            .to_owned();
    for View {
        name,
        title,
        actions,
    } in VIEWS
    {
        for dark in [false, true] {
            let mood = if dark { "dark" } else { "light" };
            let taken = picture(&mut browser, page, actions, dark);
            let picture = taken.map_err(|why| anyhow!("the view {name}, {mood}: {why}"))?;
            let picture = STANDARD.decode(picture).context("a screenshot")?;
            pictures.push((format!("views/{name}-{mood}.png"), picture));
        }
        let title = escape(title);
        let _ = writeln!(
            text,
            "<figure id=\"{name}\"><picture><source srcset=\"views/{name}-dark.png\" \
             media=\"(prefers-color-scheme: dark)\"><img src=\"views/{name}-light.png\" alt=\"{title}\" \
             loading=\"lazy\"></picture><figcaption>{title}</figcaption></figure>"
        );
    }
    text.push_str("</div>\n");
    Ok(Some(Views { text, pictures }))
}

/// A screenshot of the page after some actions of a reader, in base64.
fn picture(
    browser: &mut Browser,
    page: &Path,
    actions: &str,
    dark: bool,
) -> Result<String, String> {
    browser.prefer_dark(dark)?;
    browser.resize([SIZE[0], 1000])?;
    browser.visit("about:blank")?;
    browser.open(page, "")?;
    let steps = include_str!("../../../../crates/cli/tests/page/steps.js");
    let script = format!(
        "{steps}\nconst done = arguments[0];\n(async () => {{ await until('first plan', () => document.body.dataset.ready); \
         {actions} const empty = document.getElementById('example'); if (empty && !document.querySelector('.verdict')) \
         {{ {EXAMPLE} }} return document.documentElement.scrollHeight; }})().then(done, (why) => done(String(why)));"
    );
    let height = browser.run(&script, &json!([]))?;
    let height = height.as_u64().ok_or_else(|| height.to_string())?;
    let height = u32::try_from(height).unwrap_or(SIZE[1]).clamp(400, SIZE[1]);
    browser.resize([SIZE[0], height])?;
    browser.screenshot()
}
