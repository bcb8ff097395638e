//! Builds the page that plans in the browser: one file with the planner as WebAssembly inside.

use std::fs;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail, ensure};
use libdeflater::{CompressionLvl, Compressor};

use xtask::workspace::{cargo, repository, target, web};

/// The target of the planner.
const TARGET: &str = "wasm32-unknown-unknown";

/// The page's scripts in reading order.
const SCRIPTS: [&str; 6] = [
    "parts.js",
    "picture.js",
    "plot.js",
    "views.js",
    "share.js",
    "script.js",
];

/// Most bytes of the page.
const MOST_BYTES: usize = 2 << 20;

/// Builds the page.
///
/// # Errors
/// The compiler has no such target, the planner does not build, or the page is too long.
pub(crate) fn run() -> Result<ExitCode> {
    let installed = Command::new("rustup")
        .args(["target", "list", "--installed"])
        .output();
    let is_there = installed.is_ok_and(|it| String::from_utf8_lossy(&it.stdout).contains(TARGET));
    if !is_there {
        bail!("the compiler has no target {TARGET}; install it with: rustup target add {TARGET}");
    }
    let built = cargo()
        .args([
            "build",
            "--quiet",
            "--locked",
            "-p",
            "web",
            "--profile",
            "web",
        ])
        .args(["--target", TARGET])
        .status()
        .context("cannot start cargo")?;
    ensure!(built.success(), "the planner did not build for {TARGET}");
    let module = target().join(TARGET).join("web").join("web.wasm");
    let code = fs::read(&module).with_context(|| module.display().to_string())?;
    let mut packer = Compressor::new(CompressionLvl::best());
    let mut packed = vec![0; packer.gzip_compress_bound(code.len())];
    let length = packer.gzip_compress(&code, &mut packed)?;
    let packed = base_85(&packed[..length]);
    let folder = repository().join("crates/web/page");
    let part = |name: &str| {
        let path = folder.join(name);
        fs::read_to_string(&path).with_context(|| path.display().to_string())
    };
    let style = format!(
        "{}{}{}",
        draw::svg::STYLE,
        draw::html::PAGE,
        part("style.css")?
    );
    let script: Result<String> = SCRIPTS.into_iter().map(part).collect();
    let script = script?;
    let page = part("index.html")?
        .replace("/*STYLE*/", &style)
        .replace("/*WORKER*/", &part("worker.js")?)
        .replace("/*SCRIPT*/", &script)
        .replace("/*MODULE*/", &packed);
    ensure!(
        page.len() <= MOST_BYTES,
        "the page has {} bytes; expected at most {MOST_BYTES}",
        page.len()
    );
    fs::create_dir_all(web())?;
    let path = web().join("topo.html");
    files::write(&path, page.as_bytes()).with_context(|| path.display().to_string())?;
    println!(
        "{}: {} KB; the planner in it {} KB, packed {} KB",
        path.display(),
        page.len() / 1000,
        code.len() / 1000,
        packed.len() / 1000
    );
    Ok(ExitCode::SUCCESS)
}

/// Bytes as text for `worker.js`: shorter than base64, and without `<`.
fn base_85(bytes: &[u8]) -> String {
    let excess = bytes.len().next_multiple_of(4) - bytes.len();
    let mut text = excess.to_string();
    for part in bytes.chunks(4) {
        let mut word = [0; 4];
        word[..part.len()].copy_from_slice(part);
        let word = u32::from_be_bytes(word);
        text.extend((0..5).rev().map(|place| {
            let digit = word / 85u32.pow(place) % 85;
            match char::from(b'#' + digit as u8) {
                '<' => 'x',
                other => other,
            }
        }));
    }
    text
}
